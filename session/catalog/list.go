package catalog

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/agent-ls/agent-ls/session"
)

// Query selects and orders rows. The zero Query asks for the first 50 main,
// not archived, not empty sessions of all directories, newest first.
type Query struct {
	CWD                 string
	Scope               Scope
	Agents              []string
	Text                string // in title, prompts, ids, branch and tags; in any case
	Status              []session.Status
	Archived            Archived
	IncludeSubagents    bool
	IncludeEmpty        bool
	ExcludeProgrammatic bool
	Exclude             []string // session ids, full or native
	Sort                Sort
	Limit               int // 1 to 1000; 0 means 50
	Cursor              string
	Since, Until        time.Time // bounds of UpdatedAt; zero means none
}

// Scope says how CWD selects.
type Scope uint8

// Scopes.
const (
	Exact      Scope = iota
	Subtree          // CWD and directories below it
	Repository       // all worktrees of the git repository that CWD is in
)

// Archived says what happens to archived sessions.
type Archived uint8

// Values of Archived.
const (
	ExcludeArchived Archived = iota
	IncludeArchived
	OnlyArchived
)

// Sort orders rows; newest, largest first, titles A to Z.
type Sort uint8

// Orders.
const (
	ByUpdated Sort = iota
	ByCreated
	BySize
	ByTitle
)

// Limits of Query.Limit.
const (
	DefaultLimit = 50
	MaxLimit     = 1000
)

// Page is one page of a list.
type Page struct {
	Rows  []Row
	Next  string // cursor of the next page; "" at the end
	Total int    // rows that the query selects, on all pages
}

// derived is computed when it is first asked for.
type derived struct {
	mu     sync.Mutex // guards what follows
	orders [ByTitle + 1][]*row
	pages  map[string][]*row // what recent queries select, in their order
}

// maxSelections bounds derived.pages.
const maxSelections = 8

// cursor is where a page ends: the sort key and the id of its last row. It
// stays valid while other rows come, go and move.
type cursor struct {
	Query string // fingerprint
	Key   string
	Num   int64
	ID    session.ID
}

// List answers a query. A cursor that is not from the same query gives a
// *session.InvalidError, as does a limit out of bounds.
func (s *Snapshot) List(q Query) (Page, error) {
	if q.Limit == 0 {
		q.Limit = DefaultLimit
	}
	if q.Limit < 1 || q.Limit > MaxLimit {
		return Page{}, &session.InvalidError{Field: "limit", Value: itoa(q.Limit), Why: "want 1 to 1000"}
	}
	print := q.fingerprint()
	from := cursor{}
	if q.Cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
		if err != nil || json.Unmarshal(b, &from) != nil || from.Query != print {
			return Page{}, &session.InvalidError{Field: "cursor", Value: q.Cursor, Why: "it is not a cursor of this query; start without one"}
		}
	}
	rows := s.selection(q, print)
	start := 0
	if q.Cursor != "" {
		start, _ = slices.BinarySearchFunc(rows, from, func(r *row, c cursor) int { return keyOf(q.Sort, r).compare(q.Sort, c) })
		if start < len(rows) && keyOf(q.Sort, rows[start]).compare(q.Sort, from) == 0 {
			start++
		}
	}
	p := Page{Total: len(rows), Rows: make([]Row, 0, min(q.Limit, len(rows)-start))}
	for _, r := range rows[start:min(len(rows), start+q.Limit)] {
		p.Rows = append(p.Rows, r.Row)
	}
	if end := start + len(p.Rows); end < len(rows) {
		c := keyOf(q.Sort, rows[end-1])
		c.Query = print
		b, err := json.Marshal(c)
		if err != nil {
			return Page{}, err
		}
		p.Next = base64.RawURLEncoding.EncodeToString(b)
	}
	return p, nil
}

// keyOf is the place of a row in an order.
func keyOf(s Sort, r *row) cursor {
	c := cursor{ID: r.ID}
	switch s {
	case ByUpdated:
		c.Num = timeKey(r.UpdatedAt)
	case ByCreated:
		c.Num = timeKey(r.CreatedAt)
	case BySize:
		c.Num = r.Size
	case ByTitle:
		c.Key = fold(r.Title)
	}
	return c
}

// timeKey is a time as a number; the zero time is the oldest.
func timeKey(t time.Time) int64 {
	if t.IsZero() {
		return -1 << 63
	}
	return t.UnixNano()
}

