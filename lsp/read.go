package lsp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
)

// Bounds of session/read.
const (
	defaultMaxBlock = 256 << 10
	largestMaxBlock = 16 << 20
	defaultEntries  = 200
	maxEntries      = 1000
	// pageBytes ends a page before limit entries are reached: no message
	// grows with the log.
	pageBytes = 8 << 20
)

func maxBlock(n int) (int, error) {
	switch {
	case n == 0:
		return defaultMaxBlock, nil
	case n < 1 || n > largestMaxBlock:
		return 0, &session.InvalidError{Field: "maxBlock", Value: itoa(n), Why: "want 1 to " + itoa(largestMaxBlock)}
	}
	return n, nil
}

func (s *Server) read(ctx context.Context, p wire.ReadParams) (any, error) {
	limit, err := maxBlock(p.MaxBlock)
	if err != nil {
		return nil, err
	}
	row, err := s.find(ctx, p.SessionID, p.URI)
	if err != nil {
		return nil, err
	}
	return whole(func() (any, error) { return s.readOnce(ctx, row, p, limit) })
}

// shrinkTries is how often a transcript is read anew that was cut or replaced
// while it was read.
const shrinkTries = 5

// whole reads again when the transcript came out shorter than it was.
func whole(read func() (any, error)) (any, error) {
	for try := 1; ; try++ {
		v, err := read()
		if err == nil || !errors.Is(err, io.ErrUnexpectedEOF) || try == shrinkTries {
			return v, err
		}
	}
}

func (s *Server) readOnce(ctx context.Context, row catalog.Row, p wire.ReadParams, limit int) (_ any, err error) {
	o, err := s.o.Catalog.Load(ctx, row.ID, catalog.LoadOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	if p.Entry != "" {
		return readBlock(o, p)
	}
	r, err := resolve(o, p.Leaf)
	if err != nil {
		return nil, err
	}
	var order []int // what the view shows, in its order
	switch p.View {
	case "", "effective":
		order = r.Chain
	case "physical":
		order = make([]int, o.Transcript.Len())
		for i := range order {
			order[i] = i
		}
	default:
		return nil, &session.InvalidError{Field: "view", Value: p.View, Why: "want effective or physical"}
	}
	build := &entryBuilder{
		format: o.Format, src: o.Source, t: o.Transcript, names: newNames(o.Transcript, r), limit: limit, raw: p.Raw,
		why: func(i int) session.Reason { return r.Excluded[i] },
	}
	from, to, err := window(build.names, order, p)
	if err != nil {
		return nil, err
	}
	res := wire.ReadResult{
		Session: s.wireLoaded(o, r), Entries: []wire.Entry{}, Leaf: r.Leaf, Branches: branches(r),
		Report: report(o.Transcript, r, o.Cost, o.From), Revision: string(o.Revision),
	}
	backward := p.Before != ""
	budget := pageBytes
	for from < to && budget > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		i := from
		if backward {
			i = to - 1
		}
		e, size, err := build.entry(order[i])
		if err != nil {
			return nil, err
		}
		budget -= size
		res.Entries = append(res.Entries, e)
		if backward {
			to--
		} else {
			from++
		}
	}
	if backward {
		// The page was filled from its end.
		slices.Reverse(res.Entries)
		res.HasBefore, res.HasAfter = to > 0, to+len(res.Entries) < len(order)
	} else {
		res.HasBefore, res.HasAfter = from-len(res.Entries) > 0, from < len(order)
	}
	return res, nil
}

