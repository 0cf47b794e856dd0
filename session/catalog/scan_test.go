package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/format"
	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// claudeStore is a made-up home with a Claude Code store.
type claudeStore struct {
	t    *testing.T
	home string
}

func newClaudeStore(t *testing.T) *claudeStore {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &claudeStore{t, dir}
}

// uuid makes the id of a session from a small number.
func uuid(n int) string { return fmt.Sprintf("%08d-1111-4111-8111-111111111111", n) }

func (s *claudeStore) path(parts ...string) string {
	return filepath.Join(append([]string{s.home, ".claude"}, parts...)...)
}

func (s *claudeStore) log(n int) string { return s.path("projects", "-w", uuid(n)+".jsonl") }

func (s *claudeStore) write(path, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *claudeStore) append(path, text string) {
	s.t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// prompt is a line that a user wrote in directory cwd.
func prompt(cwd, text string, n int) string {
	return fmt.Sprintf(`{"parentUuid":null,"type":"user","uuid":"u%d","timestamp":"2026-01-01T00:00:%02d.000Z","cwd":%q,"message":{"role":"user","content":%q}}`+"\n", n, n%60, cwd, text)
}

func (s *claudeStore) open(o Options) *Catalog {
	s.t.Helper()
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	o.Env = session.Env{Home: s.home, GOOS: "linux", Getenv: func(string) string { return "" }}
	o.Formats, o.Clock = format.All(), now
	if o.Report == nil {
		o.Report = func(err error) { s.t.Errorf("reported: %v", err) }
	}
	c, err := Open(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func refresh(t *testing.T, c *Catalog, paths ...string) Change {
	t.Helper()
	ch, err := c.Refresh(context.Background(), paths...)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// What work costs, in files opened and bytes read.
func TestScan_work(t *testing.T) {
	s := newClaudeStore(t)
	for i := range 40 {
		s.write(s.log(i), prompt(s.home, fmt.Sprint("prompt ", i), i))
	}
	s.write(s.path("projects", "-w", uuid(98)+".jsonl"), `{"type":"mode","mode":"x"}`+"\n") // no session
	s.write(s.path("plugins", "x", uuid(99)+".jsonl"), prompt("/", "not a session", 1))
	long := prompt(s.home, strings.Repeat("long ", 200_000), 1)
	s.write(s.log(0), long)
	fsys, work := vfs.Count(vfs.OS())
	c := s.open(Options{FS: fsys})
	if ch := scan(t, c); len(ch.Added) != 40 {
		t.Fatalf("%d added", len(ch.Added))
	}
	if n := work.Listed.Load(); n > 6 {
		t.Errorf("the first scan listed %d directories", n)
	}

	work.Reset()
	if ch := scan(t, c); !ch.Empty() {
		t.Errorf("nothing happened: %+v", ch)
	}
	if n := work.Opened.Load(); n != 0 {
		t.Errorf("a second scan opened %d files", n)
	}

	line := prompt(s.home, "one more", 7)
	s.append(s.log(0), line)
	work.Reset()
	if ch := refresh(t, c, s.log(0)); len(ch.Updated) != 1 || len(ch.Added)+len(ch.Removed) != 0 {
		t.Errorf("one row of one session: %+v", ch)
	}
	// Its own bytes, both ends for the old and the new revision, and the
	// window in which lines are read.
	if n := work.Read.Load(); n > int64(len(line))+4*4<<10+128<<10 {
		t.Errorf("an append of %d bytes to %d cost %d", len(line), len(long), n)
	}

	work.Reset()
	refresh(t, c, s.log(0))
	if work.Read.Load() != 0 || work.Opened.Load() != 0 {
		t.Error("a hint without growth read something")
	}

	work.Reset()
	if p, err := c.Snapshot().List(Query{Text: "prompt", CWD: s.home, Scope: Subtree}); err != nil || p.Total != 39 {
		t.Fatalf("%d, %v", p.Total, err)
	}
	if work.Opened.Load()+work.Read.Load()+work.Listed.Load() != 0 {
		t.Error("a page of a list opened something")
	}
}

func TestScan_fileBecomesNoSession(t *testing.T) {
	s := newClaudeStore(t)
	s.write(s.log(1), prompt("/", "hello", 1))
	c := s.open(Options{})
	scan(t, c)
	s.write(s.log(1), "")
	if ch := refresh(t, c, s.log(1)); len(ch.Removed) != 1 {
		t.Errorf("emptied: %+v", ch)
	}
	s.append(s.log(1), prompt("/", "again", 2))
	if ch := scan(t, c); len(ch.Added) != 1 || ch.Added[0].Title != "again" {
		t.Errorf("written again: %+v", ch)
	}
}

// A file whose time goes back was written all the same.
func TestRefresh_timeGoesBack(t *testing.T) {
	s := newClaudeStore(t)
	s.write(s.log(1), prompt("/", "first", 1))
	c := s.open(Options{})
	scan(t, c)
	s.write(s.log(1), prompt("/", "second", 1))
	long := time.Unix(1000, 0)
	if err := os.Chtimes(s.log(1), long, long); err != nil {
		t.Fatal(err)
	}
	if ch := refresh(t, c, s.log(1)); len(ch.Updated) != 1 || ch.Updated[0].Title != "second" {
		t.Errorf("%+v", ch)
	}
}

// Nothing that lies in a store makes a scan hang or run in circles.
func TestScan_pipesAndCircles(t *testing.T) {
	s := newClaudeStore(t)
	s.write(s.log(1), prompt("/", "inside", 1))
	other := newClaudeStore(t)
	other.write(other.path("projects", "-elsewhere", uuid(2)+".jsonl"), prompt("/", "elsewhere", 1))
	link := func(to, from string) {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	link(s.path("projects"), s.path("projects", "circle"))
	link("..", s.path("projects", "-w", "up"))
	link(other.path("projects", "-elsewhere"), s.path("projects", "-moved"))
	link(s.path("projects"), other.path("projects", "-elsewhere", "back"))
	link("nowhere", s.path("projects", "dangling"))
	link("nowhere", s.path("projects", "-w", uuid(3)+".jsonl"))
	makePipe(t, s.path("projects", "-w", uuid(4)+".jsonl"))
	fsys, work := vfs.Count(vfs.OS())
	c := s.open(Options{FS: fsys})
	scan(t, c)
	if diff := cmp.Diff([]string{"elsewhere", "inside"}, titles(t, c, Query{Sort: ByTitle})); diff != "" {
		t.Error(diff)
	}
	if n := work.Listed.Load(); n > 6 {
		t.Errorf("%d directories were listed", n)
	}
}

// failing makes the opening of one file fail.
type failing struct {
	vfs.FS
	name string
	err  error
}

func (f *failing) Open(path string) (vfs.File, error) {
	if f.err != nil && filepath.Base(path) == f.name {
		return nil, &fs.PathError{Op: "open", Path: path, Err: f.err}
	}
	return f.FS.Open(path)
}

func (f *failing) DirFS(dir string) fs.FS { return failingDir{f.FS.DirFS(dir), f} }

type failingDir struct {
	fs.FS
	f *failing
}

func (d failingDir) Open(name string) (fs.File, error) {
	if d.f.err != nil && filepath.Base(name) == d.f.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: d.f.err}
	}
	return d.FS.Open(name)
}

// One session that cannot be read is shown as far as it is known, told of
// once, and tried again.
func TestScan_unreadableSession(t *testing.T) {
	s := newClaudeStore(t)
	s.write(s.log(1), prompt("/", "good", 1))
	s.write(s.log(2), prompt("/", "bad", 2))
	bad := &failing{FS: vfs.OS(), name: uuid(2) + ".jsonl", err: syscall.EIO}
	var reports []string
	c := s.open(Options{FS: bad, Report: func(err error) { reports = append(reports, err.Error()) }})
	for range 2 {
		scan(t, c)
		r, err := c.Snapshot().Lookup(uuid(2))
		if err != nil || c.Snapshot().Len() != 2 || r.Problems != 1 || r.Path != s.log(2) || r.Size == 0 || r.UpdatedAt.IsZero() {
			t.Fatalf("%+v %v", r, err)
		}
	}
	if len(reports) != 1 || !strings.Contains(reports[0], s.log(2)) {
		t.Errorf("reports: %q", reports)
	}
	bad.err = nil
	scan(t, c)
	if r, _ := c.Snapshot().Lookup(uuid(2)); r.Title != "bad" || r.Problems != 0 {
		t.Errorf("readable again: %+v", r)
	}
	bad.err = syscall.EIO // and what is known stays known
	s.append(s.log(2), prompt("/", "more", 3))
	scan(t, c)
	if r, _ := c.Snapshot().Lookup(uuid(2)); r.Title != "bad" || r.Problems != 1 {
		t.Errorf("unreadable again: %+v", r)
	}
}

// The end of a process shows without a change of the transcript.
func TestRegister(t *testing.T) {
	s := newClaudeStore(t)
	s.write(s.log(1), prompt("/", "a", 1))
	s.write(s.log(2), prompt("/", "b", 1))
	alive := true
	fsys, work := vfs.Count(vfs.OS())
	c := s.open(Options{FS: fsys, Alive: func(pid int) bool { return alive && pid == 77 }})
	scan(t, c)
	reg := func(status string) string {
		return fmt.Sprintf(`{"pid":77,"sessionId":%q,"status":%q,"startedAt":1767225600000}`, uuid(1), status)
	}
	file := s.path("sessions", "77.json")
	s.write(file, reg("busy"))
	work.Reset()
	ch := refresh(t, c, file)
	if len(ch.Updated) != 1 || ch.Updated[0].Status != session.StatusRunning || ch.Updated[0].WriterPID != 77 {
		t.Fatalf("%+v", ch)
	}
	if n := work.Opened.Load(); n != 1 {
		t.Errorf("%d files were opened for the register", n)
	}
	s.append(s.log(1), prompt("/", "more", 2))
	if ch = refresh(t, c, s.log(1)); len(ch.Updated) != 1 || ch.Updated[0].WriterPID != 77 {
		t.Errorf("after an append: %+v", ch)
	}
	s.write(file, reg("idle"))
	if ch = refresh(t, c, file); len(ch.Updated) != 1 || ch.Updated[0].Status != session.StatusIdle {
		t.Errorf("idle: %+v", ch)
	}
	alive = false // killed: its file stays
	if ch = scan(t, c); len(ch.Updated) != 1 || ch.Updated[0].WriterPID != 0 || ch.Updated[0].Status == session.StatusIdle {
		t.Errorf("dead: %+v", ch)
	}
}

// A working directory that comes or goes shows in rows whose transcripts are
// as they were.
func TestScan_missingDirectory(t *testing.T) {
	s := newClaudeStore(t)
	dir := filepath.Join(s.home, "work")
	s.write(s.log(1), prompt(dir, "a", 1))
	s.write(s.log(2), prompt(dir, "b", 2))
	s.write(s.log(3), prompt(`C:\work`, "c", 3)) // of another system: not known
	c := s.open(Options{})
	missing := func() (list []bool) {
		for i := range 3 {
			r, _ := c.Snapshot().Lookup(uuid(i + 1))
			list = append(list, r.CWDMissing)
		}
		return list
	}
	scan(t, c)
	if got := missing(); !slices.Equal(got, []bool{true, true, false}) {
		t.Errorf("before: %v", got)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if ch := scan(t, c); len(ch.Updated) != 2 || !slices.Equal(missing(), []bool{false, false, false}) {
		t.Errorf("made: %+v", ch)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	s.write(dir, "a file")
	if ch := scan(t, c); len(ch.Updated) != 2 || !slices.Equal(missing(), []bool{true, true, false}) {
		t.Errorf("a file instead: %+v", ch)
	}
}

// A lock that another process keeps makes a running session; one that is held
// for an append does not.
func TestHolder(t *testing.T) {
	s := newClaudeStore(t)
	s.write(s.log(1), prompt("/", "a", 1))
	at := &ticking{}
	j := journal.New(vfs.OS(), at)
	release, err := j.Hold(context.Background(), s.log(1))
	if err != nil {
		t.Fatal(err)
	}
	lock := journal.LockPath(s.log(1))
	_, since, _ := vfs.OS().Holder(lock)
	c := s.open(Options{PID: os.Getpid() + 1})
	c.o.Clock = at
	at.t = since.Add(appendTime / 2)
	scan(t, c)
	if r, _ := c.Snapshot().Lookup(uuid(1)); r.WriterPID != 0 {
		t.Errorf("an append: %+v", r)
	}
	at.t = since.Add(time.Second)
	if ch := refresh(t, c, lock); len(ch.Updated) != 1 || ch.Updated[0].Status != session.StatusRunning || ch.Updated[0].WriterPID != os.Getpid() || !ch.Updated[0].WriterSince.Equal(since) {
		t.Errorf("held: %+v", ch)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if ch := refresh(t, c, lock); len(ch.Updated) != 1 || ch.Updated[0].WriterPID != 0 {
		t.Errorf("released: %+v", ch)
	}
	own := s.open(Options{PID: os.Getpid()})
	if release, err = j.Hold(context.Background(), s.log(1)); err != nil {
		t.Fatal(err)
	}
	defer release() //nolint:errcheck // the end of the test
	scan(t, own)
	if r, _ := own.Snapshot().Lookup(uuid(1)); r.WriterPID != 0 {
		t.Errorf("our own lock: %+v", r)
	}
}

type ticking struct{ t time.Time }

func (c *ticking) Now() time.Time { return c.t }

// Of two transcripts with one id the newer one is shown, and the other one
// when that is gone.
func TestPublish_twoTranscriptsOfOneID(t *testing.T) {
	s := newClaudeStore(t)
	a, b := s.log(1), s.path("projects", "-v", uuid(1)+".jsonl")
	s.write(a, prompt("/", "older", 1))
	s.write(b, prompt("/", "newer", 1))
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(a, past, past); err != nil {
		t.Fatal(err)
	}
	c := s.open(Options{})
	if ch := scan(t, c); len(ch.Removed) != 0 || c.Snapshot().Len() != 1 {
		t.Fatalf("%+v", ch)
	}
	if got := titles(t, c, Query{}); !slices.Equal(got, []string{"newer"}) {
		t.Errorf("%q", got)
	}
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	if ch := refresh(t, c, b); len(ch.Updated) != 1 || ch.Updated[0].Title != "older" || ch.Updated[0].Path != a {
		t.Errorf("%+v", ch)
	}
	s.write(b, prompt("/", "back", 1))
	if ch := refresh(t, c, filepath.Dir(b)); len(ch.Updated) != 1 || ch.Updated[0].Title != "back" {
		t.Errorf("%+v", ch)
	}
	if err := os.RemoveAll(s.path()); err != nil {
		t.Fatal(err)
	}
	if ch := refresh(t, c, s.path()); len(ch.Removed) != 1 || c.Snapshot().Len() != 0 {
		t.Errorf("%+v", ch)
	}
}

// A scan that is stopped removes nothing and leaves no goroutine, and is not
// taken for a scan that has ended.
func TestScan_cancelled(t *testing.T) {
	s := newClaudeStore(t)
	for i := range 300 {
		s.write(s.log(i), prompt("/", "x", 1))
	}
	c := s.open(Options{})
	ctx, cancel := context.WithCancel(context.Background())
	_, err := c.Scan(ctx, func(Change) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	select {
	case <-c.Scanned():
		t.Error("taken for a whole scan")
	default:
	}
	scan(t, c)
	<-c.Scanned()
	if n := c.Snapshot().Len(); n != 300 {
		t.Errorf("%d sessions", n)
	}
	ch, err := c.Scan(ctx, nil)
	if err == nil || len(ch.Removed) != 0 || c.Snapshot().Len() != 300 {
		t.Errorf("%+v %v", ch, err)
	}
}

// Rows come while a scan goes on, each once.
func TestScan_progress(t *testing.T) {
	s := newClaudeStore(t)
	for i := range 3 * scanBatch {
		s.write(s.path("projects", fmt.Sprint("-", i%7), uuid(i)+".jsonl"), prompt("/", "x", 1))
	}
	c := s.open(Options{})
	seen := map[session.ID]int{}
	batches := 0
	ch, err := c.Scan(context.Background(), func(ch Change) {
		batches++
		for _, r := range ch.Added {
			seen[r.ID]++
		}
	})
	if err != nil || len(ch.Added) != 3*scanBatch || len(seen) != 3*scanBatch || batches < 2 {
		t.Fatalf("%d rows in %d batches, %v", len(seen), batches, err)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
}

// Load gives a row of the bytes that it read, even when the snapshot is behind.
func TestLoad_newerThanTheSnapshot(t *testing.T) {
	s := newClaudeStore(t)
	s.write(s.log(1), prompt("/", "one", 1))
	c := s.open(Options{})
	scan(t, c)
	s.append(s.log(1), prompt("/", "two", 9))
	o, err := c.Load(context.Background(), session.ID{Agent: "claude", Native: uuid(1)}, LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if o.Transcript.Len() != 2 || o.Row.Physical != 2 || o.Row.Size != o.Size || o.Row.Revision != o.Revision || o.Row.UpdatedAt.Second() != 9 {
		t.Errorf("%d entries, %+v", o.Transcript.Len(), o.Row)
	}
	if r, _ := c.Snapshot().Lookup(uuid(1)); r.Physical != 1 {
		t.Errorf("published: %+v", r)
	}
}

// A root that is made later as a link is found where it leads.
func TestScan_rootBecomesALink(t *testing.T) {
	s, other := newClaudeStore(t), newClaudeStore(t)
	other.write(other.log(1), prompt("/", "there", 1))
	c := s.open(Options{})
	scan(t, c)
	if err := os.Symlink(other.path(), s.path()); err != nil {
		t.Fatal(err)
	}
	scan(t, c)
	if r, err := c.Snapshot().Lookup(uuid(1)); err != nil || r.Path != other.log(1) {
		t.Fatalf("%+v %v", r, err)
	}
	if got := c.Roots(); !slices.ContainsFunc(got, func(r StoreRoot) bool { return r.Root.Dir == other.path() }) {
		t.Errorf("%+v", got)
	}
}
