package lsp_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/agent-ls/agent-ls/lsp"
	"github.com/agent-ls/agent-ls/lsp/lsptest"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/format"
	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/session/vfs"
	"github.com/agent-ls/agent-ls/watcher"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

// counter is a source of randomness that repeats nothing.
type counter struct{ n byte }

func (c *counter) Read(p []byte) (int, error) {
	for i := range p {
		c.n++
		p[i] = c.n
	}
	return len(p), nil
}

// setup is what a test may want to be otherwise.
type setup struct {
	fs    vfs.FS
	clock session.Clock
	lsp   func(*lsp.Options)
}

// server makes a server on the disk of a test.
func server(t testing.TB, st *lsptest.Store, o setup) *lsp.Server {
	t.Helper()
	if o.fs == nil {
		o.fs = vfs.OS()
	}
	if o.clock == nil {
		o.clock = wallClock{}
	}
	cat, err := catalog.Open(catalog.Options{
		FS: o.fs, Env: session.Env{Home: st.Home, GOOS: "linux", Getenv: func(string) string { return "" }},
		Formats: format.All(), StateDir: filepath.Join(st.Home, "state"), Clock: o.clock, PID: os.Getpid(),
	})
	if err != nil {
		t.Fatal(err)
	}
	j := journal.New(o.fs, o.clock)
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	options := lsp.Options{
		Catalog: cat, Journal: j, Hub: watcher.NewHub(watcher.HubOptions{Catalog: cat, FS: o.fs}),
		Clock: o.clock, Random: &counter{}, Version: "test", PID: os.Getpid(),
		SetLogLevel: func(string) error { return nil },
	}
	if o.lsp != nil {
		o.lsp(&options)
	}
	return lsp.NewServer(options)
}

// edit starts a server and an editor with the workspace open.
func edit(t testing.TB, st *lsptest.Store, o setup) *lsptest.Editor {
	t.Helper()
	return lsptest.New(t, server(t, st, o), st.Folders())
}

// newServer makes a server whose home and only workspace are new directories.
func newServer(t testing.TB) (s *lsp.Server, ws string) {
	t.Helper()
	st := lsptest.NewStore(t)
	return server(t, st, setup{}), st.Workspace
}

// serverIn makes another server with a home of its own on a workspace.
func serverIn(t testing.TB, ws string) *lsp.Server {
	t.Helper()
	st := lsptest.NewStore(t)
	st.Workspace = ws
	return server(t, st, setup{})
}

func folders(ws string) any {
	return map[string]any{
		"processId": nil, "capabilities": map[string]any{},
		"workspaceFolders": []any{map[string]any{"uri": "file://" + ws, "name": "ws"}},
	}
}
