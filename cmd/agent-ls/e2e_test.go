package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/store"
)

// The tests of this file run the real binary, built without the race
// detector (whose memory would hide what they measure).
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "agent-ls-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "agent-ls")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	switch os.Getenv("AGENT_LS_TEST_CHILD") {
	case "writer":
		os.Exit(writerChild())
	case "floor":
		os.Exit(floorChild())
	}
	testscript.Main(cleaner{m}, map[string]func(){"agent-ls": main})
}

// floorChild is set where there is inotify.
var floorChild = func() int { return exitUsage }

// cleaner removes the binary when the tests have run.
type cleaner struct{ *testing.M }

func (c cleaner) Run() int {
	code := c.M.Run()
	if path, err := binary(); err == nil && builtBinary {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	return code
}

// builtBinary is set when a test has asked for the binary.
var builtBinary bool

// writerChild is another process that appends messages to a transcript as an
// agent does that knows nothing of agent-ls: O_APPEND, one write a line.
func writerChild() int {
	n, err := strconv.Atoi(os.Getenv("AGENT_LS_TEST_COUNT"))
	if err != nil {
		return exitUsage
	}
	f, err := os.OpenFile(os.Getenv("AGENT_LS_TEST_PATH"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	pad := strings.Repeat("x", envInt("AGENT_LS_TEST_PAD"))
	for i := range n {
		if _, err := fmt.Fprintf(f, "{\"type\":\"message\",\"role\":\"user\",\"content\":\"writer %d %s\",\"ts\":%d}\n", i, pad, 1000+i); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitFailed
		}
	}
	if err := f.Close(); err != nil {
		return exitFailed
	}
	return exitOK
}

func envInt(name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return 0
	}
	return n
}

// server is the real binary, spoken to by pipes.
type server struct {
	*client
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	events chan message
	paused chan struct{} // while it is full, nothing is read
}

func startServer(t testing.TB, ws string, args ...string) *server {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	builtBinary = true
	home := t.TempDir()
	cmd := exec.Command(path, append([]string{"serve", "--stdio"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+filepath.Join(home, "state"), "XDG_CACHE_HOME="+filepath.Join(home, "cache"), "CLAUDE_CONFIG_DIR="+filepath.Join(home, "claude"))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &server{cmd: cmd, stdin: stdin, events: make(chan message, 100_000), paused: make(chan struct{}, 1)}
	s.client = newClient(gate{stdout, s.paused}, stdin, func(method string, params []byte) {
		s.events <- message{Method: method, Params: append(json.RawMessage(nil), params...)}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err := s.close(ctx)
		if werr := cmd.Wait(); err != nil || werr != nil {
			t.Errorf("the server ended with %v, %v", err, werr)
		}
	})
	s.do(t, "initialize", map[string]any{
		"processId": os.Getpid(), "capabilities": map[string]any{},
		"workspaceFolders": []any{map[string]any{"uri": fileURI(ws), "name": "ws"}},
	}, nil)
	return s
}

// gate lets reads wait while paused is full.
type gate struct {
	io.Reader
	paused chan struct{}
}

func (g gate) Read(p []byte) (int, error) {
	g.paused <- struct{}{}
	<-g.paused
	return g.Reader.Read(p)
}

// do calls and decodes; any error ends the test.
func (s *server) do(t testing.TB, method string, params, result any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.call(ctx, method, params, result); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
}

// newSession makes a session with one message and gives its id and transcript.
func newSession(t testing.TB, ws string) (id, path string) {
	t.Helper()
	c, err := store.NewContext(ws, store.Options{Clock: systemClock{}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := store.OpenWriter(context.Background(), c, "m")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Append(text(session.User, "start")), w.Close()); err != nil {
		t.Fatal(err)
	}
	return "pseudoclaude:" + c.ID, c.JSONLPath
}

func writerProcess(t *testing.T, path string, count, pad int) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "AGENT_LS_TEST_CHILD=writer", "AGENT_LS_TEST_PATH="+path,
		fmt.Sprint("AGENT_LS_TEST_COUNT=", count), fmt.Sprint("AGENT_LS_TEST_PAD=", pad))
	cmd.Stderr = os.Stderr
	return cmd
}

type update struct {
	Reset    string      `json:"reset"`
	Revision string      `json:"revision"`
	Entries  []wireEntry `json:"entries"`
}

// One process writes 1,000 entries at full speed while another appends through
// session/append: the client has every entry exactly once and in the order of
// the bytes, as has the file, as has a reload.
func TestE2E_twoWritersEveryEntryOnce(t *testing.T) {
	ws := t.TempDir()
	id, path := newSession(t, ws)
	s := startServer(t, ws)
	s.do(t, "session/subscribe", map[string]any{"sessionId": id}, nil)
	const foreign, own = 1000, 200
	cmd := writerProcess(t, path, foreign, 0)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acked := map[string]bool{}
	for i := range own {
		var res appended
		s.do(t, "session/append", map[string]any{"sessionId": id, "messages": []any{map[string]any{"role": "assistant", "content": fmt.Sprint("own ", i)}}}, &res)
		for _, e := range res.Entries {
			acked[e.ID] = true
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var got []wireEntry
	seen := map[string]bool{}
	deadline := time.After(time.Minute)
	for len(got) < 1+foreign+own {
		select {
		case m := <-s.events:
			if m.Method != "session/update" {
				continue
			}
			var u update
			if err := json.Unmarshal(m.Params, &u); err != nil || u.Reset != "" {
				t.Fatalf("update %q %v", u.Reset, err)
			}
			for _, e := range u.Entries {
				if seen[e.ID] {
					t.Fatalf("entry %s came twice", e.ID)
				}
				seen[e.ID] = true
				if n := len(got); n > 0 && got[n-1].Offset >= e.Offset {
					t.Fatalf("entry at %d came after the one at %d", e.Offset, got[n-1].Offset)
				}
				got = append(got, e)
			}
		case <-deadline:
			t.Fatalf("%d of %d entries", len(got), 1+foreign+own)
		}
	}
	check := func(where string, entries []wireEntry) {
		t.Helper()
		nextForeign, nextOwn, n := 0, 0, 0
		for _, e := range entries {
			words := strings.Fields(e.Content[0].Text)
			switch words[0] {
			case "writer":
				if words[1] != strconv.Itoa(nextForeign) {
					t.Fatalf("%s: writer %s, want %d", where, words[1], nextForeign)
				}
				nextForeign++
			case "own":
				if words[1] != strconv.Itoa(nextOwn) {
					t.Fatalf("%s: own %s, want %d", where, words[1], nextOwn)
				}
				if !acked[e.ID] {
					t.Fatalf("%s: entry %s was not acknowledged", where, e.ID)
				}
				nextOwn++
			default:
				n++
			}
		}
		if nextForeign != foreign || nextOwn != own || n != 1 {
			t.Fatalf("%s: %d of the writer, %d own, %d others", where, nextForeign, nextOwn, n)
		}
	}
	check("client", got)
	check("reload", readAllEntries(t, s, id))
	b, err := os.ReadFile(path)
	if err != nil || strings.Count(string(b), "\n") != 1+foreign+own {
		t.Fatalf("%d lines in the file, %v", strings.Count(string(b), "\n"), err)
	}
	for _, e := range got {
		if b[e.Offset] != '{' || e.Offset > 0 && b[e.Offset-1] != '\n' {
			t.Fatalf("no line begins at %d", e.Offset)
		}
	}
}

func readAllEntries(t *testing.T, s *server, id string) []wireEntry {
	t.Helper()
	var out []wireEntry
	p := map[string]any{"sessionId": id, "view": "physical", "limit": 1000}
	for {
		var page struct {
			Entries  []wireEntry `json:"entries"`
			HasAfter bool        `json:"hasAfter"`
		}
		s.do(t, "session/read", p, &page)
		out = append(out, page.Entries...)
		if !page.HasAfter {
			return out
		}
		p["after"] = out[len(out)-1].ID
	}
}

// proc reads a figure of /proc/<pid>/status, in KiB.
func proc(t *testing.T, pid int, name string) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("no /proc on this system")
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in the status of process %d", name, pid)
	return 0
}

const mebi = 1024 // in the KiB of /proc

// writeLong appends a line of size bytes in pieces, and a small one.
func writeLong(t *testing.T, path string, size int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	piece := []byte(strings.Repeat("y", 1<<20))
	_, err = f.WriteString(`{"type":"message","role":"user","content":"`)
	for n := 0; n < size && err == nil; n += len(piece) {
		_, err = f.Write(piece)
	}
	if err == nil {
		_, err = f.WriteString("\",\"ts\":5000}\n{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"behind it\",\"ts\":5001}\n")
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A line of 200 MB between small ones: listed, followed and read with less
// than 100 MB resident, and the report says what it cost.
func TestE2E_longLine(t *testing.T) {
	ws := t.TempDir()
	id, path := newSession(t, ws)
	listed, listedPath := newSession(t, ws)
	writeLong(t, listedPath, 200<<20)
	s := startServer(t, ws)
	s.do(t, "session/subscribe", map[string]any{"sessionId": id, "after": "0"}, nil)
	writeLong(t, path, 200<<20)
	var last string
	kinds := map[string]int{}
	deadline := time.After(time.Minute)
	for last != "behind it" {
		select {
		case m := <-s.events:
			var u update
			if m.Method != "session/update" || json.Unmarshal(m.Params, &u) != nil {
				continue
			}
			for _, e := range u.Entries {
				kinds[e.Kind]++
				if len(e.Content) > 0 {
					last = e.Content[0].Text
				}
			}
		case <-deadline:
			t.Fatal("the entry behind the long line did not come")
		}
	}
	if kinds["unknown"] != 1 || kinds["message"] != 1 {
		t.Errorf("entries by kind: %v", kinds)
	}
	var list struct {
		Sessions []wireSession `json:"sessions"`
	}
	s.do(t, "session/list", map[string]any{"cwd": ws}, &list)
	found := false
	for _, w := range list.Sessions {
		if w.SessionID == listed {
			found = w.Title == "start" && w.Counts != nil && w.Counts.Physical == 2
		}
	}
	if !found {
		t.Errorf("listed as %+v", list.Sessions)
	}
	var res struct {
		Report   wireReport    `json:"report"`
		Messages []wireMessage `json:"messages"`
	}
	s.do(t, "session/resume", map[string]any{"sessionId": listed, "subscribe": false}, &res)
	if c := res.Report.Cost; c == nil || c.LongestLine < 200<<20 || c.Skipped < 200<<20 || len(res.Messages) != 2 || len(res.Report.BadLines) != 1 {
		t.Errorf("report %+v, %d messages", res.Report, len(res.Messages))
	}
	if peak := proc(t, s.cmd.Process.Pid, "VmHWM"); peak >= 100*mebi {
		t.Errorf("%d MiB resident at the peak", peak/mebi)
	}
}

// A client that reads nothing while 100 MB are appended leaves the server
// small, and has the right state when it reads again.
func TestE2E_slowClient(t *testing.T) {
	ws := t.TempDir()
	id, path := newSession(t, ws)
	s := startServer(t, ws)
	s.do(t, "session/subscribe", map[string]any{"sessionId": id, "after": "0"}, nil)
	s.paused <- struct{}{} // the client stops reading
	const entries = 10_000
	if err := writerProcess(t, path, entries, 10<<10).Run(); err != nil {
		t.Fatal(err)
	}
	// Nothing tells from outside when the server has come to rest.
	idleFrom(t, s.cmd.Process.Pid)
	if peak := proc(t, s.cmd.Process.Pid, "VmHWM"); peak >= 100*mebi {
		t.Errorf("%d MiB resident at the peak", peak/mebi)
	}
	<-s.paused // it reads again
	last := func() string { return fmt.Sprintf("writer %d ", entries-1) }()
	var have []wireEntry
	deadline := time.After(time.Minute)
	done := false
	for !done {
		select {
		case m := <-s.events:
			var u update
			if m.Method != "session/update" || json.Unmarshal(m.Params, &u) != nil {
				continue
			}
			if u.Reset != "" { // what a client does then: read again
				have = readAllEntries(t, s, id)[1:]
			}
			have = append(have, u.Entries...)
			n := len(have)
			done = n > 0 && strings.HasPrefix(have[n-1].Content[0].Text, last)
		case <-deadline:
			t.Fatalf("%d entries, and not the last one", len(have))
		}
	}
	if len(have) != entries {
		t.Fatalf("%d entries, want %d", len(have), entries)
	}
	for i, e := range have {
		if !strings.HasPrefix(e.Content[0].Text, fmt.Sprintf("writer %d ", i)) {
			t.Fatalf("entry %d is %.20q", i, e.Content[0].Text)
		}
	}
}

// idleFrom waits until a process has used no processor for a while.
func idleFrom(t *testing.T, pid int) {
	t.Helper()
	for before := cpuTicks(t, pid); ; {
		time.Sleep(300 * time.Millisecond)
		now := cpuTicks(t, pid)
		if now == before {
			return
		}
		before = now
	}
}

// cpuTicks is the processor time of a process, in ticks of a hundredth second.
func cpuTicks(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skip("no /proc on this system")
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return user + system
}

// Nothing happens and nothing is used: over some seconds not one tick of
// processor time, with a session open and its workspace watched.
func TestE2E_idleCostsNothing(t *testing.T) {
	ws := t.TempDir()
	id, _ := newSession(t, ws)
	s := startServer(t, ws)
	s.do(t, "session/subscribe", map[string]any{"sessionId": id}, nil)
	s.do(t, "session/watch", map[string]any{}, nil)
	idleFrom(t, s.cmd.Process.Pid)
	before := cpuTicks(t, s.cmd.Process.Pid)
	time.Sleep(3 * time.Second)
	if used := cpuTicks(t, s.cmd.Process.Pid) - before; used > 1 {
		t.Errorf("%d ticks of processor time in 3 s of nothing", used)
	}
}
