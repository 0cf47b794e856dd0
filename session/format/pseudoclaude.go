package format

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/chain"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// PseudoClaude keeps the sessions of a workspace in the workspace:
//
//	<workspace>/.PseudoClaude/sessions/<id>/conversation.jsonl
//	                                        tool-results/<name>.txt
//
// The id is YYYYMMDD-HHMMSS-xxxx: local time and four hexadecimal digits. A
// line is {type, reason, role, content, tool_calls, tool_result, ts, model},
// in this order, all but ts left out when empty, ts in seconds. type is
// "message" (or missing) or "replace": from there on the conversation is what
// follows. Facts: github.com/LulietLyan/PseudoClaude, internal/session at
// 81b5cda. See docs/formats/pseudoclaude.md.
type pseudoClaude struct{}

func init() { register(pseudoClaude{}) }

const (
	pcName       = "pseudoclaude"
	pcDir        = ".PseudoClaude"
	pcSessions   = "sessions"
	pcTranscript = "conversation.jsonl"
	// PCToolResults is the directory beside a transcript for spilled results.
	PCToolResults = "tool-results"
	pcIDTime      = "20060102-150405"
)

var pcID = regexp.MustCompile(`^\d{8}-\d{6}-[0-9a-f]{4}$`)

func (pseudoClaude) Name() string { return pcName }
func (pseudoClaude) Depth() int   { return 2 }

func (pseudoClaude) Roots(env session.Env) []string {
	if r := env.Roots[pcName]; len(r) > 0 {
		return r
	}
	var out []string
	for _, ws := range env.Workspaces {
		out = append(out, filepath.Join(ws, pcDir, pcSessions))
	}
	return out
}

func (pseudoClaude) Identify(p string) (string, bool) {
	dir, file := path.Split(p)
	id := strings.TrimSuffix(dir, "/")
	if file != pcTranscript || !pcValidID(id) {
		return "", false
	}
	return id, true
}

// pcValidID tells ids from other names; month 13 is no date.
func pcValidID(id string) bool {
	_, ok := pcCreated(id)
	return ok
}

func pcCreated(id string) (time.Time, bool) {
	if !pcID.MatchString(id) {
		return time.Time{}, false
	}
	t, err := time.ParseInLocation(pcIDTime, id[:len(pcIDTime)], time.Local)
	return t, err == nil
}

func (pseudoClaude) Owner(p string) (string, bool) {
	id, rest, ok := strings.Cut(p, "/")
	if !ok || !pcValidID(id) || !strings.HasPrefix(rest, PCToolResults+"/") {
		return "", false
	}
	return id + "/" + pcTranscript, true
}

func (pseudoClaude) Replay(string) session.Replayer { return chain.Linear() }

// Expected implements session.Lazy.
func (pseudoClaude) Expected(dir string) (string, bool) {
	if !pcValidID(dir) {
		return "", false
	}
	return dir + "/" + pcTranscript, true
}

// Workspace of a store directory: the parent of .PseudoClaude/sessions, or ""
// where the directory was configured and lies elsewhere.
func pcWorkspace(root string) string {
	dir := filepath.Dir(root)
	if filepath.Base(root) != pcSessions || filepath.Base(dir) != pcDir {
		return ""
	}
	return filepath.Dir(dir)
}

// pcCursor is how far Summarize has read, with the replayer's figures.
type pcCursor struct {
	Offset    int64       `json:"offset"`
	Num       int         `json:"num"`
	Summary   pcSummary   `json:"summary"`
	Effective chain.Tally `json:"effective"`
}

type pcSummary struct {
	Title    string    `json:"title,omitempty"`
	Prompt   string    `json:"prompt,omitempty"`
	Last     string    `json:"last,omitempty"`
	Model    string    `json:"model,omitempty"`
	Updated  time.Time `json:"updated,omitzero"`
	Physical int       `json:"physical,omitempty"`
	Problems int       `json:"problems,omitempty"`
}

// Title lengths, in runes, as PseudoClaude cuts its own titles.
const (
	pcTitleRunes = 80
	promptRunes  = 200
)

func (f pseudoClaude) Summarize(root session.Root, p string, prev session.Session) (session.Session, error) {
	native, ok := f.Identify(p)
	if !ok {
		return session.Session{}, &session.NotFoundError{What: "session", Name: p}
	}
	s := session.Session{
		ID: session.ID{Agent: pcName, Native: native}, CWD: pcWorkspace(root.Dir), Kind: session.Main,
	}
	s.CreatedAt, _ = pcCreated(native)
	file, src, _, err := openLog(root, p)
	if errors.Is(err, fs.ErrNotExist) { // the directory is there, the first message is not
		s.Empty, s.UpdatedAt = true, s.CreatedAt
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer file.Close() //nolint:errcheck // only read
	var c pcCursor
	if len(prev.Cursor) == 0 || pcUnmarshal(prev.Cursor, &c) != nil {
		c = pcCursor{Num: 1}
	}
	r := jsonl.NewReader(src, c.Offset, c.Num, jsonl.Options{MaxLine: summaryMaxLine})
	var entries []session.Entry
	for line := range r.Lines() {
		if entries, err = f.tally(&c, entries[:0], line, src); err != nil {
			return s, err
		}
	}
	if r.Err() != nil {
		return s, r.Err()
	}
	c.Offset, c.Num = r.Offset(), r.Num()
	cursor := pcMarshal(c)
	// A whole last line without its line feed counts, but is read again.
	if pend := r.Pending(); pend.Length > 0 {
		if jsonl.Valid(pend.Raw) {
			if _, err := f.tally(&c, nil, pend, src); err != nil {
				return s, err
			}
		} else {
			c.Summary.Problems++
		}
	}
	m := c.Summary
	s.Title, s.FirstPrompt, s.LastPrompt, s.Model, s.UpdatedAt = m.Title, m.Prompt, m.Last, m.Model, m.Updated
	if s.Title != "" {
		s.TitleSource = session.TitlePrompt
	}
	s.Physical, s.Effective, s.Problems = m.Physical, c.Effective.Count(), m.Problems
	s.Empty = m.Physical == 0
	if s.UpdatedAt.IsZero() {
		s.UpdatedAt = s.CreatedAt
	}
	s.Cursor = cursor
	return s, nil
}
