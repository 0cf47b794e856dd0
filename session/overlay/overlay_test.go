package overlay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/vfs"
)

var (
	one = session.ID{Agent: "claude", Native: "one"}
	two = session.ID{Agent: "claude", Native: "two24"} // in the same file
)

func edit(t *testing.T, s *Store, id session.ID, f func(*Note)) {
	t.Helper()
	if _, err := s.Edit(context.Background(), id, func(n Note) Note { f(&n); return n }); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, s *Store) []session.ID {
	t.Helper()
	ids, err := s.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(ids, func(a, b session.ID) int { return strings.Compare(a.Native, b.Native) })
	return ids
}

func TestStore_survives(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	yes, at := true, time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	want := Note{Title: "named", Tags: []string{"a", "b"}, Archived: &yes, ReadTo: "u1", ReadAt: at, Resumed: at}
	a := New(vfs.OS(), dir)
	edit(t, a, one, func(n *Note) { *n = want })
	edit(t, a, session.ID{Agent: "other", Native: "one"}, func(n *Note) { n.Title = "another agent's" })
	b := New(vfs.OS(), dir)
	if got := load(t, b); len(got) != 2 {
		t.Errorf("%v", got)
	}
	if diff := cmp.Diff(want, b.Note(one)); diff != "" {
		t.Error(diff)
	}
	for path, perm := range map[string]fs.FileMode{dir: 0o700, b.Dir(): 0o700, b.path(partOf(one)): 0o600} {
		if i, err := os.Stat(path); err != nil || i.Mode().Perm() != perm {
			t.Errorf("%s: %v %v", path, i.Mode(), err)
		}
	}
	edit(t, a, one, func(n *Note) { *n = Note{} })
	if got := load(t, b); !slices.Equal(got, []session.ID{one}) || !b.Note(one).IsZero() {
		t.Errorf("taken back: %v", got)
	}
	if got := load(t, b); got != nil {
		t.Errorf("nothing happened: %v", got)
	}
	if err := os.Remove(b.path(part{"other", partOf(one).digit})); err != nil {
		t.Fatal(err)
	}
	if got := load(t, b); len(got) != 1 {
		t.Errorf("removed: %v", got)
	}
}

// What another process says about other sessions is not lost on the way, and
// not overlooked.
func TestStore_twoProcesses(t *testing.T) {
	dir := t.TempDir()
	a, b := New(vfs.OS(), dir), New(vfs.OS(), dir)
	edit(t, a, one, func(n *Note) { n.Title = "by a" })
	edit(t, b, two, func(n *Note) { n.Title = "by b" })
	edit(t, a, one, func(n *Note) { n.Tags = []string{"x"} })
	edit(t, b, one, func(n *Note) { n.Tags = append(n.Tags, "y") })
	if got := load(t, a); !slices.Equal(got, []session.ID{one, two}) {
		t.Errorf("%v", got)
	}
	if got := a.Note(one); got.Title != "by a" || !slices.Equal(got.Tags, []string{"x", "y"}) {
		t.Errorf("%+v", got)
	}
}

// Many processes write at once: all survive.
func TestStore_manyProcesses(t *testing.T) {
	const processes, each = 4, 12
	dir := os.Getenv("OVERLAY_TEST_DIR")
	if dir != "" { // one of them
		s := New(vfs.OS(), dir)
		for i := range each {
			edit(t, s, one, func(n *Note) { n.Tags = append(n.Tags, fmt.Sprint(os.Getpid(), "-", i)) })
		}
		return
	}
	dir = t.TempDir()
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestStore_manyProcesses$")
			cmd.Env = append(os.Environ(), "OVERLAY_TEST_DIR="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	wg.Wait()
	s := New(vfs.OS(), dir)
	load(t, s)
	tags := s.Note(one).Tags
	slices.Sort(tags)
	if len(slices.Compact(tags)) != processes*each {
		t.Errorf("%d of %d survived", len(tags), processes*each)
	}
}

// Damaged files are set aside and told of, whoever comes upon them; files of
// a newer version are left alone.
func TestStore_damage(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		aside      bool
		load, edit bool // are errors
	}{
		{"cut", `{"version":1,"notes":{"one":{"ti`, true, true, false},
		{"empty", "", true, true, false},
		{"not an object", `[1]`, true, true, false},
		{"null", `null`, true, true, false},
		{"no notes", `{"version":1}`, true, true, false},
		{"newer, other shape", `{"version":2,"entries":[]}`, false, true, true},
		{"newer note", `{"version":2,"notes":{"one":{"title":{"text":"x"}},"two24":{"title":"ok"}}}`, false, false, true},
	} {
		for _, first := range []string{"load", "edit"} {
			t.Run(tt.name+" "+first, func(t *testing.T) {
				s := New(vfs.OS(), t.TempDir())
				edit(t, s, session.ID{Agent: "fine", Native: "x"}, func(n *Note) { n.Title = "fine" })
				path := s.path(partOf(one))
				if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
					t.Fatal(err)
				}
				s = New(vfs.OS(), filepath.Dir(s.Dir()))
				if first == "edit" {
					_, err := s.Edit(context.Background(), one, func(n Note) Note { n.Title = "new"; return n })
					if (err != nil) != tt.edit {
						t.Errorf("edit: %v", err)
					}
				}
				if _, err := s.Load(context.Background()); (err != nil) != tt.load {
					t.Errorf("load: %v", err)
				}
				if s.Note(session.ID{Agent: "fine", Native: "x"}).Title != "fine" {
					t.Error("the other file was not read")
				}
				aside, err := os.ReadFile(path + ".corrupt-1")
				if tt.aside != (err == nil) || tt.aside && string(aside) != tt.text {
					t.Errorf("aside: %q %v", aside, err)
				}
				if now, err := os.ReadFile(path); !tt.aside && (err != nil || string(now) != tt.text) {
					t.Errorf("a newer file was changed: %q %v", now, err)
				}
				if _, err := s.Load(context.Background()); err != nil {
					t.Errorf("told of twice: %v", err)
				}
			})
		}
	}
}

