package format

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session"
)

// fixedClock is a clock that stands still.
type fixedClock struct{ t time.Time }

func (c fixedClock) Now() time.Time { return c.t }

var testClock = fixedClock{time.Date(2026, 8, 28, 14, 20, 30, 0, time.UTC)}

// zeros is a source of randomness that is none.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func draft(role session.Role, blocks ...session.Block) session.Draft {
	return session.Draft{Role: role, Blocks: blocks}
}

func read(t testing.TB, f session.Format, log string) *session.Transcript {
	t.Helper()
	tr, _, err := session.Read(f, "x", strings.NewReader(log), session.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// conversation renders the effective messages for comparison.
func conversation(t testing.TB, f session.Format, log string) []string {
	t.Helper()
	out, err := render(f, log, read(t, f, log))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func render(f session.Format, log string, tr *session.Transcript) ([]string, error) {
	var out []string
	for m, err := range session.Messages(f, strings.NewReader(log), tr, tr.Current()) {
		if err != nil {
			return nil, err
		}
		s := m.Role.String() + ":"
		for _, b := range m.Blocks {
			switch b := b.(type) {
			case session.Text:
				s += " " + b.Text
			case session.ToolUse:
				s += " call " + b.ID + " " + b.Name + string(b.Input)
			case session.ToolResult:
				s += " result " + b.UseID
				for _, c := range b.Content {
					if c, ok := c.(session.Text); ok {
						s += " " + c.Text
					}
				}
			}
		}
		out = append(out, s)
	}
	return out, nil
}

func TestPseudoClaude_writeThenRead(t *testing.T) {
	var f pseudoClaude
	a := session.Append{
		Session: session.Session{Model: "m1"}, Clock: testClock, Random: zeros{}, FirstOfWriter: true,
		Drafts: []session.Draft{
			draft(session.User, session.Text{Text: "hello <b> & co"}),
			draft(session.Assistant, session.Text{Text: "looking"}, session.ToolUse{ID: "c1", Name: "read", Input: []byte(`{"path":"a.go"}`)}),
			draft(session.Tool, session.ToolResult{UseID: "c1", Name: "read", Content: []session.Block{session.Text{Text: "package a"}}}),
		},
	}
	got, err := f.Encode(nil, a)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"message","role":"user","content":"hello \u003cb\u003e \u0026 co","ts":1787926830,"model":"m1"}
{"type":"message","role":"assistant","content":"looking","tool_calls":[{"ID":"c1","Name":"read","Arguments":{"path":"a.go"}}],"ts":1787926830}
{"type":"message","role":"user","tool_result":{"CallID":"c1","Name":"read","Content":"package a","IsError":false},"ts":1787926830}
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"user: hello <b> & co", `assistant: looking call c1 read{"path":"a.go"}`, "tool: result c1 package a",
	}, conversation(t, f, want)); diff != "" {
		t.Error(diff)
	}
}

func TestPseudoClaude_badDraftIsAnError(t *testing.T) {
	var f pseudoClaude
	for _, d := range []session.Draft{
		draft(session.Assistant, session.ToolUse{ID: "c", Name: "x", Input: []byte(`{"a":`)}),
		draft(session.User, session.ToolUse{ID: "c", Name: "x"}),
		draft(session.User, session.Image{URI: "file:///x.png"}),
		draft(session.User),
		draft(session.System, session.Text{Text: "x"}),
	} {
		if got, err := f.Encode(nil, session.Append{Clock: testClock, Drafts: []session.Draft{draft(session.User, session.Text{Text: "ok"}), d}}); err == nil || len(got) != 0 {
			t.Errorf("%+v: %q, %v", d, got, err)
		}
	}
}

