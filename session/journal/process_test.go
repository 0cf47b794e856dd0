package journal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agent-ls/agent-ls/session/vfs"
)

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
		if os.Getenv("JOURNAL_TEST_FIXED") != "" {
			line = fmt.Sprintf("{\"number\":%4d}\n", i)
		}
		if _, err := j.Append(context.Background(), path, Request{Lines: []byte(line), Create: true}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(i)
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
