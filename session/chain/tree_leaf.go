package chain

import "github.com/agent-ls/agent-ls/session"

// candidate is a tip and the turn that its conversation ends with.
type candidate struct {
	tip, turn int32
	class     uint8 // the lowest class that has any wins
}

// Classes of candidates.
const (
	mainTip uint8 = iota
	metaTip
	asideTip
)

// tips gives every tip of the tree, in file order.
func (r *resolver) tips(yield func(candidate)) {
	named := make([]bool, len(r.es))  // has a child of its own kind
	within := make([]bool, len(r.es)) // a turn after which the conversation went on
	for _, i := range r.order {
		p := r.par[i]
		if p < 0 || r.flags[i].Has(Aside) != r.flags[p].Has(Aside) {
			continue
		}
		named[p] = true
		if f := r.flags[i]; f.Has(Turn) && !f.Has(Meta) && r.near[p] >= 0 {
			within[r.near[p]] = true
		}
	}
	for i := range r.es {
		if !r.live[i] || r.flags[i].Has(Link) || named[i] {
			continue
		}
		turn := r.near[i]
		if turn < 0 {
			continue
		}
		c := candidate{tip: int32(i), turn: turn}
		switch f := r.flags[turn]; {
		case f.Has(Aside):
			c.class = asideTip
		case f.Has(Meta):
			c.class = metaTip
		}
		// A late tick or attachment on a turn that was answered since is no
		// tip, unless a pin says so.
		if within[turn] && turn != int32(i) && !r.pinned[i] {
			continue
		}
		yield(c)
	}
}

// choose finds the entry that the path ends with.
func (r *resolver) choose(leaf string) int32 {
	if leaf != "" && leaf != session.LeafNewest {
		if i, ok := r.find(leaf); ok {
			if r.flags[i].Has(Link) {
				return r.par[i]
			}
			if kept, ok := r.behind[i]; ok {
				return kept // what was kept is part of the summary
			}
			return i
		}
	}
	pinned := leaf == "" && r.pinAt >= 0
	if pinned && r.pin.Explicit {
		return r.pinAt
	}
	var below []bool
	if pinned {
		below = make([]bool, len(r.es))
		for _, i := range r.order {
			below[i] = i == r.pinAt || (r.top[i] >= 0 && below[r.top[i]])
		}
	}
	best := candidate{tip: none, class: asideTip}
	r.tips(func(c candidate) {
		if pinned && !below[c.tip] {
			return
		}
		if c.class < best.class || (c.class == best.class && c.class != asideTip && (best.tip < 0 || r.rules.later(r.es, c.tip, best.tip))) {
			best = c
		}
	})
	switch {
	case best.tip >= 0 && r.past[best.tip]:
		return best.turn // nothing was said after the boundary
	case best.tip >= 0:
		return best.tip
	}
	r.forced = true
	if pinned {
		return r.pinAt
	}
	// No tip at all: everything is in a cycle. Take the last thing said.
	for i := len(r.es) - 1; i >= 0; i-- {
		if r.live[i] && r.flags[i].Has(Turn) && !r.flags[i].Has(Aside) {
			return int32(i)
		}
	}
	return none
}
