package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// What Summarize reads of a large transcript: the head until the facts that
// stand there are found, the tail, and between them only where a title is
// still wanted, looking for its words and decoding nothing else.
const (
	claudeWhole = 256 << 10 // up to this size all is read, and messages are counted
	claudeHead  = 16 << 20  // where the search for a first prompt is given up
	claudeTail  = 64 << 10
)

// Summarize implements session.Format.
func (f claude) Summarize(root session.Root, p string, prev session.Session) (session.Session, error) {
	native, ok := f.Identify(p)
	if !ok {
		return session.Session{}, &session.NotFoundError{What: "session", Name: p}
	}
	s := session.Session{
		ID: session.ID{Agent: claudeName, Native: native}, Kind: session.Main,
		Physical: session.UnknownCount, Effective: session.UnknownCount, Problems: session.UnknownCount,
	}
	file, src, info, err := openLog(root, p)
	if err != nil {
		return s, err
	}
	defer file.Close() //nolint:errcheck // only read
	facts, err := f.survey(src, info.Size(), prev.Cursor, &s)
	if err != nil {
		return s, err
	}
	if s.UpdatedAt = facts.Updated; s.UpdatedAt.IsZero() {
		s.UpdatedAt = info.ModTime()
	}
	if parent, helper := claudeParent(native); helper {
		facts.row(&s, "")
		return f.helper(root, p, parent, s)
	}
	dir := strings.TrimSuffix(p, ".jsonl")
	facts.row(&s, sideTitle(root.FS, dir))
	if s.UpdatedAt.IsZero() {
		s.UpdatedAt = info.ModTime()
	}
	if !facts.Turns && s.Title == "" {
		return s, &session.NotFoundError{What: "session", Name: native}
	}
	s.Archived = sideArchived(root.FS, dir)
	if _, err := fs.Stat(root.FS, dir); err == nil {
		s.SideFiles = []string{filepath.Join(root.Dir, filepath.FromSlash(dir))}
	}
	s.Status = facts.status()
	return s, nil
}

// survey collects the facts of a transcript, from the cursor where there is
// one, and leaves a new cursor and the counts in s.
func (f claude) survey(src io.ReaderAt, size int64, cursor []byte, s *session.Session) (claudeFacts, error) {
	var c claudeCursor
	known := len(cursor) > 0 && json.Unmarshal(cursor, &c) == nil && c.Offset <= size
	if !known {
		c = claudeCursor{}
	}
	_, c.Facts.Whole = claudeParent(s.Native)
	if size <= claudeWhole {
		return f.whole(src, s)
	}
	if !known {
		if err := c.skip(src, size); err != nil {
			return c.Facts, err
		}
	}
	pend, err := c.read(src, c.Offset, size)
	if err != nil {
		return c.Facts, err
	}
	s.Cursor = c.encode()
	facts := c.Facts
	// A whole last line counts, but is read again when its end has come.
	if pend.Length > 0 && jsonl.Valid(pend.Raw) {
		facts.add(pend.Raw)
	}
	return facts, nil
}

// whole reads a small transcript and counts its messages.
func (f claude) whole(src io.ReaderAt, s *session.Session) (claudeFacts, error) {
	var c claudeCursor
	_, c.Facts.Whole = claudeParent(s.Native)
	l := session.NewLoader(f, s.Native)
	r := jsonl.NewReader(src, 0, 1, jsonl.Options{MaxLine: summaryMaxLine})
	var scratch []session.Entry
	for line := range r.Lines() {
		if parsed, ok := parseClaude(line.Raw); ok && parsed.typ != "" {
			sidechain := parsed.sidechain
			c.Facts.take(&parsed)
			parsed.sidechain = sidechain
			scratch = append(scratch[:0], parsed.entry(objectPos(line), scratch))
			l.AddDecoded(line, scratch)
			continue
		}
		l.Add(line)
		c.Facts.line(line.Raw)
	}
	if r.Err() != nil {
		return c.Facts, r.Err()
	}
	// No cursor: a file of this size is read again as a whole when it grows,
	// and cursors of 100,000 small sessions would cost more than their rows.
	facts := c.Facts
	if pend := r.Pending(); pend.Length > 0 && jsonl.Valid(pend.Raw) {
		l.Add(pend)
		facts.add(pend.Raw)
	}
	t := l.Transcript()
	s.Physical, s.Effective = t.Counts()
	s.Problems = len(t.Problems()) + len(t.Current().Problems)
	return facts, nil
}

