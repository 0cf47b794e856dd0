package chain

import (
	"slices"
	"strings"

	"github.com/agent-ls/agent-ls/session"
)

// firstCredit and creditEach bound the work of Add: every entry earns credit,
// and an effect that only a full resolution can tell costs as much as there
// are entries. Without credit the effect is Rebuilt, which is always safe.
const (
	firstCredit = 1 << 15
	creditEach  = 4
)

// state is what Add knows of the conversation without resolving it.
type state struct {
	known     bool
	chain     []int32
	end       int32           // last entry of the path
	unsure    bool            // the path ends where it does for want of anything better
	pin       Pin             // last pin, whether or not its entry is there
	pinned    bool            // pin's entry is there; it is on the path
	beside    bool            // the chain ends with what was recovered beside the path
	aside     bool            // the path is a helper's, by an explicit pin
	odd       map[string]bool // calls that were left out, though not answered by now
	forever   bool            // an explicit pin: nothing added below it counts
	watch     map[string]bool // entries that a boundary names: parents move around them
	missing   map[string]bool
	groups    map[string]bool // every message seen
	made      map[string]bool // calls of the chain
	open      map[string]bool // calls of the chain without a result
	group     string          // message at the end of the chain, its lines in a row
	inGroup   map[int32]bool  // its lines
	answered  bool            // a result of it is there
	pinInside bool            // the pin was set while the group was open
}

func start() state {
	return state{
		known: true, end: none,
		missing: map[string]bool{}, watch: map[string]bool{}, groups: map[string]bool{}, made: map[string]bool{}, open: map[string]bool{},
	}
}

// Add implements session.Replayer.
func (t *tree) Add(e session.Entry) session.Effect {
	t.catchUp()
	i := int32(len(t.entries))
	t.append(e)
	t.credit += creditEach
	f, p, steady := t.note(i)
	if len(t.why) == int(i) { // else only a resolution tells
		t.why = append(t.why, session.NotAMessage)
	}
	if pin, ok := e.Mark.(Pin); ok && !f.Has(Node) {
		return t.addPin(pin)
	}
	if !f.Has(Node) {
		return session.Recorded
	}
	if steady {
		if effect, ok := t.quick(i, p, f); ok {
			if len(t.why) == len(t.entries) {
				t.why[i] = reasonOf(f, effect)
			}
			return effect
		}
	}
	return t.slow()
}

// AddAll implements session.Bulk: entries are noted when somebody asks for the
// effect of a later one.
func (t *tree) AddAll(entries []session.Entry, more int) {
	t.credit += creditEach * len(entries)
	if n := len(entries); cap(t.entries)-len(t.entries) < n {
		t.entries = slices.Grow(t.entries, n+more)
	}
	for i := range entries {
		t.append(entries[i])
	}
}

// catchUp notes the entries that were added in bulk.
func (t *tree) catchUp() {
	if len(t.eff) == len(t.entries) {
		return
	}
	for len(t.eff) < len(t.entries) {
		i := int32(len(t.eff))
		if p, ok := t.entries[i].Mark.(Pin); ok {
			t.state.pin = p
		}
		t.note(i)
	}
	t.state.known, t.why = false, nil
}

func (t *tree) append(e session.Entry) {
	if strings.EqualFold(e.Session, t.rules.Session) {
		e.Session = ""
	}
	if len(t.entries) == cap(t.entries) {
		// append would take a quarter more each time, and copy a long
		// transcript five times over.
		t.entries = slices.Grow(t.entries, 64+len(t.entries))
	}
	t.entries = append(t.entries, e)
}

// note finds the place of entry i in the tree. steady is false where it
// changes what was known of others.
func (t *tree) note(i int32) (f Flags, p int32, steady bool) {
	e := &t.entries[i]
	f = flagsOf(e)
	if t.rules.Whole {
		f &^= Aside
	}
	p = none
	if !f.Has(Node) {
		t.eff = append(t.eff, none)
		return f, p, true
	}
	_, again := t.ids[e.ID]
	t.ids[e.ID] = i
	if e.Parent != "" {
		p = lost
		if k, ok := t.ids[e.Parent]; ok && k < i {
			p = k
			if flagsOf(&t.entries[k]).Has(Link) {
				p = t.eff[k]
			}
		} else if !ok {
			t.state.missing[e.Parent] = true
		}
	}
	t.odd = t.odd || again || p == lost || t.state.missing[e.ID]
	t.eff = append(t.eff, p)
	b := boundaryOf(e)
	if b != nil {
		if _, ok := t.ids[b.Logical]; !ok && b.Logical != "" {
			t.state.watch[b.Logical] = true // what was summarized depends on it
		}
	}
	if b != nil && b.Anchor != "" {
		t.state.watch[b.Anchor] = true
		t.state.watch[b.Head], t.state.watch[b.Tail] = true, true
		for _, id := range b.Kept {
			t.state.watch[id] = true
		}
	}
	known := true // no earlier line of the same message is elsewhere
	if e.Group != "" && e.Group != t.state.group {
		known = !t.state.groups[e.Group]
		t.state.groups[e.Group] = true
	}
	return f, p, known && !again && !t.state.missing[e.ID] && p != lost
}

