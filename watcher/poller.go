package watcher

import (
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/agent-ls/agent-ls/session/vfs"
)

// poller finds changes by looking at directories again. While it has no
// directory it has no timer and costs nothing.
type poller struct {
	fs      vfs.FS
	every   time.Duration
	focused time.Duration
	out     chan Event
	ask     chan func(*pollState)
	done    chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
}

// pollState belongs to the poller's goroutine.
type pollState struct {
	dirs  map[string]listing
	files map[string]focusedFile

	rounds, looks lazyTimer
}

// listing is what a directory held when it was last looked at. A directory in
// it that has changed counts as another one: it may have been removed and made
// again between two looks, even with the same number.
type listing map[string]vfs.Info

// same reports whether nothing was done to a file or directory between a and b.
func same(a, b vfs.Info) bool {
	return a.ID == b.ID && a.Size == b.Size && a.Mode == b.Mode && a.ModTime.Equal(b.ModTime)
}

type focusedFile struct {
	info  vfs.Info
	there bool
}

func newPoller(o NotifierOptions) *poller {
	p := &poller{
		fs:      o.FS,
		every:   o.Interval,
		focused: o.Focused,
		out:     make(chan Event),
		ask:     make(chan func(*pollState)),
		done:    make(chan struct{}),
	}
	if p.every <= 0 {
		p.every = PollInterval
	}
	if p.focused <= 0 {
		p.focused = PollFocused
	}
	p.wg.Go(p.run)
	return p
}

func (p *poller) close() {
	p.once.Do(func() { close(p.done) })
	p.wg.Wait()
}

// tell runs f on the poller's goroutine, or not at all after close.
func (p *poller) tell(f func(*pollState)) {
	select {
	case p.ask <- f:
	case <-p.done:
	}
}

// watch takes the listing before it returns, so that later changes are seen
// against it.
func (p *poller) watch(dir string) error {
	known := make(chan bool, 1)
	p.tell(func(s *pollState) {
		_, ok := s.dirs[dir]
		known <- ok
	})
	select {
	case ok := <-known:
		if ok {
			return nil // it is looked at by name, whatever directory has it
		}
	case <-p.done:
		return fs.ErrClosed
	}
	now, err := p.list(dir)
	if err != nil {
		return err
	}
	p.tell(func(s *pollState) {
		if _, ok := s.dirs[dir]; !ok {
			s.dirs[dir] = now
		}
	})
	return nil
}

func (p *poller) unwatch(dir string) {
	p.tell(func(s *pollState) { delete(s.dirs, dir) })
}

func (p *poller) focus(path string, on bool) {
	p.tell(func(s *pollState) {
		if on {
			// An unknown state differs from any: the first look gives a hint.
			s.files[path] = focusedFile{there: true}
		} else {
			delete(s.files, path)
		}
	})
}

// list looks at every name of dir. A name that goes meanwhile is left out.
func (p *poller) list(dir string) (listing, error) {
	entries, err := p.fs.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	l := make(listing, len(entries))
	for _, e := range entries {
		if info, err := p.fs.Lstat(filepath.Join(dir, e.Name())); err == nil {
			l[e.Name()] = info
		}
	}
	return l, nil
}

func (p *poller) run() {
	s := &pollState{dirs: map[string]listing{}, files: map[string]focusedFile{}}
	defer s.rounds.stop()
	defer s.looks.stop()
	for {
		s.rounds.want(len(s.dirs) > 0, p.pause(s))
		s.looks.want(p.anyFocused(s), p.focused)
		select {
		case f := <-p.ask:
			f(s)
		case <-s.rounds.c:
			s.rounds.c = nil
			if !p.round(s) {
				return
			}
		case <-s.looks.c:
			s.looks.c = nil
			if !p.lookAtFiles(s) {
				return
			}
		case <-p.done:
			return
		}
	}
}

// costOfName is what the look at one name may take of the time, on the
// average: some twenty times what it costs on a local file system.
const costOfName = 60 * time.Microsecond

// pause grows with the number of names, so that very many of them cost a
// small, constant part of a processor.
func (p *poller) pause(s *pollState) time.Duration {
	names := 0
	for _, l := range s.dirs {
		names += len(l) + 1
	}
	return max(p.every, time.Duration(names)*costOfName)
}

// round looks at every directory, and reports false after close.
func (p *poller) round(s *pollState) bool {
	for dir, before := range s.dirs {
		now, err := p.list(dir)
		switch {
		case missing(err):
			delete(s.dirs, dir)
			if !p.send(Event{Path: dir, Names: true}) {
				return false
			}
			continue
		case err != nil:
			continue // not readable just now; the old listing stays
		}
		for name, info := range now {
			was, ok := before[name]
			if ok && same(was, info) {
				continue
			}
			if !p.send(Event{Path: filepath.Join(dir, name), Names: !ok || was.ID != info.ID || info.Mode.IsDir()}) {
				return false
			}
		}
		for name := range before {
			if _, ok := now[name]; !ok && !p.send(Event{Path: filepath.Join(dir, name), Names: true}) {
				return false
			}
		}
		s.dirs[dir] = now
	}
	return true
}

// lookAtFiles looks at those followed files whose directory is polled.
func (p *poller) lookAtFiles(s *pollState) bool {
	for path, was := range s.files {
		if _, ok := s.dirs[filepath.Dir(path)]; !ok {
			continue
		}
		info, err := p.fs.Stat(path)
		now := focusedFile{info, err == nil}
		if now.there == was.there && same(now.info, was.info) {
			continue
		}
		s.files[path] = now
		if !p.send(Event{Path: path, Names: now.there != was.there || now.info.ID != was.info.ID}) {
			return false
		}
	}
	return true
}

func (p *poller) anyFocused(s *pollState) bool {
	for path := range s.files {
		if _, ok := s.dirs[filepath.Dir(path)]; ok {
			return true
		}
	}
	return false
}

func (p *poller) send(e Event) bool {
	select {
	case p.out <- e:
		return true
	case <-p.done:
		return false
	}
}

// lazyTimer runs only while somebody wants it to. c is nil while it does not.
type lazyTimer struct {
	t *time.Timer
	c <-chan time.Time
}

// want starts the timer if it is wanted and does not run, and stops it if it
// runs and is not wanted.
func (l *lazyTimer) want(on bool, d time.Duration) {
	switch {
	case on && l.c == nil:
		if l.t == nil {
			l.t = time.NewTimer(d)
		} else {
			l.t.Reset(d)
		}
		l.c = l.t.C
	case !on && l.c != nil:
		l.stop()
	}
}

func (l *lazyTimer) stop() {
	if l.t != nil {
		l.t.Stop()
	}
	l.c = nil
}
