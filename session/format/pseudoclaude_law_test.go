package format

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/session"
)

// draftGen makes messages as an agent has them.
func draftGen() *rapid.Generator[session.Draft] {
	return rapid.Custom(func(t *rapid.T) session.Draft {
		text := rapid.StringN(1, 20, 60).Draw(t, "text")
		id := fmt.Sprint("c", rapid.IntRange(0, 4).Draw(t, "id"))
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return draft(session.User, session.Text{Text: text})
		case 1:
			return draft(session.Assistant, session.Text{Text: text})
		case 2:
			return draft(session.Assistant, session.ToolUse{ID: id, Name: "n", Input: []byte(`{"x":1}`)})
		default:
			return draft(session.Tool, session.ToolResult{UseID: id, Name: "n", Content: []session.Block{session.Text{Text: text}}})
		}
	})
}

// What we write, PseudoClaude's own reader loads, and both see the same:
// appends, replaces, resumed writers.
func TestPseudoClaude_bothReadersAgree(t *testing.T) {
	var f pseudoClaude
	rapid.Check(t, func(t *rapid.T) {
		var log []byte
		for range rapid.IntRange(1, 8).Draw(t, "writes") {
			a := session.Append{
				Session: session.Session{Model: "m"}, Clock: testClock, Random: zeros{},
				FirstOfWriter: rapid.Bool().Draw(t, "first"), Drafts: rapid.SliceOfN(draftGen(), 1, 4).Draw(t, "drafts"),
			}
			var err error
			if rapid.IntRange(0, 4).Draw(t, "replace") == 0 {
				log, err = f.EncodeReplace(log, "compact", a)
			} else {
				log, err = f.Encode(log, a)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if bytes.Count(log, []byte{'\n'}) == 0 || log[len(log)-1] != '\n' {
			t.Fatalf("no complete lines: %q", log)
		}
		ours, own := withoutOrphans(conversationOf(t, f, string(log))), withoutOrphans(ownLoader(string(log)))
		if diff := cmp.Diff(own, ours); diff != "" {
			t.Fatalf("%s\n%s", log, diff)
		}
	})
}

// withoutOrphans drops what ours leaves out of the messages and PseudoClaude
// keeps (docs/formats): results that no call before them asked for, and calls
// that nothing behind them answers.
func withoutOrphans(list []string) []string {
	id := func(m, kind string) string {
		if _, rest, ok := strings.Cut(m, kind); ok {
			return strings.Fields(rest)[0]
		}
		return ""
	}
	called, answered := map[string]bool{}, map[string]bool{}
	for _, m := range list {
		if c := id(m, "assistant: call "); c != "" {
			called[c] = true
		}
		if c := id(m, "tool: result "); c != "" && called[c] {
			answered[c] = true
		}
	}
	clear(called)
	out := []string{}
	for _, m := range list {
		if c := id(m, "assistant: call "); c != "" {
			called[c] = true
			if !answered[c] {
				continue
			}
		}
		if c := id(m, "tool: result "); c != "" && !called[c] {
			continue
		}
		out = append(out, m)
	}
	return out
}

// conversationOf is conversation for rapid's T.
func conversationOf(t *rapid.T, f session.Format, log string) []string {
	tr, _, err := session.Read(f, "x", strings.NewReader(log), session.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := render(f, log, tr)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// FuzzPseudoClaude: whatever the bytes are, reading ends, every entry lies in
// the file, and each counts or says why not.
func FuzzPseudoClaude(f *testing.F) {
	for _, s := range []string{
		"", "{}\n", "null\n", `{"type":"message","role":"user","content":"x","ts":1}` + "\n",
		`{"type":"replace","reason":"compact","ts":1,"agent_ls_group":"g","agent_ls_count":2}` + "\n",
		`{"type":"message","role":"assistant","tool_calls":[{"ID":"1","Name":"n","Arguments":{}}],"ts":1}` + "\n" + `{"type":"mess`,
		"\x00\x00{}\n", "\xef\xbb\xbf{}\r\n", `{"a":1}{"type":"message","ts":1}` + "\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		var pc pseudoClaude
		tr, _, err := session.Read(pc, "x", bytes.NewReader(log), session.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := tr.Current()
		if len(r.Excluded) != tr.Len() {
			t.Fatalf("%d reasons for %d entries", len(r.Excluded), tr.Len())
		}
		for _, e := range tr.Entries() {
			if e.Pos.Offset < 0 || e.Pos.End() > int64(len(log)) || e.Pos.Line < 1 {
				t.Fatalf("entry at %+v of %d bytes", e.Pos, len(log))
			}
		}
		if _, err := render(pc, string(log), tr); err != nil {
			t.Fatal(err)
		}
	})
}
