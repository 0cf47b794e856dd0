package lsp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agent-ls/agent-ls/lsp/lsptest"
)

// A session that was written to ends with its title and tag where readers of
// its tail look; one that has them there, and one that was only read, stay as
// they are.
func TestClose_metadataTail(t *testing.T) {
	title := `{"type":"custom-title","customTitle":"a name","sessionId":"` + claudeNative + `"}` + "\n"
	tag := `{"type":"tag","tag":"mine","sessionId":"` + claudeNative + `"}` + "\n"
	for _, tt := range []struct {
		name, message string
		want          string // types of all lines
	}{
		{"title out of reach", strings.Repeat("x", 80<<10), "user assistant custom-title tag user custom-title tag"},
		{"title in reach", "short", "user assistant custom-title tag user"},
		{"only read", "", "user assistant custom-title tag"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := lsptest.NewStore(t)
			path := st.Claude(claudeNative, chat(2)+title+tag)
			before := st.Read(path)
			c := lsptest.NewScript(t, server(t, st, setup{}))
			c.Send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"processId":null,"rootUri":null}}`)
			request := `{"sessionId":"claude:` + claudeNative + `"}`
			method := "session/read"
			if tt.message != "" {
				method = "session/append"
				request = fmt.Sprintf(`{"sessionId":"claude:%s","messages":[{"role":"user","content":%q}]}`, claudeNative, tt.message)
			}
			c.Send(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + request + `}`)
			for _, m := range c.End() {
				if m.Error != nil {
					t.Errorf("%s: %+v", m.ID, m.Error)
				}
			}
			log := st.Read(path)
			if !strings.HasPrefix(log, before) {
				t.Fatal("what stood was changed")
			}
			var types []string
			for line := range strings.Lines(log) {
				for _, typ := range []string{"user", "assistant", "custom-title", "tag"} {
					if strings.Contains(line, `"type":"`+typ+`"`) {
						types = append(types, typ)
						break
					}
				}
			}
			if got := strings.Join(types, " "); got != tt.want {
				t.Errorf("lines %s, want %s", got, tt.want)
			}
			if n, want := strings.Count(log, title), strings.Count(tt.want, "custom-title"); n != want {
				t.Errorf("%d times the title, want %d", n, want)
			}
		})
	}
}