// line takes in a physical line, which may be damaged.
func (c *claudeFacts) line(raw []byte) {
	if _, end, ok := jsonl.Value(raw, 0); ok && blank(raw[end:]) {
		c.add(raw)
		return
	}
	for _, p := range jsonl.Salvage(raw, claudeRecord) {
		if p.Whole {
			c.add(raw[p.Off : p.Off+p.Len])
		} else {
			c.Problems++
		}
	}
}

// read takes in the complete lines from off to size and moves the cursor
// behind them.
func (c *claudeCursor) read(src io.ReaderAt, off, size int64) (jsonl.Line, error) {
	r := jsonl.NewReader(io.NewSectionReader(src, 0, size), off, 1, jsonl.Options{Window: claudeTail, MaxLine: summaryMaxLine})
	for line := range r.Lines() {
		c.Facts.line(line.Raw)
	}
	c.Offset = r.Offset()
	return r.Pending(), r.Err()
}

// skip reads the head of a large transcript, and of the middle what a row
// needs; the cursor then stands at the start of the tail.
func (c *claudeCursor) skip(src io.ReaderAt, size int64) error {
	r := jsonl.NewReader(io.NewSectionReader(src, 0, size), 0, 1, jsonl.Options{Window: claudeTail, MaxLine: summaryMaxLine})
	for c.Facts.Prompt == "" || c.Facts.FirstCWD == "" || c.Facts.Created.IsZero() {
		line, ok := r.Next()
		if !ok || line.Offset > claudeHead {
			break
		}
		c.Facts.line(line.Raw)
	}
	if r.Err() != nil {
		return r.Err()
	}
	head := r.Offset()
	c.Offset = head
	tail, err := lineStart(src, size-claudeTail, size)
	if err != nil || tail <= head {
		return err
	}
	c.Offset = tail
	return c.titles(src, head, tail)
}

// lineStart finds the first line that starts behind off, or size.
func lineStart(src io.ReaderAt, off, size int64) (int64, error) {
	buf := make([]byte, claudeTail)
	for off < size {
		n, err := src.ReadAt(buf[:min(int64(len(buf)), size-off)], off)
		if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
			return off + int64(i) + 1, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if n == 0 {
			break
		}
		off += int64(n)
	}
	return size, nil
}

// titles looks between head and tail for the last line that gives a title or
// a tag, and keeps what the tail says later. It reads backward.
func (c *claudeCursor) titles(src io.ReaderAt, head, tail int64) error {
	for _, want := range []struct {
		word string
		took func() bool
	}{
		{`"custom-title"`, func() bool { return c.Facts.HasTitle }},
		{`"ai-title"`, func() bool { return c.Facts.HasAI }},
		{`"type":"tag"`, func() bool { return c.Facts.HasTag }},
	} {
		c.Facts.HasTitle, c.Facts.HasAI, c.Facts.HasTag = false, false, false
		for limit := tail; limit > head && !want.took(); {
			at, err := jsonl.LastIndex(src, head, limit, []byte(want.word), jsonl.Options{})
			if err != nil {
				return err
			}
			if at < 0 {
				break
			}
			raw, err := shortLineAt(src, at, tail)
			if err != nil {
				return err
			}
			// The word also occurs in what people and models say.
			if l, ok := parseClaude(raw); ok {
				c.Facts.title(&l)
			}
			limit = at
		}
	}
	return nil
}

