package chain

import (
	"slices"
	"time"

	"github.com/agent-ls/agent-ls/session"
)

// Flags say how an entry takes part in a tree. A format stores them in
// Entry.Mark; entries without flags are no part of the tree. They fit a byte,
// so that storing them in an interface allocates nothing.
type Flags uint8

// The flags.
const (
	// Node: other entries may name this one as their parent.
	Node Flags = 1 << iota
	// Turn: something that the user or the model said; a conversation ends
	// with one of these (and with what hangs below it).
	Turn
	// Link: passes the chain on to its parent, but never ends one.
	Link
	// Aside: belongs to a helper's conversation inside the file.
	Aside
	// Meta: said by the program in the user's name; it does not end a
	// conversation while anything else does.
	Meta
	// Shown: counts in the conversation when it is on the chain.
	Shown
	// Mixed: has content besides tool calls or tool results, so that it stays
	// when those are left out.
	Mixed
)

// Has reports whether all of want are in f.
func (f Flags) Has(want Flags) bool { return f&want == want }

// Boundary is the Mark of an entry above which nothing counts: what came
// before it was summarized. Entries that were kept all the same are named by
// Kept, or by the two ends of their path, and hang behind Anchor.
type Boundary struct {
	Flags   Flags
	Logical string // entry that the boundary follows in time
	Anchor  string
	Kept    []string
	Head    string
	Tail    string
}

// Pin is the Mark of an entry that says where the conversation continues. The
// last pin of a transcript counts, and only if its entry is there.
type Pin struct {
	ID string
	// Explicit: the conversation ends with ID. Otherwise it ends with the
	// newest tip below it.
	Explicit bool
}

// TreeRules are the differences between stores that link entries by parent.
type TreeRules struct {
	// ByTime makes the tip with the newest time the current one; ties and
	// entries without a time go by the order in the file. Otherwise the order
	// in the file decides alone.
	ByTime bool
	// Bridge lets an entry whose parent is not there follow the entry before
	// it in the file. Otherwise the chain starts at it.
	Bridge bool
	// Whole: the transcript is a helper's own; Aside entries are its main ones.
	Whole bool
	// Session is the id that the entries should name, if they name any.
	Session string
	// AnyTip: every node ends a conversation, not only a Turn.
	AnyTip bool
}

// Tree gives a Replayer for a store whose entries name their parent.
//
// An entry costs amortised constant time to add. Resolving a leaf takes time
// linear in the entries, whatever their shape, and uses no recursion.
func Tree(rules TreeRules) session.Replayer {
	return &tree{rules: rules, ids: map[string]int32{}, state: start(), credit: firstCredit}
}

type tree struct {
	rules   TreeRules
	entries []session.Entry
	ids     map[string]int32 // node ids to the last entry that has them
	eff     []int32          // parent of a node with links skipped, none or lost
	odd     bool             // ids repeat, or parents stand behind their children or nowhere
	why     []session.Reason // of each entry, where the state is known; snapshots share it
	state   state
	credit  int
}

// Values of a parent index.
const (
	none int32 = -1 // a root
	lost int32 = -2 // names an entry that is not there
)

func flagsOf(e *session.Entry) Flags {
	switch m := e.Mark.(type) {
	case Flags:
		return m
	case *Boundary:
		return m.Flags
	}
	return 0
}

func boundaryOf(e *session.Entry) *Boundary {
	b, _ := e.Mark.(*Boundary)
	return b
}

// Transcript implements session.Replayer.
func (t *tree) Transcript() *session.Transcript {
	rules := t.rules
	known := slices.Clip(t.known())
	shown := session.NewTranscript(t.entries, nil, func(es []session.Entry, leaf string) session.Resolution {
		r, _ := resolve(rules, es, known, leaf)
		return r
	})
	if why := t.why; len(why) == len(t.entries) {
		shown.Knowing(func(i int) session.Reason { return why[i] })
	}
	return shown
}

// later reports whether the tip a is to be preferred to the tip b.
func (rules TreeRules) later(es []session.Entry, a, b int32) bool {
	if rules.ByTime {
		var ta, tb time.Time = es[a].Time, es[b].Time
		if !ta.Equal(tb) {
			return ta.After(tb)
		}
	}
	return a > b
}
