package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/format"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// someSession draws a session of a small world, so that keys are equal often.
func someSession(t *rapid.T) session.Session {
	s := session.Session{
		ID: session.ID{
			Agent:  rapid.SampledFrom([]string{"claude", "pseudoclaude"}).Draw(t, "agent"),
			Native: fmt.Sprintf("n%02d", rapid.IntRange(0, 30).Draw(t, "native")),
		},
		CWD:         rapid.SampledFrom([]string{"", "/h/data", "/h/data/x", "/h/data-analysis", "/h"}).Draw(t, "cwd"),
		Title:       rapid.SampledFrom([]string{"", "Alpha", "alpha beta", "Beta", "ΣΊΣΥΦΟΣ", "漢字 beta"}).Draw(t, "title"),
		FirstPrompt: rapid.SampledFrom([]string{"", "fix it", "betamax"}).Draw(t, "prompt"),
		UpdatedAt:   time.Unix(int64(rapid.IntRange(0, 6).Draw(t, "updated")), 0).UTC(),
		CreatedAt:   time.Unix(int64(rapid.IntRange(0, 3).Draw(t, "created")), 0).UTC(),
		Size:        int64(rapid.IntRange(0, 4).Draw(t, "size")),
		Status:      session.Status(rapid.IntRange(0, 3).Draw(t, "status")),
		Empty:       rapid.IntRange(0, 4).Draw(t, "empty") == 0,
		Archived:    rapid.IntRange(0, 3).Draw(t, "archived") == 0,
	}
	s.Root, s.Path = "/s", "/s/"+s.Agent+"/"+s.Native
	return s
}

// naive is what List has to give: everything selected, sorted.
func naive(rows map[session.ID]session.Session, q Query) []session.ID {
	var list []session.Session
	for s := range maps.Values(rows) {
		text := strings.ToLower(strings.Join([]string{s.Title, s.FirstPrompt, s.ID.String()}, "\n"))
		text = strings.ReplaceAll(text, "ς", "σ") // as a final sigma is written
		switch {
		case s.Empty && !q.IncludeEmpty,
			s.Archived != (q.Archived == OnlyArchived) && q.Archived != IncludeArchived,
			len(q.Agents) > 0 && !slices.Contains(q.Agents, s.Agent),
			len(q.Status) > 0 && !slices.Contains(q.Status, s.Status),
			slices.Contains(q.Exclude, s.Native) || slices.Contains(q.Exclude, s.ID.String()),
			q.CWD != "" && q.Scope == Exact && s.CWD != q.CWD,
			q.CWD != "" && q.Scope == Subtree && s.CWD != q.CWD && !strings.HasPrefix(s.CWD, q.CWD+"/"):
			continue
		}
		if slices.ContainsFunc(strings.Fields(strings.ReplaceAll(strings.ToLower(q.Text), "ς", "σ")), func(w string) bool { return !strings.Contains(text, w) }) {
			continue
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b session.Session) int {
		var c int
		switch q.Sort {
		case ByUpdated:
			c = b.UpdatedAt.Compare(a.UpdatedAt)
		case ByCreated:
			c = b.CreatedAt.Compare(a.CreatedAt)
		case BySize:
			c = cmp.Compare(b.Size, a.Size)
		case ByTitle:
			c = strings.Compare(fold(a.Title), fold(b.Title))
		}
		return cmp.Or(c, strings.Compare(a.Agent, b.Agent), strings.Compare(a.Native, b.Native))
	})
	var ids []session.ID
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids
}

