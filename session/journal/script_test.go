package journal

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/vfs"
	"github.com/agent-ls/agent-ls/session/vfs/errorfs"
)

var update = flag.Bool("update", false, "write what the scripts give into testdata")

// TestScripts runs testdata/*.txt. A script is a list of blocks, parted by
// empty lines: commands, "----", and what they gave. Lines that begin with #
// are prose. Commands (texts are Go-quoted; a file is /s/a.jsonl):
//
//	put "text"                       make the file with this content, synced
//	append [create] [stale] [current] "line"...   each line one request, queued together
//	fail KIND [nth=N] [times=N] [short=N] [base=PATTERN] [err=EIO|ENOSPC]
//	foreign KIND "text"              another program appends before the next such operation
//	make KIND "text"                 ... makes the file
//	replace KIND "text"              ... puts another file in its place
//	truncate KIND N                  ... cuts the file
//	room N                           the disk is full after N bytes more
//	clear                            no more failures
//	crash [keep=N]                   lose what was not synced, but N bytes of it
//	hold, release                    another process takes the lock, gives it back
//	cat                              show the file
//
// An append shows the operations that it did, and each request's outcome.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(b))
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(b), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// runScript gives the script with the outputs that it has now.
func runScript(t *testing.T, script string) string {
	m := newMachine(t)
	var out []string
	for block := range strings.SplitSeq(strings.TrimSpace(script), "\n\n") {
		commands, _, _ := strings.Cut(block, "\n----")
		var got []string
		for command := range strings.SplitSeq(commands, "\n") {
			if command != "" && command[0] != '#' {
				got = append(got, m.run(command)...)
			}
		}
		if len(got) > 0 {
			commands += "\n----\n" + strings.Join(got, "\n")
		}
		out = append(out, commands)
	}
	return strings.Join(out, "\n\n") + "\n"
}

const scriptDir, scriptPath = "/s", "/s/a.jsonl"

// machine is a computer on which agents run.
type machine struct {
	t      *testing.T
	mem    *errorfs.Mem
	fs     *errorfs.FS
	j      *Journal
	unlock vfs.Unlocker
}

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, mem: errorfs.NewMem(77)}
	if err := errors.Join(m.mem.MkdirAll(scriptDir, 0o700), m.mem.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	m.boot()
	return m
}

func (m *machine) boot() {
	m.fs = errorfs.New(m.mem, scriptDir)
	m.j = New(m.fs, wallClock{})
	m.j.lockWait = time.Millisecond
}

func (m *machine) run(command string) []string {
	m.t.Helper()
	words := splitWords(m.t, command)
	var out []string
	switch name, args := words[0], words[1:]; name {
	case "put":
		h, err := m.mem.Create(scriptPath, 0o600)
		m.must(err)
		_, err = h.WriteOnce([]byte(args[0]))
		m.must(errors.Join(err, h.Sync(), m.mem.SyncDir(scriptDir)))
	case "append":
		out = m.append(args)
	case "fail":
		m.fs.Add(m.rule(args))
	case "foreign":
		m.before(args[0], func() { m.theirs(m.mem.OpenAppend(scriptPath)).write(args[1]) })
	case "make":
		m.before(args[0], func() { m.theirs(m.mem.Create(scriptPath, 0o600)).write(args[1]) })
	case "replace":
		m.before(args[0], func() {
			m.must(m.mem.Remove(scriptPath))
			m.theirs(m.mem.Create(scriptPath, 0o600)).write(args[1])
		})
	case "truncate":
		m.before(args[0], func() {
			h, err := m.mem.OpenAppend(scriptPath)
			m.must(errors.Join(err, h.Truncate(int64(m.number(args[1])))))
		})
	case "room":
		m.fs.Room(int64(m.number(args[0])))
	case "clear":
		m.fs.Clear()
	case "crash":
		keep := 0
		if len(args) == 1 {
			keep = m.number(strings.TrimPrefix(args[0], "keep="))
		}
		m.mem = m.mem.Crash(func(string, int) int { return keep })
		m.boot()
	case "hold":
		var err error
		m.unlock, err = m.mem.Lock(context.Background(), LockPath(scriptPath))
		m.must(err)
	case "release":
		m.must(m.unlock.Unlock())
	case "cat":
		out = m.cat()
	default:
		m.t.Fatalf("unknown command %q", command)
	}
	return out
}

