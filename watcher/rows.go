package watcher

import (
	"context"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
)

// foldChanges is how long list-level changes are collected after one was
// given.
const foldChanges = 50 * time.Millisecond

// refresh keeps the rows of the catalog as the files are: the first hint after
// a quiet while is followed at once, later ones are collected.
func (h *Hub) refresh(ctx context.Context, work <-chan rowWork) {
	var pause lazyTimer
	defer pause.stop()
	for {
		var w rowWork
		select {
		case w = <-work:
		case <-ctx.Done():
			return
		}
		var (
			change catalog.Change
			err    error
		)
		if w.scan {
			change, err = h.scan(ctx)
		} else {
			change, err = h.sessions.Refresh(ctx, slices.Collect(maps.Keys(w.paths))...)
		}
		if err != nil && ctx.Err() == nil {
			h.o.Log.Warn("sessions cannot be listed", zap.Error(err))
		}
		_ = h.Publish(ctx, change) // ctx ends the loop
		pause.want(true, foldChanges)
		select {
		case <-pause.c:
			pause.c = nil
		case <-ctx.Done():
			return
		}
	}
}

// scan tells list watchers of rows as they are found, and gives the rest.
func (h *Hub) scan(ctx context.Context) (catalog.Change, error) {
	told := make(map[session.ID]bool)
	change, err := h.sessions.Scan(ctx, func(c catalog.Change) {
		for _, rows := range [][]catalog.Row{c.Added, c.Updated} {
			for i := range rows {
				told[rows[i].ID] = true
			}
		}
		for _, id := range c.Removed {
			told[id] = true
		}
		_ = h.Publish(ctx, c) // ctx ends the scan too
	})
	isTold := func(r catalog.Row) bool { return told[r.ID] }
	return catalog.Change{
		Added:   slices.DeleteFunc(slices.Clone(change.Added), isTold),
		Updated: slices.DeleteFunc(slices.Clone(change.Updated), isTold),
		Removed: slices.DeleteFunc(slices.Clone(change.Removed), func(id session.ID) bool { return told[id] }),
	}, err
}

// Publish gives the list watchers a change that the caller has brought about
// through the catalog (Annotate, SetWorkspaces, Prune). It waits for Run; the
// error is that of ctx, or io.EOF after the Hub has ended.
func (h *Hub) Publish(ctx context.Context, c catalog.Change) error {
	if c.Empty() {
		return nil
	}
	select {
	case h.changed <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-h.done:
		return io.EOF
	}
}

// Changes gives list-level changes until ctx ends: the first at once, later
// ones folded (at most one in 50 ms). The channel is closed then, and when the
// Hub has ended. It waits for Run.
func (h *Hub) Changes(ctx context.Context) <-chan catalog.Change {
	w := &listWatcher{
		box:  make(chan *changes, 1),
		out:  make(chan catalog.Change),
		done: ctx.Done(),
	}
	select {
	case h.watchers <- w:
	case <-ctx.Done():
		close(w.out)
	case <-h.done:
		close(w.out)
	}
	return w.out
}

// listWatcher is somebody who follows the list. Its mailbox works as that of a
// Subscription: one producer, which adds to what was not taken yet.
type listWatcher struct {
	box  chan *changes
	out  chan catalog.Change
	done <-chan struct{}
}

// bulletin carries changes to the list watchers. It is the one producer of
// their mailboxes.
func (h *Hub) bulletin(ctx context.Context) {
	var (
		watchers []*listWatcher
		wg       sync.WaitGroup
	)
	defer wg.Wait()
	for {
		select {
		case w := <-h.watchers:
			watchers = slices.DeleteFunc(watchers, func(w *listWatcher) bool { return isClosed(w.done) })
			watchers = append(watchers, w)
			wg.Go(func() { w.run(ctx) })
		case c := <-h.changed:
			for _, w := range watchers {
				w.put(c)
			}
		case <-ctx.Done():
			return
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (w *listWatcher) put(c catalog.Change) {
	var all *changes
	select {
	case all = <-w.box:
	default:
		all = &changes{at: make(map[session.ID]*fate)}
	}
	all.add(c)
	w.box <- all
}

// run passes changes on, with a pause behind each in which later ones fold.
func (w *listWatcher) run(ctx context.Context) {
	defer close(w.out)
	var pause lazyTimer
	defer pause.stop()
	for {
		var c catalog.Change
		select {
		case all := <-w.box:
			c = all.change()
		case <-w.done:
			return
		case <-ctx.Done():
			return
		}
		if c.Empty() {
			continue // what came has gone again
		}
		select {
		case w.out <- c:
		case <-w.done:
			return
		case <-ctx.Done():
			return
		}
		pause.want(true, foldChanges)
		select {
		case <-pause.c:
			pause.c = nil
		case <-w.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// changes is what remains of several changes for one who has seen none of
// them. A session that came and went is nothing to him.
type changes struct {
	at    map[session.ID]*fate
	order []session.ID // of first mention
}

// fate is what became of one session.
type fate struct {
	row     catalog.Row
	was, is bool // there before the first change, there after the last one
}

func (l *changes) of(id session.ID, was bool) *fate {
	f, ok := l.at[id]
	if !ok {
		f = &fate{was: was}
		l.at[id] = f
		l.order = append(l.order, id)
	}
	return f
}

func (l *changes) add(c catalog.Change) {
	for _, r := range c.Added {
		f := l.of(r.ID, false)
		f.row, f.is = r, true
	}
	for _, r := range c.Updated {
		f := l.of(r.ID, true)
		f.row, f.is = r, true
	}
	for _, id := range c.Removed {
		l.of(id, true).is = false
	}
}

func (l *changes) change() catalog.Change {
	var c catalog.Change
	for _, id := range l.order {
		switch f := l.at[id]; {
		case f.is && f.was:
			c.Updated = append(c.Updated, f.row)
		case f.is:
			c.Added = append(c.Added, f.row)
		case f.was:
			c.Removed = append(c.Removed, id)
		}
	}
	return c
}
