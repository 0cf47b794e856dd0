package lsp_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agent-ls/agent-ls/lsp/lsptest"
)

type forked struct {
	Session struct{ SessionID, Agent, Title, URI, TitleSource string }
	Report  struct {
		Entries int
		Lost    []string
	}
}

type resumed struct {
	Messages []struct {
		Role     string
		Content  []struct{ Type, Text, ID, ToolUseID string }
		EntryIDs []string
	}
	Report struct {
		BadLines []struct{ Line int }
		Dangling *struct{ Dropped int }
	}
	Revision string
}

// shape shows the roles and block types of messages.
func (r resumed) shape() string {
	var out []string
	for _, m := range r.Messages {
		s := m.Role
		for _, b := range m.Content {
			s += " " + b.Type
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

const calls = `{"type":"message","role":"assistant","content":"I look.","tool_calls":[{"ID":"c","Name":"Read","Arguments":{"file_path":"/x"}}],"ts":1787926831}
{"type":"message","role":"user","tool_result":{"CallID":"c","Name":"Read","Content":"y","IsError":true},"ts":1787926832}
`

// A conversation goes into the store of every other agent that can be written,
// and resumes there as it was.
func TestFork_converts(t *testing.T) {
	for _, agent := range []string{"claude", "mini-agent"} {
		t.Run(agent, func(t *testing.T) {
			s, ws := newServer(t)
			transcript(t, ws, say("user", "q")+calls+say("assistant", "done"))
			e := lsptest.New(t, s, folders(ws))
			var f forked
			e.Do("session/fork", map[string]any{"sessionId": sessionID, "agent": agent, "title": "There"}, &f)
			if f.Session.Agent != agent || f.Session.Title != "There" || f.Session.TitleSource != "user" || f.Report.Entries < 4 {
				t.Fatalf("%+v", f)
			}
			var r resumed
			e.Do("session/resume", map[string]any{"sessionId": f.Session.SessionID, "subscribe": false}, &r)
			if got, want := r.shape(), "user text; assistant text tool_use; tool tool_result; assistant text"; got != want {
				t.Errorf("resumed %s, want %s", got, want)
			}
		})
	}
}

// What the other store cannot hold is left out and said.
func TestFork_namesWhatIsLost(t *testing.T) {
	s, ws := newServer(t)
	e := lsptest.New(t, s, folders(ws))
	var made forked
	e.Do("session/new", map[string]any{"agent": "claude", "cwd": ws}, &made)
	e.Do("session/append", map[string]any{"sessionId": made.Session.SessionID, "messages": []any{
		map[string]any{"role": "user", "content": []any{
			map[string]any{"type": "text", "text": "look"},
			map[string]any{"type": "image", "mimeType": "image/png", "data": "AA=="},
		}},
		map[string]any{"role": "assistant", "content": "a dot", "model": "m", "usage": map[string]any{"input": 3, "output": 2}},
	}}, nil)
	var f forked
	e.Do("session/fork", map[string]any{"sessionId": made.Session.SessionID, "agent": "pseudoclaude"}, &f)
	for _, want := range []string{"1 images", "1 token counts"} {
		if !slices.Contains(f.Report.Lost, want) {
			t.Errorf("lost %q, want %q in it", f.Report.Lost, want)
		}
	}
}

// A fork that cannot be made leaves nothing behind.
func TestFork_failsWithoutTrace(t *testing.T) {
	s, ws := newServer(t)
	transcript(t, ws, `{"type":"replace","reason":"clear","ts":1787926830}`+"\n")
	e := lsptest.New(t, s, folders(ws))
	for _, agent := range []string{"", "claude", "nobody"} {
		code, data := lsptest.Code(e.Call("session/fork", map[string]any{"sessionId": sessionID, "agent": agent}, nil))
		if code != -32602 {
			t.Errorf("agent %q: code %d %v", agent, code, data)
		}
	}
	dirs, err := os.ReadDir(filepath.Join(ws, ".PseudoClaude", "sessions"))
	if err != nil || len(dirs) != 1 {
		t.Errorf("%v %v", dirs, err)
	}
	var list struct{ Total int }
	e.Do("session/list", map[string]any{"includeEmpty": true}, &list)
	if list.Total != 1 {
		t.Errorf("%d sessions", list.Total)
	}
}

// Two sessions of an agent that shares directories between them.
func TestNew_twiceInOneDirectory(t *testing.T) {
	s, ws := newServer(t)
	e := lsptest.New(t, s, folders(ws))
	for _, agent := range []string{"claude", "mini-agent", "pseudoclaude"} {
		for range 2 {
			var made forked
			e.Do("session/new", map[string]any{"agent": agent, "cwd": ws}, &made)
			e.Do("session/append", map[string]any{"sessionId": made.Session.SessionID, "messages": []any{user("hello")}}, nil)
		}
	}
	var list struct{ Total int }
	e.Do("session/list", map[string]any{"cwd": ws}, &list)
	if list.Total == 0 {
		t.Error("none is listed")
	}
}
