package chain

import (
	"cmp"
	"slices"

	"github.com/agent-ls/agent-ls/session"
)

// finish makes the resolution of a path.
func (r *resolver) finish(path []int32, end int32) session.Resolution {
	res := session.Resolution{Excluded: make([]session.Reason, len(r.es))}
	on := make([]bool, len(r.es))
	for _, i := range path {
		on[i] = true
	}
	r.exclude(&res, path, on)
	r.pair(&res, path)
	for _, i := range path {
		if res.Excluded[i] == session.Effective {
			res.Chain = append(res.Chain, int(i))
		}
	}
	if end >= 0 {
		res.End = r.es[end].ID
	}
	if n := len(res.Chain); n > 0 {
		res.Leaf = r.es[res.Chain[n-1]].ID
	}
	res.Branches = r.branches(path, on)
	r.report(&res, on)
	res.Problems = r.probs
	return res
}

// exclude gives every entry the reason why it does not count.
func (r *resolver) exclude(res *session.Resolution, path []int32, on []bool) {
	cut := none
	var summed []bool
	if len(path) > 0 {
		if b := boundaryOf(&r.es[path[0]]); b != nil {
			cut = path[0]
			summed = r.history(cut)
		}
	}
	for i := range r.es {
		f := r.flags[i]
		var why session.Reason
		switch {
		case !f.Has(Node) || !f.Has(Shown):
			why = session.NotAMessage
		case !r.live[i]:
			why = session.Superseded
		case on[i]:
			why = session.Effective
		case f.Has(Aside):
			why = session.SidechainEntry
		case cut >= 0 && summed[i]:
			why = session.Compacted
		default:
			why = session.DeadBranch
		}
		res.Excluded[i] = why
	}
}

// history marks what the boundary at cut summarized: the path to the entry
// that it follows, or all before it where that is not known.
func (r *resolver) history(cut int32) []bool {
	out := make([]bool, len(r.es))
	b := boundaryOf(&r.es[cut])
	at, ok := r.find(b.Logical)
	if !ok {
		at = r.raw[cut]
	}
	if at < 0 {
		for i := range out {
			out[i] = int32(i) < cut
		}
		return out
	}
	groups := map[string]bool{}
	for at >= 0 && !out[at] {
		out[at] = true
		if g := r.groupOf(at); g != "" {
			groups[g] = true
		}
		up := r.raw[at]
		if b := boundaryOf(&r.es[at]); b != nil {
			if l, ok := r.find(b.Logical); ok {
				up = l
			}
		}
		at = up
	}
	for _, i := range r.order { // parallel calls and results beside the path
		if g := r.groupOf(i); g != "" && groups[g] {
			out[i] = true
		}
		if p := r.raw[i]; p >= 0 && out[p] && len(r.es[i].ToolResults) > 0 {
			out[i] = true
		}
	}
	return out
}

// pair leaves out results whose call is not on the path before them, and
// calls that were never answered though the conversation went on. Calls at
// the very end may still be running: they stay, and resuming leaves them out.
func (r *resolver) pair(res *session.Resolution, path []int32) {
	last := map[string]int32{}  // call to the entry that made it last
	open := map[call]struct{}{} // calls without a result
	moved := none               // first position behind the last message with open calls
	for pos, i := range path {
		e := &r.es[i]
		if res.Excluded[i] != session.Effective || e.Kind == session.KindMeta {
			continue
		}
		found := 0
		for _, id := range e.ToolResults {
			if by, ok := last[id]; ok {
				found++
				delete(open, call{by, id})
			}
		}
		if found == 0 && len(e.ToolResults) > 0 {
			r.problem(session.OrphanToolResult, session.Warning, i, "answers a tool call that is not in the conversation")
			if !r.flags[i].Has(Mixed) {
				res.Orphans = append(res.Orphans, int(i))
				res.Excluded[i] = session.DanglingToolCall
				continue
			}
		}
		for _, id := range e.ToolUses {
			last[id] = i
			open[call{i, id}] = struct{}{}
		}
		if f := r.flags[i]; f.Has(Turn) && !f.Has(Meta) && len(e.ToolResults) == 0 {
			moved = int32(pos)
		}
	}
	if len(open) > 0 {
		r.dangling(res, path, open, moved)
	}
}

// call is one call of one entry: ids can repeat.
type call struct {
	by int32
	id string
}

