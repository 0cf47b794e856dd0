package catalog

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/format"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// bigStore is the number of sessions in benchmarks.
const bigStore = 100_000

// made is a made-up session.
func made(i int) session.Session {
	s := session.Session{
		ID:   session.ID{Agent: "claude", Native: fmt.Sprintf("%08x-1111-4111-8111-%012x", uint32(i*2654435761), i)},
		Root: "/home/dev/.claude", CWD: fmt.Sprintf("/home/dev/project-%03d", i%500),
		Title:       fmt.Sprintf("Fix the flaky test number %d in package %d", i, i%97),
		FirstPrompt: fmt.Sprintf("please fix the flaky test number %d, it fails with a timeout after ten minutes", i),
		LastPrompt:  "now run it again and commit the result", Model: "claude-sonnet-4", GitBranch: "main",
		CreatedAt: time.Unix(int64(1700000000+i*37%100000), 0).UTC(), UpdatedAt: time.Unix(int64(1700000000+i*7919%1000003), 0).UTC(),
		Size: int64(i * 31 % 100000), Physical: 3, Effective: 3, TitleSource: session.TitlePrompt,
	}
	s.ModTime = s.UpdatedAt
	s.Path = fmt.Sprintf("/home/dev/.claude/projects/-home-dev-project-%03d/%s.jsonl", i%500, s.Native)
	return s
}

// full gives a catalog that knows n made-up sessions.
func full(tb testing.TB, n int) *Catalog {
	tb.Helper()
	c, err := Open(Options{FS: vfs.OS(), Clock: now, Formats: format.All()})
	if err != nil {
		tb.Fatal(err)
	}
	c.put(n, 0)
	return c
}

// put brings n made-up sessions in, later by shift.
func (c *Catalog) put(n int, shift time.Duration) Change {
	var p patch
	for i := range n {
		s := made(i)
		s.UpdatedAt = s.UpdatedAt.Add(shift)
		c.placeOf(s.CWD)
		p.looks = append(p.looks, look{path: s.Path, session: &s, known: known{agent: s.Agent, dir: s.Root, look: c.looks.Add(1)}})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.publish(p)
}

// BenchmarkList is the first page of a query that was not asked before. The
// floor is to look at the same number of facts, and nothing else.
func BenchmarkList(b *testing.B) {
	c := full(b, bigStore)
	s := c.Snapshot()
	for _, k := range s.chunks {
		k.indexed()
	}
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			n := 0
			for _, k := range s.chunks {
				for i := range k.facts {
					if k.facts[i].flags == 0 {
						n++
					}
				}
			}
			if n != bigStore {
				b.Fatal(n)
			}
		}
	})
	last := func(q Query) Query { // its last page
		p, err := s.List(q)
		if err != nil {
			b.Fatal(err)
		}
		for k := (p.Total - 1) / 1000; k > 0; k-- {
			q.Limit = MaxLimit
			if p, err = s.List(q); err != nil {
				b.Fatal(err)
			}
			q.Cursor = p.Next
		}
		q.Limit = 0
		return q
	}
	for _, q := range []struct {
		name string
		q    Query
	}{
		{"all", Query{}},
		{"last-page", last(Query{})},
		{"cwd", Query{CWD: "/home/dev/project-007"}},
		{"subtree", Query{CWD: "/home/dev", Scope: Subtree}},
		{"word-rare", Query{Text: "number 4711"}},
		{"word-common", Query{Text: "flaky"}},
		{"word-none", Query{Text: "committing"}},
		{"two-letters", Query{Text: "fl"}},
		{"created", Query{Sort: ByCreated}},
		{"size", Query{Sort: BySize}},
		{"title", Query{Sort: ByTitle}},
	} {
		b.Run(q.name, func(b *testing.B) {
			if _, err := s.List(q.q); err != nil { // makes the order
				b.Fatal(err)
			}
			for b.Loop() {
				s.selections.Store(nil)
				if _, err := s.List(q.q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPublish is the cost of one changed row. It must not follow the
// number of rows.
func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{1000, 10_000, bigStore} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := full(b, n)
			for _, by := range []Sort{ByCreated, BySize, ByTitle} {
				c.Snapshot().order(by)
			}
			i := 0
			for b.Loop() {
				i++
				c.put(1, time.Duration(i)*time.Hour)
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	c := full(b, bigStore)
	name := made(4711).Native[:13]
	for b.Loop() {
		if _, err := c.Snapshot().Lookup(name); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart is a later start of a process: from nothing to the first
// page, with all rows from the cache. The floor is to read the file.
func BenchmarkStart(b *testing.B) {
	path := filepath.Join(b.TempDir(), "rows")
	o := Options{
		FS: vfs.OS(), Clock: now, Formats: format.All(), CachePath: path,
		Env: session.Env{Roots: map[string][]string{"claude": {"/home/dev/.claude"}}},
	}
	c, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	c.put(bigStore, 0)
	c.Flush()
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			if _, err := os.ReadFile(path); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("page", func(b *testing.B) {
		for b.Loop() {
			c, err := Open(o)
			if err != nil {
				b.Fatal(err)
			}
			c.Restore()
			if p, err := c.Snapshot().List(Query{}); err != nil || p.Total != bigStore {
				b.Fatal(p.Total, err)
			}
		}
	})
}
