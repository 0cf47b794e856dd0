package watcher

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-ls/agent-ls/session"
)

// router is what belongs to the Hub's own goroutine. It carries hints to those
// who look, and never looks itself: nothing it does can wait for a disk, a
// feed or a subscriber.
type router struct {
	h      *Hub
	events <-chan Event
	wg     sync.WaitGroup
	start  func(*feed)

	feeds   map[session.ID]*feed
	byPath  map[string][]*feed
	aliases []alias

	// What the scout and the refresher are given when they are free.
	places chan scoutWork
	rows   chan rowWork
	work   scoutWork
	due    rowWork
	found  chan found
}

// alias says that dir of a store lies at real, where it is watched.
type alias struct{ real, dir string }

// scoutWork is for the scout: names that came or went, files that somebody
// follows now or does not any more, and whether to go over everything.
type scoutWork struct {
	names     []string
	follow    map[string]bool
	reconcile bool
}

func (w *scoutWork) empty() bool { return len(w.names)+len(w.follow) == 0 && !w.reconcile }

func (w *scoutWork) setFollow(path string, on bool) {
	if w.follow == nil {
		w.follow = make(map[string]bool)
	}
	w.follow[path] = on
}

// rowWork is for the refresher.
type rowWork struct {
	paths map[string]struct{}
	scan  bool
}

// found is what the scout tells: a directory is watched now, and what was
// written in it before gave no hint.
type found struct {
	dir     string
	walk    bool    // as part of going over everything; a scan follows
	done    bool    // everything was gone over
	aliases []alias // all of them, when they have changed
}

func newRouter(h *Hub, n Notifier) *router {
	return &router{
		h:      h,
		events: n.Events(),
		feeds:  map[session.ID]*feed{},
		byPath: map[string][]*feed{},
		places: make(chan scoutWork),
		rows:   make(chan rowWork),
		found:  make(chan found),
		work:   scoutWork{reconcile: true},
	}
}

func (r *router) run(ctx context.Context) {
	r.start = func(f *feed) { r.wg.Go(func() { f.run(ctx) }) }
	var rescan <-chan time.Time
	if r.h.o.Rescan > 0 {
		t := time.NewTicker(r.h.o.Rescan)
		defer t.Stop()
		rescan = t.C
	}
	for {
		var places chan<- scoutWork
		if !r.work.empty() {
			places = r.places
		}
		var rows chan<- rowWork
		if len(r.due.paths) > 0 || r.due.scan {
			rows = r.rows
		}
		select {
		case e, ok := <-r.events:
			if !ok {
				r.events = nil
				continue
			}
			r.event(e)
		case do := <-r.h.ask:
			do(r)
		case places <- r.work:
			r.work = scoutWork{}
		case rows <- r.due:
			r.due = rowWork{}
		case f := <-r.found:
			r.take(f)
		case <-r.h.again:
			r.work.reconcile = true
		case <-rescan:
			r.everything()
		case <-ctx.Done():
			return
		}
	}
}

func (r *router) event(e Event) {
	if e.Overflow {
		r.everything()
		return
	}
	if e.Names {
		r.work.names = append(r.work.names, e.Path)
	}
	r.look(e.Path, e.Names, true)
}

// look sends everybody concerned to path: its feed, with below also the feeds
// of what is in it, and with rows the refresher.
func (r *router) look(path string, below, rows bool) {
	if len(r.aliases) == 0 {
		r.lookAs(path, below, rows)
		return
	}
	names := []string{path}
	for i := 0; i < len(names) && i < maxNames; i++ {
		r.lookAs(names[i], below, rows)
		for _, a := range r.aliases {
			if rest, ok := within(names[i], a.real); ok {
				if name := filepath.Join(a.dir, rest); !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
}

// maxNames bounds the names of one file that are followed: links can make
// infinitely many.
const maxNames = 16

func (r *router) lookAs(path string, below, rows bool) {
	r.wake(path, below)
	if !rows {
		return
	}
	if r.due.paths == nil {
		r.due.paths = make(map[string]struct{})
	}
	r.due.paths[path] = struct{}{}
}

func (r *router) wake(path string, below bool) {
	for _, f := range r.byPath[path] {
		f.hint()
	}
	if !below {
		return
	}
	for p, fs := range r.byPath {
		if rest, ok := within(p, path); ok && rest != "" {
			for _, f := range fs {
				f.hint()
			}
		}
	}
}

// everything is for lost hints: all feeds look, and the scout goes over all
// directories, behind which comes a scan.
func (r *router) everything() {
	for _, f := range r.feeds {
		f.hint()
	}
	r.work.reconcile = true
}

func (r *router) take(f found) {
	if f.aliases != nil {
		r.aliases = f.aliases
	}
	if f.done {
		r.due.scan = true
	}
	if f.dir != "" {
		r.look(f.dir, true, !f.walk)
	}
}

// open gives the feed of a session, starting it if there is none. It is called
// through Hub.hold, which counts. A session whose transcript was moved gets a
// new feed; the old one serves those who have it until they leave.
func (r *router) open(id session.ID, path string, format session.Format) *feed {
	path = filepath.Clean(path)
	if f, ok := r.feeds[id]; ok && f.path == path {
		return f
	}
	f := newFeed(id, path, format, r.h.o)
	r.feeds[id] = f
	r.h.live.Store(id, f)
	r.byPath[path] = append(r.byPath[path], f)
	r.work.setFollow(path, true)
	r.start(f)
	return f
}

func (r *router) release(f *feed) {
	f.refs--
	if f.refs > 0 {
		return
	}
	close(f.quit)
	if r.feeds[f.id] == f {
		delete(r.feeds, f.id)
		r.h.live.Delete(f.id)
	}
	if fs := slices.DeleteFunc(r.byPath[f.path], func(g *feed) bool { return g == f }); len(fs) > 0 {
		r.byPath[f.path] = fs
	} else {
		delete(r.byPath, f.path)
		r.work.setFollow(f.path, false)
	}
}

// within gives what of path is behind dir, "" if it is dir itself; ok is false
// if path is elsewhere.
func within(path, dir string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, dir)
	if !ok {
		return "", false
	}
	if rest != "" && rest[0] != filepath.Separator && !strings.HasSuffix(dir, string(filepath.Separator)) {
		return "", false
	}
	return rest, true
}