// before does what another program does before our next operation of a kind.
// The third stat of an append is the one after its write.
func (m *machine) before(kind string, do func()) {
	r := errorfs.Rule{Base: "a.jsonl", Do: do}
	if kind == "stat-after-write" {
		r.Kind, r.Nth = errorfs.Stat, 3
	} else {
		r.Kind = errorfs.Kind(kind)
	}
	m.fs.Add(r)
}

// theirs is a file that another program has opened.
type theirs struct {
	m *machine
	h vfs.File
}

func (m *machine) theirs(h vfs.File, err error) theirs {
	m.must(err)
	return theirs{m, h}
}

func (o theirs) write(text string) {
	_, err := o.h.WriteOnce([]byte(text))
	o.m.must(err)
}

func (m *machine) append(args []string) []string {
	var r Request
	var pending []*Pending
	for _, a := range args {
		switch a {
		case "create":
			r.Create = true
		case "stale":
			r.Expect = "another"
		case "current":
			h, err := m.mem.Open(scriptPath)
			m.must(err)
			info, err := h.Stat()
			m.must(err)
			r.Expect, err = Revision(h, info.Size)
			m.must(err)
		default:
			r.Lines = []byte(a)
			p, err := m.j.Enqueue(scriptPath, r)
			m.must(err)
			pending = append(pending, p)
			r.Expect = ""
		}
	}
	m.fs.Ops()
	var outcomes []string
	for _, p := range pending {
		got, err := p.Wait(context.Background())
		outcomes = append(outcomes, m.outcome(got, err))
	}
	return append(m.fs.Ops(), outcomes...)
}

func (m *machine) outcome(r Receipt, err error) string {
	var s *StorageError
	var stale *StaleError
	var locked *session.LockedError
	switch {
	case errors.As(err, &s):
		kind := "error"
		if s.Unknown {
			kind = "unknown"
		}
		return kind + ": " + strings.ReplaceAll(err.Error(), "\n", ", ")
	case errors.As(err, &stale):
		now := "another one"
		if stale.Current == m.revision() {
			now = "that of the file"
		}
		return "stale: the revision is " + now
	case errors.As(err, &locked):
		return fmt.Sprintf("locked by %d", locked.PID)
	case errors.Is(err, fs.ErrNotExist):
		return "not there"
	case err != nil:
		return "error: " + err.Error()
	}
	out := fmt.Sprintf("ok at %d+%d", r.Offset, r.Length)
	if r.Created {
		out += " created"
	}
	if r.Closed {
		out += " closed"
	}
	if r.Revision != m.revision() {
		out += " (the file is at another revision)"
	}
	return out
}

func (m *machine) content() []byte {
	b, err := fs.ReadFile(m.mem.DirFS(scriptDir), "a.jsonl")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	m.must(err)
	return b
}

func (m *machine) revision() session.Revision {
	b := m.content()
	rev, err := Revision(bytes.NewReader(b), int64(len(b)))
	m.must(err)
	return rev
}

func (m *machine) cat() []string {
	if _, err := m.mem.Stat(scriptPath); errors.Is(err, fs.ErrNotExist) {
		return []string{"no file"}
	}
	var out []string
	for l := range strings.SplitAfterSeq(string(m.content()), "\n") {
		if l != "" {
			out = append(out, strconv.Quote(l))
		}
	}
	if len(out) == 0 {
		return []string{"empty"}
	}
	return out
}

func (m *machine) rule(args []string) errorfs.Rule {
	r := errorfs.Rule{Kind: errorfs.Kind(args[0])}
	for _, a := range args[1:] {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "nth":
			r.Nth = m.number(value)
		case "times":
			r.Times = m.number(value)
		case "short":
			r.Short = m.number(value)
		case "base":
			r.Base = value
		case "err":
			r.Err = map[string]error{"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC}[value]
		default:
			m.t.Fatalf("unknown option %q", a)
		}
	}
	return r
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) number(s string) int {
	n, err := strconv.Atoi(s)
	m.must(err)
	return n
}

// splitWords splits at spaces and unquotes.
func splitWords(t *testing.T, s string) []string {
	var out []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		if q, err := strconv.QuotedPrefix(s); err == nil {
			u, err := strconv.Unquote(q)
			if err != nil {
				t.Fatal(err)
			}
			out, s = append(out, u), s[len(q):]
			continue
		}
		w, rest, _ := strings.Cut(s, " ")
		out, s = append(out, w), rest
	}
	if len(out) == 0 {
		t.Fatal("an empty command")
	}
	return out
}
