package catalog

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/format"
	"github.com/agent-ls/agent-ls/session/vfs"
	"github.com/agent-ls/agent-ls/session/vfs/errorfs"
)

// A disk without room, and one that cannot be written, cost the cache and one
// report: rows are right, and what was in the file before is still used.
func TestCache_disk(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail func(*errorfs.FS)
	}{
		{"full at once", func(f *errorfs.FS) { f.Room(0) }},
		{"full in a record", func(f *errorfs.FS) { f.Room(100) }},
		{"full, and cannot be cut", func(f *errorfs.FS) {
			f.Room(100)
			f.Add(errorfs.Rule{Kind: errorfs.Truncate, Times: -1, Err: syscall.EIO})
		}},
		{"short write", func(f *errorfs.FS) { f.Add(errorfs.Rule{Kind: errorfs.Write, Base: "rows*", Times: -1, Short: 30}) }},
		{"read-only", func(f *errorfs.FS) {
			for _, k := range []errorfs.Kind{errorfs.Append, errorfs.Create, errorfs.Mkdir, errorfs.Lock, errorfs.Rename} {
				f.Add(errorfs.Rule{Kind: k, Times: -1, Err: syscall.EROFS})
			}
		}},
		{"no rights", func(f *errorfs.FS) {
			f.Add(errorfs.Rule{Kind: errorfs.Append, Base: "rows", Times: -1, Err: syscall.EACCES})
		}},
		{"unreadable", func(f *errorfs.FS) {
			f.Add(errorfs.Rule{Kind: errorfs.Read, Base: "rows", Times: -1, Err: syscall.EIO})
		}},
	} {
		for _, had := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, ", cache ", had), func(t *testing.T) {
				s := newClaudeStore(t)
				s.write(s.log(1), prompt("/", "one", 1))
				if had {
					c, _ := s.start(Options{})
					scan(t, c)
				}
				fsys := errorfs.New(vfs.OS(), s.home)
				tt.fail(fsys)
				var reports []string
				c, _ := s.start(Options{FS: fsys, Report: func(err error) { reports = append(reports, err.Error()) }})
				for i := range 3 {
					s.write(s.log(10+i), prompt("/", fmt.Sprint("p", i), 1))
					scan(t, c)
				}
				c.Flush()
				if got := titles(t, c, Query{Sort: ByTitle}); !slices.Equal(got, []string{"one", "p0", "p1", "p2"}) {
					t.Errorf("rows %q", got)
				}
				if tt.name == "unreadable" && !had {
					return // a file that is not there is not read; what this one writes is its own
				}
				if len(reports) != 1 || !strings.Contains(reports[0], "is not used") {
					t.Errorf("reports %q", reports)
				}
				// The next process, on a disk that works, uses what is whole.
				d, got := s.start(Options{})
				if had && !slices.Equal(got, []string{"one"}) {
					t.Errorf("of the file: %q", got)
				}
				scan(t, d)
				if _, got = s.start(Options{}); len(got) != 4 {
					t.Errorf("after the next scan: %q", got)
				}
			})
		}
	}
}

// Who holds the lock makes others wait for the next time, not for ever, and
// nothing is told of it.
func TestCache_lockHeld(t *testing.T) {
	s := newClaudeStore(t)
	s.write(s.log(1), prompt("/", "one", 1))
	if err := os.MkdirAll(filepath.Dir(s.cache()), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := vfs.OS().Lock(t.Context(), s.cache()+".lock")
	if err != nil {
		t.Fatal(err)
	}
	c, _ := s.start(Options{FS: vfs.OS()})
	scan(t, c)
	if _, err := os.Stat(s.cache()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("written without the lock: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	c.Flush()
	if _, got := s.start(Options{}); !slices.Equal(got, []string{"one"}) {
		t.Errorf("%q", got)
	}
}

const cacheChildEnv = "AGENT_LS_TEST_CACHE"

// TestCacheChild is no test: it is a server that changes one row after the
// other, and says which it has saved.
func TestCacheChild(t *testing.T) {
	args := strings.Fields(os.Getenv(cacheChildEnv))
	if len(args) != 2 {
		t.Skip("only as a process of TestCache_killed")
	}
	from, err := strconv.Atoi(args[0])
	if err != nil {
		t.Fatal(err)
	}
	c := cacheChild(t, args[1])
	c.Restore()
	long := strings.Repeat("long ", 1<<17) // so that a kill finds a write under way
	for n := from; ; n++ {
		s := made(n)
		s.LastPrompt, s.Path = long, filepath.Join(filepath.Dir(args[1]), s.Native)
		if err := os.WriteFile(s.Path, nil, 0o600); err != nil { // rows of what is gone are not kept
			t.Fatal(err)
		}
		c.mu.Lock()
		c.publish(patch{looks: []look{{path: s.Path, session: &s, known: known{agent: s.Agent, dir: s.Root, stamp: stamp{size: 1}, look: c.looks.Add(1)}}}})
		c.mu.Unlock()
		c.Flush()
		fmt.Println("saved", n)
	}
}

func cacheChild(t *testing.T, path string) *Catalog {
	t.Helper()
	c, err := Open(Options{
		FS: vfs.OS(), Clock: now, Formats: format.All(), CachePath: path,
		Env:    session.Env{Roots: map[string][]string{"claude": {"/home/dev/.claude"}}},
		Report: func(err error) { t.Errorf("reported: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Servers that share the cache are killed while they write. What they had
// saved is there for the next one, which goes on behind it, and none tells of
// damage.
func TestCache_killed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows")
	saved := map[int]bool{}
	from := 0
	for range 4 {
		type child struct {
			cmd *exec.Cmd
			out *bufio.Scanner
		}
		var children []child
		for range 2 {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCacheChild$")
			cmd.Env = append(os.Environ(), cacheChildEnv+"="+strconv.Itoa(from)+" "+path)
			from += 1000
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			children = append(children, child{cmd, bufio.NewScanner(out)})
		}
		for _, c := range children {
			note := func() {
				n, err := strconv.Atoi(strings.TrimPrefix(c.out.Text(), "saved "))
				if err != nil {
					t.Fatalf("a server says %q", c.out.Text())
				}
				saved[n] = true
			}
			for range 3 {
				if !c.out.Scan() {
					t.Fatal("a server has ended", c.out.Err())
				}
				note()
			}
			if err := c.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			for c.out.Scan() { // what it had said before
				note()
			}
			_ = c.cmd.Wait() // killed
		}
		c := cacheChild(t, path)
		c.Restore()
		for n := range saved {
			r, ok := c.Snapshot().Get(made(n).ID)
			if !ok || !strings.HasPrefix(r.LastPrompt, "long long") || len(r.LastPrompt) != 5<<17 {
				t.Fatalf("row %d, which was saved, is not there: %v", n, ok)
			}
		}
	}
}
