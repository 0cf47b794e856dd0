package journal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/vfs"
)

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func TestMain(m *testing.M) {
	if path := os.Getenv("JOURNAL_TEST_WRITER"); path != "" {
		writerProcess(path)
		return
	}
	os.Exit(m.Run())
}

// writerProcess appends numbered lines for ever and acknowledges each on stdout.
func writerProcess(path string) {
	j := New(vfs.OS(), wallClock{})
	tag := os.Getenv("JOURNAL_TEST_TAG")
	for i := 0; ; i++ {
		if n := os.Getenv("JOURNAL_TEST_COUNT"); n != "" && fmt.Sprint(i) == n {
			return
		}
		line := fmt.Sprintf("{%q:%d,\"pad\":%q}\n", tag, i, strings.Repeat("x", i%5000))
		if _, err := j.Append(context.Background(), path, Request{Lines: []byte(line), Create: true}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(i)
	}
}

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
	if len(j.files) != 0 {
		t.Errorf("%d files are remembered for nothing", len(j.files))
	}
}

func TestRevision(t *testing.T) {
	rev := func(s string) session.Revision {
		r, err := Revision(strings.NewReader(s), int64(len(s)))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	long := strings.Repeat("x", 3*revisionSpan)
	seen := map[session.Revision]string{}
	for _, s := range []string{"", "a", "b", "aa", long, "y" + long[1:], long[1:] + "y", long + "x"} {
		r := rev(s)
		if other, ok := seen[r]; ok {
			t.Errorf("%.9q… and %.9q… have one revision", s, other)
		}
		seen[r] = s
		if rev(s) != r {
			t.Errorf("the revision of %.9q… is not stable", s)
		}
	}
	if _, err := Revision(strings.NewReader("short"), 10); err == nil {
		t.Error("a source that is shorter than it claims has a revision")
	}
}

func TestAppend_group(t *testing.T) {
	j, path := newJournal(t)
	const writers, each = 16, 50
	var wg sync.WaitGroup
	offsets := make([]map[int64]string, writers)
	for w := range writers {
		offsets[w] = map[int64]string{}
		wg.Go(func() {
			for i := range each {
				line := fmt.Sprintf("{\"w\":%d,\"i\":%d}\n", w, i)
				d := Sync
				if i%7 == 0 && w == 3 {
					d = Batch
				}
				r, err := j.Append(context.Background(), path, Request{Lines: []byte(line), Create: true, Durability: d})
				if err != nil {
					t.Error(err)
					return
				}
				offsets[w][r.Offset] = line
			}
		})
	}
	wg.Wait()
	all := content(t, path)
	n := 0
	for _, m := range offsets {
		for off, line := range m {
			n++
			if got := all[off : off+int64(len(line))]; got != line {
				t.Fatalf("at %d: %q, want %q", off, got, line)
			}
		}
	}
	if n != writers*each || strings.Count(all, "\n") != n {
		t.Fatalf("%d receipts, %d lines", n, strings.Count(all, "\n"))
	}
}

func TestAppend_batch(t *testing.T) {
	j, path := newJournal(t)
	results := make(chan Receipt, 3)
	for i := range 3 {
		go func() {
			r, err := j.Append(context.Background(), path, Request{Lines: fmt.Appendf(nil, "{\"i\":%d}\n", i), Create: true, Durability: Batch})
			if err != nil {
				t.Error(err)
			}
			results <- r
		}()
	}
	for { // all three wait
		j.mu.Lock()
		f := j.files[path]
		n := 0
		if f != nil {
			n = len(f.queue)
		}
		j.mu.Unlock()
		if n == 3 || len(results) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := j.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-results
	}
	if got := content(t, path); strings.Count(got, "\n") != 3 {
		t.Fatalf("%q", got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(context.Background(), path, Request{Lines: []byte("{}\n")}); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
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

func startWriter(t *testing.T, path, tag, count string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "JOURNAL_TEST_WRITER="+path, "JOURNAL_TEST_TAG="+tag, "JOURNAL_TEST_COUNT="+count)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// Killed at random moments, a writer loses nothing that it acknowledged, adds
// at most one line more, and the next one goes on without repair by hand.
func TestAppend_survivesKill(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	path := filepath.Join(t.TempDir(), "killed.jsonl")
	want := 0 // lines before this round
	for round := range rounds {
		tag := fmt.Sprintf("r%d", round)
		cmd, acks := startWriter(t, path, tag, "")
		acked := 0
		stop := time.Now().Add(time.Duration(rand.IntN(8)) * time.Millisecond) // a random moment is the point here
		for acks.Scan() {
			acked++
			if time.Now().After(stop) {
				break
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for acks.Scan() {
			acked++
		}
		_ = cmd.Wait() // killed
		b := []byte(content(t, path))
		lines := bytes.SplitAfter(b, []byte{'\n'})
		if n := len(lines); len(lines[n-1]) == 0 {
			lines = lines[:n-1]
		}
		for i, l := range lines[want:] {
			if prefix := fmt.Sprintf("{%q:%d,", tag, i); !bytes.HasPrefix(l, []byte(prefix)) && i < acked {
				t.Fatalf("round %d: acknowledged line %d is not there: %.40q", round, i, l)
			}
		}
		if extra := len(lines) - want - acked; extra < 0 || extra > 1 {
			t.Fatalf("round %d: %d acknowledged, %d in the file", round, acked, len(lines)-want)
		}
		want = len(lines)
	}
}

// Two processes append at full speed: every line is there once, whole, in
// the order of its writer.
func TestAppend_twoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "two.jsonl")
	a, ackA := startWriter(t, path, "a", "300")
	b, ackB := startWriter(t, path, "b", "300")
	for _, s := range []*bufio.Scanner{ackA, ackB} {
		for s.Scan() {
		}
	}
	if err := errors.Join(a.Wait(), b.Wait()); err != nil {
		t.Fatal(err)
	}
	next := map[string]int{}
	for i, l := range strings.Split(strings.TrimSuffix(content(t, path), "\n"), "\n") {
		tag := l[2:3]
		if !strings.HasPrefix(l, fmt.Sprintf("{%q:%d,", tag, next[tag])) || !strings.HasSuffix(l, "\"}") {
			t.Fatalf("line %d: %.60q, want %s %d", i+1, l, tag, next[tag])
		}
		next[tag]++
	}
	if next["a"] != 300 || next["b"] != 300 {
		t.Fatal(next)
	}
}
