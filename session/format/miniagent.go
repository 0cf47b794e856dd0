package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/chain"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// mini-agent keeps every session in one directory:
//
//	~/.mini-agent/<id>.jsonl
//
// A line is {type, uuid, parentUuid, sessionId, timestamp, message{role,
// content}}; lines form a tree, and the conversation is the path to the
// newest leaf. There is no other file. What its description leaves open is
// decided in docs/formats/mini-agent.md.
type miniAgent struct{}

func init() { register(miniAgent{}) }

const miniName = "mini-agent"

func (miniAgent) Name() string { return miniName }
func (miniAgent) Depth() int   { return 0 }

func (miniAgent) Roots(env session.Env) []string {
	if r := env.Roots[miniName]; len(r) > 0 {
		return r
	}
	if env.Home == "" {
		return nil
	}
	return []string{filepath.Join(env.Home, ".mini-agent")}
}

func (miniAgent) Identify(p string) (string, bool) {
	id, ok := strings.CutSuffix(p, ".jsonl")
	return id, ok && id != "" && !strings.ContainsAny(id, "/\\") && id[0] != '.'
}

// Owner implements session.Format: there are no side files.
func (miniAgent) Owner(string) (string, bool) { return "", false }

func (miniAgent) Replay(native string) session.Replayer {
	return chain.Tree(chain.TreeRules{ByTime: true, AnyTip: true, Session: native})
}

func (f miniAgent) Decode(dst []session.Entry, line jsonl.Line) []session.Entry {
	return decodeLine(dst, line, func(v []byte) bool {
		l, ok := parseClaude(v)
		return ok && len(l.uuid) > 0
	}, f.entry)
}

// entry makes the envelope of a line. It has the fields of a Claude Code line
// that matter here.
func (miniAgent) entry(v []byte, pos session.Pos) session.Entry {
	e := session.Entry{ID: strconv.FormatInt(pos.Offset, 10), Pos: pos}
	l, ok := parseClaude(v)
	id := text(l.uuid)
	switch {
	case !ok:
		e.Bad = "not a JSON object"
		return e
	case id == "":
		e.Bad = "has no uuid"
		return e
	}
	e.ID, e.Parent, e.Type = id, text(l.parent), l.typ
	e.Time, e.Session = stamp(l.stamp), text(l.session)
	flags := chain.Node
	role := l.typ
	if r := text(l.msg.role); r != "" {
		role = r
	}
	switch role {
	case "user":
		e.Role = session.User
	case "assistant":
		e.Role = session.Assistant
	default:
		// Kept, and the path runs through it.
		e.Mark = flags
		return e
	}
	e.Kind = session.KindMessage
	flags |= chain.Turn | chain.Shown
	e.Mark = flags | l.msg.pair(&e)
	return e
}

func (miniAgent) Body(raw []byte) session.Body {
	var b session.Body
	l, ok := parseClaude(raw)
	content := l.msg.content
	switch s, isText := jsonl.String(content); {
	case isText:
		b.Blocks = []session.Block{session.Text{Text: s}}
	case ok && len(content) > 0:
		c := jsonl.NewKnownCursor(content)
		b.Blocks = (&claudeBody{}).contents(&c, false)
	default:
		b.Blocks = []session.Block{session.Unknown{Raw: append([]byte(nil), raw...)}}
	}
	return b
}

// miniCursor is how far Summarize has read. Created is the first time in the
// file, Updated the newest.
type miniCursor struct {
	Offset, Lines    int64
	Prompt, Last     string
	Created, Updated time.Time
	Physical         int
}

// miniWhole is the size up to which messages are counted after replay too.
const miniWhole = 1 << 20

// Summarize implements session.Format. The title is the first user message in
// the order of the file.
func (f miniAgent) Summarize(root session.Root, p string, prev session.Session) (session.Session, error) {
	native, ok := f.Identify(p)
	if !ok {
		return session.Session{}, &session.NotFoundError{What: "session", Name: p}
	}
	s := session.Session{ID: session.ID{Agent: miniName, Native: native}, Effective: session.UnknownCount, Problems: session.UnknownCount}
	file, src, info, err := openLog(root, p)
	if err != nil {
		return s, err
	}
	defer file.Close() //nolint:errcheck // only read
	c := miniCursor{}
	if len(prev.Cursor) > 0 && (json.Unmarshal(prev.Cursor, &c) != nil || c.Offset > info.Size()) {
		c = miniCursor{}
	}
	r := jsonl.NewReader(src, c.Offset, int(c.Lines)+1, jsonl.Options{MaxLine: summaryMaxLine})
	var scratch []session.Entry
	for line := range r.Lines() {
		scratch = f.tally(&c, scratch[:0], line)
	}
	if r.Err() != nil {
		return s, r.Err()
	}
	c.Offset, c.Lines = r.Offset(), int64(r.Num()-1)
	if s.Cursor, err = json.Marshal(c); err != nil {
		return s, err
	}
	if pend := r.Pending(); jsonl.Valid(pend.Raw) {
		f.tally(&c, scratch[:0], pend)
	}
	if s.Physical = c.Physical; info.Size() <= miniWhole {
		t, _, err := session.Read(f, native, src, session.ReadOptions{Options: jsonl.Options{MaxLine: summaryMaxLine}})
		if err != nil {
			return s, err
		}
		_, s.Effective = t.Counts()
		s.Problems = len(t.Problems()) + len(t.Current().Problems)
	}
	s.CreatedAt, s.UpdatedAt, s.Empty = c.Created, c.Updated, c.Physical == 0
	if s.UpdatedAt.IsZero() {
		s.UpdatedAt = info.ModTime()
	}
	s.FirstPrompt, s.LastPrompt, s.Title = c.Prompt, c.Last, c.Prompt
	if s.Title != "" {
		s.TitleSource = session.TitlePrompt
	}
	return s, nil
}

