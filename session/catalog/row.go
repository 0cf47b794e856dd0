package catalog

import (
	"reflect"
	"strings"
	"time"

	"github.com/agent-ls/agent-ls/session"
)

// Row is a session together with the overlay's words about it: Title,
// TitleSource and Archived are what counts for the user, and Status and Writer
// follow the registers of live processes and our own locks.
type Row struct {
	session.Session
	Note   Note
	Unread bool // it was read once, and has changed since
}

// row is a Row and what is derived from it. It is immutable once it is in a
// snapshot.
type row struct {
	Row
	stored stored
	holder holder
	back   *[numSorts]back // nil for nearly all rows
	cwd    uint32          // index of its working directory
}

// stored is what the store says where the Row shows something else.
type stored struct {
	Title       string
	TitleSource session.TitleSource
	Archived    bool
	Status      session.Status
	WriterPID   int
	WriterSince time.Time
}

// holder is another process that writes through our lock; the zero holder is none.
type holder struct {
	pid   int
	since time.Time
}

// back tells that a row has moved backward in an order, so that a list under
// way may have shown it already: the frontmost place it had, and the snapshot
// that moved it last.
type back struct {
	gen   uint64
	front key
}

// asStored is the session as its format made it.
func (r *row) asStored() session.Session {
	s, o := r.Session, r.stored
	s.Title, s.TitleSource, s.Archived = o.Title, o.TitleSource, o.Archived
	s.Status, s.WriterPID, s.WriterSince = o.Status, o.WriterPID, o.WriterSince
	return s
}

// fill makes the row of a session as stored; c.mu is held.
func (c *Catalog) fill(s session.Session, h holder) *row {
	r := &row{Row: Row{Session: s}, holder: h}
	c.complete(r)
	return r
}

// complete is fill for a row that has its session and its holder already.
func (c *Catalog) complete(r *row) {
	s := &r.Session
	r.Note = c.notes.Note(s.ID)
	r.stored = stored{s.Title, s.TitleSource, s.Archived, s.Status, s.WriterPID, s.WriterSince}
	if r.Note.Title != "" && r.TitleSource != session.TitleUser {
		r.Title, r.TitleSource = r.Note.Title, session.TitleUser
	}
	if r.Note.Archived != nil {
		r.Archived = *r.Note.Archived
	}
	r.Unread = !r.Note.ReadAt.IsZero() && r.UpdatedAt.After(r.Note.ReadAt)
	r.cwd = c.places.index(s.CWD)
	r.CWDMissing = c.places.at(r.cwd).missing
	if len(c.live) > 0 {
		if l, ok := c.live[liveKey{s.Agent, s.Root, strings.ToLower(s.Native)}]; ok {
			l.Over(s)
		}
	}
	if r.holder.pid != 0 {
		r.WriterPID, r.WriterSince = r.holder.pid, r.holder.since
		if r.Status != session.StatusRequiresAction {
			r.Status = session.StatusRunning
		}
	}
}

// sameRow compares what is shown; how far a format has read is not.
func sameRow(a, b *Row) bool {
	return a.Unread == b.Unread && a.Note.Equal(b.Note) && reflect.DeepEqual(shown(a.Session), shown(b.Session))
}

// shown is s in a form that can be compared: a time that comes from the cache
// has another location than the same time from a log.
func shown(s session.Session) session.Session {
	s.Cursor = nil
	for _, t := range []*time.Time{&s.CreatedAt, &s.UpdatedAt, &s.ModTime, &s.WriterSince} {
		*t = t.UTC().Round(0)
	}
	return s
}