// dangling reports the open calls. moved is the position of the last turn
// that is no result.
func (r *resolver) dangling(res *session.Resolution, path []int32, open map[call]struct{}, moved int32) {
	last := ""
	if moved >= 0 {
		last = r.groupOf(path[moved])
	}
	d := &session.Dangling{}
	for pos, i := range path {
		e := &r.es[i]
		if len(e.ToolUses) == 0 || res.Excluded[i] != session.Effective {
			continue
		}
		answered := true
		none := true
		for _, id := range e.ToolUses {
			if _, ok := open[call{i, id}]; ok {
				d.ToolUseIDs = append(d.ToolUseIDs, id)
				answered = false
			} else {
				none = false
			}
		}
		if answered {
			continue
		}
		d.EntryID = e.ID
		pending := int32(pos) >= moved || (last != "" && r.groupOf(i) == last)
		whole := none && !r.flags[i].Has(Mixed)
		if whole {
			d.Dropped++
		}
		if pending {
			r.problem(session.DanglingCall, session.Info, i, "a tool call at the end has no result yet")
			continue
		}
		r.problem(session.DanglingCall, session.Warning, i, "a tool call was never answered; it does not count")
		if whole {
			res.Excluded[i] = session.DanglingToolCall
		}
	}
	if len(d.ToolUseIDs) > 0 {
		res.Dangling = d
	}
}

// branches gives the tips that are not on the path, newest first.
func (r *resolver) branches(path []int32, on []bool) []session.Branch {
	n := len(r.es)
	fork := make([]int32, n)  // last entry at or above that is on the path and counts
	apart := make([]int32, n) // entries between fork and here that would count
	for _, i := range r.order {
		switch p := r.top[i]; {
		case on[i] && r.flags[i].Has(Shown):
			fork[i] = i
		case p < 0:
			fork[i] = none
		default:
			fork[i], apart[i] = fork[p], apart[p]
		}
		if !on[i] && r.flags[i].Has(Shown) {
			apart[i]++
		}
	}
	told := map[int32]bool{}
	if len(path) > 0 { // what a boundary summarized is no other branch
		if b := boundaryOf(&r.es[path[0]]); b != nil {
			if i, ok := r.find(b.Logical); ok {
				told[r.near[i]] = true
			}
		}
	}
	last := r.lastResults()
	var tips []candidate
	r.tips(func(c candidate) {
		if on[c.turn] || c.class == asideTip || told[c.turn] || r.besides(c.turn, last) {
			return
		}
		told[c.turn] = true
		tips = append(tips, c)
	})
	var out []session.Branch
	for _, c := range slices.Backward(tips) {
		b := session.Branch{Leaf: r.es[c.turn].ID, Updated: r.es[c.turn].Time, Entries: int(apart[c.turn])}
		if f := fork[c.turn]; f >= 0 {
			b.ForkedAt = r.es[f].ID
		}
		out = append(out, b)
	}
	return out
}

// lastResults gives the last result of each model message.
func (r *resolver) lastResults() map[string]int32 {
	last := map[string]int32{}
	for _, i := range r.order {
		if p := r.par[i]; p >= 0 && len(r.es[i].ToolResults) > 0 {
			if g := r.groupOf(p); g != "" && i > last[g] {
				last[g] = i
			}
		}
	}
	return last
}

// besides reports whether a tip is a result of parallel calls, or what was
// said to one, while the conversation went on from a later result.
func (r *resolver) besides(turn int32, last map[string]int32) bool {
	for range 8 { // notes below each other
		p := r.top[turn]
		if p < 0 {
			return false
		}
		if len(r.es[turn].ToolResults) > 0 {
			g := r.groupOf(p)
			return g != "" && last[g] != turn
		}
		if !r.flags[turn].Has(Meta) || r.near[p] < 0 {
			return false
		}
		turn = r.near[p]
	}
	return false
}

// report names every repair, with its place.
func (r *resolver) report(res *session.Resolution, on []bool) {
	foreign := ""
	for i := range r.es {
		e := &r.es[i]
		if r.flags[i].Has(Node) && e.Session != foreign {
			if foreign = e.Session; foreign != "" {
				r.problem(session.WrongSessionID, session.Hint, int32(i), "from here on the entries name another session")
			}
		}
		if r.flags[i].Has(Node) && !r.live[i] {
			res.Report.DuplicateIDs = append(res.Report.DuplicateIDs, e.ID)
			r.problem(session.DuplicateID, session.Info, int32(i), "the id is used again further down; the last copy counts")
		}
		to, lost := r.bridged[int32(i)]
		switch {
		case !lost:
		case !on[i]:
			r.problem(session.MissingParent, session.Hint, int32(i), "the parent of this entry is not in the file")
		case to < 0:
			res.Report.MissingParents = append(res.Report.MissingParents, e.ID)
			r.problem(session.MissingParent, session.Warning, int32(i), "the parent of this entry is not in the file; the conversation starts here")
		default:
			res.Report.MissingParents = append(res.Report.MissingParents, e.ID)
			r.problem(session.MissingParent, session.Warning, int32(i), "the parent of this entry is not in the file; it follows the entry before it")
		}
	}
	for _, p := range r.probs {
		if p.Code == session.Cycle {
			res.Report.Cycle = append(res.Report.Cycle, p.EntryID)
		}
	}
	for _, i := range r.loops {
		if !on[i] {
			r.problem(session.Cycle, session.Hint, i, "entries off the conversation hang below each other")
		}
	}
	slices.SortStableFunc(r.probs, func(a, b session.Problem) int { return cmp.Compare(a.Pos.Offset, b.Pos.Offset) })
}
