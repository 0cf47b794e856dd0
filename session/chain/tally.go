package chain

import (
	"slices"

	"github.com/agent-ls/agent-ls/session"
)

// Tally counts the effective messages of a linear log without keeping its
// entries: what a list needs. The zero value is the empty log. It can be
// stored and gone on with when the log has grown.
type Tally struct {
	N       int      // messages since the last replace
	Last    int      // those before the last one with calls
	Missing []string // its calls without a result
	Group   string   // counted replace under way
	Want    int
	Inside  *Tally // its members so far
}

// Count is the number of effective messages.
func (t *Tally) Count() int {
	if len(t.Missing) > 0 {
		return t.Last
	}
	return t.N
}

// Add counts the next entry.
func (t *Tally) Add(e *session.Entry) {
	member, isMember := e.Mark.(GroupMember)
	if t.Group != "" {
		switch {
		case isMember && member.Group == t.Group && e.Kind == session.KindMessage:
			t.Inside.message(e)
			if t.Inside.N == t.Want {
				*t = *t.Inside
			}
			return
		case e.Kind == session.KindMessage || e.Kind == session.KindReplace:
			t.Group, t.Want, t.Inside = "", 0, nil
		default:
			return
		}
	}
	switch e.Kind {
	case session.KindReplace:
		m, _ := e.Mark.(ReplaceMark)
		if m.Group != "" && m.Count > 0 {
			t.Group, t.Want, t.Inside = m.Group, m.Count, &Tally{}
			return
		}
		*t = Tally{}
	case session.KindMessage:
		if !isMember {
			t.message(e)
		}
	}
}

func (t *Tally) message(e *session.Entry) {
	if len(e.ToolUses) > 0 {
		t.Last, t.Missing = t.N, slices.Clone(e.ToolUses)
	}
	for _, id := range e.ToolResults {
		if k := slices.Index(t.Missing, id); k >= 0 {
			t.Missing = slices.Delete(t.Missing, k, k+1)
		}
	}
	t.N++
}
