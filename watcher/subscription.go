package watcher

import (
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/agent-ls/agent-ls/session"
)

// Update is what a subscriber has to know. Entries From up to
// Transcript.Len() are new to him, unless Reset is set: then everything is.
type Update struct {
	ID         session.ID
	Transcript *session.Transcript
	Revision   session.Revision
	Size       int64
	From       int
	Reset      string // reason: replace, compaction, branch, truncated, replaced, rewritten
	Removed    bool   // the transcript is gone; what was read of it is still given
	Source     Source // for bodies of Transcript's entries
	Offset     int64  // everything below this offset has been delivered with this update
}

// Source reads the bytes of the transcript an update speaks of, even after the
// file was replaced or removed. It may be used until the next call of Next or
// Close on the subscription that gave it; one given by Hub.Current until a
// later update has come or the last subscriber has left. Then reading gives
// fs.ErrClosed.
type Source interface {
	ReadAt(p []byte, off int64) (int, error)
}

// noSource stands where there is no file yet.
type noSource struct{}

func (noSource) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// Subscription gives the updates of one session. At most one is pending; later
// ones fold into it, so that a slow reader costs constant memory and finds the
// newest state. Next is for one goroutine, Close for any.
type Subscription struct {
	box   chan parcel // one place; the feed is the only producer
	held  atomic.Pointer[parcel]
	done  chan struct{}
	hub   <-chan struct{} // closed when the Hub has ended
	once  sync.Once
	leave func()
	known []session.Entry // the reader has them, the feed not yet; the feed's
}

// parcel is what is in a mailbox: an update, the hold on its source, and whom
// to tell when the reader has come back for more.
type parcel struct {
	Update
	src     *source // nil where there is no file
	settled []chan struct{}
	empty   bool // there is no update; only settled counts
}

func newSubscription(hub <-chan struct{}, leave func()) *Subscription {
	return &Subscription{
		box:   make(chan parcel, 1),
		done:  make(chan struct{}),
		hub:   hub,
		leave: leave,
	}
}

// Next waits for the next update. The first is there at once. It is io.EOF
// after Close and after the Hub has ended, else the error of ctx.
func (s *Subscription) Next(ctx context.Context) (Update, error) {
	s.finish()
	for {
		if isClosed(s.done) {
			return Update{}, io.EOF
		}
		select {
		case p := <-s.box:
			if p.empty {
				p.finish()
				continue
			}
			s.held.Store(&p)
			return p.Update, nil
		case <-s.done:
			return Update{}, io.EOF
		case <-s.hub:
			return Update{}, io.EOF
		case <-ctx.Done():
			return Update{}, ctx.Err()
		}
	}
}

// Close ends it. Idempotent.
func (s *Subscription) Close() {
	s.once.Do(func() {
		close(s.done)
		s.finish()
		s.leave()
	})
}

// finish lets go of the update given last.
func (s *Subscription) finish() {
	if p := s.held.Swap(nil); p != nil {
		p.finish()
	}
}

func (p *parcel) finish() {
	if p.src != nil {
		p.src.release()
	}
	for _, c := range p.settled {
		close(c)
	}
}

// put is for the feed only: being the one producer, it finds room after it has
// taken out what was not read yet.
func (s *Subscription) put(p parcel) {
	select {
	case old := <-s.box:
		p = fold(old, p)
	default:
	}
	s.box <- p
}

// skip counts the new entries of u that the reader had before they were whole.
func (s *Subscription) skip(u *Update) int {
	known := s.known
	if s.known = nil; len(known) == 0 || u.Reset != "" {
		return 0
	}
	fresh := u.Transcript.Entries()[u.From:]
	if len(fresh) == 0 {
		s.known = known
		return 0
	}
	same := func(a, b session.Entry) bool { return a.ID == b.ID && a.Pos == b.Pos }
	if len(fresh) < len(known) || !slices.EqualFunc(known, fresh[:len(known)], same) {
		return 0 // the line was finished otherwise
	}
	return len(known)
}

// drain is for the feed, after the reader has left.
func (s *Subscription) drain() {
	select {
	case p := <-s.box:
		p.finish()
	default:
	}
}

// fold joins an update that was not read with the one after it: the newer
// state, all that is new in either, and a reset if there was one.
func fold(old, p parcel) parcel {
	settled := slices.Concat(old.settled, p.settled)
	switch {
	case p.empty:
		old.settled = settled
		return old
	case old.empty:
		p.settled = settled
		return p
	}
	if old.src != nil {
		old.src.release()
	}
	p.settled = settled
	if old.From < old.Transcript.Len() {
		p.From = min(p.From, old.From)
	}
	if p.Reset == "" {
		p.Reset = old.Reset
	}
	return p
}