// quick tells the effect of a new node with parent p in the common cases,
// without looking further than the end of the path.
func (t *tree) quick(i, p int32, f Flags) (session.Effect, bool) {
	s := &t.state
	e := &t.entries[i]
	if f.Has(Link) || f.Has(Aside) {
		return session.Recorded, s.pin.ID != e.ID && !s.aside && !s.watch[e.ID]
	}
	if !s.known || s.watch[e.ID] || (p >= 0 && s.watch[t.entries[p].ID]) {
		return 0, false
	}
	if b := boundaryOf(e); b != nil {
		// Nothing was said after it yet.
		return session.Recorded, !t.rules.AnyTip && e.Parent == "" && b.Anchor == "" && s.pin.ID != e.ID
	}
	if s.forever {
		// What hangs beside a message with parallel calls still joins it.
		return session.Recorded, s.pin.ID != e.ID && f.Has(Turn) && !f.Has(Meta) &&
			len(e.ToolResults) == 0 && (e.Group == "" || e.Group != s.group)
	}
	if f.Has(Turn|Meta) || s.unsure {
		return 0, false
	}
	if s.beside && len(e.ToolResults) > 0 {
		return 0, false // results go before what was said to them
	}
	if t.rules.ByTime && s.end >= 0 && e.Time.Before(t.entries[s.end].Time) {
		return 0, false
	}
	switch {
	case p >= 0 && p == s.end:
	case p < 0 && s.end < 0 && f.Has(Turn) && s.pin.ID == "" && len(t.ids) == 1:
	case p >= 0 && s.inGroup[p] && !s.pinInside && len(e.ToolResults) > 0 && s.pin.ID != e.ID:
	default:
		return 0, false
	}
	return t.extend(i, f)
}

// reasonOf is the reason of an entry whose effect quick has told.
func reasonOf(f Flags, effect session.Effect) session.Reason {
	switch {
	case !f.Has(Shown):
		return session.NotAMessage
	case effect == session.Extended:
		return session.Effective
	case f.Has(Aside):
		return session.SidechainEntry
	}
	return session.DeadBranch
}

// extend takes i as the new end of the path.
func (t *tree) extend(i int32, f Flags) (session.Effect, bool) {
	s := &t.state
	e := &t.entries[i]
	counts := f.Has(Shown)
	if counts && e.Kind != session.KindMeta {
		switch found := t.answers(e); {
		case len(e.ToolResults) > 0 && found == 0:
			return 0, false // an orphan
		case t.repeats(e) || t.late(e):
			return 0, false
		case len(e.ToolResults) > 0 && e.Role == session.Assistant:
			return 0, false
		case f.Has(Turn) && len(e.ToolResults) == 0 && len(s.open) > 0 && (s.group == "" || e.Group != s.group || s.answered):
			return 0, false // open calls will never be answered
		}
	}
	if s.pin.ID == e.ID {
		if s.pin.Explicit {
			s.forever = true
		}
		s.pinned = true
	}
	s.end = i
	if !counts {
		return session.Recorded, true
	}
	switch {
	case e.Role == session.Assistant && f.Has(Turn) && e.Group != "":
		if e.Group != s.group {
			s.group, s.inGroup, s.answered, s.pinInside = e.Group, map[int32]bool{}, false, s.pin.ID == e.ID
		} else if s.answered {
			s.inGroup = nil // its lines are no longer in a row
		}
		if s.inGroup != nil {
			s.inGroup[i] = true
		}
		s.pinInside = s.pinInside || s.pin.ID == e.ID
	case len(e.ToolResults) > 0 && s.inGroup != nil:
		s.answered = true
		s.pinInside = s.pinInside || s.pin.ID == e.ID
	default:
		s.group, s.inGroup = "", nil
	}
	if e.Kind != session.KindMeta {
		for _, id := range e.ToolResults {
			delete(s.open, id)
		}
		for _, id := range e.ToolUses {
			s.made[id], s.open[id] = true, true
		}
	}
	s.beside = false
	s.chain = append(s.chain, i)
	return session.Extended, true
}