func someQuery(t *rapid.T) Query {
	return Query{
		Sort:         Sort(rapid.IntRange(0, int(numSorts)-1).Draw(t, "sort")),
		CWD:          rapid.SampledFrom([]string{"", "", "/h/data", "/h"}).Draw(t, "in"),
		Scope:        Scope(rapid.IntRange(0, 1).Draw(t, "scope")),
		Text:         rapid.SampledFrom([]string{"", "", "BETA", "al be", "n1", "x", "σίσυφος", "claude:n0"}).Draw(t, "text"),
		IncludeEmpty: rapid.Bool().Draw(t, "empty"),
		Archived:     Archived(rapid.IntRange(0, 2).Draw(t, "archived")),
		Agents:       rapid.SampledFrom([][]string{nil, {"claude"}, {"nobody"}, {"claude", "pseudoclaude"}}).Draw(t, "agents"),
		Status:       rapid.SampledFrom([][]session.Status{nil, {session.StatusIdle}, {session.StatusUnknown, session.StatusRunning}}).Draw(t, "statuses"),
		Exclude:      rapid.SampledFrom([][]string{nil, {"n03"}, {"claude:n04", "n05"}}).Draw(t, "exclude"),
	}
}

// listing is a list under way.
type listing struct {
	q     Query
	seen  map[session.ID]bool
	still map[session.ID]session.Session // selected from the start, not moved since
}

// Whatever happens between two pages, a list shows no row twice, and all that
// stayed where they were; and each page is what a naive list of that moment has.
func TestList_law(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, err := Open(Options{FS: vfs.OS(), Clock: now, Formats: format.All()})
		if err != nil {
			t.Fatal(err)
		}
		rows := map[session.ID]session.Session{}
		var lists []*listing
		touch := func(id session.ID, s *session.Session) {
			for _, l := range lists {
				old, ok := l.still[id]
				switch {
				case !ok:
				case s == nil, keyOf(l.q.Sort, &row{Row: Row{Session: old}}) != keyOf(l.q.Sort, &row{Row: Row{Session: *s}}),
					naive(map[session.ID]session.Session{id: *s}, l.q) == nil:
					delete(l.still, id)
				default:
					l.still[id] = *s
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				var p patch
				for range rapid.IntRange(1, 4).Draw(t, "n") {
					s := someSession(t)
					c.placeOf(s.CWD)
					touch(s.ID, &s)
					rows[s.ID] = s
					p.looks = append(p.looks, look{path: s.Path, session: &s, known: known{agent: s.Agent, dir: s.Root, look: c.looks.Add(1)}})
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				c.publish(p)
			},
			"remove": func(t *rapid.T) {
				s := someSession(t)
				if _, ok := rows[s.ID]; !ok {
					return
				}
				touch(s.ID, nil)
				for _, l := range lists { // one that comes back is another one
					delete(l.seen, s.ID)
				}
				delete(rows, s.ID)
				c.mu.Lock()
				defer c.mu.Unlock()
				c.publish(patch{gone: []goneLook{{path: s.Path, num: c.looks.Add(1)}}})
			},
			"start": func(t *rapid.T) {
				l := &listing{someQuery(t), map[session.ID]bool{}, map[session.ID]session.Session{}}
				for _, id := range naive(rows, l.q) {
					l.still[id] = rows[id]
				}
				l.q.Limit = rapid.IntRange(1, 5).Draw(t, "limit")
				lists = append(lists, l)
			},
			"page": func(t *rapid.T) {
				if len(lists) == 0 {
					return
				}
				i := rapid.IntRange(0, len(lists)-1).Draw(t, "list")
				l := lists[i]
				p, err := c.Snapshot().List(l.q)
				if err != nil {
					t.Fatal(err)
				}
				want := naive(rows, l.q)
				if p.Total != len(want) {
					t.Fatalf("%+v: total %d, want %d", l.q, p.Total, len(want))
				}
				at := -1
				for _, r := range p.Rows {
					if l.seen[r.ID] {
						t.Fatalf("%+v: %s again", l.q, r.ID)
					}
					l.seen[r.ID] = true
					n := slices.Index(want, r.ID)
					if n <= at {
						t.Fatalf("%+v: %s is out of order or not selected", l.q, r.ID)
					}
					at = n
				}
				l.q.Cursor = p.Next
				if p.Next != "" {
					return
				}
				lists = slices.Delete(lists, i, i+1)
				for _, id := range want {
					if _, ok := l.still[id]; ok && !l.seen[id] {
						t.Fatalf("%+v: %s was skipped", l.q, id)
					}
				}
			},
			"": func(t *rapid.T) {
				s := c.Snapshot()
				if s.Len() != len(rows) {
					t.Fatalf("%d rows, want %d", s.Len(), len(rows))
				}
				for by := range numOrders {
					if got := s.order(by); !equalOrders(got, s.sorted(by)) {
						t.Fatalf("order %d is not sorted: %v", by, got)
					}
				}
			},
		})
	})
}

