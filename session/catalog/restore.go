package catalog

import (
	"hash/maphash"
	"maps"
)

// changedOnDisk notes that the record of path is out of date; c.mu is held.
func (c *Catalog) changedOnDisk(path string) {
	if c.cache != nil && !c.cache.off.Load() {
		c.unsaved[path] = true
	}
}

// Flush writes to the cache what has changed since the last time. Scan does
// it too; it is for the end of a process.
func (c *Catalog) Flush() {
	c.mu.Lock()
	list := make([]saved, 0, len(c.unsaved))
	for path := range c.unsaved {
		switch k, ok := c.known[path]; {
		case !ok:
			list = append(list, saved{path: path, gone: true})
		case !k.failed && !k.pending:
			list = append(list, c.toSave(path, k))
		}
	}
	clear(c.unsaved)
	c.mu.Unlock()
	if len(list) == 0 || c.cache.off.Load() || c.cache.save(list, c.allToSave) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range list {
		c.unsaved[s.path] = true
	}
}

func (c *Catalog) allToSave() []saved {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]saved, 0, len(c.known))
	for path, k := range c.known {
		if !k.failed && !k.pending {
			list = append(list, c.toSave(path, k))
		}
	}
	return list
}

func (c *Catalog) toSave(path string, k known) saved {
	s := saved{path: path, agent: k.agent, dir: k.dir, stamp: k.stamp}
	if k.row != nil {
		stored := k.row.asStored()
		s.session, s.place = &stored, c.places.at(c.places.index(stored.CWD))
	}
	return s
}

// Restore brings in what the cache knows of the present roots, so that rows
// are there before the first scan, which corrects them. It costs something
// once for each root; Scan and what else scans do it first. Rows that it
// brings in are in no Change.
func (c *Catalog) Restore() {
	if c.cache == nil || c.cache.off.Load() {
		return
	}
	c.cache.use <- struct{}{} // who comes later finds the rows there
	defer func() { <-c.cache.use }()
	fresh := map[rootKey]bool{}
	c.mu.Lock()
	for _, r := range c.roots {
		if k := (rootKey{r.Format.Name(), r.Root.Dir}); !c.restored[k] {
			c.restored[k], fresh[k] = true, true
		}
	}
	c.mu.Unlock()
	if len(fresh) == 0 {
		return
	}
	l := newLoading(fresh, c.cache.guess())
	c.cache.load(l.take)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adopt(l)
}

// loading collects what the cache gives for some roots. It is written for
// 100,000 rows: what is needed of a row is computed while it is at hand.
type loading struct {
	want   map[rootKey]bool
	last   rootKey // wanted, and nearly always the next one
	seed   maphash.Seed
	known  map[string]known
	rows   []loaded
	places map[string]place
}

// loaded is a row with a hash of its id.
type loaded struct {
	row *row
	id  uint64
}

func newLoading(want map[rootKey]bool, guess int) *loading {
	return &loading{
		want: want, seed: maphash.MakeSeed(), known: make(map[string]known, guess),
		rows: make([]loaded, 0, guess), places: map[string]place{},
	}
}

func (l *loading) take(s saved) (outdated int32) {
	old, ok := l.known[s.path]
	if ok && old.row != nil {
		old.row.Path = "" // it does not count any more
	}
	if s.gone {
		delete(l.known, s.path)
		return old.saved
	}
	k := known{agent: s.agent, dir: s.dir, stamp: s.stamp, saved: s.length}
	if r := (rootKey{s.agent, s.dir}); r != l.last {
		if !l.want[r] {
			l.known[s.path] = known{saved: s.length} // for the lengths only
			return old.saved
		}
		l.last = r
	}
	if s.row != nil {
		k.row = s.row
		if _, ok := l.places[s.place.cwd]; !ok {
			l.places[s.place.cwd] = s.place
		}
		var h maphash.Hash
		h.SetSeed(l.seed)
		_, _ = h.WriteString(s.row.Agent) // a hash cannot fail
		_, _ = h.WriteString(s.row.Native)
		l.rows = append(l.rows, loaded{s.row, h.Sum64()})
	}
	l.known[s.path] = k
	return old.saved
}

// adopt publishes what was loaded; c.mu is held. It is publish for many
// transcripts of which nothing was known.
func (c *Catalog) adopt(l *loading) {
	for cwd, p := range l.places {
		if _, ok := c.places.of[cwd]; !ok {
			c.places.put(p)
		}
	}
	maps.DeleteFunc(l.known, func(path string, k known) bool {
		_, taken := c.known[path]
		if taken && k.row != nil {
			k.row.Path = ""
		}
		return taken || k.agent == ""
	})
	snap := c.snap.Load()
	late := patch{saved: true} // where two transcripts have one id
	shown := make(map[uint64]bool, len(l.rows))
	changes := make([]change, 0, len(l.rows))
	for _, r := range l.rows {
		if r.row.Path == "" {
			continue
		}
		c.complete(r.row)
		taken := shown[r.id]
		if !taken && snap.count > 0 {
			_, _, taken = snap.find(r.row.ID)
		}
		if taken {
			late.looks = append(late.looks, look{path: r.row.Path, known: l.known[r.row.Path]})
			delete(l.known, r.row.Path)
			continue
		}
		shown[r.id] = true
		changes = append(changes, change{c.slot(), nil, r.row})
	}
	if len(c.known) == 0 {
		c.known = l.known
	} else {
		maps.Copy(c.known, l.known)
	}
	c.snap.Store(snap.with(c.places, changes))
	c.publish(late)
}

// rootKey names a root.
type rootKey struct{ agent, dir string }