// A program of this version keeps what a newer one has added.
func TestEdit_keepsWhatItDoesNotKnow(t *testing.T) {
	s := New(vfs.OS(), t.TempDir())
	if err := os.MkdirAll(s.Dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	path := s.path(partOf(one))
	if err := os.WriteFile(path, []byte(`{"version":3,"extra":{"a":[1]},"notes":{"one":{"title":"old","color":"red"},"two24":{"pinned":true}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	edit(t, s, one, func(n *Note) { n.Title = "" })
	var got, want any
	b, err := os.ReadFile(path)
	if err == nil {
		err = errors.Join(json.Unmarshal(b, &got),
			json.Unmarshal([]byte(`{"version":3,"extra":{"a":[1]},"notes":{"one":{"color":"red"},"two24":{"pinned":true}}}`), &want))
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// failing makes one kind of operation fail.
type failing struct {
	vfs.FS
	op string
}

func (f failing) Create(path string, perm fs.FileMode) (vfs.File, error) {
	h, err := f.FS.Create(path, perm)
	return failingFile{h, f.op}, err
}

func (f failing) Rename(from, to string) error {
	if f.op == "rename" {
		return syscall.EIO
	}
	return f.FS.Rename(from, to)
}

type failingFile struct {
	vfs.File
	op string
}

func (f failingFile) WriteOnce(p []byte) (int, error) {
	switch f.op {
	case "write":
		return 0, syscall.ENOSPC
	case "short":
		return f.File.WriteOnce(p[:len(p)/2])
	}
	return f.File.WriteOnce(p)
}

func (f failingFile) Sync() error {
	if f.op == "sync" {
		return syscall.EIO
	}
	return f.File.Sync()
}

// A write that fails leaves the file and the memory as they were.
func TestEdit_failedWrite(t *testing.T) {
	for _, op := range []string{"write", "short", "sync", "rename"} {
		dir := t.TempDir()
		s := New(vfs.OS(), dir)
		edit(t, s, one, func(n *Note) { n.Title = "old" })
		before, err := os.ReadFile(s.path(partOf(one)))
		if err != nil {
			t.Fatal(err)
		}
		s = New(failing{vfs.OS(), op}, dir)
		load(t, s)
		if _, err := s.Edit(context.Background(), one, func(n Note) Note { n.Title = "new"; return n }); err == nil {
			t.Errorf("%s: no error", op)
		}
		after, err := os.ReadFile(s.path(partOf(one)))
		if err != nil || string(after) != string(before) || s.Note(one).Title != "old" {
			t.Errorf("%s: %q %v", op, after, err)
		}
		if left, _ := filepath.Glob(filepath.Join(s.Dir(), "*.tmp")); left != nil {
			t.Errorf("%s: %q is left", op, left)
		}
	}
}

func TestEdit_lockedByAnother(t *testing.T) {
	s := New(vfs.OS(), t.TempDir())
	edit(t, s, one, func(n *Note) { n.Title = "x" })
	l, err := vfs.OS().Lock(context.Background(), filepath.Join(s.Dir(), "."+partOf(one).String()+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock() //nolint:errcheck // the end of the test
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	var locked *session.LockedError
	if _, err := s.Edit(ctx, one, func(n Note) Note { n.Title = "y"; return n }); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("%v", err)
	}
}

func TestStore_inMemory(t *testing.T) {
	s := New(vfs.OS(), "")
	edit(t, s, one, func(n *Note) { n.Title = "x" })
	if load(t, s); s.Dir() != "" || s.Note(one).Title != "x" {
		t.Error(s.Note(one))
	}
}

// BenchmarkEdit is the cost of one note among others.
func BenchmarkEdit(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := New(vfs.OS(), b.TempDir())
			files := map[part]*file{}
			for i := range n {
				id := session.ID{Agent: "claude", Native: fmt.Sprint(i)}
				if files[partOf(id)] == nil {
					files[partOf(id)] = newFile()
				}
				if _, err := files[partOf(id)].set(id.Native, Note{Title: "a title of some length", ReadAt: time.Unix(int64(i), 0)}); err != nil {
					b.Fatal(err)
				}
			}
			for p, f := range files {
				text, err := f.encode()
				if err := errors.Join(err, os.MkdirAll(s.Dir(), 0o700), os.WriteFile(s.path(p), text, 0o600)); err != nil {
					b.Fatal(err)
				}
			}
			for i := 0; b.Loop(); i++ {
				if _, err := s.Edit(context.Background(), one, func(n Note) Note { n.Title = fmt.Sprint(i); return n }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
