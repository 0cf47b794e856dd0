package chain

import (
	"maps"
	"slices"

	"github.com/agent-ls/agent-ls/session"
)

// ReplaceMark is the Entry.Mark of an entry of KindReplace in a linear store:
// from here on the conversation consists of the messages that follow.
//
// With an empty Group it takes effect at once, as the agents' own marks do.
// With a Group it takes effect when Count messages with that GroupMember mark
// have followed it directly; until then, and for ever if something else comes
// between, the conversation is the one before the mark.
type ReplaceMark struct {
	Group string
	Count int
}

// GroupMember is the Entry.Mark of a message that belongs to a counted replace.
type GroupMember struct{ Group string }

// Linear replays a log in which every message follows the one before it.
// Tool calls without results are cut back as PseudoClaude does: only the last
// message with calls is looked at, and it goes with everything behind it.
func Linear() session.Replayer { return &linear{linearState: linearState{last: -1, mark: -1}} }

type linear struct {
	entries []session.Entry
	linearState
}

// linearState is copied into snapshots. Slices in it only grow, or are replaced.
type linearState struct {
	eff     []int // messages of the conversation, before the cut
	mark    int   // entry of the replace mark in force, -1 for none
	orphans []int // results whose call is nowhere before them in eff
	partial []int // marks of groups that were given up

	// The last message with calls, as a position in eff (-1 for none), and
	// the ids of its calls that have no result yet.
	last    int
	missing []string
	calls   map[string]bool // all ids called in eff; owned by the live replayer

	// Calls before the last message with calls that have no result, and the
	// entries that made them: the map is the live replayer's, the list is for
	// snapshots.
	old        map[string]int
	unanswered []int

	// The group under way: entry of its mark, and its members so far.
	open    bool
	opened  int
	members []int
}

// cut is how much of eff counts.
func (s *linearState) cut() int {
	if s.last >= 0 && len(s.missing) > 0 {
		return s.last
	}
	return len(s.eff)
}

// Add implements session.Replayer.
func (l *linear) Add(e session.Entry) session.Effect {
	i := len(l.entries)
	if i > 0 && e.Parent == "" {
		e.Parent = l.entries[i-1].ID
	}
	l.entries = append(l.entries, e)

	member, isMember := e.Mark.(GroupMember)
	if l.open {
		m := l.entries[l.opened].Mark.(ReplaceMark) //nolint:forcetypeassert // open is set for such marks only
		switch {
		case isMember && member.Group == m.Group && e.Kind == session.KindMessage:
			l.members = append(l.members, i)
			if len(l.members) < m.Count {
				return session.Recorded
			}
			l.open = false
			l.begin(l.opened)
			for _, j := range l.members {
				l.message(j)
			}
			return session.Rebuilt
		case e.Kind == session.KindMessage || e.Kind == session.KindReplace:
			// Somebody else went on: the group will never be whole.
			l.partial = append(l.partial, l.opened)
			l.open = false
		default:
			return session.Recorded // bookkeeping and bad lines do not disturb it
		}
	}
	switch e.Kind {
	case session.KindReplace:
		m, _ := e.Mark.(ReplaceMark)
		if m.Group != "" && m.Count > 0 {
			l.open, l.opened, l.members = true, i, nil
			return session.Recorded
		}
		l.begin(i)
		return session.Rebuilt
	case session.KindMessage:
		if isMember { // its mark is missing or was given up
			return session.Recorded
		}
		before := l.cut()
		l.message(i)
		if l.cut() > before {
			return session.Extended
		}
	}
	return session.Recorded
}

// older gives the entries with calls that were left without a result.
func (l *linear) older() []int {
	if len(l.old) == 0 {
		return nil
	}
	list := slices.Sorted(maps.Values(l.old))
	return slices.Compact(list)
}

// begin starts an empty conversation at the mark.
func (l *linear) begin(mark int) {
	l.eff, l.orphans, l.mark, l.last, l.missing, l.calls = nil, nil, mark, -1, nil, nil
	l.old = nil
}

// message adds an entry to the conversation.
func (l *linear) message(i int) {
	e := &l.entries[i]
	if n := len(e.ToolUses); n > 0 {
		for _, id := range l.missing {
			if l.old == nil {
				l.old = map[string]int{}
			}
			l.old[id] = l.eff[l.last]
		}
		l.last, l.missing = len(l.eff), slices.Clone(e.ToolUses)
		if l.calls == nil {
			l.calls = make(map[string]bool, n)
		}
		for _, id := range e.ToolUses {
			l.calls[id] = true
		}
	}
	for _, id := range e.ToolResults {
		if !l.calls[id] {
			l.orphans = append(l.orphans, i)
		}
		delete(l.old, id)
		if k := slices.Index(l.missing, id); k >= 0 {
			// A snapshot may hold the old slice: never change it in place.
			l.missing = slices.Concat(l.missing[:k], l.missing[k+1:])
		}
	}
	l.eff = append(l.eff, i)
}

