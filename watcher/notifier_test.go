package watcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/session/vfs"
)

// limited is a native notifier at its limits: the first n directories can be
// added.
type limited struct {
	native
	n   int
	err error
}

func (l *limited) Add(dir string) error {
	if l.n--; l.n < 0 {
		return l.err
	}
	return l.native.Add(dir)
}

// withNative replaces what NewNotifier opens.
func withNative(t *testing.T, open func() (native, <-chan fsnotify.Event, <-chan error, error)) {
	old := openNative
	openNative = open
	t.Cleanup(func() { openNative = old })
}

func closing(t *testing.T, n Notifier) Notifier {
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if err := n.Close(); err != nil {
			t.Error("closed twice:", err)
		}
		for range n.Events() { // closed, so this ends
		}
	})
	return n
}

// wantEvent reads events until one is for path.
func wantEvent(t *testing.T, n Notifier, path string) Event {
	t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	for {
		select {
		case e := <-n.Events():
			if e.Path == path {
				return e
			}
		case <-late.C:
			t.Fatalf("no event for %s", path)
		}
	}
}

func touchFile(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		_, err = f.WriteString("x")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// When the system takes no more watches, those directories are polled, and it
// is said once.
func TestNotifier_limits(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EMFILE} {
		t.Run(errno.Error(), func(t *testing.T) {
			real := openNative
			withNative(t, func() (native, <-chan fsnotify.Event, <-chan error, error) {
				w, ev, errs, err := real()
				return &limited{w, 1, errno}, ev, errs, err
			})
			core, logs := observer.New(zap.InfoLevel)
			n, err := NewNotifier(NotifierOptions{FS: vfs.OS(), Log: zap.New(core), Interval: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			closing(t, n)
			for i := range 3 {
				dir := t.TempDir()
				if err := n.Watch(dir); err != nil {
					t.Fatal(err)
				}
				touchFile(t, filepath.Join(dir, "f"))
				wantEvent(t, n, filepath.Join(dir, "f"))
				if i == 0 && logs.Len() != 0 {
					t.Error("a warning before the limit")
				}
			}
			if logs.Len() != 1 || logs.All()[0].Level != zap.WarnLevel {
				t.Errorf("logged %v, want one warning", logs.All())
			}
		})
	}
}

func TestNotifier_noInstance(t *testing.T) {
	withNative(t, func() (native, <-chan fsnotify.Event, <-chan error, error) {
		return nil, nil, nil, fmt.Errorf("couldn't initialize inotify: %w", syscall.EMFILE)
	})
	core, logs := observer.New(zap.InfoLevel)
	o := NotifierOptions{FS: vfs.OS(), Log: zap.New(core), Interval: time.Millisecond}
	n, err := NewNotifier(o)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, n)
	for range 2 {
		dir := t.TempDir()
		if err := n.Watch(dir); err != nil {
			t.Fatal(err)
		}
		touchFile(t, filepath.Join(dir, "f"))
		wantEvent(t, n, filepath.Join(dir, "f"))
	}
	if logs.Len() != 1 {
		t.Errorf("logged %v, want one warning", logs.All())
	}
	o.Poll = PollNever
	if _, err := NewNotifier(o); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("with PollNever: %v", err)
	}
}

// A queue of the kernel that was full means: look at everything.
func TestNotifier_overflow(t *testing.T) {
	lost := make(chan error)
	withNative(t, func() (native, <-chan fsnotify.Event, <-chan error, error) {
		w, err := fsnotify.NewWatcher()
		return w, w.Events, lost, err
	})
	n := closing(t, newNotifier(t, NotifierOptions{FS: vfs.OS()}))
	for _, err := range []error{fsnotify.ErrEventOverflow, errors.New("no idea")} {
		lost <- err
		if e := <-n.Events(); !e.Overflow || e.Path != "" {
			t.Errorf("event %+v after %v", e, err)
		}
	}
}

func TestNotifier_watch(t *testing.T) {
	for name, notifier := range notifiers {
		t.Run(name, func(t *testing.T) {
			n := closing(t, notifier(t, newCountingFS()))
			dir := realPath(t, t.TempDir())
			if err := n.Watch(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("missing directory: %v", err)
			}
			n.Unwatch(filepath.Join(dir, "missing"))
			if _, fake := n.(*fakeNotifier); fake {
				return
			}
			for range 2 {
				if err := n.Watch(dir); err != nil {
					t.Fatal(err)
				}
			}
			file := filepath.Join(dir, "f")
			touchFile(t, file)
			if e := wantEvent(t, n, file); !e.Names {
				t.Errorf("made: %+v", e)
			}
			if err := os.Rename(file, file+"2"); err != nil {
				t.Fatal(err)
			}
			if e := wantEvent(t, n, file+"2"); !e.Names {
				t.Errorf("renamed: %+v", e)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if e := wantEvent(t, n, dir); !e.Names {
				t.Errorf("directory removed: %+v", e)
			}
		})
	}
}

// Where nothing is polled no timer runs; a followed file alone starts none.
func TestPoller_idle(t *testing.T) {
	p := newPoller(NotifierOptions{FS: vfs.OS()})
	defer p.close()
	dir := t.TempDir()
	timers := func() (rounds, looks bool) {
		p.tell(func(s *pollState) {}) // so that the next sees the timers after it
		done := make(chan struct{})
		p.tell(func(s *pollState) {
			rounds, looks = s.rounds.c != nil, s.looks.c != nil
			close(done)
		})
		<-done
		return rounds, looks
	}
	check := func(what string, wantRounds, wantLooks bool) {
		t.Helper()
		if rounds, looks := timers(); rounds != wantRounds || looks != wantLooks {
			t.Errorf("%s: timers %v, %v", what, rounds, looks)
		}
	}
	check("nothing", false, false)
	p.focus(filepath.Join(dir, "f"), true)
	check("a file that is watched otherwise", false, false)
	if err := p.watch(dir); err != nil {
		t.Fatal(err)
	}
	check("a followed file in a polled directory", true, true)
	p.focus(filepath.Join(dir, "f"), false)
	check("a polled directory", true, false)
	p.unwatch(dir)
	check("nothing again", false, false)
}

// Every path that was put in comes out behind its last mention, once for any
// number of mentions, and with what was said of it.
func TestEventQueue_law(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q eventQueue
		var model []Event
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				e := Event{Path: rapid.StringMatching("[a-d]").Draw(t, "path"), Names: rapid.Bool().Draw(t, "names")}
				q.add(e)
				if i := slices.IndexFunc(model, func(m Event) bool { return m.Path == e.Path }); i >= 0 {
					model[i].Names = model[i].Names || e.Names
				} else {
					model = append(model, e)
				}
			},
			"pop": func(t *rapid.T) {
				if q.empty() {
					t.Skip("empty")
				}
				q.pop()
				model = model[1:]
			},
			"overflow": func(*rapid.T) {
				q.overflow()
				model = []Event{{Overflow: true}}
			},
			"": func(t *rapid.T) {
				if q.empty() != (len(model) == 0) {
					t.Fatalf("empty is %v", q.empty())
				}
				if len(model) > 0 && q.first() != model[0] {
					t.Fatalf("first is %+v, want %+v", q.first(), model[0])
				}
			},
		})
	})
}

func TestHasEvents(t *testing.T) {
	if !hasEvents(t.TempDir()) {
		t.Skip("the temporary directory is on a file system without events")
	}
	if !hasEvents(filepath.Join(t.TempDir(), "missing")) {
		t.Error("a missing directory is to be told by the watch itself")
	}
}
