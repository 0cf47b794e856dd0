package catalog

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agent-ls/agent-ls/session"
)

// Row is a session together with the overlay's words about it: Title,
// TitleSource and Archived are what counts for the user.
type Row struct {
	session.Session
	Note   Note
	Unread bool // it was read once, and has changed since
}

// row is a Row and what is derived from it. It is immutable.
type row struct {
	Row
	own       session.Session // as the store says
	lockPID   int             // of another writer that goes through us, 0 for none
	lockSince time.Time
	cwdKey    string
	folded    atomic.Pointer[string] // haystack of text queries
}

// publish brings rows into a new snapshot; c.mu is held. Of several
// transcripts with one id the newest is shown.
func (c *Catalog) publish(upsert []*known, gone []string) Change {
	var touched []session.ID
	for _, path := range gone {
		k := c.known[path]
		if k == nil {
			continue
		}
		delete(c.known, path)
		id := k.row.own.ID
		c.ids[id] = slices.DeleteFunc(slices.Clone(c.ids[id]), func(p string) bool { return p == path })
		if len(c.ids[id]) == 0 {
			delete(c.ids, id)
		}
		touched = append(touched, id)
	}
	for _, k := range upsert {
		path, id := k.row.own.Path, k.row.own.ID
		old := c.known[path]
		if old != nil && old != k && old.id == k.id && old.mod.After(k.mod) {
			continue // a slower look at an older state
		}
		fresh := &row{own: k.row.own, lockPID: k.row.lockPID, lockSince: k.row.lockSince}
		c.fill(fresh)
		k.row = fresh
		c.known[path] = k
		if !slices.Contains(c.ids[id], path) {
			c.ids[id] = append(slices.Clone(c.ids[id]), path)
		}
		touched = append(touched, id)
	}
	if len(touched) == 0 {
		return Change{}
	}
	snap := c.snap.Load()
	var change Change
	var in, out []*row
	seen := make(map[session.ID]bool, len(touched))
	for _, id := range touched {
		if seen[id] {
			continue
		}
		seen[id] = true
		var now *row
		for _, p := range c.ids[id] {
			if r := c.known[p].row; now == nil || r.own.ModTime.After(now.own.ModTime) {
				now = r
			}
		}
		old, had := snap.byID(id)
		switch {
		case had && now == nil:
			out = append(out, old)
			change.Removed = append(change.Removed, id)
		case now == nil:
		case !had:
			in = append(in, now)
			change.Added = append(change.Added, now.Row)
		case old != now:
			out, in = append(out, old), append(in, now)
			if !sameRow(&old.Row, &now.Row) {
				change.Updated = append(change.Updated, now.Row)
			}
		}
	}
	if len(in)+len(out) > 0 {
		c.snap.Store(snap.with(out, in))
	}
	return change
}

// sameRow compares what is shown; how far a format has read is not.
func sameRow(a, b *Row) bool {
	x, y := *a, *b
	x.Cursor, y.Cursor = nil, nil
	return reflect.DeepEqual(x, y)
}

// fill derives what a row shows; c.mu is held.
func (c *Catalog) fill(r *row) {
	r.Session = r.own
	r.Note = c.notes.Note(r.ID)
	if r.Note.Title != "" && r.TitleSource != session.TitleUser {
		r.Title, r.TitleSource = r.Note.Title, session.TitleUser
	}
	if r.Note.Archived != nil {
		r.Archived = *r.Note.Archived
	}
	r.Unread = !r.Note.ReadAt.IsZero() && r.UpdatedAt.After(r.Note.ReadAt)
	if r.CWD != "" {
		r.CWDMissing = c.missing(r.CWD)
		r.cwdKey = pathKey(r.CWD)
	}
	if r.lockPID != 0 {
		r.WriterPID, r.WriterSince = r.lockPID, r.lockSince
		if r.Status == session.StatusUnknown {
			r.Status = session.StatusRunning
		}
	}
}

func (c *Catalog) missing(dir string) bool {
	gone, ok := c.cwds[dir]
	if !ok {
		gone = !c.isDir(dir)
		c.cwds[dir] = gone
	}
	return gone
}

// Snapshot is immutable.
type Snapshot struct {
	catalog *Catalog
	updated []*row // newest first
	native  []*row // by native id, then agent
	paths   []*row // by path
	derived derived
}

// with gives the snapshot without some rows and with others. It costs a copy
// of the orders, not a sort.
func (s *Snapshot) with(out, in []*row) *Snapshot {
	return &Snapshot{
		catalog: s.catalog,
		updated: merge(s.updated, out, in, byUpdated),
		native:  merge(s.native, out, in, byNative),
		paths:   merge(s.paths, out, in, byPath),
	}
}