// Transcript implements session.Replayer.
func (l *linear) Transcript() *session.Transcript {
	s := l.linearState
	s.eff = s.eff[:len(s.eff):len(s.eff)]
	s.orphans = s.orphans[:len(s.orphans):len(s.orphans)]
	s.partial = s.partial[:len(s.partial):len(s.partial)]
	s.members = s.members[:len(s.members):len(s.members)]
	s.calls, s.old, s.unanswered = nil, nil, l.older()
	known := l.entries
	return session.NewTranscript(l.entries, nil, func(entries []session.Entry, leaf string) session.Resolution {
		if leaf == "" || leaf == session.LeafNewest {
			return s.resolve(entries)
		}
		if r, ok := s.upTo(entries, leaf); ok {
			return r
		}
		return replayTo(entries, leaf)
	}).Knowing(func(i int) session.Reason { return s.reason(known, i) })
}

// reason is Excluded[i] of resolve.
func (s *linearState) reason(entries []session.Entry, i int) session.Reason {
	switch k, ok := slices.BinarySearch(s.eff, i); {
	case ok && k < s.cut():
		return session.Effective
	case ok:
		return session.DanglingToolCall
	case i < s.mark:
		return excludedAs(&entries[i], session.Replaced)
	}
	return excludedAs(&entries[i], session.Superseded)
}

// upTo is the present conversation up to the entry leaf, if it is part of it.
func (s *linearState) upTo(entries []session.Entry, leaf string) (session.Resolution, bool) {
	k := slices.IndexFunc(s.eff, func(i int) bool { return entries[i].ID == leaf })
	if k < 0 {
		return session.Resolution{}, false
	}
	l := &linear{entries: entries, linearState: linearState{last: -1, mark: s.mark, partial: s.partial}}
	for _, i := range s.eff[:k+1] {
		l.message(i)
	}
	l.unanswered = l.older()
	r := l.resolve(entries)
	for _, i := range s.eff[k+1:] {
		r.Excluded[i] = session.RolledBack
	}
	return r, true
}

// replayTo is the conversation as it was when the entry leaf was the last one.
func replayTo(entries []session.Entry, leaf string) session.Resolution {
	l := &linear{linearState: linearState{last: -1, mark: -1}}
	for i := range entries {
		l.Add(entries[i])
		if entries[i].ID == leaf {
			break
		}
	}
	l.unanswered = l.older()
	r := l.resolve(l.entries)
	for i := len(l.entries); i < len(entries); i++ {
		r.Excluded = append(r.Excluded, excludedAs(&entries[i], session.RolledBack))
	}
	return r
}

func excludedAs(e *session.Entry, why session.Reason) session.Reason {
	if e.Kind != session.KindMessage {
		return session.NotAMessage
	}
	return why
}

func (s *linearState) resolve(entries []session.Entry) session.Resolution {
	cut := s.cut()
	r := session.Resolution{
		Chain:    s.eff[:cut:cut],
		Excluded: make([]session.Reason, len(entries)),
	}
	for i := range entries {
		why := session.Superseded // members of a group that never became whole
		if i < s.mark {
			why = session.Replaced
		}
		r.Excluded[i] = excludedAs(&entries[i], why)
	}
	for _, i := range s.eff[:cut] {
		r.Excluded[i] = session.Effective
	}
	for _, i := range s.eff[cut:] {
		r.Excluded[i] = session.DanglingToolCall
	}
	if cut > 0 {
		r.Leaf = entries[s.eff[cut-1]].ID
	}
	if cut < len(s.eff) {
		e := &entries[s.eff[cut]]
		r.Dangling = &session.Dangling{EntryID: e.ID, ToolUseIDs: s.missing, Dropped: len(s.eff) - cut}
		r.Problems = append(r.Problems, session.Problem{
			Code: session.DanglingCall, Severity: session.Info, Pos: e.Pos, EntryID: e.ID,
			Text: "a tool call has no result; the conversation ends before it",
		})
	}
	for _, i := range s.unanswered {
		r.Problems = append(r.Problems, session.Problem{
			Code: session.DanglingCall, Severity: session.Info, Pos: entries[i].Pos, EntryID: entries[i].ID,
			Text: "a tool call has no result; the conversation goes on, and the call is left out of its messages",
		})
	}
	for _, i := range s.orphans {
		if _, ok := slices.BinarySearch(r.Chain, i); !ok {
			continue
		}
		r.Orphans = append(r.Orphans, i)
		r.Problems = append(r.Problems, session.Problem{
			Code: session.OrphanToolResult, Severity: session.Warning, Pos: entries[i].Pos, EntryID: entries[i].ID,
			Text: "a tool result answers no call of the conversation",
		})
	}
	partial := s.partial
	if s.open {
		partial = append(partial[:len(partial):len(partial)], s.opened)
	}
	for _, i := range partial {
		r.Problems = append(r.Problems, session.Problem{
			Code: session.PartialReplace, Severity: session.Warning, Pos: entries[i].Pos, EntryID: entries[i].ID,
			Text: "a replacement is incomplete; the conversation before it stays in force",
		})
	}
	return r
}
