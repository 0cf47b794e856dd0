package search

import (
	"context"
	"io"
	"runtime"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// Hit is one entry that matches.
type Hit struct {
	EntryID string
	Pos     session.Pos
	Role    session.Role
	Time    time.Time
	Snippet string  // one line around the first match
	Ranges  []Range // the matches in Snippet, in order
}

// Range is a part of a snippet, in UTF-16 code units.
type Range struct{ Start, End int }

// maxLine is the longest line that is looked into; more of it is binary data.
const maxLine = 16 << 20

// place is where the search in a transcript goes on.
type place struct {
	Offset int64
	Line   int // number of the line there
	Skip   int // entries of that line that were given already
}

// transcript looks for hits from a place on, in the order of the file. It
// stops when visit returns false; next is where to go on then.
func (m *Matcher) transcript(ctx context.Context, f session.Format, src io.ReaderAt, from place, visit func(Hit, place) bool) (read int64, err error) {
	r := jsonl.NewReader(src, from.Offset, max(1, from.Line), jsonl.Options{MaxLine: maxLine})
	var lower []byte
	var entries []session.Entry
	yielded := from.Offset
	look := func(line jsonl.Line, skip int) bool {
		if line.Flaw.Has(jsonl.TooLong) || !m.may(line.Raw, &lower) {
			return true
		}
		entries = f.Decode(entries[:0], line)
		given := 0
		for i := range entries {
			e := &entries[i]
			if !m.wants(e) {
				continue
			}
			at := e.Pos.Offset - line.Offset - int64(line.Lead)
			h, ok := m.hit(e, f.Body(line.Raw[at:at+int64(e.Pos.Length)]))
			if !ok {
				continue
			}
			if given++; given <= skip {
				continue
			}
			if !visit(h, place{line.Offset, line.Num, given}) {
				return false
			}
		}
		return true
	}
	skip := from.Skip
	for line := range r.Lines() {
		if line.Offset-yielded >= jsonl.DefaultWindow {
			// Live updates go first.
			runtime.Gosched()
			if err := ctx.Err(); err != nil {
				return r.BytesRead(), err
			}
			yielded = line.Offset
		}
		if !look(line, skip) {
			return r.BytesRead(), nil
		}
		skip = 0
	}
	if p := r.Pending(); p.Length > 0 && jsonl.Valid(p.Raw) { // whole but for its line feed
		look(p, skip)
	}
	return r.BytesRead(), r.Err()
}

// hit looks into the content of an entry.
func (m *Matcher) hit(e *session.Entry, body session.Body) (Hit, bool) {
	h := Hit{EntryID: e.ID, Pos: e.Pos, Role: e.Role, Time: e.Time}
	found := false
	texts(body.Blocks, func(s string) bool {
		matches := m.re.FindAllStringIndex(s, maxMatches)
		if matches == nil {
			return true
		}
		h.Snippet, h.Ranges = snippet(s, matches)
		found = true
		return false
	})
	return h, found
}

// texts visits what people read of blocks, until visit returns false.
func texts(blocks []session.Block, visit func(string) bool) bool {
	for _, b := range blocks {
		more := true
		switch b := b.(type) {
		case session.Text:
			more = visit(b.Text)
		case session.Thinking:
			more = visit(b.Text)
		case session.ToolUse:
			c := jsonl.NewCursor(b.Input)
			more = visit(b.Name) && stringsOf(&c, 0, visit)
		case session.ToolResult:
			more = texts(b.Content, visit)
		}
		if !more {
			return false
		}
	}
	return true
}

// maxNesting bounds how deep the arguments of a call are looked into.
const maxNesting = 32

// stringsOf visits the strings of the next value.
func stringsOf(c *jsonl.Cursor, depth int, visit func(string) bool) bool {
	switch {
	case depth < maxNesting && c.Object():
		for {
			if _, ok := c.Member(); !ok {
				return true
			}
			if !stringsOf(c, depth+1, visit) {
				return false
			}
		}
	case depth < maxNesting && c.Array():
		for c.Element() {
			if !stringsOf(c, depth+1, visit) {
				return false
			}
		}
		return true
	}
	if s, ok := jsonl.String(c.Value()); ok {
		return visit(s)
	}
	return true
}

// Characters of a snippet before the first match, and in all; and how many
// matches it shows.
const (
	snippetBefore = 60
	snippetLength = 200
	maxMatches    = 50
)

// snippet is the surroundings of the first match in s, on one line.
func snippet(s string, matches [][]int) (string, []Range) {
	start, n := matches[0][0], 0
	for start > 0 && n < snippetBefore {
		_, size := utf8.DecodeLastRuneInString(s[:start])
		start -= size
		n++
	}
	end, n := start, 0
	for end < len(s) && n < snippetLength {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
		n++
	}
	var b strings.Builder
	units := 0
	write := func(part string) {
		for _, r := range part {
			if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
				r = ' ' // one for one, so that matches keep their place
			}
			b.WriteRune(r)
			units += max(1, utf16.RuneLen(r))
		}
	}
	if start > 0 {
		write("…")
	}
	var ranges []Range
	at := start
	for _, loc := range matches {
		if loc[0] >= end {
			break
		}
		write(s[at:loc[0]])
		from := units
		at = min(loc[1], end)
		write(s[loc[0]:at])
		ranges = append(ranges, Range{from, units})
	}
	write(s[at:end])
	if end < len(s) {
		write("…")
	}
	return b.String(), ranges
}
