package watcher

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/session/vfs"
)

// Event is a hint: look at Path again. It promises nothing about what is to
// be seen there, and several changes can be one event.
type Event struct {
	// Path is below a watched directory, spelled as that was given to Watch,
	// or is a watched directory itself.
	Path string
	// Names is set when the name itself came, went or was replaced, so that a
	// directory may have appeared or gone; without it a file was written.
	Names bool
	// Overflow means that hints were lost: look at everything. Path is empty.
	Overflow bool
}

// Notifier gives hints about single directories (not their subdirectories).
// All methods are safe for concurrent use.
//
// A directory that is removed or renamed is no longer watched; the last hint
// for it names the directory itself. A change of a file through a hard link
// or a symbolic link elsewhere gives no hint.
type Notifier interface {
	// Watch adds a directory; a missing one is fs.ErrNotExist. Every change
	// made after it returns gives a hint, so list the directory afterwards.
	// Watching a directory again is nothing.
	Watch(dir string) error
	// Unwatch removes it; an unknown one is nothing.
	Unwatch(dir string)
	// Events is closed after Close.
	Events() <-chan Event
	// Close ends the watching and waits for its goroutines. Idempotent.
	Close() error
}

// Focuser is a Notifier that looks more often at files that somebody follows.
type Focuser interface {
	Notifier
	// Focus says whether path is followed. It does not watch its directory.
	Focus(path string, on bool)
}

// Poll says when directories are polled instead of watched.
type Poll uint8

// Values of Poll.
const (
	// PollAuto polls where the file system gives no events (network and FUSE
	// file systems) and where the system's limits of watches are reached.
	PollAuto Poll = iota
	PollAlways
	// PollNever makes reaching a limit an error of Watch.
	PollNever
)

// Intervals of polling. A round over the directories takes at most one part
// in twenty of the time: the interval grows with the work there is.
const (
	PollInterval = time.Second           // of directories
	PollFocused  = 10 * time.Millisecond // of files that somebody follows
)

// NotifierOptions of NewNotifier.
type NotifierOptions struct {
	FS   vfs.FS
	Poll Poll
	Log  *zap.Logger // nil: nothing is logged
	// Interval and Focused replace PollInterval and PollFocused.
	Interval, Focused time.Duration
}

// NewNotifier makes a Notifier of the system's own events, with polling where
// there are none. It starts goroutines; Close ends them. It fails only with
// PollNever.
func NewNotifier(o NotifierOptions) (Notifier, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	n := &system{
		poll: o.Poll,
		log:  o.Log,
		out:  make(chan Event),
		done: make(chan struct{}),
	}
	if o.Poll != PollAlways {
		native, events, errs, err := openNative()
		switch {
		case err == nil:
			n.native, n.events, n.errs = native, events, errs
		case o.Poll == PollNever:
			return nil, err
		default:
			n.warn(err)
		}
	}
	n.poller = newPoller(o)
	n.wg.Go(n.run)
	return n, nil
}

// native is what is used of fsnotify.
type native interface {
	Add(dir string) error
	Remove(dir string) error
	Close() error
}

// openNative is replaced by tests, which cannot lower the system's limits.
var openNative = func() (native, <-chan fsnotify.Event, <-chan error, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, nil, nil, err
	}
	return w, w.Events, w.Errors, nil
}

// system joins fsnotify and the poller. One goroutine moves what both give
// into a set, so that the kernel's queue is emptied however slow the reader of
// Events is, and paths that change often are kept once.
type system struct {
	poll   Poll
	log    *zap.Logger
	native native // nil where there is none
	events <-chan fsnotify.Event
	errs   <-chan error
	poller *poller
	out    chan Event
	done   chan struct{}
	once   sync.Once
	warned sync.Once
	wg     sync.WaitGroup
}

func (n *system) Events() <-chan Event { return n.out }

func (n *system) Watch(dir string) error {
	if n.native == nil || n.poll == PollAuto && !hasEvents(dir) {
		return n.poller.watch(dir)
	}
	err := n.native.Add(dir)
	if err == nil {
		return nil
	}
	if n.poll == PollAuto && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE)) {
		n.warn(err)
		return n.poller.watch(dir)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fsnotify.ErrClosed) {
		return err
	}
	return &fs.PathError{Op: "watch", Path: dir, Err: err}
}

// warn says once that a limit was reached: the reason is the same for every
// further directory.
func (n *system) warn(err error) {
	n.warned.Do(func() {
		n.log.Warn("no more file system watches; polling instead", zap.Error(err))
	})
}

func (n *system) Unwatch(dir string) {
	if n.native != nil {
		_ = n.native.Remove(dir) // an error says that it is not watched
	}
	n.poller.unwatch(dir)
}

func (n *system) Focus(path string, on bool) { n.poller.focus(path, on) }

func (n *system) Close() error {
	var err error
	n.once.Do(func() {
		close(n.done)
		n.poller.close()
		if n.native != nil {
			err = n.native.Close()
		}
	})
	n.wg.Wait()
	return err
}

func (n *system) run() {
	defer close(n.out)
	var queue eventQueue
	events, errs := n.events, n.errs
	for {
		var out chan<- Event
		if !queue.empty() {
			out = n.out
		}
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			if e.Op == fsnotify.Chmod {
				continue // of modes and times; content never changes this way
			}
			ev := Event{Path: e.Name, Names: e.Op&^(fsnotify.Write|fsnotify.Chmod) != 0}
			if out == nil {
				select { // nobody is behind: without the set it is one copy less
				case n.out <- ev:
					continue
				default:
				}
			}
			queue.add(ev)
		case err, ok := <-errs:
			switch {
			case !ok:
				errs = nil
			case errors.Is(err, fsnotify.ErrEventOverflow):
				queue.overflow()
			default:
				n.log.Warn("file system watch", zap.Error(err))
				queue.overflow() // what was lost is not known
			}
		case ev := <-n.poller.out:
			queue.add(ev)
		case out <- queue.first():
			queue.pop()
		case <-n.done:
			return
		}
	}
}

// eventQueue holds events in the order of their first arrival, one a path.
type eventQueue struct {
	events []Event
	head   int
	at     map[string]int // path -> index in events
}

func (q *eventQueue) empty() bool { return q.head == len(q.events) }

// first gives the zero Event when the queue is empty.
func (q *eventQueue) first() Event {
	if q.empty() {
		return Event{}
	}
	return q.events[q.head]
}

func (q *eventQueue) pop() {
	delete(q.at, q.events[q.head].Path)
	q.events[q.head] = Event{}
	q.head++
	if q.empty() {
		q.events, q.head = q.events[:0], 0
	}
}

func (q *eventQueue) add(e Event) {
	if i, ok := q.at[e.Path]; ok {
		q.events[i].Names = q.events[i].Names || e.Names
		q.events[i].Overflow = q.events[i].Overflow || e.Overflow
		return
	}
	if q.at == nil {
		q.at = make(map[string]int)
	}
	q.at[e.Path] = len(q.events)
	q.events = append(q.events, e)
}

// overflow makes all that is queued one event: everything is looked at.
func (q *eventQueue) overflow() {
	*q = eventQueue{}
	q.add(Event{Overflow: true})
}

// parentOf is filepath.Dir, but "" for a root, which has no parent.
func parentOf(path string) string {
	if dir := filepath.Dir(path); dir != path {
		return dir
	}
	return ""
}