// window gives the positions in order that a page asks for: [from, to).
func window(names names, order []int, p wire.ReadParams) (from, to int, err error) {
	n := defaultEntries
	if p.Limit != nil {
		n = *p.Limit
	}
	if n < 1 || n > maxEntries {
		return 0, 0, &session.InvalidError{Field: "limit", Value: itoa(n), Why: "want 1 to " + itoa(maxEntries)}
	}
	if p.After != "" && p.Before != "" {
		return 0, 0, &session.InvalidError{Field: "before", Value: p.Before, Why: "give after or before, not both"}
	}
	place := func(field, id string) (int, error) {
		i, ok := names.index(id)
		if !ok {
			return 0, &session.InvalidError{Field: field, Value: id, Why: "no such entry"}
		}
		if k := slices.Index(order, i); k >= 0 {
			return k, nil
		}
		return 0, &session.InvalidError{Field: field, Value: id, Why: "the entry is not part of this view"}
	}
	switch {
	case p.After != "":
		k, err := place("after", p.After)
		if err != nil {
			return 0, 0, err
		}
		return k + 1, min(len(order), k+1+n), nil
	case p.Before == "end": // as in session/subscribe
		return max(0, len(order)-n), len(order), nil
	case p.Before != "":
		k, err := place("before", p.Before)
		if err != nil {
			return 0, 0, err
		}
		return max(0, k-n), k, nil
	}
	return 0, min(len(order), n), nil
}

// resolve is the resolution of a leaf that a request names.
func resolve(o *catalog.Opened, leaf string) (*session.Resolution, error) {
	r, err := o.Transcript.Resolve(leaf)
	if isNotFound(err) {
		return nil, &session.InvalidError{Field: "leaf", Value: leaf, Why: "no such entry"}
	}
	return r, err
}

func branches(r *session.Resolution) []wire.Branch {
	out := make([]wire.Branch, 0, len(r.Branches))
	for _, b := range r.Branches {
		out = append(out, wire.Branch{Leaf: b.Leaf, ForkedAt: b.ForkedAt, UpdatedAt: timeText(b.Updated), Entries: b.Entries})
	}
	return out
}

// wireLoaded is the row with the figures of the transcript that was read.
func (s *Server) wireLoaded(o *catalog.Opened, r *session.Resolution) wire.Session {
	row := o.Row
	row.Revision, row.Size = o.Revision, o.Size
	if o.From == 0 {
		entries := o.Transcript.Entries()
		row.Physical, row.Effective = 0, 0
		for i := range entries {
			if entries[i].Kind == session.KindMessage {
				row.Physical++
			}
		}
		for _, i := range r.Chain {
			if entries[i].Kind == session.KindMessage {
				row.Effective++
			}
		}
		row.Problems = len(o.Transcript.Problems()) + len(r.Problems)
	}
	return s.wire(row)
}

// entryBuilder makes the messages of entries.
type entryBuilder struct {
	format session.Format
	src    io.ReaderAt
	t      *session.Transcript
	why    func(i int) session.Reason
	names  names
	limit  int
	raw    bool
}

// names gives each entry an id of its own: where a log uses an id several
// times, the last copy, which is the one that counts, has it, and the others go
// by their offsets. So pages of a damaged log neither skip nor repeat.
type names struct {
	t    *session.Transcript
	last map[string]int // of ids used several times: the index of the last copy
	live bool           // last is not known; what was superseded is not the last copy
}

func newNames(t *session.Transcript, r *session.Resolution) names {
	n := names{t: t}
	if len(r.Report.DuplicateIDs) == 0 {
		return n
	}
	n.last = make(map[string]int, len(r.Report.DuplicateIDs))
	for _, id := range r.Report.DuplicateIDs {
		n.last[id] = -1
	}
	for i := range t.Entries() {
		if id := t.Entries()[i].ID; n.isRepeated(id) {
			n.last[id] = i
		}
	}
	return n
}

func (n names) isRepeated(id string) bool {
	_, ok := n.last[id]
	return ok
}

// of is the id of entry i.
func (n names) of(i int) string {
	e := &n.t.Entries()[i]
	if last, repeated := n.last[e.ID]; repeated && last != i || n.live && n.t.Reason(i) == session.Superseded {
		return strconv.FormatInt(e.Pos.Offset, 10)
	}
	return e.ID
}

// index finds the entry that of gave a name to.
func (n names) index(name string) (int, bool) {
	if i, ok := n.t.Index(name); ok {
		return i, true
	}
	off, err := strconv.ParseInt(name, 10, 64)
	if err != nil || n.last == nil {
		return 0, false
	}
	return slices.BinarySearchFunc(n.t.Entries(), off, func(e session.Entry, off int64) int {
		return cmp.Compare(e.Pos.Offset, off)
	})
}

