// Package search finds text in what was said in sessions.
//
// It reads the logs themselves: there is no index that could be old. A line is
// decoded only when its bytes can hold a match. It knows no agent and no
// protocol. Invariant: the prefilter never leaves out a line that decoding it
// would find, whatever escapes it is written with.
package search

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/agent-ls/agent-ls/session"
)

// Query says what to look for.
type Query struct {
	Text          string // must not be blank
	Regexp        bool   // Text is a regular expression as package regexp has them
	CaseSensitive bool
	Roles         []session.Role // none means all
	Since, Until  time.Time      // bounds of the entry's time; zero means none
}

// Matcher is a query made ready. It is safe for concurrent use.
type Matcher struct {
	query  Query
	re     *regexp.Regexp
	needle []byte // part of every match as any writer spells it, lower case unless caseSensitive; may be empty
	roles  uint8
}

// maxPattern bounds the length of a query in bytes.
const maxPattern = 4 << 10

// Compile makes a query ready. What is wrong with it is a *session.InvalidError.
func Compile(q Query) (*Matcher, error) {
	if strings.TrimSpace(q.Text) == "" {
		return nil, &session.InvalidError{Field: "query", Value: q.Text, Why: "is blank"}
	}
	if len(q.Text) > maxPattern {
		return nil, &session.InvalidError{Field: "query", Value: q.Text[:20] + "…", Why: "is longer than 4096 bytes"}
	}
	if !utf8.ValidString(q.Text) {
		return nil, &session.InvalidError{Field: "query", Value: strings.ToValidUTF8(q.Text, "\uFFFD"), Why: "is no valid text"}
	}
	m := &Matcher{query: q}
	pattern := q.Text
	if !q.Regexp {
		pattern = regexp.QuoteMeta(q.Text)
		m.needle = needle(q.Text, q.CaseSensitive)
	}
	if !q.CaseSensitive {
		pattern = "(?i)" + pattern
	}
	var err error
	if m.re, err = regexp.Compile(pattern); err != nil {
		return nil, &session.InvalidError{Field: "query", Value: q.Text, Why: "is no regular expression: " + err.Error()}
	}
	if q.Regexp {
		if literal, _ := m.re.LiteralPrefix(); q.CaseSensitive {
			m.needle = needle(literal, true)
		}
		if m.re.MatchString("") {
			return nil, &session.InvalidError{Field: "query", Value: q.Text, Why: "matches the empty text"}
		}
	}
	for _, r := range q.Roles {
		m.roles |= 1 << r
	}
	if len(q.Roles) == 0 {
		m.roles = 0xff
	}
	return m, nil
}

// needle is the longest part of text whose bytes stand in a log as they are:
// no writer of JSON escapes them, unless as \u, and in any case the only other
// spelling is that of ASCII letters.
func needle(text string, caseSensitive bool) []byte {
	best, from := "", 0
	for i, r := range text + "\x00" {
		if plain(r, caseSensitive) {
			continue
		}
		if i-from > len(best) {
			best = text[from:i]
		}
		from = i + utf8.RuneLen(r)
	}
	if !caseSensitive {
		return appendLower(nil, []byte(best))
	}
	return []byte(best)
}

func plain(r rune, caseSensitive bool) bool {
	switch {
	case r < 0x20 || r == 0x7f || r == utf8.RuneError:
		return false
	case r == '"' || r == '\\' || r == '/': // have short escapes
		return false
	case caseSensitive:
		return true
	case r == 'k' || r == 'K' || r == 's' || r == 'S':
		return false // other letters than ASCII fold to these
	case r < utf8.RuneSelf:
		return true
	}
	return unicode.SimpleFold(r) == r
}

// may reports whether a line can hold a match. buf is scratch.
func (m *Matcher) may(raw []byte, buf *[]byte) bool {
	if len(m.needle) == 0 {
		return true
	}
	text := raw
	if !m.query.CaseSensitive {
		*buf = appendLower((*buf)[:0], raw)
		text = *buf
	}
	return bytes.Contains(text, m.needle) || bytes.Contains(raw, []byte(`\u`))
}

// appendLower appends raw with ASCII letters in lower case.
func appendLower(dst, raw []byte) []byte {
	const ones = 0x0101010101010101
	n := len(dst)
	dst = append(dst, raw...)
	b := dst[n:]
	for len(b) >= 8 {
		w := binary.LittleEndian.Uint64(b)
		low := w & (0x7f * ones)
		fromA := low + (0x80-'A')*ones   // high bit: at least A
		beyondZ := low + (0x7f-'Z')*ones // high bit: more than Z
		upper := (fromA &^ beyondZ) &^ w & (0x80 * ones)
		binary.LittleEndian.PutUint64(b, w|upper>>2)
		b = b[8:]
	}
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return dst
}

// wants reports whether an entry is looked into.
func (m *Matcher) wants(e *session.Entry) bool {
	if e.Bad != "" || e.Role == session.NoRole || m.roles&(1<<e.Role) == 0 {
		return false
	}
	if e.Kind != session.KindMessage && e.Kind != session.KindSummary {
		return false
	}
	q := &m.query
	return (q.Since.IsZero() || !e.Time.Before(q.Since)) && (q.Until.IsZero() || (!e.Time.IsZero() && !e.Time.After(q.Until)))
}
