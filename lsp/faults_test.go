package lsp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agent-ls/agent-ls/lsp/lsptest"
	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session/vfs"
)

func osFS() vfs.FS { return vfs.OS() }

// watchedFS counts what is read of one file, can fail there, and can hold its
// opening up.
type watchedFS struct {
	vfs.FS
	path  string
	read  atomic.Int64
	fail  atomic.Bool
	hold  atomic.Bool
	held  chan struct{} // Open of path waits for its end while hold is set
	asked sync.Once
	waits chan struct{} // closed when Open waits
}

type watchedFile struct {
	vfs.File
	fs *watchedFS
}

var errDisk = errors.New("input/output error")

func (f *watchedFS) Open(path string) (vfs.File, error) {
	if path == f.path && f.hold.Load() {
		f.asked.Do(func() { close(f.waits) })
		<-f.held
	}
	return f.wrap(path)(f.FS.Open(path))
}

func (f *watchedFS) OpenAppend(path string) (vfs.File, error) {
	return f.wrap(path)(f.FS.OpenAppend(path))
}

func (f *watchedFS) wrap(path string) func(vfs.File, error) (vfs.File, error) {
	return func(h vfs.File, err error) (vfs.File, error) {
		if err != nil || path != f.path {
			return h, err
		}
		return &watchedFile{h, f}, nil
	}
}

func (f *watchedFile) ReadAt(p []byte, off int64) (int, error) {
	if f.fs.fail.Load() {
		return 0, errDisk
	}
	n, err := f.File.ReadAt(p, off)
	f.fs.read.Add(int64(n))
	return n, err
}

// slowFS holds all directory listings below a path up.
type slowFS struct {
	vfs.FS
	under string
	held  chan struct{}
}

func (f *slowFS) DirFS(dir string) fs.FS {
	if rel, err := filepath.Rel(f.under, dir); err == nil && filepath.IsLocal(rel) {
		return &slowDir{f.FS.DirFS(dir), f.held}
	}
	return f.FS.DirFS(dir)
}

func (f *slowFS) ReadDir(path string) ([]fs.DirEntry, error) {
	if rel, err := filepath.Rel(f.under, path); err == nil && filepath.IsLocal(rel) {
		<-f.held
	}
	return f.FS.ReadDir(path)
}

type slowDir struct {
	fs.FS
	held chan struct{}
}

func (d *slowDir) ReadDir(name string) ([]fs.DirEntry, error) {
	<-d.held
	return fs.ReadDir(d.FS, name)
}

// A disk that cannot be read gives the place, and costs that session only.
func TestRead_unreadable(t *testing.T) {
	st := lsptest.NewStore(t)
	path := st.PseudoClaude(sessionID, lsptest.Say("user", "q"))
	st.PseudoClaude("20260829-142030-ffff", lsptest.Say("user", "healthy"))
	f := &watchedFS{FS: osFS(), path: path}
	e := edit(t, st, setup{fs: f})
	e.Do("session/read", map[string]any{"sessionId": sessionID}, nil)
	f.fail.Store(true)
	for _, method := range []string{"session/read", "session/resume", "session/diagnose", "session/append", "session/fork"} {
		code, data := lsptest.Code(e.Call(method, map[string]any{"sessionId": sessionID, "messages": []any{user("x")}}, nil))
		if code != -32015 || data["line"] == nil || data["offset"] == nil {
			t.Errorf("%s: code %d %v", method, code, data)
		}
	}
	var list struct{ Total int }
	e.Do("session/list", map[string]any{}, &list)
	if list.Total != 2 {
		t.Errorf("%d sessions are listed", list.Total)
	}
	e.Do("session/read", map[string]any{"sessionId": "20260829-142030-ffff"}, nil)
	f.fail.Store(false)
	e.Do("session/read", map[string]any{"sessionId": sessionID}, nil)
}

