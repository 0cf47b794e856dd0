package journal

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/vfs"
)

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func newJournal(t *testing.T) (*Journal, string) {
	t.Helper()
	j := New(vfs.OS(), wallClock{})
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j, filepath.Join(t.TempDir(), "new", "a.jsonl")
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAppend(t *testing.T) {
	ctx := context.Background()
	j, path := newJournal(t)
	if _, err := j.Append(ctx, path, Request{Lines: []byte("{}\n")}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("append to nothing: %v", err)
	}
	if _, err := j.Append(ctx, path, Request{Lines: []byte("{}"), Create: true}); !errors.Is(err, session.ErrInvalid) {
		t.Fatalf("no complete line: %v", err)
	}
	r, err := j.Append(ctx, path, Request{Lines: []byte("{\"a\":1}\n"), Create: true})
	if err != nil || r.Offset != 0 || r.Length != 8 || !r.Created || r.Closed {
		t.Fatalf("%+v %v", r, err)
	}
	if i, err := os.Stat(path); err != nil || i.Mode().Perm() != 0o600 {
		t.Fatal(i, err)
	}
	r2, err := j.Append(ctx, path, Request{Lines: []byte("{\"b\":2}\n"), Expect: r.Revision})
	if err != nil || r2.Offset != 8 || r2.Created || r2.Revision == r.Revision {
		t.Fatalf("%+v %v", r2, err)
	}
	var stale *StaleError
	if _, err := j.Append(ctx, path, Request{Lines: []byte("{}\n"), Expect: r.Revision}); !errors.As(err, &stale) || stale.Current != r2.Revision {
		t.Fatalf("stale: %v", err)
	}
	// A torn tail is closed, and stays one line.
	if err := os.WriteFile(path, []byte("{\"a\":1}\n{\"torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err = j.Append(ctx, path, Request{Lines: []byte("{\"c\":3}\n")})
	if err != nil || !r.Closed || r.Offset != 15 {
		t.Fatalf("%+v %v", r, err)
	}
	if got := content(t, path); got != "{\"a\":1}\n{\"torn\n{\"c\":3}\n" {
		t.Fatalf("%q", got)
	}
	if len(j.files) > 1 {
		t.Errorf("%d files are remembered for nothing", len(j.files))
	}
}

func TestRevision(t *testing.T) {
	rev := func(s string) session.Revision {
		t.Helper()
		r, err := Revision(strings.NewReader(s), int64(len(s)))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	change := func(s string, at int) string { return s[:at] + "y" + s[at+1:] }
	long, whole := strings.Repeat("x", 3*revisionSpan), strings.Repeat("x", 2*revisionSpan)
	seen := map[session.Revision]string{}
	texts := []string{"", "a", "b", "aa", long, change(long, 0), change(long, len(long)-1), long + "x"}
	for _, at := range []int{0, revisionSpan - 1, revisionSpan, len(whole) - 1} {
		texts = append(texts, change(whole, at), change(whole[1:], min(at, len(whole)-2)))
	}
	for i, s := range texts {
		r := rev(s)
		if other, ok := seen[r]; ok && other != s {
			t.Errorf("text %d has the revision of another one", i)
		}
		seen[r] = s
		if rev(strings.Clone(s)) != r {
			t.Errorf("the revision of text %d is not stable", i)
		}
	}
	if a, b := rev(long), rev(long+"more"); a == b {
		t.Error("an append changes nothing")
	} else if c, err := Revision(strings.NewReader(long+"more"), int64(len(long))); err != nil || c != a {
		t.Error("what is behind the size counts", err)
	}
	if _, err := Revision(strings.NewReader("short"), 10); err == nil {
		t.Error("a source that is shorter than it claims has a revision")
	}
}

func TestHold_refusesOthers(t *testing.T) {
	j, path := newJournal(t)
	other := New(vfs.OS(), wallClock{})
	if _, err := j.Append(context.Background(), path, Request{Lines: []byte("{}\n"), Create: true}); err != nil {
		t.Fatal(err)
	}
	release, err := j.Hold(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := j.Hold(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(context.Background(), path, Request{Lines: []byte("{}\n")}); err != nil {
		t.Fatalf("the holder's own append: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	var locked *session.LockedError
	if _, err := other.Hold(ctx, path); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Fatalf("second holder: %v", err)
	}
	if _, err := other.Append(context.Background(), path, Request{Lines: []byte("{}\n")}); !errors.Is(err, session.ErrLocked) {
		t.Fatalf("second writer: %v", err)
	}
	if err := errors.Join(release(), release()); err != nil {
		t.Fatal(err)
	}
	if _, _, held := vfs.OS().Holder(LockPath(path)); !held {
		t.Fatal("released while somebody holds it")
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Append(context.Background(), path, Request{Lines: []byte("{}\n")}); err != nil {
		t.Fatal(err)
	}
}
