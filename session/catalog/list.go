package catalog

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agent-ls/agent-ls/session"
)

// Query selects and orders rows. The zero Query asks for the first 50 main,
// not archived, not empty sessions of all directories, newest first.
type Query struct {
	CWD                 string
	Scope               Scope
	Agents              []string
	Text                string // words in title, prompts, ids, branch and tags; in any case
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

// Sort orders rows; newest, largest first, titles A to Z. Ties go by id.
type Sort uint8

// Orders.
const (
	ByUpdated Sort = iota
	ByCreated
	BySize
	ByTitle
	numSorts
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

// cursor is where a page ends: the place of its last row. It stays valid
// while other rows come, go and move, and in other processes.
type cursor struct {
	Query string // fingerprint
	Num   int64
	Str   string
	ID    session.ID
	// Epoch and Gen name the snapshot of the first page.
	Epoch int64
	Gen   uint64
}

func (c cursor) key() key { return key{c.Num, c.Str, c.ID} }

// selection is what a query selects.
type selection struct {
	query string   // fingerprint
	rows  []uint64 // a bit for each slot
	total int
}

func (s selection) has(slot uint32) bool { return s.rows[slot/64]&(1<<(slot%64)) != 0 }

// maxSelections is how many selections a snapshot keeps: as many lists as an
// editor shows at once.
const maxSelections = 8

// List answers a query. Following the cursors of a list gives no row twice
// and skips none that stayed where it was. A cursor that is not from the same
// query gives a *session.InvalidError, as does a limit out of bounds.
func (s *Snapshot) List(q Query) (Page, error) {
	if q.Limit == 0 {
		q.Limit = DefaultLimit
	}
	if q.Limit < 1 || q.Limit > MaxLimit {
		return Page{}, &session.InvalidError{Field: "limit", Value: strconv.Itoa(q.Limit), Why: "want 1 to 1000"}
	}
	print := q.fingerprint()
	from := cursor{Query: print, Epoch: s.catalog.epoch, Gen: s.gen}
	o := s.order(q.Sort)
	piece, index := 0, 0
	if q.Cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
		if err != nil || json.Unmarshal(b, &from) != nil || from.Query != print {
			return Page{}, &session.InvalidError{Field: "cursor", Value: q.Cursor, Why: "it is not a cursor of this query; start without one"}
		}
		var found bool
		if piece, index, found = o.search(from.key(), s.keyAt(q.Sort)); found {
			index++
		}
	}
	sel := s.selected(q, print)
	p := Page{Total: sel.total, Rows: make([]Row, 0, min(q.Limit, sel.total))}
	more := false
	o.all(piece, index, func(slot uint32) bool {
		if !sel.has(slot) {
			return true
		}
		r := s.at(slot)
		if q.Cursor != "" && from.mayHaveShown(r, q.Sort, s.catalog.epoch) {
			return true
		}
		if more = len(p.Rows) == q.Limit; more {
			return false
		}
		p.Rows = append(p.Rows, r.Row)
		k := keyOf(q.Sort, r)
		from.Num, from.Str, from.ID = k.num, k.str, k.id
		return true
	})
	if more {
		b, err := json.Marshal(from)
		if err != nil {
			return Page{}, err
		}
		p.Next = base64.RawURLEncoding.EncodeToString(b)
	}
	return p, nil
}

// mayHaveShown tells that r was before the cursor when the list began, and
// has moved behind it since.
func (c cursor) mayHaveShown(r *row, by Sort, epoch int64) bool {
	if r.back == nil || c.Epoch != epoch {
		return false
	}
	b := r.back[by]
	return b.gen > c.Gen && b.front.compare(c.key()) <= 0
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

// selected gives the rows of a query; recent answers are kept, so that the
// further pages of a list do not select again.
func (s *Snapshot) selected(q Query, print string) selection {
	recent := s.selections.Load()
	if recent != nil {
		for _, sel := range *recent {
			if sel.query == print {
				return sel
			}
		}
	}
	sel := selection{query: print, rows: make([]uint64, len(s.chunks)*chunkSize/64)}
	m := s.matcher(q)
	for i, c := range s.chunks {
		set := m.chunk(c)
		copy(sel.rows[i*len(set):], set[:])
	}
	for _, name := range q.Exclude {
		s.named(name, func(slot uint32) { sel.rows[slot/64] &^= 1 << (slot % 64) })
	}
	for _, w := range sel.rows {
		sel.total += bits.OnesCount64(w)
	}
	kept := []selection{sel}
	if recent != nil {
		kept = append(kept, (*recent)[:min(len(*recent), maxSelections-1)]...)
	}
	s.selections.CompareAndSwap(recent, &kept) // losing it costs time only
	return sel
}

// named gives the slots of a full or bare native id.
func (s *Snapshot) named(name string, yield func(uint32)) {
	if id, ok := session.ParseID(name); ok {
		if _, slot, ok := s.find(id); ok {
			yield(slot)
		}
	}
	o := s.order(byNative)
	i, j, _ := o.search(key{str: name}, s.keyAt(byNative))
	o.all(i, j, func(slot uint32) bool {
		if s.at(slot).Native != name {
			return false
		}
		yield(slot)
		return true
	})
}

// matcher is a query made ready. Agents, status and flags are bits.
type matcher struct {
	agents       [4]uint64
	status       uint8
	deny, need   flags
	since, until int64
	scope        scope
	cwds         []bool // by index of the places; nil for any
	words        []string
	exclude      []string
}

// matcher makes the test of a query; what needs the disk is done once. It
// leaves Exclude to the caller.
func (s *Snapshot) matcher(q Query) *matcher {
	m := &matcher{deny: isVacant, since: math.MinInt64, until: math.MaxInt64, words: strings.Fields(fold(q.Text)), exclude: q.Exclude}
	for _, a := range q.Agents {
		if i, ok := s.catalog.agents[a]; ok {
			m.agents[i/64] |= 1 << (i % 64)
		}
	}
	if len(q.Agents) == 0 {
		m.agents = [4]uint64{math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64}
	}
	for _, st := range q.Status {
		m.status |= 1 << st
	}
	if len(q.Status) == 0 {
		m.status = math.MaxUint8
	}
	if !q.IncludeSubagents {
		m.deny |= isSubagent
	}
	if !q.IncludeEmpty {
		m.deny |= isEmpty
	}
	if q.ExcludeProgrammatic {
		m.deny |= isProgrammatic
	}
	switch q.Archived {
	case ExcludeArchived:
		m.deny |= isArchived
	case OnlyArchived:
		m.need |= isArchived
	}
	if !q.Since.IsZero() {
		m.since = timeKey(q.Since)
	}
	if !q.Until.IsZero() {
		m.until = timeKey(q.Until)
	}
	if q.CWD != "" {
		m.scope = s.catalog.scope(q.CWD, q.Scope)
		m.cwds = make([]bool, len(s.places.list))
		for i, p := range s.places.list {
			m.cwds[i] = m.scope.contains(p)
		}
	}
	return m
}

func (m *matcher) facts(f *facts) bool {
	return f.flags&m.deny == 0 && f.flags&m.need == m.need && f.status&m.status != 0 &&
		m.agents[f.agent/64]&(1<<(f.agent%64)) != 0 &&
		f.updated >= m.since && f.updated <= m.until &&
		(m.cwds == nil || m.cwds[f.cwd])
}

// chunk gives the rows of a chunk that match.
func (m *matcher) chunk(c *chunk) rowSet {
	var set rowSet
	some := false
	for i := range c.facts {
		if m.facts(&c.facts[i]) {
			set[i/64] |= 1 << (i % 64)
			some = true
		}
	}
	if some && len(m.words) > 0 {
		c.indexed().narrow(&set, m.words)
	}
	return set
}

// matching gives the rows that match, newest first.
func (s *Snapshot) matching(m *matcher) []*row {
	sets := make([]rowSet, len(s.chunks))
	for i, c := range s.chunks {
		sets[i] = m.chunk(c)
	}
	var out []*row
	s.order(ByUpdated).all(0, 0, func(slot uint32) bool {
		if i := slot % chunkSize; sets[slot/chunkSize][i/64]&(1<<(i%64)) != 0 {
			out = append(out, s.at(slot))
		}
		return true
	})
	return out
}

// each calls f for the rows of a set; f may take out the row it is called for.
func (s *rowSet) each(f func(i int)) {
	for w := range s {
		for rest := s[w]; rest != 0; rest &= rest - 1 {
			f(w*64 + bits.TrailingZeros64(rest))
		}
	}
}

// Matcher makes the test whether a row is selected by q, for rows of any
// snapshot.
func (s *Snapshot) Matcher(q Query) func(Row) bool {
	m := s.matcher(q)
	m.cwds = nil // the row may be from a later snapshot, with places of its own
	return func(r Row) bool {
		f := s.catalog.factsOf(&r, 0)
		if !m.facts(&f) || slices.Contains(m.exclude, r.Native) || slices.Contains(m.exclude, r.ID.String()) {
			return false
		}
		if q.CWD != "" && !m.scope.contains(s.catalog.placeOf(r.CWD)) {
			return false
		}
		if len(m.words) == 0 {
			return true
		}
		text := haystack(&r)
		return !slices.ContainsFunc(m.words, func(w string) bool { return !strings.Contains(text, w) })
	}
}
