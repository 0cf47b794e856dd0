package format

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/chain"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

const (
	// claudeSlack is how much before the boundary is read along: lines of one
	// burst can stand in any order.
	claudeSlack = 64 << 10
	// claudeTries bounds how many places that look like a boundary are tried.
	claudeTries = 64
)

// Tail implements session.Tailed. What a compact boundary cut off is not
// needed to go on, if nothing behind it reaches back: no line that hangs on an
// earlier one, no pin on one, no boundary that kept one which was not found.
// It takes two things for granted that only reading everything could tell: that
// no line further up than the slack hangs on one behind the boundary, and that
// no line behind it repeats the id of one that is.
func (f claude) Tail(src io.ReaderAt, size int64) (off int64, ok bool) {
	limit := size
	for range claudeTries {
		// Reading it all costs little more than reading half of it. The pattern
		// begins with a byte that is rare in what people say, which makes the
		// search several times faster.
		at, err := jsonl.LastIndex(src, size/2, limit, []byte("_boundary"), jsonl.Options{})
		if err != nil || at < 0 {
			return 0, false
		}
		limit = at
		raw, start, err := lineAt(src, at, size)
		if err != nil {
			return 0, false
		}
		l, valid := parseClaude(raw)
		if !valid || l.typ != "system" || l.subtype != "compact_boundary" {
			continue // somebody talks about one
		}
		return f.tailFrom(src, size, start, &l)
	}
	return 0, false
}

// tailFrom tries to prove that a replay may start at the boundary l.
func (f claude) tailFrom(src io.ReaderAt, size, start int64, l *claudeLine) (int64, bool) {
	off := max(0, start-claudeSlack)
	b := l.boundary(0)
	first := b.Head
	if len(b.Kept) > 0 {
		first = b.Kept[0]
	}
	if first != "" {
		quoted, err := marshal(first)
		if err != nil {
			return 0, false
		}
		at, err := jsonl.LastIndex(src, 0, start, append([]byte(`"uuid":`), quoted...), jsonl.Options{})
		if err != nil || at < 0 {
			return 0, false
		}
		off = max(0, min(off, at-claudeSlack))
	}
	if off > 0 {
		var err error
		if off, err = lineStart(src, off-1, size); err != nil {
			return 0, false
		}
	}
	if off < size/2 {
		return 0, false
	}
	t, _, err := session.Read(f, "", src, session.ReadOptions{From: off, Options: jsonl.Options{Window: claudeTail}})
	if err != nil || !selfContained(t, start) {
		return 0, false
	}
	if !hasPin(t) {
		at, err := jsonl.LastIndex(src, 0, off, []byte(`"last-prompt"`), jsonl.Options{})
		if err != nil || at >= 0 {
			return 0, false
		}
	}
	return off, true
}

func hasPin(t *session.Transcript) bool {
	for _, e := range t.Entries() {
		if _, ok := e.Mark.(chain.Pin); ok {
			return true
		}
	}
	return false
}

// selfContained reports whether the conversation of t, which was read from
// its middle on, is the one of the whole transcript. start is the boundary.
func selfContained(t *session.Transcript, start int64) bool {
	entries, r := t.Entries(), t.Current()
	if len(r.Chain) == 0 || entries[r.Chain[0]].Pos.Offset != start {
		return false
	}
	for _, p := range r.Problems {
		if p.Code == session.Cycle {
			return false
		}
	}
	ids, named := map[string]int{}, map[string]bool{}
	for i := range entries {
		if isNode(&entries[i]) {
			ids[entries[i].ID] = i
		}
	}
	pin := ""
	for i := range entries {
		e := &entries[i]
		if p, ok := e.Mark.(chain.Pin); ok {
			pin = p.ID
		}
		if b, ok := e.Mark.(*chain.Boundary); ok && b.Anchor != "" && e.Pos.Offset != start {
			return false // what it kept may be further up
		}
		if !isNode(e) || e.Parent == "" {
			continue
		}
		_, here := ids[e.Parent]
		if !here && e.Pos.Offset >= start {
			return false
		}
		named[e.Parent] = true
	}
	if _, here := ids[pin]; !here && pin != "" && pin != claudeNoPin {
		return false // perhaps on what comes before
	}
	b, _ := entries[r.Chain[0]].Mark.(*chain.Boundary)
	for _, id := range append([]string{b.Anchor, b.Head, b.Tail}, b.Kept...) {
		if _, here := ids[id]; !here && id != "" {
			return false
		}
	}
	// Reading from the middle bridges entries that in truth hang further up.
	for _, i := range r.Chain {
		e := &entries[i]
		if _, here := ids[e.Parent]; !here && e.Parent != "" && e.ID != b.Head && !slices.Contains(b.Kept, e.ID) {
			return false
		}
	}
	if b.Head != "" && !connected(entries, ids, b.Tail, b.Head) {
		return false
	}
	return !named[r.End] && endsWell(entries, ids, r.End)
}

// connected reports whether a path of parents that are here leads from one
// entry up to another.
func connected(entries []session.Entry, ids map[string]int, from, to string) bool {
	for range entries {
		if from == to {
			return true
		}
		i, ok := ids[from]
		if !ok {
			return false
		}
		from = entries[i].Parent
	}
	return false
}

// endsWell reports whether the path ends with words of the user or the model:
// else an earlier branch may be preferred.
func endsWell(entries []session.Entry, ids map[string]int, end string) bool {
	for range entries {
		i, ok := ids[end]
		if !ok {
			return false
		}
		f, _ := entries[i].Mark.(chain.Flags)
		if f.Has(chain.Turn) {
			return !f.Has(chain.Meta) && !f.Has(chain.Aside)
		}
		end = entries[i].Parent
	}
	return false
}

func isNode(e *session.Entry) bool {
	switch m := e.Mark.(type) {
	case chain.Flags:
		return m.Has(chain.Node)
	case *chain.Boundary:
		return true
	}
	return false
}

// lineAt gives the line around off and where it starts. A boundary is short;
// a longer line is none.
func lineAt(src io.ReaderAt, off, size int64) (raw []byte, start int64, err error) {
	const reach = 256 << 10
	from := max(0, off-reach)
	buf := make([]byte, min(size, off+reach)-from)
	n, err := src.ReadAt(buf, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	buf = buf[:n]
	at := min(int(off-from), len(buf))
	a := bytes.LastIndexByte(buf[:at], '\n')
	b := bytes.IndexByte(buf[at:], '\n')
	if (a < 0 && from > 0) || b < 0 {
		return nil, 0, nil
	}
	return buf[a+1 : at+b], from + int64(a) + 1, nil
}