// answers counts the results of e whose call is in the chain.
func (t *tree) answers(e *session.Entry) int {
	found := 0
	for _, id := range e.ToolResults {
		if t.state.made[id] {
			found++
		}
	}
	return found
}

// repeats reports whether e makes a call whose id the chain has already.
func (t *tree) repeats(e *session.Entry) bool {
	for _, id := range e.ToolUses {
		if t.state.made[id] {
			return true
		}
	}
	return false
}

// late reports whether e answers a call that was left out of the chain.
func (t *tree) late(e *session.Entry) bool {
	for _, id := range e.ToolResults {
		if t.state.odd[id] {
			return true
		}
	}
	return false
}

// addPin tells the effect of a new last pin.
func (t *tree) addPin(p Pin) session.Effect {
	s := &t.state
	if p == s.pin {
		return session.Recorded
	}
	old := s.pinned
	s.pin = p
	at, there := t.ids[p.ID]
	there = there && !flagsOf(&t.entries[at]).Has(Link)
	switch {
	case !s.known || s.unsure:
	case there && at == s.end && !s.forever:
		s.pinned, s.forever = true, p.Explicit
		s.pinInside = s.inGroup != nil
		return session.Recorded
	case !there && !old:
		return session.Recorded
	}
	return t.slow()
}

// slow tells the effect by resolving everything, if there is credit for it.
func (t *tree) slow() session.Effect {
	s := &t.state
	n := len(t.entries)
	cost := n
	if !s.known {
		cost += n
	}
	if t.credit < cost {
		s.known, t.why = false, nil
		return session.Rebuilt
	}
	t.credit -= cost
	if !s.known {
		before, _ := resolve(t.rules, t.entries[:n-1], nil, "")
		s.chain = narrow(before.Chain)
	}
	after, at := resolve(t.rules, t.entries, t.known(), "")
	effect := compare(s.chain, after.Chain)
	t.restart(after, at)
	return effect
}

// known gives the parents as resolve takes them.
func (t *tree) known() []int32 {
	if t.odd || len(t.eff) < len(t.entries) {
		return nil
	}
	return t.eff
}

// compare tells how one chain became another.
func compare(before []int32, after []int) session.Effect {
	if len(after) < len(before) {
		return session.Rebuilt
	}
	for k, i := range before {
		if after[k] != int(i) {
			return session.Rebuilt
		}
	}
	if len(after) == len(before) {
		return session.Recorded
	}
	return session.Extended
}

func narrow(chain []int) []int32 {
	out := make([]int32, len(chain))
	for k, i := range chain {
		out[k] = int32(i)
	}
	return out
}

// restart sets the state from a resolution of all entries.
func (t *tree) restart(r session.Resolution, at tail) {
	old := &t.state
	s := start()
	s.missing, s.watch, s.groups, s.pin = old.missing, old.watch, old.groups, old.pin
	s.chain, s.end = narrow(r.Chain), at.end
	s.pinned = at.pinAt >= 0
	s.forever = s.pinned && at.explicit
	for _, i := range r.Chain {
		e := &t.entries[i]
		if e.Kind == session.KindMeta {
			continue
		}
		for _, id := range e.ToolResults {
			delete(s.open, id)
		}
		for _, id := range e.ToolUses {
			s.made[id], s.open[id] = true, true
		}
	}
	if d := r.Dangling; d != nil {
		s.odd = map[string]bool{}
		told := map[string]bool{}
		for _, id := range d.ToolUseIDs {
			s.odd[id] = s.odd[id] || !s.open[id] || told[id]
			told[id] = true
		}
		for id := range told {
			s.open[id] = true
		}
	}
	t.why = r.Excluded
	s.unsure = at.forced
	if s.end >= 0 {
		s.aside = !t.rules.Whole && flagsOf(&t.entries[s.end]).Has(Aside)
		s.beside = len(s.chain) > 0 && s.chain[len(s.chain)-1] != s.end
		// The path may end below a turn that was not the last candidate of
		// the first class; then what hangs on it need not extend it.
		for k := s.end; k >= 0; k = t.eff[k] {
			f := flagsOf(&t.entries[k])
			if f.Has(Turn) {
				s.unsure = s.unsure || f.Has(Meta)
				break
			}
			if boundaryOf(&t.entries[k]) != nil {
				s.unsure = true
				break
			}
		}
	}
	t.state = s
}
