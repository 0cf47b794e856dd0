package chain

import (
	"slices"

	"github.com/agent-ls/agent-ls/session"
)

// resolver works out one resolution. All its slices are indexed by entry.
type resolver struct {
	rules  TreeRules
	es     []session.Entry
	flags  []Flags
	ids    map[string]int32
	live   []bool  // nodes that are not superseded by a later copy
	raw    []int32 // par before boundaries moved it
	par    []int32 // parent among the live nodes that are no links; none at a root
	order  []int32 // live nodes that are no links, parents before children
	top    []int32 // par with each cycle cut, as order has it
	near   []int32 // nearest Turn at or above, none without one
	past   []bool  // a boundary lies between the entry and near
	pinned []bool  // the pin lies between the entry and near
	pin    Pin
	pinAt  int32
	forced bool // the path ends with an entry that is no tip, for want of one

	bridged map[int32]int32 // entry whose parent is lost to the one it was hung on
	behind  map[int32]int32 // anchor of a boundary to the last entry kept behind it
	kept    map[int32]int32 // kept entry to its anchor, plus one
	loops   []int32         // entries at which order cuts a cycle
	probs   []session.Problem
}

// tail is what the incremental replay goes on from.
type tail struct {
	end      int32 // last entry of the path, shown or not
	pinAt    int32
	explicit bool
	forced   bool
}

// resolve works out the conversation that ends with leaf. parents are those of
// the entries where they are known: then no id repeats, and every parent
// stands before its children.
func resolve(rules TreeRules, es []session.Entry, parents []int32, leaf string) (session.Resolution, tail) {
	r := &resolver{rules: rules, es: es, pinAt: none}
	r.index(parents == nil)
	if parents != nil {
		r.par = slices.Clone(parents)
	} else {
		r.link()
	}
	r.keep()
	r.sort()
	r.measure()
	end := r.choose(leaf)
	path := r.walk(end)
	path = r.recover(path)
	return r.finish(path, end), tail{end: end, pinAt: r.pinAt, explicit: r.pin.Explicit, forced: r.forced}
}

// index finds the nodes, the last copy of each, and the pin that counts.
func (r *resolver) index(all bool) {
	n := len(r.es)
	lookups := 0
	r.flags = make([]Flags, n)
	if all {
		r.ids = make(map[string]int32, n)
	}
	r.live = make([]bool, n)
	for i := range r.es {
		e := &r.es[i]
		f := flagsOf(e)
		if r.rules.Whole {
			f &^= Aside
		}
		r.flags[i] = f
		if b := boundaryOf(e); b != nil {
			if lookups += 1 + len(b.Kept); b.Anchor != "" {
				lookups++
			}
		}
		if p, ok := e.Mark.(Pin); ok {
			r.pin = p
		}
		if !f.Has(Node) {
			continue
		}
		if all {
			if old, ok := r.ids[e.ID]; ok {
				r.live[old] = false
			}
			r.ids[e.ID] = int32(i)
		}
		r.live[i] = true
	}
	if !all && lookups > fewLookups {
		r.ids = make(map[string]int32, n)
		for i := range r.es {
			if r.live[i] {
				r.ids[r.es[i].ID] = int32(i)
			}
		}
	}
	if i, ok := r.find(r.pin.ID); ok && !r.flags[i].Has(Link) {
		r.pinAt = i
	}
}

// fewLookups is how many ids are looked for one by one. Above it, finding a
// place for each id first is cheaper, and bounds the work.
const fewLookups = 8

// find gives the last node with an id.
func (r *resolver) find(id string) (int32, bool) {
	if r.ids != nil {
		i, ok := r.ids[id]
		return i, ok
	}
	if id == "" {
		return none, false
	}
	for i := len(r.es) - 1; i >= 0; i-- {
		if r.es[i].ID == id && r.flags[i].Has(Node) {
			return int32(i), true
		}
	}
	return none, false
}

// link finds the parent of every node, bridging those that are lost and
// skipping links.
func (r *resolver) link() {
	n := len(r.es)
	r.par = make([]int32, n)
	r.bridged = map[int32]int32{}
	forward := false
	for i := range r.es {
		r.par[i] = none
		if !r.live[i] || r.es[i].Parent == "" {
			continue
		}
		p, ok := r.ids[r.es[i].Parent]
		if !ok {
			p = lost
		}
		r.par[i] = p
		forward = forward || p >= int32(i)
	}
	r.bridge(forward)
	r.skipLinks()
}

// bridge hangs entries whose parent is lost on the node before them.
func (r *resolver) bridge(forward bool) {
	prev := [2]int32{none, none} // last node seen, main and aside
	before := map[int32]int32{}  // of lost nodes only: the node before
	var chainOf []int32          // for each node the one before it of its kind
	if forward {
		chainOf = make([]int32, len(r.es))
	}
	for i := range r.es {
		if !r.live[i] {
			continue
		}
		k := 0
		if r.flags[i].Has(Aside) {
			k = 1
		}
		if r.par[i] == lost {
			before[int32(i)] = prev[k]
		}
		if r.flags[i].Has(Link) {
			continue
		}
		if forward {
			chainOf[i] = prev[k]
		}
		prev[k] = int32(i)
	}
	budget := 8 * len(r.es)
	for i := range r.es {
		if r.par[i] != lost {
			continue
		}
		b := before[int32(i)]
		if !r.rules.Bridge {
			b = none
		}
		// Where children stand before their parents the node before may hang
		// below this one; take the first that does not.
		for forward && b != none && budget > 0 {
			j := b
			for steps := 0; j >= 0 && j != int32(i) && budget > 0 && steps <= len(r.es); steps++ {
				j = r.par[j]
				budget--
			}
			if j != int32(i) {
				break
			}
			b = chainOf[b]
		}
		r.par[i] = b
		r.bridged[int32(i)] = b
	}
}

