package lsp_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/agent-ls/agent-ls/lsp/lsptest"
)

// listed gives the titles of all sessions, once there are n of them.
func listed(t *testing.T, e *lsptest.Editor, n int) []string {
	t.Helper()
	for {
		var list struct {
			Sessions []struct{ Title string }
			Total    int
		}
		e.Do("session/list", map[string]any{}, &list)
		if list.Total == n {
			var out []string
			for _, s := range list.Sessions {
				out = append(out, s.Title)
			}
			return out
		}
		e.Next("session/changed") // something is still to be found or to go
	}
}

// The folders of the editor decide whose sessions are there: a folder that
// comes is watched, one that goes takes its sessions along, and a directory
// that a request names is added.
func TestWorkspaceFolders(t *testing.T) {
	s, first := newServer(t)
	transcript(t, first, say("user", "in the first"))
	second, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(second, ".PseudoClaude", "sessions", "20260829-142030-c3d4", "conversation.jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	appendText(t, path, say("user", "in the second"))
	e := lsptest.New(t, s, folders(first))
	e.Do("session/watch", map[string]any{}, nil)
	if got := listed(t, e, 1); got[0] != "in the first" {
		t.Fatal(got)
	}
	folder := func(dir string) any { return map[string]any{"uri": "file://" + dir, "name": "x"} }
	e.Tell("workspace/didChangeWorkspaceFolders", map[string]any{"event": map[string]any{
		"added": []any{folder(second)}, "removed": []any{folder(first)},
	}})
	for got := listed(t, e, 1); got[0] != "in the second"; got = listed(t, e, 1) {
		e.Next("session/changed")
	}
	// It is watched: what another process writes there is told.
	appendText(t, path, say("assistant", "an answer"))
	for {
		var c struct {
			Added, Updated []struct{ Counts struct{ Physical int } }
		}
		if err := json.Unmarshal(e.Next("session/changed"), &c); err != nil {
			t.Fatal(err)
		}
		rows := slices.Concat(c.Added, c.Updated) // added alone, where both changes fold into one
		if len(rows) == 1 && rows[0].Counts.Physical == 2 {
			break
		}
	}
	// A request that names a directory adds it.
	var list struct{ Total int }
	e.Do("session/list", map[string]any{"cwd": first}, &list)
	if list.Total != 1 {
		t.Errorf("%d sessions in a directory that a request named", list.Total)
	}
}