func equalOrders(a, b order) bool { return slices.Equal(slices.Concat(a...), slices.Concat(b...)) }

// An order stays sorted through many changes, and its pieces stay small.
func TestOrder_pieces(t *testing.T) {
	keys := make([]key, 20*pieceSize)
	for i := range keys {
		keys[i] = key{num: int64(i * 7919 % 10007), str: fmt.Sprint(i)}
	}
	at := func(slot uint32) key { return keys[slot] }
	var o order
	for i := range keys {
		o = o.including([]placed{{keys[i], uint32(i)}}, at)
		if i%3 == 2 {
			o = o.without([]placed{{keys[i/2], uint32(i / 2)}}, at)
		}
	}
	var all []uint32
	for _, p := range o {
		if len(p) == 0 || len(p) >= 2*pieceSize {
			t.Fatalf("a piece of %d", len(p))
		}
		all = append(all, p...)
	}
	if !slices.IsSortedFunc(all, func(a, b uint32) int { return keys[a].compare(keys[b]) }) {
		t.Error("not sorted")
	}
	if got := o.including(nil, at).without([]placed{{key{num: 1 << 40}, 0}}, at); !equalOrders(got, o) {
		t.Error("taking out what is not there changed something")
	}
}

// A cursor of another process is good, too.
func TestList_cursorOfAnotherProcess(t *testing.T) {
	a, b := full(t, 100), full(t, 100)
	b.epoch++
	p, err := a.Snapshot().List(Query{Limit: 60})
	if err != nil {
		t.Fatal(err)
	}
	q, err := b.Snapshot().List(Query{Limit: 60, Cursor: p.Next})
	if err != nil || len(q.Rows) != 40 || q.Next != "" {
		t.Fatalf("%d rows, %v", len(q.Rows), err)
	}
	for _, r := range q.Rows {
		if slices.ContainsFunc(p.Rows, func(o Row) bool { return o.ID == r.ID }) {
			t.Fatalf("%s twice", r.ID)
		}
	}
}

// An update of one row leaves the rest of a big snapshot shared.
func TestSnapshot_sharesWhatDidNotChange(t *testing.T) {
	c := full(t, 20*chunkSize)
	before := c.Snapshot()
	for by := range numOrders {
		before.order(by)
	}
	c.put(1, time.Hour)
	after := c.Snapshot()
	copied := 0
	for i := range before.chunks {
		if before.chunks[i] != after.chunks[i] {
			copied++
		}
	}
	if copied != 1 {
		t.Errorf("%d chunks were copied for one row", copied)
	}
	for _, by := range []Sort{ByTitle, byNative} {
		a, b := before.order(by), after.order(by)
		for i := range a {
			if &a[i][0] != &b[i][0] {
				t.Errorf("order %d was copied, and no place in it changed", by)
			}
		}
	}
	a, b := before.order(ByUpdated), after.order(ByUpdated)
	shared := 0
	for _, p := range a {
		if slices.ContainsFunc(b, func(q []uint32) bool { return &p[0] == &q[0] }) {
			shared++
		}
	}
	if shared < len(a)-2 {
		t.Errorf("only %d of %d pieces are shared", shared, len(a))
	}
}
