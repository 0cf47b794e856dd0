package session

import (
	"sync/atomic"
)

// Resolution says which entries count: the result of replaying a transcript
// up to one leaf. Indices are into Transcript.Entries.
type Resolution struct {
	Leaf string // id of the last entry of the conversation; "" if empty
	// End is the id of the last entry on the path to Leaf and below it that
	// does not count itself (bookkeeping of the agent); what is appended hangs
	// on it. "" in stores without a tree.
	End      string
	Chain    []int    // effective entries in conversation order
	Excluded []Reason // one per entry; Effective for those of Chain
	Branches []Branch // other tips, newest first
	Dangling *Dangling
	Orphans  []int     // tool results left out because their call is nowhere
	Problems []Problem // found while replaying (chain repairs), by position
	Report   Report    // the figures of the resume report that replay knows
}

// Report is what resume did to make the conversation fit.
type Report struct {
	MissingParents []string // ids of entries whose parent is not in the file
	Cycle          []string // ids of the entries at which a cycle was cut
	DuplicateIDs   []string
	Copied         int // entries copied from a parent session
}

// Branch is an alternative tip of a tree.
type Branch struct {
	Leaf     string
	ForkedAt string // id of the last entry shared with the current chain; "" at the root
	Updated  Time
	Entries  int // entries that only this branch has
}

// Dangling describes tool calls without results and what was cut because of them.
type Dangling struct {
	EntryID    string
	ToolUseIDs []string
	Dropped    int // entries cut, the one with the calls included
}

// Transcript is the content of a session at one moment: the log and, on
// demand, the effective conversation. It is immutable and safe for
// concurrent use.
type Transcript struct {
	entries  []Entry
	problems []Problem
	resolve  func(entries []Entry, leaf string) Resolution
	reason   func(i int) Reason // nil where only resolve tells
	current  atomic.Pointer[Resolution]
}

// NewTranscript is for Replayers. entries must not be changed below its
// length afterwards (a later append to the same array cannot be seen through
// it). resolve is pure; it gets "" for the current leaf and LeafNewest for
// the newest one whatever the store's own rule says.
func NewTranscript(entries []Entry, problems []Problem, resolve func([]Entry, string) Resolution) *Transcript {
	return &Transcript{
		entries:  entries[:len(entries):len(entries)],
		problems: problems[:len(problems):len(problems)],
		resolve:  resolve,
	}
}

// Knowing is for Replayers that know the reason of every entry in the current
// resolution without working it out: reason is pure. It changes t, and gives it.
func (t *Transcript) Knowing(reason func(i int) Reason) *Transcript {
	t.reason = reason
	return t
}

// withProblems is t with further findings of reading.
func (t *Transcript) withProblems(more []Problem) *Transcript {
	if len(more) == 0 {
		return t
	}
	if len(t.problems) > 0 {
		more = append(t.problems, more...) // t.problems has no spare room: this copies
	}
	return NewTranscript(t.entries, more, t.resolve).Knowing(t.reason)
}

// LeafNewest asks for the newest leaf in file order, ignoring pins.
const LeafNewest = "newest"

// Len is the number of entries in the log (physical).
func (t *Transcript) Len() int { return len(t.entries) }

// Entries gives all entries in file order. The caller must not change them.
func (t *Transcript) Entries() []Entry { return t.entries }

// Problems gives the findings of reading (bad lines and the like) in file
// order; those of replaying are in Resolution.Problems.
func (t *Transcript) Problems() []Problem { return t.problems }

// Current is the resolution of the current leaf, computed once.
func (t *Transcript) Current() *Resolution {
	if r := t.current.Load(); r != nil {
		return r
	}
	r := t.resolve(t.entries, "")
	t.current.CompareAndSwap(nil, &r)
	return t.current.Load()
}

// Reason says why entry i does not count in the current resolution. In a
// transcript that grows entry by entry it costs no resolution, so that telling
// of an entry costs the same whatever came before it.
func (t *Transcript) Reason(i int) Reason {
	if r := t.current.Load(); r != nil || t.reason == nil {
		return t.Current().Excluded[i]
	}
	return t.reason(i)
}

// Resolve is Current for another leaf: an entry id, LeafNewest or "".
// An unknown id gives ErrNotFound.
func (t *Transcript) Resolve(leaf string) (*Resolution, error) {
	if leaf == "" {
		return t.Current(), nil
	}
	if leaf != LeafNewest {
		if _, ok := t.Index(leaf); !ok {
			return nil, &NotFoundError{What: "entry", Name: leaf}
		}
	}
	r := t.resolve(t.entries, leaf)
	return &r, nil
}

// Index finds the entry with an id: the last one where ids repeat.
func (t *Transcript) Index(id string) (int, bool) {
	for i := len(t.entries) - 1; i >= 0; i-- {
		if t.entries[i].ID == id {
			return i, true
		}
	}
	return 0, false
}

// Counts gives message entries in the log and in the effective conversation.
func (t *Transcript) Counts() (physical, effective int) {
	for i := range t.entries {
		if t.entries[i].Kind == KindMessage {
			physical++
		}
	}
	for _, i := range t.Current().Chain {
		if t.entries[i].Kind == KindMessage {
			effective++
		}
	}
	return physical, effective
}

// NotFoundError names what is not there.
type NotFoundError struct{ What, Name string }

func (e *NotFoundError) Error() string { return e.What + " " + quote(e.Name) + " not found" }

// Is makes errors.Is(err, ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }
