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
	path string
	num  uint64
}

// publish brings a patch into a new snapshot; c.mu is held. Of several
// transcripts with one id the newest is shown.
func (c *Catalog) publish(p patch) Change {
	snap := c.snap.Load()
	var touched []session.ID
	claims := map[session.ID][]string{}
	touch := func(id session.ID, path string) {
		list, ok := claims[id]
		if !ok {
			touched = append(touched, id)
			if list = slices.Clone(c.rivals[id]); list == nil {
				if r, _, ok := snap.find(id); ok {
					list = append(list, r.Path)
				}
			}
		}
		if path != "" && !slices.Contains(list, path) {
			list = append(list, path)
		}
		claims[id] = list
	}
	for _, g := range p.gone {
		k, ok := c.known[g.path]
		if !ok || k.look > g.num {
			continue
		}
		if k.row != nil {
			touch(k.row.ID, "")
		}
		delete(c.known, g.path)
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
			touch(k.row.ID, l.path)
		}
		c.known[l.path] = k
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
	return c.settle(snap, touched, claims)
}

// settle decides which rows are shown for the ids that were touched.
func (c *Catalog) settle(snap *Snapshot, touched []session.ID, claims map[session.ID][]string) Change {
	var out Change
	var changes []change
	var freed []uint32
	for _, id := range touched {
		paths := slices.DeleteFunc(claims[id], func(p string) bool {
			k, ok := c.known[p]
			return !ok || k.row == nil || k.row.ID != id
		})
		if len(paths) > 1 {
			c.rivals[id] = paths
		} else {
			delete(c.rivals, id)
		}
		now := c.newest(paths)
		old, slot, had := snap.find(id)
		switch {
		case now == nil && had:
			changes = append(changes, change{slot, old, nil})
			freed = append(freed, slot)
			out.Removed = append(out.Removed, id)
		case now == nil:
		case !had:
			changes = append(changes, change{c.slot(), nil, now})
			out.Added = append(out.Added, now.Row)
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

// newest gives the row to show of transcripts with one id.
func (c *Catalog) newest(paths []string) *row {
	var best *row
	for _, p := range paths {
		r := c.known[p].row
		if best == nil || r.ModTime.After(best.ModTime) || r.ModTime.Equal(best.ModTime) && r.Path < best.Path {
			best = r
		}
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
