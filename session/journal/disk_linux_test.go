package journal

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/agent-ls/agent-ls/session/vfs"
)

// The same as testdata/full-disk.txt on a disk that is really full.
func TestAppend_fullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no small file system to fill: mount: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	j, path := New(vfs.OS(), wallClock{}), filepath.Join(dir, "a.jsonl")
	big := []byte("{\"pad\":\"" + strings.Repeat("x", 7000) + "\"}\n")
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 16<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	var end int64
	var failed error
	for failed == nil {
		r, err := j.Append(context.Background(), path, Request{Lines: big, Create: true})
		if failed = err; err == nil {
			end = r.Offset + int64(r.Length)
		}
	}
	var s *StorageError
	if !errors.As(failed, &s) || s.Unknown || s.Path != path || !(errors.Is(failed, errShort) || errors.Is(failed, syscall.ENOSPC)) {
		t.Fatal(failed)
	}
	if i, err := os.Stat(path); err != nil || i.Size() != end || end == 0 {
		t.Fatalf("%d bytes, want the %d that were acknowledged: %v", i.Size(), end, err)
	}
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	r, err := j.Append(context.Background(), path, Request{Lines: big})
	if err != nil || r.Offset != end || r.Closed {
		t.Fatalf("%+v %v, want it at %d", r, err, end)
	}
}

// The system calls of a real process fail: those that errorfs stands for.
func TestAppend_failingCalls(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace to make system calls fail")
	}
	// Each from the first call on: strace counts by thread.
	for name, c := range map[string]struct {
		inject string
		want   string // of the writer's error
		size   int64  // of the file afterwards: 3 bytes were there, a line has 16
	}{
		"sync":        {"fdatasync:error=EIO:when=1+", "sync PATH: input/output error (written", 19},
		"write":       {"write:error=ENOSPC:when=1+", "write PATH: no space left on device", 3},
		"short write": {"write:retval=5:when=1+", "write PATH: only a part was written", 3},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.jsonl")
			if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(strace, "-f", "-qq", "-o", os.DevNull, "-P", path, "-e", "inject="+c.inject, os.Args[0])
			cmd.Env = append(os.Environ(), "JOURNAL_TEST_WRITER="+path, "JOURNAL_TEST_FIXED=1", "JOURNAL_TEST_COUNT=5")
			out, err := cmd.CombinedOutput()
			if strings.Contains(string(out), "ptrace") {
				t.Skipf("no leave to trace: %s", out)
			}
			if want := strings.Replace(c.want, "PATH", path, 1); err == nil || !strings.HasPrefix(string(out), want) {
				t.Errorf("%v: got %s\nwant %s", err, out, want)
			}
			if i, err := os.Stat(path); err != nil || i.Size() != c.size {
				t.Errorf("%d bytes, want %d: %v", i.Size(), c.size, err)
			}
		})
	}
}
