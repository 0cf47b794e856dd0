package catalog

import (
	"strings"
	"sync/atomic"

	"github.com/agent-ls/agent-ls/session"
)

// Snapshot is the state of the catalog at one moment. It is immutable and
// safe for concurrent use.
//
// A row has a slot, a small number that it keeps. Rows lie in chunks of slots
// together with the few facts that filters look at; orders are lists of
// slots. The next snapshot shares all chunks and pieces of orders that the
// change did not touch.
type Snapshot struct {
	catalog *Catalog
	gen     uint64 // larger in later snapshots
	count   int
	chunks  []*chunk
	places  places
	// orders are made when they are first asked for, and carried on.
	orders [numOrders]atomic.Pointer[order]
	// selections are what recent queries select.
	selections atomic.Pointer[[]selection]
}

// chunkSize is the number of slots in a chunk; a multiple of 64.
const chunkSize = 256

type chunk struct {
	rows  [chunkSize]*row
	facts [chunkSize]facts
	text  atomic.Pointer[textIndex]
}

// facts are what filters look at.
type facts struct {
	updated int64 // timeKey
	cwd     uint32
	agent   uint8
	status  uint8 // a bit
	flags   flags
}

type flags uint8

const (
	isVacant flags = 1 << iota // there is no row in the slot
	isSubagent
	isEmpty
	isProgrammatic
	isArchived
)

// factsOf gives the facts of a row.
func (c *Catalog) factsOf(r *Row, cwd uint32) facts {
	f := facts{updated: timeKey(r.UpdatedAt), cwd: cwd, agent: c.agents[r.Agent], status: 1 << r.Status}
	for _, b := range []struct {
		is   bool
		flag flags
	}{
		{r.Kind == session.Subagent, isSubagent},
		{r.Empty, isEmpty},
		{r.Programmatic, isProgrammatic},
		{r.Archived, isArchived},
	} {
		if b.is {
			f.flags |= b.flag
		}
	}
	return f
}

// change of one slot: old is nil for a row that is new there, now for one
// that is gone.
type change struct {
	slot     uint32
	old, now *row
}

// with gives the snapshot after some changes. Its cost follows the changes,
// not the number of rows.
func (s *Snapshot) with(p places, changes []change) *Snapshot {
	t := &Snapshot{catalog: s.catalog, gen: s.gen + 1, count: s.count, places: p}
	t.chunks = append(make([]*chunk, 0, len(s.chunks)+1), s.chunks...)
	fresh := map[uint32]bool{}
	for _, ch := range changes {
		i := ch.slot / chunkSize
		for int(i) >= len(t.chunks) {
			empty := &chunk{}
			for j := range empty.facts {
				empty.facts[j].flags = isVacant
			}
			fresh[uint32(len(t.chunks))] = true
			t.chunks = append(t.chunks, empty)
		}
		if !fresh[i] {
			fresh[i] = true
			t.chunks[i] = t.chunks[i].clone()
		}
		c, j := t.chunks[i], ch.slot%chunkSize
		c.rows[j] = ch.now
		c.facts[j] = facts{flags: isVacant}
		if ch.now != nil {
			c.facts[j] = s.catalog.factsOf(&ch.now.Row, ch.now.cwd)
		}
		t.count += btoi(ch.now != nil) - btoi(ch.old != nil)
	}
	if len(changes) > pieceSize && len(changes) > t.count/8 {
		return t // its orders are sorted anew when they are asked for
	}
	for by := range numOrders {
		if o := s.orders[by].Load(); o != nil {
			next := t.carry(by, *o, s, changes)
			t.orders[by].Store(&next)
		}
	}
	return t
}

// clone copies a chunk. What is known of its texts goes along: texts are
// compared by row.
func (c *chunk) clone() *chunk {
	d := &chunk{rows: c.rows, facts: c.facts}
	d.text.Store(c.text.Load())
	return d
}

// carry makes an order of s fit t.
func (t *Snapshot) carry(by Sort, o order, s *Snapshot, changes []change) order {
	var out, in []placed
	for _, ch := range changes {
		switch {
		case ch.old == nil:
			in = append(in, placed{keyOf(by, ch.now), ch.slot})
		case ch.now == nil:
			out = append(out, placed{keyOf(by, ch.old), ch.slot})
		default:
			if a, b := keyOf(by, ch.old), keyOf(by, ch.now); a.compare(b) != 0 {
				out, in = append(out, placed{a, ch.slot}), append(in, placed{b, ch.slot})
			}
		}
	}
	// What remains after the first step has the same key in both snapshots.
	o = o.without(out, s.keyAt(by))
	return o.including(in, t.keyAt(by))
}

func (s *Snapshot) keyAt(by Sort) func(uint32) key {
	return func(slot uint32) key { return keyOf(by, s.at(slot)) }
}

func (s *Snapshot) at(slot uint32) *row { return s.chunks[slot/chunkSize].rows[slot%chunkSize] }

// order gives the slots in an order.
func (s *Snapshot) order(by Sort) order {
	if o := s.orders[by].Load(); o != nil {
		return *o
	}
	o := s.sorted(by)
	s.orders[by].Store(&o)
	return o
}

func (s *Snapshot) sorted(by Sort) order {
	list := make([]unplaced, 0, s.count)
	for i, c := range s.chunks {
		for j, r := range c.rows {
			if r != nil {
				k := keyOf(by, r)
				list = append(list, unplaced{k.num, k.str, uint32(i*chunkSize + j)})
			}
		}
	}
	return newOrder(list, func(slot uint32) session.ID { return s.at(slot).ID })
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// find gives the row of an id and its slot.
func (s *Snapshot) find(id session.ID) (r *row, slot uint32, ok bool) {
	o := s.order(byNative)
	i, j, ok := o.search(key{str: id.Native, id: id}, s.keyAt(byNative))
	if !ok {
		return nil, 0, false
	}
	slot = o[i][j]
	return s.at(slot), slot, true
}

// Get finds a session by its exact id.
func (s *Snapshot) Get(id session.ID) (Row, bool) {
	r, _, ok := s.find(id)
	if !ok {
		return Row{}, false
	}
	return r.Row, true
}

// Len is the number of sessions.
func (s *Snapshot) Len() int { return s.count }

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
	var exact, prefixed []*row
	o := s.order(byNative)
	i, j, _ := o.search(key{str: native}, s.keyAt(byNative))
	o.all(i, j, func(slot uint32) bool {
		r := s.at(slot)
		if !strings.HasPrefix(r.Native, native) || len(prefixed) > maxCandidates {
			return false
		}
		switch {
		case agent != "" && r.Agent != agent:
		case r.Native == native: // these come first
			exact = append(exact, r)
		default:
			prefixed = append(prefixed, r)
		}
		return true
	})
	found := exact
	if len(found) == 0 && len(name) >= minPrefix {
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
	o := s.order(byPath)
	i, j, _ := o.search(key{str: path}, s.keyAt(byPath))
	if i == len(o) || s.at(o[i][j]).Path != path {
		return Row{}, false
	}
	return s.at(o[i][j]).Row, true
}