// A crash at any byte of a replace leaves the old conversation or the new one.
func TestPseudoClaude_replaceIsAllOrNothing(t *testing.T) {
	var f pseudoClaude
	a := session.Append{Clock: testClock, Random: zeros{}, Drafts: []session.Draft{
		draft(session.User, session.Text{Text: "old question"}), draft(session.Assistant, session.Text{Text: "old answer"}),
	}}
	old, err := f.Encode(nil, a)
	if err != nil {
		t.Fatal(err)
	}
	a.Drafts = []session.Draft{
		draft(session.User, session.Text{Text: "summary"}), draft(session.Assistant, session.Text{Text: "noted"}), draft(session.User, session.Text{Text: "boundary"}),
	}
	full, err := f.EncodeReplace(bytes.Clone(old), "compact", a)
	if err != nil {
		t.Fatal(err)
	}
	before, after := conversation(t, f, string(old)), conversation(t, f, string(full))
	if len(before) != 2 || len(after) != 3 {
		t.Fatal(before, after)
	}
	for n := len(old); n <= len(full); n++ {
		log := string(full[:n])
		got := conversation(t, f, log)
		if !cmp.Equal(got, before) && !(cmp.Equal(got, after) && n >= len(full)-1) {
			t.Fatalf("cut at %d of %d: %v", n, len(full), got)
		}
		tr := read(t, f, log)
		repair, needed, err := f.Repair(nil, session.Append{Transcript: tr, Clock: testClock, Random: zeros{}, Drafts: []session.Draft{
			draft(session.User, session.Text{Text: "old question"}), draft(session.Assistant, session.Text{Text: "old answer"}),
		}})
		if err != nil {
			t.Fatal(err)
		}
		if needed {
			log += "\n" + string(repair)
		}
		if got, own := conversation(t, f, log), ownLoader(log); !cmp.Equal(got, own) {
			t.Fatalf("cut at %d of %d, repaired %v: ours %v, PseudoClaude's %v", n, len(full), needed, got, own)
		}
	}
}

func TestPseudoClaude_summarize(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, ".PseudoClaude", "sessions")
	id := "20260828-142030-a1b2"
	if err := os.MkdirAll(filepath.Join(root, id), 0o700); err != nil {
		t.Fatal(err)
	}
	var f pseudoClaude
	r := session.Root{Dir: root, FS: os.DirFS(root)}
	p := id + "/conversation.jsonl"
	s, err := f.Summarize(r, p, session.Session{})
	if err != nil || !s.Empty || s.CWD != dir || s.CreatedAt.IsZero() {
		t.Fatalf("%+v %v", s, err)
	}
	log := `{"type":"message","role":"user","content":"<system-reminder>x</system-reminder>","ts":1}
{"type":"message","role":"user","content":"find  the\n bug","ts":2,"model":"m"}
{"type":"message","role":"assistant","tool_calls":[{"ID":"1","Name":"x","Arguments":{}}],"ts":3}
`
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, p), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(log)
	s, err = f.Summarize(r, p, session.Session{})
	if err != nil || s.Title != "find the bug" || s.Model != "m" || s.Physical != 3 || s.Effective != 2 || s.UpdatedAt.Unix() != 3 {
		t.Fatalf("%+v %v", s, err)
	}
	log += `{"type":"message","role":"user","tool_result":{"CallID":"1","Name":"x","Content":"y","IsError":false},"ts":9}` + "\n"
	write(log)
	grown, err := f.Summarize(r, p, s)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := f.Summarize(r, p, session.Session{})
	if err != nil || grown.Effective != 4 {
		t.Fatalf("%+v %v", grown, err)
	}
	if diff := cmp.Diff(whole, grown); diff != "" {
		t.Error(diff)
	}
}

// A transcript that got shorter after it was loaded names the line that is
// no longer there.
func TestMessages_truncatedSource(t *testing.T) {
	log := `{"type":"message","role":"user","content":"one","ts":1787926831}` + "\n" +
		`{"type":"message","role":"assistant","content":"two","ts":1787926832}` + "\n"
	f := pseudoClaude{}
	tr, _, err := session.Read(f, "s", strings.NewReader(log), session.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := tr.Resolve("")
	if err != nil {
		t.Fatal(err)
	}
	for _, err = range session.Messages(f, strings.NewReader(log[:len(log)-10]), tr, r) {
	}
	var read *session.ReadError
	if !errors.As(err, &read) || !errors.Is(err, io.ErrUnexpectedEOF) || read.Pos.Line != 2 {
		t.Errorf("got %v", err)
	}
}
