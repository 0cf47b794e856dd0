package session

import (
	"io"
	"iter"
	"slices"
)

// Messages gives the effective conversation of r as a model API takes it:
// entries of one group become one message, every tool call has its results,
// and nothing is invented. Bodies are read one message at a time, so memory
// follows the longest message. Iteration stops at the first error of src.
func Messages(f Format, src io.ReaderAt, t *Transcript, r *Resolution) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		var ahead Ahead
		p := NewPlan(f, src, t, r)
		for i := range p.Len() {
			m, err := p.Load(i, &ahead)
			if err != nil {
				yield(Message{}, err)
				return
			}
			if len(m.Blocks) > 0 && !yield(m, nil) {
				return
			}
		}
	}
}

// Plan knows what each message of a conversation is made of, before any is
// read. Its parts can be loaded in any order, and by several goroutines.
type Plan struct {
	format           Format
	src              io.ReaderAt
	t                *Transcript
	groups           [][]int
	called, answered map[string]bool
}

// NewPlan plans the messages of r.
func NewPlan(f Format, src io.ReaderAt, t *Transcript, r *Resolution) *Plan {
	p := &Plan{format: f, src: src, t: t, groups: r.Groups(t)}
	p.called, p.answered = r.pairs(t)
	return p
}

// Len is the number of messages, those that turn out empty included.
func (p *Plan) Len() int { return len(p.groups) }

// Size is the number of bytes that the messages from, up to but not including
// to, take in the log: about what they take as JSON, and at least that in most
// stores.
func (p *Plan) Size(from, to int) int {
	n := 0
	for _, g := range p.groups[from:to] {
		for _, i := range g {
			n += p.t.entries[i].Pos.Length
		}
	}
	return n
}

// Load reads message i. It has no blocks where nothing of it is for a model.
// ahead is one caller's and reused from one call to the next.
func (p *Plan) Load(i int, ahead *Ahead) (Message, error) {
	group := p.groups[i]
	m := Message{Role: p.Role(i), Entries: make([]string, 0, len(group))}
	err := p.walk(i, ahead, p.format.Body, func(e *Entry, b Body) {
		m.Blocks = append(m.Blocks, b.Blocks...)
		m.Entries = append(m.Entries, e.ID)
		m.Time = e.Time
		if b.Model != "" {
			m.Model = b.Model
		}
		if b.Usage != nil {
			m.Usage = b.Usage
		}
	})
	if err != nil {
		return Message{}, err
	}
	return m, nil
}

// Role is who speaks in message i.
func (p *Plan) Role(i int) Role { return p.t.entries[p.groups[i][0]].Role }

// Walk visits the entries of message i in order, with the content of each
// that is for a model. What b holds is valid during the visit only: its
// blocks can be Quoted, and share the bytes that were read. ahead is as for Load.
func (p *Plan) Walk(i int, ahead *Ahead, visit func(e *Entry, b Body)) error {
	body := p.format.Body
	if q, ok := p.format.(Quoter); ok {
		body = q.Quote
	}
	return p.walk(i, ahead, body, visit)
}

func (p *Plan) walk(i int, ahead *Ahead, body func([]byte) Body, visit func(e *Entry, b Body)) error {
	for _, at := range p.groups[i] {
		e := &p.t.entries[at]
		raw, err := ahead.read(p.src, e)
		if err != nil {
			return err
		}
		b := body(raw)
		b.Blocks = slices.DeleteFunc(b.Blocks, func(b Block) bool {
			switch b := b.(type) {
			case ToolUse:
				return !p.answered[b.ID]
			case ToolResult:
				return !p.called[b.UseID]
			case Unknown:
				return b.Hidden // reasoning that must not be shown stays in the log
			}
			return false
		})
		visit(e, b)
	}
	return nil
}

// pairs gives the ids that are called in the conversation, and those that are
// answered. A call that may still be running counts in the conversation, but
// a model cannot be given it.
func (r *Resolution) pairs(t *Transcript) (called, answered map[string]bool) {
	called, answered = map[string]bool{}, map[string]bool{}
	for _, i := range r.Chain {
		e := &t.Entries()[i]
		for _, id := range e.ToolUses {
			called[id] = true
		}
		for _, id := range e.ToolResults {
			if called[id] {
				answered[id] = true
			}
		}
	}
	return called, answered
}

// Groups gives the entries of each message of the conversation, as indices
// into t.Entries. Entries of one group need not be adjacent (results can come
// between parallel calls); a message stands where its first entry does.
// Orphan results and entries that are no messages are left out.
func (r *Resolution) Groups(t *Transcript) [][]int {
	entries := t.Entries()
	orphan := make(map[int]bool, len(r.Orphans))
	for _, i := range r.Orphans {
		orphan[i] = true
	}
	var out [][]int
	at := map[string]int{}
	for _, i := range r.Chain {
		e := &entries[i]
		if e.Role == NoRole || orphan[i] || (e.Kind != KindMessage && e.Kind != KindSummary) {
			continue
		}
		if e.Group != "" {
			if g, ok := at[e.Group]; ok && entries[out[g][0]].Role == e.Role {
				out[g] = append(out[g], i)
				continue
			}
			at[e.Group] = len(out)
		}
		out = append(out, []int{i})
	}
	return out
}

// Ahead is what was read beyond an entry: the next one most often stands
// right behind it, and need not be asked for again. The zero value is ready.
type Ahead struct {
	buf []byte
	off int64
}

// aheadBytes is how much is read at a time.
const aheadBytes = 256 << 10

// read gives the bytes of e, valid until the next call.
func (a *Ahead) read(src io.ReaderAt, e *Entry) ([]byte, error) {
	from := e.Pos.Offset - a.off
	if from < 0 || from+int64(e.Pos.Length) > int64(len(a.buf)) {
		size := max(e.Pos.Length, aheadBytes)
		a.buf = slices.Grow(a.buf[:0], size)[:size]
		n, err := src.ReadAt(a.buf, e.Pos.Offset)
		a.buf, a.off, from = a.buf[:n], e.Pos.Offset, 0
		if n < e.Pos.Length {
			return nil, shortRead(*e, err)
		}
	}
	return a.buf[from : from+int64(e.Pos.Length)], nil
}
