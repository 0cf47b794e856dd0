package errorfs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session/vfs"
)

// What the code above relies on holds for the system, for Mem, and through FS.
func TestContract(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{
		"os": vfs.OS(), "mem": NewMem(os.Getpid()), "wrapped": New(NewMem(os.Getpid()), "/"),
	} {
		t.Run(name, func(t *testing.T) { contract(t, fsys, t.TempDir()) })
	}
}

func contract(t *testing.T, fsys vfs.FS, dir string) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(err, target error) {
		t.Helper()
		var p *fs.PathError
		if !errors.Is(err, target) || !errors.As(err, &p) {
			t.Fatalf("got %v, want a *fs.PathError that is %v", err, target)
		}
	}
	dir = filepath.Join(dir, "a", "b")
	path := filepath.Join(dir, "x.jsonl")
	_, err := fsys.Create(path, 0o600)
	want(err, fs.ErrNotExist)
	want(fsys.Mkdir(dir, 0o700), fs.ErrNotExist)
	check(fsys.MkdirAll(dir, 0o700))
	check(fsys.MkdirAll(dir, 0o700))
	want(fsys.Mkdir(dir, 0o700), fs.ErrExist)
	_, err = fsys.OpenAppend(path)
	want(err, fs.ErrNotExist)
	_, err = fsys.Stat(path)
	want(err, fs.ErrNotExist)

	f, err := fsys.Create(path, 0o600)
	check(err)
	_, err = fsys.Create(path, 0o600)
	want(err, fs.ErrExist)
	g, err := fsys.OpenAppend(path)
	check(err)
	for _, w := range []struct {
		h    vfs.File
		text string
	}{{f, "one\n"}, {g, "two\n"}, {f, "three\n"}} {
		n, err := w.h.WriteOnce([]byte(w.text))
		check(err)
		if n != len(w.text) {
			t.Fatal(n)
		}
	}
	check(errors.Join(f.Sync(), fsys.SyncDir(dir), f.Truncate(8)))
	b, err := fs.ReadFile(fsys.DirFS(dir), "x.jsonl")
	check(err)
	if string(b) != "one\ntwo\n" {
		t.Fatalf("%q", b)
	}
	i, err := f.Stat()
	check(err)
	s, err := fsys.Stat(path)
	check(err)
	if i != s || i.Size != 8 || i.ID == (vfs.FileID{}) || i.Mode != 0o600 {
		t.Fatalf("%+v %+v", i, s)
	}
	var buf [4]byte
	if n, err := g.ReadAt(buf[:], 6); n != 2 || err == nil || string(buf[:2]) != "o\n" {
		t.Fatalf("%d %q %v", n, buf, err)
	}
	check(fsys.Rename(path, path+".old"))
	n, err := fsys.Create(path, 0o600)
	check(err)
	if j, err := n.Stat(); err != nil || j.ID == i.ID {
		t.Fatalf("a new file has the identity of the old one: %+v %v", j, err)
	}
	check(errors.Join(f.Close(), g.Close(), n.Close()))
	check(fsys.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	check(fstest.TestFS(fsys.DirFS(filepath.Dir(dir)), "b/x.jsonl", "b/x.jsonl.old", "b/sub"))
	list, err := fsys.ReadDir(dir)
	check(err)
	if len(list) != 3 || list[0].Name() != "sub" || !list[0].IsDir() || list[1].Name() != "x.jsonl" {
		t.Fatal(list)
	}

	lock := filepath.Join(dir, ".lock")
	l, err := fsys.Lock(context.Background(), lock)
	check(err)
	if pid, _, held := fsys.Holder(lock); !held || pid != os.Getpid() {
		t.Fatal(pid, held)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	var e *vfs.LockHeldError
	if _, err := fsys.Lock(ctx, lock); !errors.As(err, &e) || e.PID != os.Getpid() || e.Path != lock {
		t.Fatalf("second lock: %v", err)
	}
	check(errors.Join(l.Unlock(), l.Unlock()))
	if _, _, held := fsys.Holder(lock); held {
		t.Fatal("held after the release")
	}
	l, err = fsys.Lock(context.Background(), lock)
	check(err)
	check(l.Unlock())
	check(fsys.Remove(lock))
	want(fsys.Remove(lock), fs.ErrNotExist)
	_, err = fsys.Lock(context.Background(), filepath.Join(dir, "none", "lock"))
	want(err, fs.ErrNotExist)
	check(fsys.RemoveAll(filepath.Dir(dir)))
	check(fsys.RemoveAll(filepath.Dir(dir)))
	_, err = fsys.EvalSymlinks(dir)
	want(err, fs.ErrNotExist)
}

func TestFS_rules(t *testing.T) {
	f := New(NewMem(1), "/d")
	if err := f.MkdirAll("/d", 0o700); err != nil {
		t.Fatal(err)
	}
	h, err := f.Create("/d/a", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	acted := 0
	f.Add(
		Rule{Kind: Write, Nth: 2, Short: 3, Err: syscall.EIO},
		Rule{Kind: Write, Nth: 3, Short: 1},
		Rule{Kind: Sync, Base: "b*", Err: syscall.EIO, Times: -1},
		Rule{Kind: Sync, Base: "a*", Err: syscall.EIO, Times: 2},
		Rule{Kind: Truncate, Do: func() { acted++ }},
	)
	for range 4 {
		_, _ = h.WriteOnce([]byte("12345")) // the record below shows what came of it
	}
	for range 3 {
		_ = h.Sync()
	}
	_ = h.Truncate(2)
	f.Room(4)
	for range 2 {
		_, _ = h.WriteOnce([]byte("abc"))
	}
	_, err = h.WriteOnce([]byte("abc"))
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	io := syscall.EIO.Error()
	want := []string{
		"mkdir .", "create a",
		"write a 5 bytes", "write a 3 of 5 bytes = " + io, "write a 1 of 5 bytes", "write a 5 bytes",
		"sync a = " + io, "sync a = " + io, "sync a", "truncate a to 2",
		"write a 3 bytes", "write a 1 of 3 bytes", "write a 0 of 3 bytes = " + syscall.ENOSPC.Error(),
	}
	if n := f.Count(Write); n != 7 {
		t.Errorf("%d writes", n)
	}
	if diff := cmp.Diff(want, f.Ops()); diff != "" {
		t.Error(diff)
	}
	if acted != 1 || len(f.Ops()) != 0 {
		t.Error(acted)
	}
}

func TestMem_crash(t *testing.T) {
	m := NewMem(1)
	if err := errors.Join(m.MkdirAll("/d/e", 0o700), m.SyncDir("/"), m.SyncDir("/d")); err != nil {
		t.Fatal(err)
	}
	write := func(h vfs.File, text string) {
		t.Helper()
		if _, err := h.WriteOnce([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	a, err := m.Create("/d/a", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	write(a, "synced")
	if err := errors.Join(a.Sync(), m.SyncDir("/d")); err != nil {
		t.Fatal(err)
	}
	write(a, "lost")
	b, err := m.Create("/d/b", 0o600) // synced, but its name is not
	if err != nil {
		t.Fatal(err)
	}
	write(b, "nameless")
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	read := func(m *Mem, path string) string {
		b, err := fs.ReadFile(m.DirFS("/"), path)
		if err != nil {
			return err.(*fs.PathError).Err.Error()
		}
		return string(b)
	}
	for keep, want := range map[int]string{0: "synced", 2: "syncedlo", 9: "syncedlost"} {
		c := m.Crash(func(path string, unsynced int) int {
			if path != "/d/a" || unsynced != 4 {
				t.Errorf("asked for %s, %d bytes", path, unsynced)
			}
			return keep
		})
		if got := read(c, "d/a"); got != want {
			t.Errorf("keep %d: %q", keep, got)
		}
		if got := read(c, "d/b"); got != fs.ErrNotExist.Error() {
			t.Errorf("a name that was not synced survived: %q", got)
		}
		if got := read(c.Crash(nil), "d/a"); got != want {
			t.Errorf("after a second crash: %q", got)
		}
	}
	if got := read(m, "d/a"); got != "syncedlost" {
		t.Errorf("the original is %q", got)
	}
	// What was cut off since the last sync may be back.
	if err := a.Truncate(3); err != nil {
		t.Fatal(err)
	}
	if got := read(m.Crash(nil), "d/a"); got != "synced" {
		t.Errorf("%q", got)
	}
}
