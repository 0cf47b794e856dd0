package watcher

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// fakeNotifier gives the hints it is told to give, for the directories that it
// watches: no more and no less than a file system would.
type fakeNotifier struct {
	mu     sync.Mutex
	dirs   map[string]bool
	events chan Event
	done   chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
}

func newFakeNotifier() *fakeNotifier {
	return &fakeNotifier{dirs: map[string]bool{}, events: make(chan Event), done: make(chan struct{})}
}

func (n *fakeNotifier) Watch(dir string) error {
	if info, err := os.Stat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return &fs.PathError{Op: "watch", Path: dir, Err: fs.ErrInvalid}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dirs[dir] = true
	return nil
}

func (n *fakeNotifier) Unwatch(dir string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.dirs, dir)
}

func (n *fakeNotifier) Events() <-chan Event { return n.events }

func (n *fakeNotifier) Close() error {
	n.once.Do(func() {
		close(n.done)
		n.wg.Wait()
		close(n.events)
	})
	return nil
}

// hint says that something became of path.
func (n *fakeNotifier) hint(path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	switch {
	case err == nil && n.dirs[dir]:
		path = filepath.Join(dir, filepath.Base(path))
	case !n.dirs[path]:
		return
	}
	n.wg.Go(func() {
		select {
		case n.events <- Event{Path: path, Names: true}:
		case <-n.done:
		}
	})
}

// muffled passes the hints of another notifier on, unless it is made deaf. A
// test can put further events into it.
type muffled struct {
	Notifier
	events chan Event
	mu     sync.Mutex
	off    bool
	wg     sync.WaitGroup
	done   chan struct{}
	once   sync.Once
}

func muffle(n Notifier) *muffled {
	m := &muffled{Notifier: n, events: make(chan Event), done: make(chan struct{})}
	m.wg.Go(func() {
		for e := range n.Events() {
			m.pass(e)
		}
	})
	return m
}

func (m *muffled) Events() <-chan Event { return m.events }

func (m *muffled) Focus(path string, on bool) {
	if f, ok := m.Notifier.(Focuser); ok {
		f.Focus(path, on)
	}
}

// deaf returns when the event under way has been passed on.
func (m *muffled) deaf(off bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = off
}

func (m *muffled) pass(e Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off {
		return
	}
	select {
	case m.events <- e:
	case <-m.done:
	}
}

func (m *muffled) Close() error {
	m.once.Do(func() { close(m.done) })
	err := m.Notifier.Close()
	m.wg.Wait()
	return err
}
