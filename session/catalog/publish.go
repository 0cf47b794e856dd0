package catalog

import (
	"slices"

	"github.com/agent-ls/agent-ls/session"
)

// patch is what is to be brought into the next snapshot.
type patch struct {
	looks []look
	gone  []goneLook
	again []string // paths whose rows are to be filled anew
	saved bool     // it comes from the cache
}

// look is what one look at a transcript has found.
type look struct {
	path    string
	known   known // row is made by publish
	session *session.Session
	holder  holder
}

// goneLook is a look that found nothing.
type goneLook struct {
	path     string
	num      uint64
	unwanted bool // it may be there still
}

// publish brings a patch into a new snapshot; c.mu is held. Of several
// transcripts with one id the newest is shown.
func (c *Catalog) publish(p patch) Change {
	snap := c.snap.Load()
	touched := make([]session.ID, 0, len(p.gone)+len(p.looks)+len(p.again))
	claims := make(map[session.ID]claim, cap(touched))
	touch := func(id session.ID, path string) {
		cl, ok := claims[id]
		if !ok {
			touched = append(touched, id)
			if list := c.rivals[id]; list != nil {
				cl.path, cl.more = list[0], list[1:]
			} else if r, _, ok := snap.find(id); ok {
				cl.path = r.Path
			}
		}
		claims[id] = cl.with(path)
	}
	for _, g := range p.gone {
		k, ok := c.known[g.path]
		if !ok || k.look > g.num {
			continue
		}
		if k.row != nil {
			touch(k.row.ID, "")
		}
		// The row goes with its root or for good; only the latter is saved.
		delete(c.known, g.path)
		if !g.unwanted {
			c.changedOnDisk(g.path)
		}
	}
	for _, l := range p.looks {
		old, ok := c.known[l.path]
		if ok && old.look > l.known.look {
			continue // a slower look at an older state
		}
		if old.row != nil {
			touch(old.row.ID, "")
		}
		k := l.known
		if l.session != nil {
			k.row = c.fill(*l.session, l.holder)
		}
		if k.row != nil {
			touch(k.row.ID, l.path)
		}
		c.known[l.path] = k
		if !p.saved {
			c.changedOnDisk(l.path)
		}
	}
	for _, path := range p.again {
		k, ok := c.known[path]
		if !ok || k.row == nil {
			continue
		}
		k.row = c.fill(k.row.asStored(), k.row.holder)
		c.known[path] = k
		touch(k.row.ID, path)
	}
	if len(touched) == 0 {
		return Change{}
	}
	return c.settle(snap, touched, claims, p.saved)
}

// claim is which transcripts may have an id: nearly always one.
type claim struct {
	path string
	more []string
}

func (c claim) with(path string) claim {
	switch {
	case path == "" || path == c.path || slices.Contains(c.more, path):
	case c.path == "":
		c.path = path
	default:
		c.more = append(slices.Clip(c.more), path)
	}
	return c
}

// settle decides which rows are shown for the ids that were touched.
func (c *Catalog) settle(snap *Snapshot, touched []session.ID, claims map[session.ID]claim, quiet bool) Change {
	var out Change
	changes := make([]change, 0, len(touched))
	var freed []uint32
	for _, id := range touched {
		now := c.claimed(id, claims[id])
		old, slot, had := snap.find(id)
		switch {
		case now == nil && had:
			changes = append(changes, change{slot, old, nil})
			freed = append(freed, slot)
			out.Removed = append(out.Removed, id)
		case now == nil:
		case !had:
			changes = append(changes, change{c.slot(), nil, now})
			if !quiet {
				out.Added = append(out.Added, now.Row)
			}
		case old != now:
			now = snap.moved(old, now)
			k := c.known[now.Path]
			k.row = now
			c.known[now.Path] = k
			changes = append(changes, change{slot, old, now})
			if !sameRow(&old.Row, &now.Row) {
				out.Updated = append(out.Updated, now.Row)
			}
		}
	}
	c.free = append(c.free, freed...)
	if len(changes) > 0 {
		c.snap.Store(snap.with(c.places, changes))
	}
	return out
}

// claimed gives the row to show for an id, and notes who its rivals are.
func (c *Catalog) claimed(id session.ID, cl claim) *row {
	var best *row
	var paths []string
	for i := -1; i < len(cl.more); i++ {
		path := cl.path
		if i >= 0 {
			path = cl.more[i]
		}
		r := c.known[path].row
		if r == nil || r.ID != id {
			continue
		}
		if len(cl.more) > 0 {
			paths = append(paths, path)
		}
		if best == nil || r.ModTime.After(best.ModTime) || r.ModTime.Equal(best.ModTime) && r.Path < best.Path {
			best = r
		}
	}
	if len(paths) > 1 {
		c.rivals[id] = paths
	} else {
		delete(c.rivals, id)
	}
	return best
}

// slot gives a free slot; c.mu is held.
func (c *Catalog) slot() uint32 {
	if n := len(c.free); n > 0 {
		s := c.free[n-1]
		c.free = c.free[:n-1]
		return s
	}
	c.slots++
	return c.slots - 1
}

// moved gives now as the successor of old, with a note of the orders in which
// it has moved backward.
func (s *Snapshot) moved(old, now *row) *row {
	r := *now
	r.back = old.back
	for by := range numSorts {
		front := keyOf(by, old)
		if keyOf(by, now).compare(front) <= 0 {
			continue
		}
		b := &[numSorts]back{}
		if r.back != nil {
			*b = *r.back
		}
		if b[by].gen != 0 && b[by].front.compare(front) < 0 {
			front = b[by].front
		}
		b[by] = back{s.gen + 1, front}
		r.back = b
	}
	return &r
}
