package catalog

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/vfs"
)

func (s *claudeStore) cache() string { return filepath.Join(s.home, "cache", "agent-ls", "rows") }

// start is a new process: what it shows before it has scanned.
func (s *claudeStore) start(o Options) (*Catalog, []string) {
	s.t.Helper()
	o.CachePath = s.cache()
	c := s.open(o)
	c.Restore()
	return c, titles(s.t, c, Query{Sort: ByTitle, IncludeSubagents: true})
}

// A later start shows the rows at once, and its scan corrects them by opening
// only what has changed.
func TestCache_laterStart(t *testing.T) {
	s := newClaudeStore(t)
	s.side()
	for i := 3; i < 20; i++ {
		s.write(s.log(i), prompt("/", fmt.Sprint("prompt ", i), i))
	}
	s.write(s.log(20), `{"type":"mode"}`+"\n") // no session
	c, got := s.start(Options{})
	if got != nil {
		t.Errorf("before the first scan: %q", got)
	}
	scan(t, c)
	want := titles(t, c, Query{Sort: ByTitle, IncludeSubagents: true})
	rows := c.Snapshot().sorted(byNative)
	for path, perm := range map[string]os.FileMode{s.cache(): 0o600, filepath.Dir(s.cache()): 0o700} {
		if i, err := os.Stat(path); err != nil || i.Mode().Perm() != perm {
			t.Errorf("%s: %v %v", path, i.Mode(), err)
		}
	}

	fsys, work := vfs.Count(vfs.OS())
	d, got := s.start(Options{FS: fsys})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, piece := range rows {
		for _, slot := range piece {
			a := c.Snapshot().at(slot)
			b, _ := d.Snapshot().Get(a.ID)
			if !sameRow(&a.Row, &b) {
				t.Errorf("%s: %s", a.ID, cmp.Diff(shown(a.Session), shown(b.Session)))
			}
		}
	}
	work.Reset()
	if ch := scan(t, d); !ch.Empty() || work.Opened.Load() != 0 || work.Writes.Load() != 0 {
		t.Errorf("nothing happened: %+v, %d opened, %d writes", ch, work.Opened.Load(), work.Writes.Load())
	}

	s.append(s.log(3), prompt("/", "more", 9))
	if err := os.Remove(s.log(4)); err != nil {
		t.Fatal(err)
	}
	s.write(s.log(21), prompt("/", "new", 1))
	e, _ := s.start(Options{})
	ch := scan(t, e)
	if len(ch.Updated) != 1 || len(ch.Removed) != 1 || len(ch.Added) != 1 || ch.Updated[0].Physical != 2 {
		t.Errorf("%+v", ch)
	}
	if e.cache.rows != 3 {
		t.Errorf("%d records were written for three changes", e.cache.rows)
	}
	_, got = s.start(Options{})
	if diff := cmp.Diff(titles(t, e, Query{Sort: ByTitle, IncludeSubagents: true}), got); diff != "" {
		t.Error(diff)
	}
}

// What a user said is not in the cache, and not lost with it.
func TestCache_holdsNoNotes(t *testing.T) {
	s := newClaudeStore(t)
	s.write(s.log(1), prompt("/", "by prompt", 1))
	o := Options{StateDir: filepath.Join(s.home, "state")}
	c, _ := s.start(o)
	scan(t, c)
	if _, _, err := c.Annotate(context.Background(), claudeID(1), func(n Note) Note { n.Title = "named"; return n }); err != nil {
		t.Fatal(err)
	}
	scan(t, c)
	if b, err := os.ReadFile(s.cache()); err != nil || strings.Contains(string(b), "named") {
		t.Errorf("the cache knows the name: %v", err)
	}
	if _, got := s.start(o); !slices.Equal(got, []string{"named"}) {
		t.Errorf("%q", got)
	}
	if err := os.RemoveAll(filepath.Dir(s.cache())); err != nil {
		t.Fatal(err)
	}
	c, _ = s.start(o)
	scan(t, c)
	if got := titles(t, c, Query{}); !slices.Equal(got, []string{"named"}) {
		t.Errorf("%q", got)
	}
}