// entry gives entry i of the transcript and about how many bytes it takes.
func (b *entryBuilder) entry(i int) (wire.Entry, int, error) {
	e := b.t.Entries()[i]
	w := envelope(&e, b.why(i))
	w.ID = b.names.of(i)
	size := 256
	if e.Bad != "" {
		if b.raw {
			raw, err := session.LoadRaw(b.src, cutEntry(e, b.limit))
			if err != nil {
				return w, 0, err
			}
			w.Raw = strings.ToValidUTF8(string(raw), "\uFFFD")
		}
		return w, size + len(w.Raw), nil
	}
	raw, err := session.LoadRaw(b.src, e)
	if err != nil {
		return w, 0, err
	}
	body := b.format.Body(raw)
	w.Content, w.Model, w.Usage = blocks(body.Blocks, b.limit), body.Model, usage(body.Usage)
	if b.raw {
		text, _ := cutText(string(raw), b.limit)
		w.Raw = strings.ToValidUTF8(text, "\uFFFD")
		size += len(w.Raw)
	}
	for _, c := range w.Content {
		size += blockSize(c)
	}
	return w, size, nil
}

// cutEntry is e with at most limit bytes, for what is too long to be loaded.
func cutEntry(e session.Entry, limit int) session.Entry {
	e.Pos.Length = min(e.Pos.Length, limit)
	return e
}

func blockSize(b wire.Block) int {
	n := 64 + len(b.Text) + len(b.Input) + len(b.Data) + len(b.Raw)
	for _, c := range b.Content {
		n += blockSize(c)
	}
	return n
}

// readBlock gives any part of one block: its text, the JSON of a call's
// arguments, the texts of a result one behind the other.
func readBlock(o *catalog.Opened, p wire.ReadParams) (any, error) {
	i, ok := newNames(o.Transcript, o.Transcript.Current()).index(p.Entry)
	if !ok {
		return nil, &session.NotFoundError{What: "entry", Name: p.Entry}
	}
	e := o.Transcript.Entries()[i]
	raw, err := session.LoadRaw(o.Source, e)
	if err != nil {
		return nil, err
	}
	n := 0
	if p.Block != nil {
		n = *p.Block
	}
	list := o.Format.Body(raw).Blocks
	if n < 0 || n >= len(list) {
		return nil, &session.InvalidError{Field: "block", Value: itoa(n), Why: "the entry has " + itoa(len(list)) + " blocks, counted from 0"}
	}
	text, typ := blockText(list[n])
	r := wire.Range{End: len(text)}
	if p.Range != nil {
		r = *p.Range
	}
	if r.Start < 0 || r.End < r.Start || r.Start > len(text) {
		return nil, &session.InvalidError{Field: "range", Value: itoa(r.Start) + ":" + itoa(r.End), Why: "the block has " + itoa(len(text)) + " bytes"}
	}
	r.End = min(r.End, len(text), r.Start+largestMaxBlock)
	// Both ends move to the start of a character, so that parts can be joined.
	for r.Start < len(text) && !utf8.RuneStart(text[r.Start]) {
		r.Start++
	}
	for r.End < len(text) && r.End > r.Start && !utf8.RuneStart(text[r.End]) {
		r.End--
	}
	r.End = max(r.End, r.Start)
	return wire.ReadBlockResult{Entry: p.Entry, Block: n, Type: typ, Text: text[r.Start:r.End], Range: r, Bytes: len(text)}, nil
}

func blockText(b session.Block) (text, typ string) {
	switch b := b.(type) {
	case session.Text:
		return b.Text, "text"
	case session.Thinking:
		return b.Text, "thinking"
	case session.ToolUse:
		return strings.ToValidUTF8(string(b.Input), "\uFFFD"), "tool_use"
	case session.ToolResult:
		var parts []string
		for _, c := range b.Content {
			if t, typ := blockText(c); typ == "text" {
				parts = append(parts, t)
			}
		}
		return strings.Join(parts, "\n"), "tool_result"
	case session.Image:
		return b.Data, "image"
	case session.Unknown:
		if b.Hidden {
			return "", "unknown"
		}
		return strings.ToValidUTF8(string(b.Raw), "\uFFFD"), "unknown"
	}
	return "", "unknown"
}
