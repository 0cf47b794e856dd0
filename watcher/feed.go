package watcher

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/jsonl"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// verifyAfter is how long a file stays suspect before all of it is read again.
const verifyAfter = 250 * time.Millisecond

// feed makes the updates of one session: it owns the Tail and the replay, and
// is the only one that puts into the mailboxes of its subscriptions.
type feed struct {
	id     session.ID
	path   string // as the catalog spells it
	format session.Format
	limits jsonl.Options
	log    *zap.Logger

	wake chan struct{} // one place: a hint that was not seen yet stands for all
	ask  chan func()   // run on the feed's goroutine
	quit chan struct{} // closed by the router when nobody needs the feed
	refs int           // subscribers and callers; the router's

	now atomic.Pointer[Update] // the newest state, for everybody

	// Of the feed's goroutine.
	tail     *Tail
	src      *source // of the file that was read; nil while there was none
	replay   *replay
	info     vfs.Info         // at the last look that found the file
	revision session.Revision // of f.info.Size bytes
	gone     bool             // the file that was read has no name any more
	why      Reason           // the Tail began again; the reason
	subs     []*Subscription
	waits    []wait
	failed   string // error text that was logged last
}

// wait is a caller who wants to know when everything below offset was
// published and, with settle, whom to wait for after that.
type wait struct {
	offset int64
	settle bool
	reply  chan reached // one place
}

type reached struct {
	by  []settling
	err error
}

// settling is one subscriber: back is closed when he has come back for more,
// left when he has closed.
type settling struct{ back, left <-chan struct{} }

func newFeed(id session.ID, path string, format session.Format, o HubOptions) *feed {
	return &feed{
		id: id, path: path, format: format, limits: o.Limits, log: o.Log,
		wake: make(chan struct{}, 1),
		ask:  make(chan func()),
		quit: make(chan struct{}),
		tail: NewTail(o.FS, path, 0),
	}
}

// hint makes the feed look. It never blocks.
func (f *feed) hint() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run works until quit is closed or ctx ends.
func (f *feed) run(ctx context.Context) {
	defer f.end()
	f.tail.stop = func() error {
		select {
		case <-f.quit:
			return context.Canceled
		default:
			return ctx.Err()
		}
	}
	f.replay = newReplay(f)
	f.revise()
	var verify lazyTimer
	defer verify.stop()
	for {
		select {
		case <-f.wake:
			_ = f.look(f.tail.Next) // reported there
		case do := <-f.ask:
			do()
		case <-verify.c:
			verify.c = nil
			_ = f.look(f.tail.Verify)
		case <-f.quit:
			return
		case <-ctx.Done():
			return
		}
		verify.want(f.tail.Suspect(), verifyAfter)
	}
}

// end lets go of the file. Subscriptions that are left over belong to a Hub
// that has ended.
func (f *feed) end() {
	for _, s := range f.subs {
		s.drain()
	}
	f.tail.Close()
	if f.src != nil {
		f.src.release()
	}
}

// look brings the feed up to what the file is now, and publishes what is new.
func (f *feed) look(next func() (Growth, error)) error {
	g, err := next()
	for err == nil && g.Reason >= Truncated && g.Reason != Removed {
		f.why = g.Reason
		g, err = f.tail.Next()
	}
	if err == nil {
		err = f.digest(g)
	}
	f.report(err)
	f.answer()
	return err
}

func (f *feed) digest(g Growth) error {
	if g.Reason == Removed {
		if f.src != nil && !f.gone {
			f.gone = true
			f.publish(f.replay.len(), "")
		}
		return nil
	}
	if f.tail.src == nil {
		return nil // still missing
	}
	var reset string
	back := f.gone
	if f.tail.src != f.src {
		reset = f.adopt()
		f.revise()
	}
	f.info = g.Info
	from := f.replay.len()
	var err error
	if g.Reason == Undone {
		f.replay.rewind()
	}
	if g.Reason != Unchanged {
		err = f.replay.more()
		f.revise()
		if r := f.replay.rebuilt; r.at >= from && from > 0 && reset == "" {
			reset = r.reason
		}
	}
	if reset != "" {
		from = 0
	}
	if f.replay.len() > from || reset != "" || back {
		f.publish(from, reset)
	} else {
		f.now.Store(f.update(from, ""))
	}
	return err
}