// merge removes out from a sorted list and puts in into it.
func merge(list, out, in []*row, order func(a, b *row) int) []*row {
	type step struct {
		at  int
		row *row // nil: leave out list[at]; else put it before list[at]
	}
	steps := make([]step, 0, len(out)+len(in))
	for _, r := range out {
		if i, ok := slices.BinarySearchFunc(list, r, order); ok {
			steps = append(steps, step{at: i})
		}
	}
	for _, r := range in {
		i, _ := slices.BinarySearchFunc(list, r, order)
		steps = append(steps, step{i, r})
	}
	slices.SortStableFunc(steps, func(a, b step) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		switch { // put first, then leave out
		case a.row == nil || b.row == nil:
			return cmp.Compare(btoi(a.row == nil), btoi(b.row == nil))
		default:
			return order(a.row, b.row)
		}
	})
	merged := make([]*row, 0, len(list)+len(in))
	from := 0
	for _, st := range steps {
		merged = append(merged, list[from:st.at]...)
		from = st.at
		if st.row == nil {
			from++
		} else {
			merged = append(merged, st.row)
		}
	}
	return append(merged, list[from:]...)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The orders are total: ids are unique.

func byID(a, b *row) int {
	if c := strings.Compare(a.Agent, b.Agent); c != 0 {
		return c
	}
	return strings.Compare(a.Native, b.Native)
}

func byUpdated(a, b *row) int {
	if c := b.UpdatedAt.Compare(a.UpdatedAt); c != 0 {
		return c
	}
	return byID(a, b)
}

func byNative(a, b *row) int {
	if c := strings.Compare(a.Native, b.Native); c != 0 {
		return c
	}
	return strings.Compare(a.Agent, b.Agent)
}

func byPath(a, b *row) int {
	if c := strings.Compare(a.Path, b.Path); c != 0 {
		return c
	}
	return byID(a, b)
}

// byID finds a row.
func (s *Snapshot) byID(id session.ID) (*row, bool) {
	i, ok := slices.BinarySearchFunc(s.native, id, func(r *row, id session.ID) int {
		if c := strings.Compare(r.Native, id.Native); c != 0 {
			return c
		}
		return strings.Compare(r.Agent, id.Agent)
	})
	if !ok {
		return nil, false
	}
	return s.native[i], true
}

// Get finds a session by its exact id.
func (s *Snapshot) Get(id session.ID) (Row, bool) {
	r, ok := s.byID(id)
	if !ok {
		return Row{}, false
	}
	return r.Row, true
}

// Len is the number of sessions.
func (s *Snapshot) Len() int { return len(s.native) }

// minPrefix is the least length of a prefix that names a session.
const minPrefix = 4

// maxCandidates bounds the list in an AmbiguousError.
const maxCandidates = 20

// Lookup finds a session by "agent:native", by bare native id, or by a unique
// prefix of 4 or more characters of either. Errors: *session.NotFoundError,
// *session.AmbiguousError.
func (s *Snapshot) Lookup(name string) (Row, error) {
	agent, native := "", name
	if a, n, ok := strings.Cut(name, ":"); ok {
		if _, known := s.catalog.formats[a]; known {
			agent, native = a, n
		}
	}
	start, _ := slices.BinarySearchFunc(s.native, native, func(r *row, n string) int { return strings.Compare(r.Native, n) })
	var exact, prefixed []*row
	for _, r := range s.native[start:] {
		if !strings.HasPrefix(r.Native, native) {
			break
		}
		if agent != "" && r.Agent != agent {
			continue
		}
		if r.Native == native {
			exact = append(exact, r)
		} else {
			prefixed = append(prefixed, r)
		}
	}
	found := exact
	if len(found) == 0 && len(native) >= minPrefix {
		found = prefixed
	}
	switch len(found) {
	case 1:
		return found[0].Row, nil
	case 0:
		return Row{}, &session.NotFoundError{What: "session", Name: name}
	}
	e := &session.AmbiguousError{Name: name}
	for _, r := range found[:min(len(found), maxCandidates)] {
		e.Candidates = append(e.Candidates, r.ID.String())
	}
	return Row{}, e
}

// ByPath finds the session whose transcript is at path.
func (s *Snapshot) ByPath(path string) (Row, bool) {
	i, ok := slices.BinarySearchFunc(s.paths, path, func(r *row, p string) int { return strings.Compare(r.Path, p) })
	if !ok {
		return Row{}, false
	}
	return s.paths[i].Row, true
}