// skipLinks makes every parent a node that is no link.
func (r *resolver) skipLinks() {
	const unknown, busy int32 = -3, -4
	to := map[int32]int32{}
	var stack []int32
	for i := range r.es {
		p := r.par[i]
		if p < 0 || !r.flags[p].Has(Link) {
			continue
		}
		stack = stack[:0]
		end := unknown
		for end == unknown {
			switch v, ok := to[p]; {
			case p < 0 || !r.flags[p].Has(Link):
				end = p
			case ok && v == busy:
				end = none // links in a ring
			case ok:
				end = v
			default:
				to[p] = busy
				stack = append(stack, p)
				p = r.par[p]
			}
		}
		for _, s := range stack {
			to[s] = end
		}
		r.par[i] = end
	}
}

// keep hangs the entries that a boundary kept behind its anchor, and what
// followed the anchor behind them.
func (r *resolver) keep() {
	r.behind = map[int32]int32{}
	r.kept = map[int32]int32{}
	r.raw = r.par
	budget := 4 * len(r.es)
	for i := range r.es {
		b := boundaryOf(&r.es[i])
		if b == nil || !r.live[i] || b.Anchor == "" {
			continue
		}
		anchor, ok := r.find(b.Anchor)
		if !ok || r.flags[anchor].Has(Link) {
			continue
		}
		list := r.keptBy(b, anchor, &budget)
		if len(list) == 0 {
			continue
		}
		if len(r.behind) == 0 {
			r.raw = slices.Clone(r.par)
		}
		up := anchor
		for _, k := range list {
			r.par[k] = up
			delete(r.bridged, k)
			r.kept[k] = anchor + 1
			up = k
		}
		r.behind[anchor] = up
		r.par[i] = none // else what was kept could hang below itself
	}
	if len(r.behind) == 0 {
		return
	}
	for i := range r.es {
		if r.live[i] && r.par[i] >= 0 {
			r.par[i] = r.above(int32(i))
		}
	}
}

// keptBy gives the entries that a boundary kept, oldest first; none if any is
// missing.
func (r *resolver) keptBy(b *Boundary, anchor int32, budget *int) []int32 {
	var list []int32
	if len(b.Kept) > 0 {
		for _, id := range b.Kept {
			k, ok := r.find(id)
			if !ok || k == anchor || r.flags[k].Has(Link) {
				return nil
			}
			list = append(list, k)
		}
		return list
	}
	head, ok1 := r.find(b.Head)
	at, ok2 := r.find(b.Tail)
	if !ok1 || !ok2 || r.flags[head].Has(Link) || r.flags[at].Has(Link) {
		return nil
	}
	for {
		if at < 0 || at == anchor || *budget <= 0 {
			return nil
		}
		*budget--
		list = append(list, at)
		if at == head {
			slices.Reverse(list)
			return list
		}
		at = r.above(at)
	}
}

// above gives the parent, as it is when what boundaries kept is in its place.
func (r *resolver) above(i int32) int32 {
	p := r.par[i]
	if last, ok := r.behind[p]; ok && r.kept[i] != p+1 {
		return last
	}
	return p
}

// sort orders the nodes so that parents stand before their children, cutting
// cycles.
func (r *resolver) sort() {
	const fresh, open, done = 0, 1, 2
	n := len(r.es)
	r.order = make([]int32, 0, n)
	r.top = make([]int32, n)
	seen := make([]uint8, n)
	var stack []int32
	for i := range r.es {
		r.top[i] = none
		if !r.live[i] || r.flags[i].Has(Link) || seen[i] != fresh {
			continue
		}
		at := int32(i)
		for at >= 0 && seen[at] == fresh {
			seen[at] = open
			stack = append(stack, at)
			at = r.par[at]
		}
		cut := at >= 0 && seen[at] == open
		if cut {
			r.loops = append(r.loops, stack[len(stack)-1])
		}
		for len(stack) > 0 {
			s := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if !cut {
				r.top[s] = r.par[s]
			}
			cut = false
			seen[s] = done
			r.order = append(r.order, s)
		}
	}
}

// measure finds the nearest turn above every node.
func (r *resolver) measure() {
	r.near = make([]int32, len(r.es))
	r.past = make([]bool, len(r.es))
	r.pinned = make([]bool, len(r.es))
	for _, i := range r.order {
		switch p := r.top[i]; {
		case r.flags[i].Has(Turn) || r.rules.AnyTip:
			r.near[i] = i
		case p < 0:
			r.near[i] = none
		default:
			r.near[i] = r.near[p]
			r.past[i] = r.past[p] || boundaryOf(&r.es[i]) != nil
			r.pinned[i] = r.pinned[p] || i == r.pinAt
		}
	}
}

// walk gives the path from the root to end, in that order.
func (r *resolver) walk(end int32) []int32 {
	if end < 0 {
		return nil
	}
	var path []int32
	seen := make([]bool, len(r.es))
	for at := end; at >= 0; at = r.par[at] {
		if seen[at] {
			last := path[len(path)-1]
			r.problem(session.Cycle, session.Warning, last, "the parent of this entry hangs below it; the chain starts here")
			break
		}
		seen[at] = true
		path = append(path, at)
		if boundaryOf(&r.es[at]) != nil {
			break
		}
	}
	slices.Reverse(path)
	return path
}

func (r *resolver) problem(code session.Code, sev session.Severity, i int32, text string) {
	r.probs = append(r.probs, session.Problem{Code: code, Severity: sev, Pos: r.es[i].Pos, EntryID: r.es[i].ID, Text: text})
}