// adopt begins with the file that the Tail has opened. It gives the reason for
// a reset, where something was published of the one before.
func (f *feed) adopt() (reset string) {
	if f.src != nil {
		if f.replay.len() > 0 {
			reset = f.why.String()
			if f.why == Unchanged { // it was removed, and made again
				reset = Replaced.String()
			}
		}
		f.src.release()
	}
	f.src = f.tail.src.retain()
	f.replay = newReplay(f)
	f.gone, f.why = false, Unchanged
	return reset
}

// revise finds the revision. If the file is shorter by now there is a hint to
// come.
func (f *feed) revise() {
	if rev, err := f.tail.Revision(); err == nil {
		f.revision = rev
	}
}

// update is the present state; entries from on are new.
func (f *feed) update(from int, reset string) *Update {
	u := &Update{
		ID:         f.id,
		Transcript: f.replay.transcript(),
		Revision:   f.revision,
		Size:       f.info.Size,
		From:       from,
		Reset:      reset,
		Removed:    f.gone,
		Source:     noSource{},
		Offset:     f.replay.offset(),
	}
	if f.src != nil {
		u.Source = f.src
	}
	return u
}

// publish puts the present state into every mailbox.
func (f *feed) publish(from int, reset string) {
	u := f.update(from, reset)
	f.now.Store(u)
	f.prune()
	for _, s := range f.subs {
		mine := *u
		if mine.From = from + s.skip(u); reset == "" && mine.From > from && mine.From == u.Transcript.Len() {
			continue // nothing but what he had
		}
		f.put(s, mine)
	}
}

// prune forgets those who have left.
func (f *feed) prune() {
	f.subs = slices.DeleteFunc(f.subs, func(s *Subscription) bool {
		if isClosed(s.done) {
			s.drain()
			return true
		}
		return false
	})
}

func (f *feed) put(s *Subscription, u Update) {
	p := parcel{Update: u}
	if f.src != nil {
		p.src = f.src.retain()
	}
	s.put(p)
}

// subscribe adds s and gives it the present state: what is behind after is new
// to it.
func (f *feed) subscribe(s *Subscription, after string) error {
	if err := f.look(f.tail.Next); err != nil && f.src == nil {
		return err
	}
	from, reset, known := f.place(after)
	s.known = known
	if f.now.Load() == nil {
		f.now.Store(f.update(from, ""))
	}
	f.prune()
	f.subs = append(f.subs, s)
	f.put(s, *f.update(from, reset))
	return nil
}

// place finds the first entry behind after, and whether one who has read up to
// there has to begin again. A reader of a file at rest takes a last line that
// lacks only its line feed, the feed does not: known are entries that such a
// reader has, and that are still to come here.
func (f *feed) place(after string) (from int, reset string, known []session.Entry) {
	t := f.replay.transcript()
	switch after {
	case "":
		return 0, "", nil
	case "end":
		return t.Len(), "", nil
	}
	if i, ok := t.Index(after); ok {
		from = i + 1
	} else if known = f.replay.unfinished(after); known != nil {
		from = t.Len()
	} else if off, err := strconv.ParseInt(after, 10, 64); err != nil || off < 0 {
		return 0, Rewritten.String(), nil
	} else if off > f.info.Size {
		return 0, Truncated.String(), nil
	} else {
		from, _ = slices.BinarySearchFunc(t.Entries(), off, func(e session.Entry, off int64) int {
			if e.Pos.End() <= off {
				return -1
			}
			return 1
		})
	}
	if r := f.replay.rebuilt; from > 0 && r.at >= from {
		return 0, r.reason, nil
	}
	return from, "", known
}

// sync answers w when its offset was published, at once if it is.
func (f *feed) sync(w wait) {
	if err := f.look(f.tail.Next); err != nil {
		w.reply <- reached{err: err}
		return
	}
	f.waits = append(f.waits, w)
	f.answer()
}

// answer tells those who wait for an offset that was reached, and those who
// wait for one that is not in the file any more.
func (f *feed) answer() {
	f.waits = slices.DeleteFunc(f.waits, func(w wait) bool {
		if f.replay.offset() < w.offset && w.offset <= f.info.Size && !f.gone {
			return false
		}
		var r reached
		for _, s := range f.subs {
			if !w.settle || isClosed(s.done) {
				continue
			}
			c := make(chan struct{})
			s.put(parcel{empty: true, settled: []chan struct{}{c}})
			r.by = append(r.by, settling{c, s.done})
		}
		w.reply <- r
		return true
	})
}

// report logs an error of reading when it is not the one before.
func (f *feed) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != f.failed && !errors.Is(err, context.Canceled) {
		f.log.Warn("transcript cannot be read", zap.Stringer("session", f.id), zap.Error(err))
	}
	f.failed = text
}
