package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session"
)

// seeded is a source of randomness that repeats.
func seeded() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{1}) }

// claudeLog is a transcript with what a writer needs to know of it.
type claudeLog struct {
	native string
	data   []byte
	tr     *session.Transcript
}

func openClaude(t testing.TB, native string, data []byte) claudeLog {
	t.Helper()
	tr, _, err := session.Read(claude{}, native, bytes.NewReader(data), session.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return claudeLog{native, data, tr}
}

func (l claudeLog) sent(t testing.TB, leaf string) [][]string {
	t.Helper()
	r, err := l.tr.Resolve(leaf)
	if err != nil {
		t.Fatal(err)
	}
	return sentBy(t, claude{}, bytes.NewReader(l.data), l.tr, r)
}

// append adds drafts to the log as a writer does, closing a torn tail.
func (l claudeLog) append(t testing.TB, parent string, drafts ...session.Draft) claudeLog {
	t.Helper()
	data := bytes.Clone(l.data)
	if n := len(data); n > 0 && data[n-1] != '\n' {
		data = append(data, '\n')
	}
	data, err := claude{}.Encode(data, session.Append{
		Session:    session.Session{ID: session.ID{Agent: claudeName, Native: l.native}, CWD: "/home/dev/hand", GitBranch: "main", Model: "claude-x"},
		Transcript: l.tr, Parent: parent, Drafts: drafts, Clock: testClock, Random: seeded(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return openClaude(t, l.native, data)
}

// turn is a turn with parallel calls.
var claudeTurn = []session.Draft{
	draft(session.User, session.Text{Text: "again & <again>"}),
	draft(session.Assistant,
		session.Text{Text: "both"},
		session.ToolUse{ID: "new1", Name: "Read", Input: []byte(`{"file_path":"/a"}`)},
		session.ToolUse{ID: "new2", Name: "Read", Input: []byte(`{"file_path":"/b"}`)}),
	draft(session.Tool,
		session.ToolResult{UseID: "new2", Content: []session.Block{session.Text{Text: "b"}}},
		session.ToolResult{UseID: "new1", Content: []session.Block{session.Text{Text: "no such file"}}, IsError: true}),
	draft(session.Assistant, session.Text{Text: "done"}),
}

func withTurn(sent [][]string) [][]string {
	out := [][]string{}
	for _, m := range sent {
		out = append(out, append([]string{}, m...))
	}
	for _, m := range [][]string{
		{"user", "again & <again>"},
		{"assistant", "both", "tool_use:new1", "tool_use:new2"},
		{"user", "tool_result:new2", "tool_result:new1"},
		{"assistant", "done"},
	} {
		out = appendSent(out, m)
	}
	return out
}

// Whatever is in a transcript, appending to it gives the conversation that
// was there and the drafts, and rewinding to a message gives the one up to
// it and the drafts, pins or not.
func TestClaude_appendThenResume(t *testing.T) {
	var f claude
	for _, c := range loadClaudeCases(t) {
		store, p := claudeCaseStore(t, c.Case)
		native, _ := f.Identify(p)
		old := openClaude(t, native, store[p].Data)
		grown := old.append(t, "", claudeTurn...)
		if !bytes.HasPrefix(grown.data, old.data) {
			t.Errorf("%s: bytes were rewritten", c.Case)
		}
		if diff := cmp.Diff(withTurn(old.sent(t, "")), grown.sent(t, "")); diff != "" {
			t.Errorf("%s: append:\n%s", c.Case, diff)
		}
		if len(old.data) > 1<<20 {
			continue // once is enough for these
		}
		for _, i := range old.tr.Current().Chain {
			at := old.tr.Entries()[i]
			if at.Type != "user" && at.Type != "assistant" {
				continue
			}
			rewound := old.append(t, at.ID, claudeTurn...)
			if diff := cmp.Diff(withTurn(old.sent(t, at.ID)), rewound.sent(t, "")); diff != "" {
				t.Errorf("%s: append to %s:\n%s", c.Case, caseName(at.ID), diff)
			}
			if len(rewound.tr.Problems()) > len(old.tr.Problems()) {
				t.Errorf("%s: new problems %v", c.Case, rewound.tr.Problems())
			}
		}
	}
}

// A fork is the same conversation with other ids.
func TestClaude_fork(t *testing.T) {
	var f claude
	const other = "fffffff0-1111-4111-8111-111111111111"
	for _, c := range loadClaudeCases(t) {
		store, p := claudeCaseStore(t, c.Case)
		native, _ := f.Identify(p)
		old := openClaude(t, native, store[p].Data)
		leaves := []string{""}
		for _, i := range old.tr.Current().Chain {
			if e := old.tr.Entries()[i]; len(old.data) < 1<<20 && (e.Type == "user" || e.Type == "assistant") {
				leaves = append(leaves, e.ID)
			}
		}
		for _, leaf := range leaves {
			data, err := f.EncodeFork(nil, other, leaf, "", session.Append{
				Session: session.Session{ID: session.ID{Agent: claudeName, Native: native}, Title: "T"}, Transcript: old.tr, Clock: testClock, Random: seeded(),
			}, func(e session.Entry) ([]byte, error) { return session.LoadRaw(bytes.NewReader(old.data), e) })
			if err != nil {
				t.Fatal(c.Case, err)
			}
			fork := openClaude(t, other, data)
			if diff := cmp.Diff(old.sent(t, leaf), fork.sent(t, "")); diff != "" {
				t.Errorf("%s at %q:\n%s", c.Case, leaf, diff)
			}
			for _, p := range append(fork.tr.Problems(), fork.tr.Current().Problems...) {
				if p.Severity > session.Info {
					t.Errorf("%s: the fork has a problem %v", c.Case, p)
				}
			}
			for _, e := range old.tr.Entries() {
				if e.Mark != nil && bytes.Contains(data, []byte(`"uuid":"`+e.ID)) {
					t.Errorf("%s: id %s was kept", c.Case, e.ID)
				}
			}
			if !bytes.HasSuffix(data, []byte(`{"type":"custom-title","customTitle":"T (fork)","sessionId":"`+other+`"}`+"\n")) {
				t.Errorf("%s: no title: %s", c.Case, data)
			}
		}
	}
}

// The shape of the lines is the product's own.
func TestClaude_lines(t *testing.T) {
	var f claude
	got, err := f.Encode(nil, session.Append{
		Session: session.Session{
			ID: session.ID{Agent: claudeName, Native: "11111111-1111-4111-8111-111111111111"}, CWD: "/w", GitBranch: "main", Model: "claude-x",
			Title: "Named", TitleSource: session.TitleUser,
		},
		Clock: testClock, Random: zeros{}, Drafts: []session.Draft{
			draft(session.User, session.Text{Text: "a\nb"}),
			draft(session.Assistant, session.ToolUse{ID: "t1", Name: "Read", Input: []byte(`{"file_path":"/x"}`)}),
			draft(session.Tool, session.ToolResult{UseID: "t1", IsError: true, Content: []session.Block{session.Text{Text: "none"}}}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	const id, env = `"00000000-0000-4000-8000-000000000000"`, `"timestamp":"2026-08-28T14:20:30.000Z",`
	const tail = `"userType":"external","entrypoint":"agent-ls","cwd":"/w","sessionId":"11111111-1111-4111-8111-111111111111","version":"2.1.332","gitBranch":"main"}`
	want := `{"type":"custom-title","customTitle":"Named","sessionId":"11111111-1111-4111-8111-111111111111"}
{"parentUuid":null,"isSidechain":false,"message":{"role":"user","content":"a\nb"},"type":"user","uuid":` + id + `,` + env + tail + `
{"parentUuid":` + id + `,"isSidechain":false,"message":{"id":"msg_000000000000000000000000","type":"message","role":"assistant","model":"claude-x","content":[{"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"/x"}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}},"type":"assistant","uuid":` + id + `,` + env + tail + `
{"parentUuid":` + id + `,"isSidechain":false,"message":{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result","content":"none","is_error":true}]},"type":"user","uuid":` + id + `,` + env + `"toolUseResult":"Error: none","sourceToolAssistantUUID":` + id + `,` + tail + `
`
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Error(diff)
	}
}

// Every key of ours is one that the product writes in such lines too.
func TestClaude_linesUseKnownKeys(t *testing.T) {
	known := map[string]bool{}
	for _, data := range claudeSamples(t) {
		for line := range bytes.Lines(data) {
			var m map[string]json.RawMessage
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatal(err)
			}
			for k := range m {
				known[k] = true
			}
		}
	}
	log := openClaude(t, "11111111-1111-4111-8111-111111111111", nil).append(t, "", claudeTurn...)
	for line := range bytes.Lines(log.data) {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		for k := range m {
			if !known[k] {
				t.Errorf("the product writes no %q", k)
			}
		}
	}
}

func TestClaude_badDraftIsAnError(t *testing.T) {
	var f claude
	s := session.Session{ID: session.ID{Agent: claudeName, Native: "11111111-1111-4111-8111-111111111111"}}
	for name, d := range map[string]session.Draft{
		"no content":        draft(session.User),
		"system":            draft(session.System, session.Text{Text: "x"}),
		"user calls":        draft(session.User, session.ToolUse{ID: "a", Name: "b"}),
		"assistant answers": draft(session.Assistant, session.ToolResult{UseID: "a"}),
		"orphan result":     draft(session.Tool, session.ToolResult{UseID: "nowhere"}),
		"input no object":   draft(session.Assistant, session.ToolUse{ID: "a", Name: "b", Input: []byte(`[1]`)}),
		"broken input":      draft(session.Assistant, session.ToolUse{ID: "a", Name: "b", Input: []byte(`{"a"`)}),
		"unsigned thinking": draft(session.Assistant, session.Thinking{Text: "hm"}),
		"unknown block":     draft(session.User, session.Unknown{Raw: []byte(`{}`)}),
	} {
		got, err := f.Encode(nil, session.Append{Session: s, Clock: testClock, Random: seeded(), Drafts: []session.Draft{draft(session.User, session.Text{Text: "ok"}), d}})
		if !errors.Is(err, session.ErrInvalid) || len(got) != 0 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	s.Native = "agent-a1@" + s.Native
	if _, err := f.Encode(nil, session.Append{Session: s, Clock: testClock, Random: seeded(), Drafts: claudeTurn}); !errors.Is(err, session.ErrUnsupported) {
		t.Errorf("subagent: %v", err)
	}
}
