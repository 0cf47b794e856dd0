package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkLatency measures from the write of a 10 KB line, made outside of
// the server's process, to the notification at the client, over pipes and
// decoded. The floor is a bare process with inotify, a read and a write to a
// pipe, in the same run and in turn with it. x-floor-p50 and x-floor-p99 are the ratios.
func BenchmarkLatency(b *testing.B) {
	for _, history := range []int{0, 10, 100} { // megabytes before the first measured line
		b.Run(fmt.Sprintf("history=%dMB", history), func(b *testing.B) { latency(b, history) })
	}
}

func latency(b *testing.B, history int) {
	ws := b.TempDir()
	id, path := newSession(b, ws)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	line := []byte(`{"type":"message","role":"user","content":"` + strings.Repeat("x", 10<<10) + `","ts":1787926830}` + "\n")
	for n := 0; n < history<<20; n += len(line) {
		if _, err := f.Write(line); err != nil {
			b.Fatal(err)
		}
	}
	s := startServer(b, ws)
	s.mustCall(b, "session/subscribe", map[string]any{"sessionId": id, "after": "end"})
	floor := newFloor(b, path, len(line))

	var ours, bare []time.Duration
	b.ResetTimer()
	for range b.N {
		start := time.Now()
		if _, err := f.Write(line); err != nil {
			b.Fatal(err)
		}
		s.await(b)
		ours = append(ours, time.Since(start))
		bare = append(bare, floor.once(b, line))
	}
	b.StopTimer()
	p := func(d []time.Duration, q float64) float64 {
		slices.Sort(d)
		return float64(d[int(q*float64(len(d)-1))].Nanoseconds()) / 1000
	}
	b.ReportMetric(p(ours, .5), "p50-us")
	b.ReportMetric(p(ours, .99), "p99-us")
	b.ReportMetric(p(bare, .5), "floor-p50-us")
	b.ReportMetric(p(bare, .99), "floor-p99-us")
	b.ReportMetric(p(ours, .5)/p(bare, .5), "x-floor-p50")
	b.ReportMetric(p(ours, .99)/p(bare, .99), "x-floor-p99")
}

// bareFloor is the least that any server does, in a process of its own: block
// on inotify, read what is new, write it to a pipe.
type bareFloor struct {
	file *os.File
	out  *bufio.Reader
	line int
}

func newFloor(b *testing.B, beside string, line int) *bareFloor {
	b.Helper()
	dir := filepath.Join(filepath.Dir(filepath.Dir(beside)), "floor")
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(dir, "f.jsonl")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "AGENT_LS_TEST_CHILD=floor", "AGENT_LS_TEST_PATH="+path)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = file.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	f := &bareFloor{file: file, out: bufio.NewReaderSize(stdout, 64<<10), line: line}
	if _, err := f.out.ReadString('\n'); err != nil { // it watches
		b.Fatal(err)
	}
	return f
}

func (f *bareFloor) once(b *testing.B, line []byte) time.Duration {
	start := time.Now()
	if _, err := f.file.Write(line); err != nil {
		b.Fatal(err)
	}
	if _, err := f.out.Discard(len(line)); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

func init() { floorChild = runFloor }

// runFloor is the process of bareFloor.
func runFloor() int {
	path := os.Getenv("AGENT_LS_TEST_PATH")
	in, err := os.Open(path)
	if err != nil {
		return exitFailed
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return exitFailed
	}
	if _, err := unix.InotifyAddWatch(fd, filepath.Dir(path), unix.IN_MODIFY); err != nil {
		return exitFailed
	}
	_, _ = os.Stdout.WriteString("\n")
	var ev [4096]byte
	buf := make([]byte, 1<<20)
	for at := int64(0); ; {
		if n, err := unix.Read(fd, ev[:]); err != nil || n <= 0 {
			return exitFailed
		}
		n, _ := in.ReadAt(buf, at) // the end of the file is expected
		at += int64(n)
		if _, err := os.Stdout.Write(buf[:n]); err != nil {
			return exitOK
		}
	}
}

// await waits for the next update of the server.
func (s *server) await(b *testing.B) {
	for {
		select {
		case m := <-s.events:
			if m.Method == "session/update" {
				return
			}
		case <-time.After(time.Minute):
			b.Fatal("no update came")
		}
	}
}

func (s *server) mustCall(b *testing.B, method string, params any) {
	b.Helper()
	if err := s.call(b.Context(), method, params, &json.RawMessage{}); err != nil {
		b.Fatalf("%s: %v", method, err)
	}
}
