// Package watcher turns file-system notices into updates of sessions: a
// Notifier gives hints, a Tail gives growth, the Hub gives updates.
//
// It is the first package that knows that files change, and it knows no
// protocol. Invariant: a lost or false hint delays an update, it never loses,
// repeats or reorders one.
package watcher

import (
	"context"

	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/jsonl"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// Event is a hint: look at Path again. Overflow means: look at everything.
type Event struct {
	Path     string
	Overflow bool
}

// Notifier watches single directories (not their subdirectories).
type Notifier interface {
	// Watch adds a directory; a missing one is fs.ErrNotExist.
	Watch(dir string) error
	// Unwatch removes it; an unknown one is nothing.
	Unwatch(dir string)
	// Events is closed after Close.
	Events() <-chan Event
	Close() error
}

// Poll says when directories are polled instead of watched.
type Poll uint8

// Values of Poll.
const (
	PollAuto Poll = iota
	PollAlways
	PollNever
)

// HubOptions of NewHub.
type HubOptions struct {
	Catalog  *catalog.Catalog
	FS       vfs.FS
	Notifier Notifier // nil: fsnotify, falling back to polling
	Poll     Poll
	Log      *zap.Logger
	Limits   jsonl.Options
}

// Hub is safe for concurrent use.
type Hub struct{}

// NewHub makes a Hub; Run makes it work.
func NewHub(o HubOptions) *Hub { panic("not yet") }

// Run watches until ctx ends, and returns when all of its goroutines have ended.
func (h *Hub) Run(ctx context.Context) error { panic("not yet") }

// RootsChanged tells the Hub that Catalog.Roots gives something else now.
func (h *Hub) RootsChanged() { panic("not yet") }

// Update is what a subscriber has to know. Entries From up to
// Transcript.Len() are new to him, unless Reset is set: then everything is.
type Update struct {
	ID         session.ID
	Transcript *session.Transcript
	Revision   session.Revision
	Size       int64
	From       int
	Reset      string // reason: replace, compaction, branch, truncated, replaced, rewritten, overrun
	Removed    bool   // the transcript is gone
	Source     Source // for bodies of Transcript's entries
	Offset     int64  // everything below this offset has been delivered with this update
}

// Source reads the bytes of the transcript an update speaks of. The Hub keeps
// the file open while the session is live.
type Source interface {
	ReadAt(p []byte, off int64) (int, error)
}

// Subscription gives the updates of one session, at most one pending; later
// ones fold into it.
type Subscription struct{}

// Subscribe begins with the entries behind after (an entry id; "" means all,
// "end" means none). The first Next returns at once with that state.
func (h *Hub) Subscribe(ctx context.Context, id session.ID, after string) (*Subscription, error) {
	panic("not yet")
}

// Next waits for the next update. io.EOF after Close.
func (s *Subscription) Next(ctx context.Context) (Update, error) { panic("not yet") }

// Close ends it. Idempotent.
func (s *Subscription) Close() { panic("not yet") }

// Current gives the live transcript of a session that somebody subscribed to.
func (h *Hub) Current(id session.ID) (Update, bool) { panic("not yet") }

// Sync waits until the feed of id has published everything below offset, so
// that the answer to an append can follow the update of its own bytes. It
// returns at once where nobody subscribed to id.
func (h *Hub) Sync(ctx context.Context, id session.ID, offset int64) error { panic("not yet") }

// Changes gives list-level changes until ctx ends: the first at once, later
// ones folded (at most one in 50 ms).
func (h *Hub) Changes(ctx context.Context) <-chan catalog.Change { panic("not yet") }