// A slow read of one session delays neither another session nor the list.
func TestParallel(t *testing.T) {
	st := lsptest.NewStore(t)
	path := st.PseudoClaude(sessionID, lsptest.Say("user", "slow"))
	st.PseudoClaude("20260829-142030-ffff", lsptest.Say("user", "fast"))
	f := &watchedFS{FS: osFS(), path: path, held: make(chan struct{}), waits: make(chan struct{})}
	e := edit(t, st, setup{fs: f})
	e.Do("session/read", map[string]any{"sessionId": sessionID}, nil) // the scan has ended
	f.hold.Store(true)
	release := sync.OnceFunc(func() { close(f.held) })
	defer release()
	slow := make(chan error, 1)
	go func() { slow <- e.Call("session/read", map[string]any{"sessionId": sessionID}, nil) }()
	<-f.waits
	e.Do("session/read", map[string]any{"sessionId": "20260829-142030-ffff"}, nil)
	e.Do("session/list", map[string]any{}, nil)
	select {
	case err := <-slow:
		t.Fatalf("the slow read has ended: %v", err)
	default:
	}
	release()
	if err := <-slow; err != nil {
		t.Error(err)
	}
}

// A request that waits is cancelled, whatever it is; the connection goes on.
func TestCancel(t *testing.T) {
	st := lsptest.NewStore(t)
	st.PseudoClaude(sessionID, lsptest.Say("user", "q"))
	held := make(chan struct{})
	c := lsptest.NewScript(t, server(t, st, setup{fs: &slowFS{FS: osFS(), under: st.Workspace, held: held}}))
	c.Send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"processId":null,"workspaceFolders":[{"uri":"file://` + st.Workspace + `","name":"ws"}]}}`)
	if m := c.Answer(); m.Error != nil {
		t.Fatal(m.Error)
	}
	for i, call := range []string{
		`"session/list","params":{"partialResultToken":7}`,
		`"session/read","params":{"sessionId":"` + sessionID + `"}`,
		`"session/resume","params":{"sessionId":"` + sessionID + `"}`,
		`"session/append","params":{"sessionId":"` + sessionID + `","messages":[{"role":"user","content":"x"}]}`,
		`"session/fork","params":{"sessionId":"` + sessionID + `"}`,
		`"session/subscribe","params":{"sessionId":"` + sessionID + `"}`,
		`"session/prune","params":{}`,
	} {
		id := fmt.Sprintf(`"c%d"`, i)
		c.Send(`{"jsonrpc":"2.0","id":` + id + `,"method":` + call + `}`)
		c.Send(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":` + id + `}}`)
		if m := c.Answer(); string(m.ID) != id || m.Error == nil || m.Error.Code != -32800 {
			t.Errorf("%s: %+v", call, m)
		}
	}
	close(held)
	c.Send(`{"jsonrpc":"2.0","id":9,"method":"session/read","params":{"sessionId":"` + sessionID + `"}}`)
	if m := c.Answer(); m.Error != nil || string(m.ID) != "9" {
		t.Errorf("afterwards: %+v", m)
	}
}

// While the first scan is under way initialize and a list answer; the rows
// come by partial results, each once, and progress is told.
func TestList_partialResults(t *testing.T) {
	st := lsptest.NewStore(t)
	st.PseudoClaude(sessionID, lsptest.Say("user", "q"))
	held := make(chan struct{})
	e := edit(t, st, setup{fs: &slowFS{FS: osFS(), under: st.Workspace, held: held}})
	var list struct{ Total int }
	e.Do("session/list", map[string]any{}, &list)
	if list.Total != 0 {
		t.Fatalf("%d sessions before the scan", list.Total)
	}
	answer := make(chan error, 1)
	var res wire.ListResult
	go func() {
		answer <- e.Call("session/list", map[string]any{"partialResultToken": "rows", "workDoneToken": "work"}, &res)
	}()
	e.Await(lsptest.Received("$/progress", 2)) // no rows yet, and the begin
	close(held)
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
	if len(res.Sessions) != 0 || res.Total != 1 {
		t.Errorf("answer %+v", res)
	}
	e.Look(func(s lsptest.State) {
		rows := 0
		for _, v := range s.Progress["rows"] {
			var part wire.ListResult
			if err := json.Unmarshal(v, &part); err != nil {
				t.Error(err)
			}
			rows += len(part.Sessions)
		}
		if rows != 1 {
			t.Errorf("%d rows came, want 1", rows)
		}
		if work := s.Progress["work"]; len(work) != 2 {
			t.Errorf("progress %s", work)
		}
	})
}
