package catalog

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/agent-ls/agent-ls/session"
)

// The orders of a snapshot: those of Sort, and two for looking up.
const (
	byNative Sort = numSorts + iota
	byPath
	numOrders
)

// key is the place of a row in an order. Keys of one order are unique, since
// ids are.
type key struct {
	num int64 // larger ones first
	str string
	id  session.ID
}

// keyOf gives the place of a row in an order.
func keyOf(by Sort, r *row) key {
	k := key{id: r.ID}
	switch by {
	case ByUpdated:
		k.num = timeKey(r.UpdatedAt)
	case ByCreated:
		k.num = timeKey(r.CreatedAt)
	case BySize:
		k.num = r.Size
	case ByTitle:
		k.str = fold(r.Title)
	case byNative:
		k.str = r.Native
	case byPath:
		k.str = r.Path
	}
	return k
}

// timeKey is a time as a number, in microseconds: hostile years fit as well.
func timeKey(t time.Time) int64 { return t.UnixMicro() }

func (k key) compare(l key) int {
	if k.num != l.num {
		return cmp.Compare(l.num, k.num)
	}
	if c := strings.Compare(k.str, l.str); c != 0 {
		return c
	}
	if c := strings.Compare(k.id.Agent, l.id.Agent); c != 0 {
		return c
	}
	return strings.Compare(k.id.Native, l.id.Native)
}

// order is a sorted list of slots in pieces, so that a change copies a piece
// and not the list. It is immutable, and no piece is empty.
type order [][]uint32

// pieceSize is the length of a piece when it is made; it is split at twice that.
const pieceSize = 512

// search finds the first slot at or behind k; found tells that it is at k.
func (o order) search(k key, at func(uint32) key) (piece, index int, found bool) {
	piece, _ = slices.BinarySearchFunc(o, k, func(p []uint32, k key) int { return at(p[len(p)-1]).compare(k) })
	if piece == len(o) {
		return piece, 0, false
	}
	index, found = slices.BinarySearchFunc(o[piece], k, func(slot uint32, k key) int { return at(slot).compare(k) })
	return piece, index, found
}

// all gives the slots from a place on.
func (o order) all(piece, index int, yield func(uint32) bool) {
	for ; piece < len(o); piece, index = piece+1, 0 {
		for _, slot := range o[piece][index:] {
			if !yield(slot) {
				return
			}
		}
	}
}

// placed is a slot with its place.
type placed struct {
	key  key
	slot uint32
}

// newOrder sorts rows. Ids are looked at where the rest is equal only.
func newOrder(list []unplaced, id func(slot uint32) session.ID) order {
	slices.SortFunc(list, func(a, b unplaced) int {
		if a.num != b.num {
			return cmp.Compare(b.num, a.num)
		}
		if c := strings.Compare(a.str, b.str); c != 0 {
			return c
		}
		return key{id: id(a.slot)}.compare(key{id: id(b.slot)})
	})
	var o order
	for part := range slices.Chunk(list, pieceSize) {
		piece := make([]uint32, len(part))
		for i, p := range part {
			piece[i] = p.slot
		}
		o = append(o, piece)
	}
	return o
}

// unplaced is a slot with its key but for the id.
type unplaced struct {
	num  int64
	str  string
	slot uint32
}

// without takes slots out; at gives the keys that they are sorted by.
func (o order) without(out []placed, at func(uint32) key) order {
	o = slices.Clone(o)
	for _, p := range out {
		i, j, ok := o.search(p.key, at)
		if !ok {
			continue
		}
		if len(o[i]) == 1 {
			o = slices.Delete(o, i, i+1)
			continue
		}
		piece := make([]uint32, 0, len(o[i])-1)
		o[i] = append(append(piece, o[i][:j]...), o[i][j+1:]...)
	}
	return o
}

// including puts slots in; at gives the keys of all.
func (o order) including(in []placed, at func(uint32) key) order {
	o = slices.Clone(o)
	for _, p := range in {
		if len(o) == 0 {
			o = order{{p.slot}}
			continue
		}
		i, j, _ := o.search(p.key, at)
		if i == len(o) { // behind all
			i, j = i-1, len(o[i-1])
		}
		piece := make([]uint32, 0, len(o[i])+1)
		piece = append(append(append(piece, o[i][:j]...), p.slot), o[i][j:]...)
		if len(piece) < 2*pieceSize {
			o[i] = piece
			continue
		}
		o[i] = piece[:pieceSize:pieceSize]
		o = slices.Insert(o, i+1, slices.Clone(piece[pieceSize:]))
	}
	return o
}