// claudeTitleLine is the longest line taken for a title.
const claudeTitleLine = 8 << 10

// shortLineAt gives the line around off, or nil where it is no short one.
func shortLineAt(src io.ReaderAt, off, end int64) ([]byte, error) {
	from := max(0, off-claudeTitleLine)
	buf := make([]byte, min(end, off+claudeTitleLine)-from)
	n, err := src.ReadAt(buf, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	buf = buf[:n]
	at := int(off - from)
	if at > len(buf) {
		return nil, nil
	}
	a := bytes.LastIndexByte(buf[:at], '\n')
	b := bytes.IndexByte(buf[at:], '\n')
	if b < 0 || (a < 0 && from > 0) {
		return nil, nil
	}
	return buf[a+1 : at+b], nil
}

// helper completes the row of a helper's session from its meta file.
func (claude) helper(root session.Root, p, parent string, s session.Session) (session.Session, error) {
	s.Kind, s.Parent = session.Subagent, session.ID{Agent: claudeName, Native: parent}
	meta := strings.TrimSuffix(p, ".jsonl") + ".meta.json"
	var m struct {
		Description, ToolUseID, Model string
	}
	if b, err := fs.ReadFile(root.FS, meta); err == nil {
		m.Description, m.ToolUseID, m.Model = field(b, "description"), field(b, "toolUseId"), field(b, "model")
		s.SideFiles = []string{filepath.Join(root.Dir, filepath.FromSlash(meta))}
	}
	s.ParentTool = m.ToolUseID
	if s.Model == "" {
		s.Model = m.Model
	}
	if title := firstLine(m.Description); title != "" {
		s.Title, s.TitleSource = title, session.TitleAgent
	}
	return s, nil
}

// sideTitle reads the title that is kept beside a transcript.
func sideTitle(store fs.FS, dir string) string {
	b, err := fs.ReadFile(store, path.Join(dir, "custom-title.json"))
	if err != nil {
		return ""
	}
	return field(b, "customTitle")
}

func sideArchived(store fs.FS, dir string) bool {
	b, err := fs.ReadFile(store, path.Join(dir, "archived.json"))
	archived := false
	if err == nil {
		jsonl.Members(b, func(k, v []byte) bool {
			if string(k) == "archived" {
				archived = string(v) == "true"
			}
			return true
		})
	}
	return archived
}

// Registers implements session.Registry.
func (claude) Registers(p string) bool { return path.Dir(p) == claudeLive }

// Live implements session.Registry.
func (claude) Live(root session.Root) []session.Live {
	files, err := fs.ReadDir(root.FS, claudeLive)
	if err != nil || root.Alive == nil {
		return nil
	}
	var out []session.Live
	for _, f := range files {
		if !f.Type().IsRegular() {
			continue
		}
		b, err := fs.ReadFile(root.FS, path.Join(claudeLive, f.Name()))
		if err != nil {
			continue
		}
		l := session.Live{Native: field(b, "sessionId")}
		var pid, since int64
		jsonl.Members(b, func(k, v []byte) bool {
			switch string(k) {
			case "pid":
				pid, _ = jsonl.Int(v)
			case "startedAt":
				since, _ = jsonl.Int(v)
			}
			return true
		})
		if l.Native == "" || pid <= 0 || pid > 1<<30 || !root.Alive(int(pid)) {
			continue
		}
		l.PID = int(pid)
		if since > 0 {
			l.Since = time.UnixMilli(since).UTC()
		}
		switch field(b, "status") {
		case "busy", "running":
			l.Status = session.StatusRunning
		case "idle":
			l.Status = session.StatusIdle
		case "waiting", "requires_action", "waiting_for_input", "permission":
			l.Status = session.StatusRequiresAction
		}
		out = append(out, l)
	}
	return out
}