func (c cursor) compare(_ Sort, d cursor) int {
	switch { // larger numbers first
	case c.Num > d.Num:
		return -1
	case c.Num < d.Num:
		return 1
	}
	if n := strings.Compare(c.Key, d.Key); n != 0 {
		return n
	}
	if n := strings.Compare(c.ID.Agent, d.ID.Agent); n != 0 {
		return n
	}
	return strings.Compare(c.ID.Native, d.ID.Native)
}

// fingerprint tells queries apart, without their page.
func (q Query) fingerprint() string {
	q.Limit, q.Cursor = 0, ""
	b, err := json.Marshal(q)
	if err != nil {
		return "" // cannot be: no field fails to encode
	}
	h := fnv.New64a()
	_, _ = h.Write(b) // a hash cannot fail
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// selection gives the rows of a query in its order; recent ones are kept, so
// that the further pages of a list cost nothing.
func (s *Snapshot) selection(q Query, print string) []*row {
	d := &s.derived
	d.mu.Lock()
	rows, ok := d.pages[print]
	d.mu.Unlock()
	if ok {
		return rows
	}
	match := s.matcher(q)
	for _, r := range s.order(q.Sort) {
		if match(r) {
			rows = append(rows, r)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pages == nil || len(d.pages) >= maxSelections {
		d.pages = map[string][]*row{}
	}
	d.pages[print] = rows
	return rows
}

func (s *Snapshot) order(by Sort) []*row {
	if by == ByUpdated {
		return s.updated
	}
	d := &s.derived
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.orders[by] == nil && len(s.updated) > 0 {
		keys := make(map[*row]cursor, len(s.updated))
		for _, r := range s.updated {
			keys[r] = keyOf(by, r)
		}
		list := slices.Clone(s.updated)
		slices.SortFunc(list, func(a, b *row) int { return keys[a].compare(by, keys[b]) })
		d.orders[by] = list
	}
	return d.orders[by]
}

// matcher makes the test of a query; what needs the disk is done once.
func (s *Snapshot) matcher(q Query) func(*row) bool {
	inScope := func(*row) bool { return true }
	if q.CWD != "" {
		inScope = s.catalog.scope(q.CWD, q.Scope)
	}
	agents := set(q.Agents)
	exclude := set(q.Exclude)
	words := strings.Fields(fold(q.Text))
	return func(r *row) bool {
		switch {
		case r.Kind == session.Subagent && !q.IncludeSubagents,
			r.Empty && !q.IncludeEmpty,
			r.Programmatic && q.ExcludeProgrammatic,
			q.Archived == ExcludeArchived && r.Archived,
			q.Archived == OnlyArchived && !r.Archived,
			len(agents) > 0 && !agents[r.Agent],
			len(q.Status) > 0 && !slices.Contains(q.Status, r.Status),
			!q.Since.IsZero() && r.UpdatedAt.Before(q.Since),
			!q.Until.IsZero() && r.UpdatedAt.After(q.Until),
			!inScope(r),
			len(exclude) > 0 && (exclude[r.Native] || exclude[r.ID.String()]):
			return false
		}
		if len(words) > 0 {
			hay := r.haystack()
			for _, w := range words {
				if !strings.Contains(hay, w) {
					return false
				}
			}
		}
		return true
	}
}

func set(list []string) map[string]bool {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string]bool, len(list))
	for _, s := range list {
		m[s] = true
	}
	return m
}

// haystack is the folded text in which queries look.
func (r *row) haystack() string {
	if p := r.folded.Load(); p != nil {
		return *p
	}
	s := fold(strings.Join([]string{
		r.Title, r.FirstPrompt, r.LastPrompt, r.ID.String(), r.GitBranch, r.Tag, strings.Join(r.Note.Tags, "\n"),
	}, "\n"))
	r.folded.Store(&s)
	return s
}

// fold makes equal what differs in case only, also where lower and upper case
// do not form pairs (Greek sigma, Kelvin sign).
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 {
			if r >= 'A' && r <= 'Z' {
				return r + 'a' - 'A'
			}
			return r
		}
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		if least >= 'A' && least <= 'Z' {
			return least + 'a' - 'A'
		}
		return least
	}, s)
}

// Matcher makes the test whether a row is selected by q.
func (s *Snapshot) Matcher(q Query) func(Row) bool {
	match := s.matcher(q)
	return func(r Row) bool {
		if own, ok := s.byID(r.ID); ok && own.Revision == r.Revision {
			return match(own)
		}
		one := &row{Row: r, own: r.Session}
		if r.CWD != "" {
			one.cwdKey = pathKey(r.CWD)
		}
		return match(one)
	}
}
