package vfs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestOS_appendAndIdentity(t *testing.T) {
	dir, fsys := t.TempDir(), OS()
	path := filepath.Join(dir, "a.jsonl")
	f, err := fsys.Create(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fsys.Create(path, 0o600); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("second create: %v", err)
	}
	if n, err := f.WriteOnce([]byte("one\n")); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	g, err := fsys.OpenAppend(path)
	if err != nil {
		t.Fatal(err)
	}
	// Both handles append, wherever the other one wrote.
	if _, err := g.WriteOnce([]byte("two\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteOnce([]byte("three\n")); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || string(b) != "one\ntwo\nthree\n" {
		t.Fatalf("%q %v", b, err)
	}
	a, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	s, err := fsys.Stat(path)
	if err != nil || a.ID != s.ID || a.ID == (FileID{}) || s.Size != 14 {
		t.Fatalf("%+v %+v %v", a, s, err)
	}
	if err := errors.Join(f.Sync(), fsys.SyncDir(dir), f.Truncate(4), f.Close(), g.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	n, err := fsys.Create(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if i, err := n.Stat(); err != nil || i.ID == a.ID {
		t.Fatalf("a new file has the identity of the old one: %+v %v", i, err)
	}
	if _, err := fsys.OpenAppend(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("append to nothing: %v", err)
	}
	df, err := fsys.DirFS(dir).Open("a.jsonl.old")
	if err != nil {
		t.Fatal(err)
	}
	defer df.Close()
	var buf [3]byte
	if _, err := df.(io.ReaderAt).ReadAt(buf[:], 0); err != nil || string(buf[:]) != "one" {
		t.Fatalf("%q %v", buf, err)
	}
}

func TestOS_lock(t *testing.T) {
	path, fsys := filepath.Join(t.TempDir(), "lock"), OS()
	if _, _, held := fsys.Holder(path); held {
		t.Fatal("held before it was taken")
	}
	l, err := fsys.Lock(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	pid, since, held := fsys.Holder(path)
	if !held || pid != os.Getpid() || time.Since(since) > time.Minute {
		t.Fatal(pid, since, held)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	var heldErr *LockHeldError
	if _, err := fsys.Lock(ctx, path); !errors.As(err, &heldErr) || heldErr.PID != os.Getpid() {
		t.Fatalf("second lock: %v", err)
	}
	if err := errors.Join(l.Unlock(), l.Unlock()); err != nil {
		t.Fatal(err)
	}
	if pid, _, held := fsys.Holder(path); held || pid != os.Getpid() {
		t.Fatal("after release", pid, held)
	}
	l, err = fsys.Lock(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// Two who ask at the same time do not take each other for a holder.
func TestOS_askersAreNoHolders(t *testing.T) {
	path, fsys := filepath.Join(t.TempDir(), "lock"), OS()
	l, err := fsys.Lock(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if ok, err := tryShared(f); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, _, held := fsys.Holder(path); held {
		t.Error("held by one who asked")
	}
}

// A release changes the lock file, so that a watcher of the directory sees it.
func TestOS_releaseIsSeen(t *testing.T) {
	path, fsys := filepath.Join(t.TempDir(), "lock"), OS()
	l, err := fsys.Lock(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	long := time.Unix(1, 0)
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	if i, err := fsys.Stat(path); err != nil || i.ModTime.Equal(long) {
		t.Fatalf("%+v %v", i, err)
	}
	if pid, _, held := fsys.Holder(path); held || pid != os.Getpid() {
		t.Fatal(pid, held)
	}
}
