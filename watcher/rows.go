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
		box:  make(chan catalog.Change, 1),
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
// Subscription: one producer, which folds in what was not taken yet.
type listWatcher struct {
	box  chan catalog.Change
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
	select {
	case old := <-w.box:
		c = foldChange(old, c)
	default:
	}
	if !c.Empty() {
		w.box <- c
	}
}

// run passes changes on, with a pause behind each in which later ones fold.
func (w *listWatcher) run(ctx context.Context) {
	defer close(w.out)
	var pause lazyTimer
	defer pause.stop()
	for {
		var c catalog.Change
		select {
		case c = <-w.box:
		case <-w.done:
			return
		case <-ctx.Done():
			return
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

// foldChange is what remains of two changes for one who has seen neither. A
// session that came and went is nothing to him.
func foldChange(a, b catalog.Change) catalog.Change {
	type fate struct {
		row     catalog.Row
		was, is bool // there before a, there after b
	}
	fates := make(map[session.ID]*fate)
	var order []session.ID
	at := func(id session.ID, was bool) *fate {
		f, ok := fates[id]
		if !ok {
			f = &fate{was: was}
			fates[id] = f
			order = append(order, id)
		}
		return f
	}
	for _, c := range []catalog.Change{a, b} {
		for _, s := range c.Added {
			f := at(s.ID, false)
			f.row, f.is = s, true
		}
		for _, s := range c.Updated {
			f := at(s.ID, true)
			f.row, f.is = s, true
		}
		for _, id := range c.Removed {
			at(id, true).is = false
		}
	}
	var out catalog.Change
	for _, id := range order {
		switch f := fates[id]; {
		case f.is && f.was:
			out.Updated = append(out.Updated, f.row)
		case f.is:
			out.Added = append(out.Added, f.row)
		case f.was:
			out.Removed = append(out.Removed, id)
		}
	}
	return out
}
