package lsp_test

import (
	"os"
	"strings"
	"testing"

	"github.com/agent-ls/agent-ls/lsp/lsptest"
)

// A replace that a crash cut short: ours shows the conversation before it. The
// repair, asked for or made by the next append, states that conversation anew
// behind it, so that PseudoClaude's own reader, which a replace clears at
// once, sees the same; no byte that was there changes.
func TestRepair_bothReadersAgree(t *testing.T) {
	torn := say("user", "old question") + say("assistant", "old answer") +
		`{"type":"replace","reason":"compact","ts":1787926840,"agent_ls_group":"g","agent_ls_count":2}` + "\n" +
		`{"type":"message","role":"user","content":"half a summary","ts":1787926840,"agent_ls_group":"g"}` + "\n"
	for _, how := range []string{"repair", "append"} {
		t.Run(how, func(t *testing.T) {
			s, ws := newServer(t)
			path := transcript(t, ws, torn)
			e := lsptest.New(t, s, folders(ws))
			var d struct {
				Findings []struct{ Code, Action string }
				Actions  []string
			}
			e.Do("session/diagnose", map[string]any{"sessionId": sessionID}, &d)
			if len(d.Actions) != 1 || d.Actions[0] != "restate-conversation" {
				t.Fatalf("%+v", d)
			}
			e.Do("session/repair", map[string]any{"sessionId": sessionID}, nil)
			if b, err := os.ReadFile(path); err != nil || string(b) != torn {
				t.Fatalf("a dry run wrote: %q %v", b, err)
			}
			want := "old question|old answer"
			if how == "repair" {
				e.Do("session/repair", map[string]any{"sessionId": sessionID, "dryRun": false}, nil)
			} else {
				e.Do("session/append", map[string]any{"sessionId": sessionID, "messages": []any{user("next")}}, nil)
				want += "|next"
			}
			b, err := os.ReadFile(path)
			if err != nil || !strings.HasPrefix(string(b), torn) {
				t.Fatalf("%q %v", b, err)
			}
			// What PseudoClaude sees: all behind the last replace.
			_, behind, _ := strings.Cut(string(b[len(torn):]), `"type":"replace"`)
			var own []string
			for line := range strings.Lines(behind) {
				if _, rest, ok := strings.Cut(line, `"content":"`); ok {
					text, _, _ := strings.Cut(rest, `"`)
					own = append(own, text)
				}
			}
			if got := strings.Join(own, "|"); got != want {
				t.Errorf("PseudoClaude sees %s, want %s", got, want)
			}
			var page struct{ Entries []entry }
			e.Do("session/read", map[string]any{"sessionId": sessionID}, &page)
			var ours []string
			for _, x := range page.Entries {
				ours = append(ours, x.Content[0].Text)
			}
			if got := strings.Join(ours, "|"); got != want {
				t.Errorf("ours sees %s, want %s", got, want)
			}
		})
	}
}
