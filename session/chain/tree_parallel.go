package chain

import (
	"slices"

	"github.com/agent-ls/agent-ls/session"
)

// side is what the path of one model message leaves out: further lines of the
// message, and results of its calls with what the program said to them.
type side struct {
	anchor  int // position in the path of the last line of the message
	calls   []int32
	results []int32
	notes   []int32
}

// recover adds to a path what parallel tool calls hang beside it. Calls made
// at once are lines of one message in a row, each result hangs on its own
// call, and the conversation goes on from the last result only.
func (r *resolver) recover(path []int32) []int32 {
	sides := map[string]*side{}
	for pos, i := range path {
		if g := r.groupOf(i); g != "" {
			s := sides[g]
			if s == nil {
				s = &side{}
				sides[g] = s
			}
			s.anchor = pos
		}
	}
	if len(sides) == 0 {
		return path
	}
	on := make([]bool, len(r.es))
	for _, i := range path {
		on[i] = true
	}
	r.collect(sides, on)

	at := map[int]*side{}
	for _, s := range sides {
		if len(s.calls)+len(s.results) > 0 {
			at[s.anchor] = s
		}
	}
	if len(at) == 0 {
		return path
	}
	return r.splice(path, at)
}

// groupOf is the group of a line of a model message, or "". A helper's lines
// are never of one group with others.
func (r *resolver) groupOf(i int32) string {
	if f := r.flags[i]; !f.Has(Turn|Shown) || r.es[i].Role != session.Assistant || r.es[i].Group == "" {
		return ""
	} else if f.Has(Aside) {
		return "aside " + r.es[i].Group
	}
	return r.es[i].Group
}

// collect finds what belongs to the groups of a path but is not on it.
func (r *resolver) collect(sides map[string]*side, on []bool) {
	of := make([]*side, len(r.es)) // the side that an entry or its children go to
	for i := range r.es {
		if !r.live[i] {
			continue
		}
		g := r.groupOf(int32(i))
		if g == "" {
			continue
		}
		s := sides[g]
		if s == nil {
			continue
		}
		of[i] = s
		if !on[i] {
			s.calls = append(s.calls, int32(i))
		}
	}
	for _, i := range r.order {
		p := r.top[i]
		if p < 0 || of[p] == nil || on[i] || r.flags[i].Has(Aside) != r.flags[p].Has(Aside) {
			continue
		}
		switch s := of[p]; {
		case of[i] != nil:
		case r.groupOf(p) != "" && len(r.es[i].ToolResults) > 0:
			s.results = append(s.results, i)
			of[i] = s
		case r.groupOf(p) == "" && (r.flags[i].Has(Turn|Meta) || !r.flags[i].Has(Turn)):
			// Below a recovered result: what the program said to it.
			s.notes = append(s.notes, i)
			of[i] = s
		}
	}
	for _, s := range sides {
		slices.Sort(s.results)
		slices.Sort(s.notes)
	}
}

// splice inserts calls and results behind the message they belong to, and
// notes behind the results that follow it on the path, since a model wants
// the results first.
func (r *resolver) splice(path []int32, at map[int]*side) []int32 {
	out := make([]int32, 0, len(path)+len(at))
	var notes []int32
	for pos, i := range path {
		if len(notes) > 0 && r.flags[i].Has(Shown) && len(r.es[i].ToolResults) == 0 {
			out = append(out, notes...)
			notes = nil
		}
		out = append(out, i)
		if s := at[pos]; s != nil {
			out = append(out, s.calls...)
			out = append(out, s.results...)
			notes = s.notes
		}
	}
	return append(out, notes...)
}