// A cache cut or damaged anywhere gives rows that were saved, no others, and
// is whole again after the next scan.
func TestCache_damage(t *testing.T) {
	s := newClaudeStore(t)
	for i := range 3 {
		s.write(s.log(i), prompt("/", fmt.Sprint("p", i), 1))
	}
	c, _ := s.start(Options{})
	scan(t, c)
	whole, err := os.ReadFile(s.cache())
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"p0", "p1", "p2"}
	try := func(name string, b []byte) (reports []string) {
		t.Helper()
		s.write(s.cache(), string(b))
		c, got := s.start(Options{Report: func(err error) { reports = append(reports, err.Error()) }})
		for _, g := range got {
			if !slices.Contains(all, g) {
				t.Errorf("%s: %q", name, got)
			}
		}
		scan(t, c)
		if diff := cmp.Diff(all, titles(t, c, Query{Sort: ByTitle})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if len(reports) > 1 {
			t.Errorf("%s: %q", name, reports)
		}
		if len(got) == len(all) {
			return reports // a scan that changes nothing writes nothing
		}
		if _, got := s.start(Options{}); !slices.Equal(got, all) {
			t.Errorf("%s, after the next scan: %q", name, got)
		}
		return reports
	}
	for n := range whole {
		if n%11 == 0 || n < 20 {
			try(fmt.Sprint("cut at ", n), whole[:n])
			flipped := slices.Clone(whole)
			flipped[n] ^= 0x10
			if n < len(cacheMagic) || n > len(cacheMagic)+1 { // else it is of another format
				try(fmt.Sprint("flipped at ", n), flipped)
			}
		}
	}
	flipped := bytes.Replace(whole, []byte("p1"), []byte("P1"), 1)
	bad := slices.Concat(whole, []byte{3, 0, 0, 0}, binary.LittleEndian.AppendUint32(nil, crc32.Checksum([]byte("bad"), castagnoli)), []byte("bad"))
	for name, b := range map[string][]byte{
		"foreign": []byte("SQLite format 3\x00"), "flipped": flipped, "appended": append(slices.Clone(whole), "garbage that is no record"...), "no record": bad,
	} {
		if got := try(name, b); len(got) != 1 || !strings.Contains(got[0], "is made anew") {
			t.Errorf("%s: %q", name, got)
		}
	}
	// A record that never came whole is what a process leaves that was killed.
	if got := try("torn", whole[:len(whole)-3]); len(got) != 0 {
		t.Errorf("torn: %q", got)
	}
}