// tally takes the entries of a line into the cursor.
func (f miniAgent) tally(c *miniCursor, scratch []session.Entry, line jsonl.Line) []session.Entry {
	scratch = f.Decode(scratch, line)
	for i := range scratch {
		e := &scratch[i]
		if !e.Time.IsZero() {
			if c.Created.IsZero() {
				c.Created = e.Time
			}
			if e.Time.After(c.Updated) {
				c.Updated = e.Time
			}
		}
		if e.Kind != session.KindMessage {
			continue
		}
		c.Physical++
		if e.Role != session.User {
			continue
		}
		from := e.Pos.Offset - line.Offset - int64(line.Lead)
		for _, b := range f.Body(line.Raw[from : from+int64(e.Pos.Length)]).Blocks {
			if t, ok := b.(session.Text); ok && !injected(t.Text) && strings.TrimSpace(t.Text) != "" {
				c.Last = firstLine(t.Text)
				if c.Prompt == "" {
					c.Prompt = c.Last
				}
				break
			}
		}
	}
	return scratch
}

// Create implements session.Creator.
func (miniAgent) Create(root session.Root, _ session.Session, _ session.Clock, random io.Reader) (native, p string, dirs []string, err error) {
	if native, err = newUUID(random); err != nil {
		return "", "", nil, err
	}
	p = native + ".jsonl"
	if _, err := fs.Stat(root.FS, p); err == nil {
		return "", "", nil, &fs.PathError{Op: "create", Path: p, Err: fs.ErrExist}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", "", nil, err
	}
	return native, p, []string{"."}, nil
}

type miniOut struct {
	Type      string        `json:"type"`
	UUID      string        `json:"uuid"`
	Parent    *string       `json:"parentUuid"`
	SessionID string        `json:"sessionId"`
	Timestamp string        `json:"timestamp"`
	Message   claudeOutUser `json:"message"`
}

// Encode implements session.Appender: a line for each message. A parent other
// than the leaf starts a branch, which is how this agent rewinds.
func (miniAgent) Encode(dst []byte, a session.Append) ([]byte, error) {
	w := &claudeWriter{a: a, native: a.Session.Native}
	made := map[string]bool{}
	newest := time.Time{}
	if a.Transcript != nil {
		r, err := a.Transcript.Resolve(a.Parent)
		if err != nil {
			return nil, err
		}
		w.parent = r.End
		for _, i := range r.Chain {
			for _, id := range a.Transcript.Entries()[i].ToolUses {
				made[id] = true
			}
		}
		for i := range a.Transcript.Entries() {
			if t := a.Transcript.Entries()[i].Time; t.After(newest) {
				newest = t
			}
		}
	} else if a.Parent != "" {
		return nil, &session.NotFoundError{What: "entry", Name: a.Parent}
	}
	for i, d := range a.Drafts {
		w.field = fmt.Sprintf("messages[%d]", i)
		out, err := miniLine(w, d, made)
		if err != nil {
			return nil, err
		}
		at := d.Time
		if at.IsZero() {
			at = a.Clock.Now()
		}
		// The newest leaf is the current one, so a clock that went back must
		// not hide what is appended.
		if at = at.UTC().Truncate(time.Millisecond); at.Before(newest) {
			at = newest.UTC()
			if up := at.Truncate(time.Millisecond); up.Before(at) {
				at = up.Add(time.Millisecond)
			}
		}
		newest = at
		out.Timestamp, out.SessionID = at.Format(claudeTime), a.Session.Native
		if out.UUID, err = newUUID(a.Random); err != nil {
			return nil, err
		}
		if w.parent != "" {
			parent := w.parent
			out.Parent = &parent
		}
		w.parent = out.UUID
		if err := w.line(out); err != nil {
			return nil, err
		}
	}
	return append(dst, w.out...), nil
}

// miniLine makes the content of a line. made are the calls so far.
func miniLine(w *claudeWriter, d session.Draft, made map[string]bool) (out miniOut, err error) {
	role := session.User
	switch d.Role {
	case session.Assistant:
		role = session.Assistant
	case session.User, session.Tool:
	default:
		return out, w.invalid(d.Role.String(), "want the role user, assistant or tool")
	}
	if len(d.Blocks) == 0 {
		return out, w.invalid("", "a message needs content")
	}
	var content []any
	for _, b := range d.Blocks {
		if r, ok := b.(session.ToolResult); ok && !made[r.UseID] {
			return out, w.invalid(r.UseID, "answers no tool call of the conversation")
		}
		block, err := w.block(b, role)
		if err != nil {
			return out, err
		}
		content = append(content, block)
	}
	for _, b := range d.Blocks {
		if u, ok := b.(session.ToolUse); ok {
			made[u.ID] = true
		}
	}
	out.Type, out.Message = role.String(), claudeOutUser{role.String(), content}
	return out, nil
}