// What cannot be used is done without, and told of once.
func TestCache_doneWithout(t *testing.T) {
	s := newClaudeStore(t)
	s.write(s.log(1), prompt("/", "here", 1))
	newer := cacheMagic + "2\nwhatever"
	for _, tt := range []struct {
		name  string
		make  func()
		after func() error
	}{
		{"newer", func() { s.write(s.cache(), newer) }, func() error {
			if b, err := os.ReadFile(s.cache()); err != nil || string(b) != newer {
				return fmt.Errorf("it was changed: %q %w", b, err)
			}
			return nil
		}},
		{"no directory", func() { s.write(filepath.Dir(s.cache()), "a file") }, nil},
		{"a directory", func() { s.write(filepath.Join(s.cache(), "x"), "") }, nil},
	} {
		if err := os.RemoveAll(filepath.Join(s.home, "cache")); err != nil {
			t.Fatal(err)
		}
		tt.make()
		var reports []string
		c, _ := s.start(Options{Report: func(err error) { reports = append(reports, err.Error()) }})
		for i := range 3 {
			s.append(s.log(1), prompt("/", "more", i))
			scan(t, c)
		}
		if got := titles(t, c, Query{}); !slices.Equal(got, []string{"here"}) {
			t.Errorf("%s: %q", tt.name, got)
		}
		if len(reports) != 1 || !strings.Contains(reports[0], s.cache()) {
			t.Errorf("%s: reports %q", tt.name, reports)
		}
		if tt.after != nil {
			if err := tt.after(); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
	}
}

// Another version makes it anew; the first one then leaves it alone.
func TestCache_twoVersions(t *testing.T) {
	s := newClaudeStore(t)
	s.write(s.log(1), prompt("/", "one", 1))
	var reports []error
	old, _ := s.start(Options{Version: "1.0", Report: func(err error) { reports = append(reports, err) }})
	scan(t, old)
	c, got := s.start(Options{Version: "1.1"})
	if got != nil {
		t.Errorf("rows of another version: %q", got)
	}
	scan(t, c)
	for i := range 3 {
		s.append(s.log(1), prompt("/", "two", i))
		scan(t, old)
	}
	if _, got = s.start(Options{Version: "1.1"}); !slices.Equal(got, []string{"one"}) || len(reports) != 1 {
		t.Errorf("%q, reports %v", got, reports)
	}
}

// Several processes write at once, with stores of their own and one in
// common, and one makes the file anew meanwhile: nothing is lost that was
// saved last.
func TestCache_shared(t *testing.T) {
	s := newClaudeStore(t)
	var all []*Catalog
	for i := range 4 {
		c, _ := s.start(Options{})
		all = append(all, c)
		s.write(s.log(i), prompt("/", fmt.Sprint("p", i), 1))
	}
	var wg sync.WaitGroup
	for i, c := range all {
		wg.Go(func() {
			for n := range 20 {
				sess := made(i*100 + n)
				sess.Root = s.path()
				sess.Path = s.path("projects", "-made", sess.Native+".jsonl")
				sess.Title = fmt.Sprint("of ", i, " turn ", n)
				c.mu.Lock()
				c.publish(patch{looks: []look{{path: sess.Path, session: &sess, known: known{agent: "claude", dir: s.path(), stamp: stamp{size: 1}, look: c.looks.Add(1)}}}})
				c.mu.Unlock()
				c.Flush()
			}
		})
	}
	wg.Wait()
	d, _ := s.start(Options{})
	if d.Snapshot().Len() != 80 {
		t.Errorf("%d of 80 rows", d.Snapshot().Len())
	}
	if n := all[0].cache.rows + all[1].cache.rows + all[2].cache.rows + all[3].cache.rows; n < 80 {
		t.Errorf("%d records written", n)
	}
}

// A file that is mostly out of date is written anew, without what is gone and
// with what other processes keep there.
func TestCache_compaction(t *testing.T) {
	s, other := newClaudeStore(t), newClaudeStore(t)
	s.write(s.log(1), prompt("/", strings.Repeat("long prompt ", 30), 1))
	other.write(other.log(2), prompt("/", "of another root", 2))
	other.write(other.log(3), prompt("/", "to be removed", 3))
	o := Options{CachePath: s.cache()}
	d := other.open(o)
	scan(t, d)
	if err := os.Remove(other.log(3)); err != nil {
		t.Fatal(err)
	}
	c, _ := s.start(Options{})
	scan(t, c)
	var most int64
	for i := range 600 {
		sess := c.known[s.log(1)].row.asStored()
		sess.LastPrompt = fmt.Sprint("turn ", i, strings.Repeat(" and on", 500))
		c.mu.Lock()
		c.publish(patch{looks: []look{{path: sess.Path, session: &sess, known: known{agent: "claude", dir: s.path(), stamp: c.known[s.log(1)].stamp, look: c.looks.Add(1)}}}})
		c.mu.Unlock()
		c.Flush()
		most = max(most, c.cache.end)
	}
	if most < cacheGarbage || most > 2*cacheGarbage {
		t.Errorf("it grew to %d bytes", most)
	}
	if c.cache.rows != 601 {
		t.Errorf("%d records written for 601 changes", c.cache.rows)
	}
	c, _ = s.start(Options{})
	if r, _ := c.Snapshot().Lookup(uuid(1)); !strings.HasPrefix(r.LastPrompt, "turn 599 ") {
		t.Errorf("%+v", r)
	}
	d = other.open(o)
	d.Restore()
	if got := titles(t, d, Query{}); !slices.Equal(got, []string{"of another root"}) {
		t.Errorf("of the other process: %q", got)
	}
}

// Rows of a root that goes away and comes back come from the cache.
func TestCache_rootComesBack(t *testing.T) {
	w := newWorkspace(t)
	w.append(idA, message("user", "a", 1))
	home := t.TempDir()
	fsys, work := vfs.Count(vfs.OS())
	c := open(t, w, home)
	c.o.FS = fsys
	c.cache = &cache{fs: fsys, path: filepath.Join(home, "rows"), report: c.o.Report, use: make(chan struct{}, 1)}
	c.unsaved, c.restored = map[string]bool{}, map[rootKey]bool{}
	scan(t, c)
	ctx := context.Background()
	if ch, err := c.SetWorkspaces(ctx, nil); err != nil || len(ch.Removed) != 1 {
		t.Fatalf("%+v %v", ch, err)
	}
	c.Flush()
	work.Reset()
	if _, err := c.SetWorkspaces(ctx, []string{w.dir}); err != nil || c.Snapshot().Len() != 1 {
		t.Fatal(c.Snapshot().Len(), err)
	}
	if n := work.Opened.Load(); n != 1 {
		t.Errorf("%d files were opened besides the cache", n-1)
	}
}

func newRow() *row { return &row{} }

func TestSaved_law(t *testing.T) {
	text := rapid.StringN(0, 12, -1)
	when := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "zero") {
			return time.Time{}
		}
		return time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
	})
	rapid.Check(t, func(t *rapid.T) {
		s := session.Session{}
		v := reflect.ValueOf(&s).Elem()
		for i := range v.NumField() {
			f, name := v.Field(i), v.Type().Field(i).Name
			switch f.Interface().(type) {
			case string:
				f.SetString(text.Draw(t, name))
			case int:
				f.SetInt(int64(rapid.IntRange(-1, 1<<40).Draw(t, name)))
			case int64:
				f.SetInt(rapid.Int64().Draw(t, name))
			case bool:
				f.SetBool(rapid.Bool().Draw(t, name))
			case time.Time:
				f.Set(reflect.ValueOf(when.Draw(t, name)))
			case session.ID:
				f.Set(reflect.ValueOf(session.ID{Agent: text.Draw(t, name), Native: text.Draw(t, name)}))
			case session.Revision:
				f.SetString(text.Draw(t, name))
			case []string:
				if l := rapid.SliceOfN(text, 0, 3).Draw(t, name); len(l) > 0 {
					f.Set(reflect.ValueOf(l))
				}
			case []byte:
				if b := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, name); len(b) > 0 {
					f.SetBytes(b)
				}
			case session.TitleSource:
				s.TitleSource = session.TitleSource(rapid.IntRange(0, 3).Draw(t, name))
			case session.Status:
				s.Status = session.Status(rapid.IntRange(0, 3).Draw(t, name))
			case session.SessionKind:
				s.Kind = session.SessionKind(rapid.IntRange(0, 2).Draw(t, name))
			default:
				t.Fatalf("field %s is not saved", name)
			}
		}
		s.CWDMissing = false // of the place, not of the session
		in := saved{path: s.Path, agent: s.Agent, dir: s.Root, session: &s, stamp: stamp{vfs.FileID{Ino: rapid.Uint64().Draw(t, "ino")}, rapid.Int64().Draw(t, "bytes"), rapid.Int64().Draw(t, "mod")}}
		b := in.encode(nil)
		out, err := decodeSaved(string(b), newRow)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, *out.session); diff != "" || out.stamp != in.stamp || out.path != s.Path {
			t.Fatalf("%+v: %s", out.stamp, diff)
		}
		if _, err := decodeSaved(string(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]), newRow); err == nil {
			t.Fatal("a part of a record was taken for one")
		}
	})
}

func FuzzDecodeSaved(f *testing.F) {
	s := made(1)
	s.SideFiles = []string{"/a", "/b"}
	f.Add(saved{path: s.Path, agent: s.Agent, dir: s.Root, session: &s, place: place{cwd: s.CWD, real: s.CWD}}.encode(nil))
	f.Add(saved{path: "/x", gone: true}.encode(nil))
	f.Add(saved{path: "/x", agent: "a", dir: "/"}.encode(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeSaved(string(b), newRow)
		if err != nil {
			return
		}
		again, err := decodeSaved(string(s.encode(nil)), newRow)
		if err != nil {
			t.Fatal(err)
		}
		s.row, again.row = nil, nil
		if !reflect.DeepEqual(s, again) {
			t.Fatalf("%+v, again %+v", s, again)
		}
	})
}
