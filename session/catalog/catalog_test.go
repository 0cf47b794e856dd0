package catalog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/format"
	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/session/vfs"
)

type clock struct{ t time.Time }

func (c clock) Now() time.Time { return c.t }

var now = clock{time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)}

// workspace is a directory with PseudoClaude sessions.
type workspace struct {
	t   *testing.T
	dir string
}

func newWorkspace(t *testing.T) *workspace {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &workspace{t, dir}
}

func (w *workspace) path(id string) string {
	return filepath.Join(w.dir, ".PseudoClaude", "sessions", id, "conversation.jsonl")
}

// message is one line with a time in seconds.
func message(role, text string, ts int64) string {
	return fmt.Sprintf("{\"type\":\"message\",\"role\":%q,\"content\":%q,\"ts\":%d}\n", role, text, ts)
}

func (w *workspace) append(id, text string) {
	w.t.Helper()
	p := w.path(id)
	if err := os.MkdirAll(filepath.Join(filepath.Dir(p), "tool-results"), 0o700); err != nil {
		w.t.Fatal(err)
	}
	f, err := os.OpenFile(p, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		w.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		w.t.Fatal(err)
	}
}

func open(t *testing.T, w *workspace, home string) *Catalog {
	t.Helper()
	c, err := Open(Options{
		FS: vfs.OS(), Env: session.Env{Home: home, GOOS: "linux", Workspaces: []string{w.dir}, Getenv: func(string) string { return "" }},
		Formats: pcOnly(), StateDir: filepath.Join(home, "state"), Clock: now, PID: os.Getpid() + 1,
		Report: func(err error) { t.Log("reported:", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pcOnly() []session.Format {
	var out []session.Format
	for _, f := range format.All() {
		if f.Name() == "pseudoclaude" {
			out = append(out, f)
		}
	}
	return out
}

func scan(t *testing.T, c *Catalog) Change {
	t.Helper()
	ch, err := c.Scan(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func titles(t *testing.T, c *Catalog, q Query) []string {
	t.Helper()
	p, err := c.Snapshot().List(q)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range p.Rows {
		out = append(out, r.Title)
	}
	return out
}

const (
	idA = "20260828-100000-aaaa"
	idB = "20260828-110000-bbbb"
	idC = "20260828-120000-cccc"
)

func TestScanAndRefresh(t *testing.T) {
	w := newWorkspace(t)
	w.append(idA, message("user", "first", 100))
	w.append(idB, message("user", "second", 200))
	c := open(t, w, t.TempDir())
	if got := titles(t, c, Query{}); got != nil {
		t.Fatalf("before the scan: %q", got)
	}
	if ch := scan(t, c); len(ch.Added) != 2 || len(ch.Updated)+len(ch.Removed) != 0 {
		t.Fatalf("%+v", ch)
	}
	if diff := cmp.Diff([]string{"second", "first"}, titles(t, c, Query{CWD: w.dir})); diff != "" {
		t.Error(diff)
	}
	if ch := scan(t, c); !ch.Empty() {
		t.Fatalf("nothing happened: %+v", ch)
	}
	w.append(idA, message("assistant", "x", 300))
	ch, err := c.Refresh(context.Background(), w.path(idA))
	if err != nil || len(ch.Updated) != 1 || ch.Updated[0].Physical != 2 {
		t.Fatalf("%+v %v", ch, err)
	}
	if diff := cmp.Diff([]string{"first", "second"}, titles(t, c, Query{})); diff != "" {
		t.Error(diff)
	}
	// A directory made while running, without its transcript, then with it.
	if err := os.MkdirAll(filepath.Dir(w.path(idC)), 0o700); err != nil {
		t.Fatal(err)
	}
	if ch, err = c.Refresh(context.Background(), filepath.Dir(w.path(idC))); err != nil || len(ch.Added) != 1 || !ch.Added[0].Empty {
		t.Fatalf("%+v %v", ch, err)
	}
	if got := titles(t, c, Query{IncludeEmpty: true}); len(got) != 3 {
		t.Fatal(got)
	}
	w.append(idC, message("user", "third", 400))
	if ch, err = c.Refresh(context.Background(), w.path(idC)); err != nil || len(ch.Updated) != 1 {
		t.Fatalf("%+v %v", ch, err)
	}
	if err := os.RemoveAll(filepath.Dir(w.path(idB))); err != nil {
		t.Fatal(err)
	}
	if ch, err = c.Refresh(context.Background(), w.path(idB)); err != nil || len(ch.Removed) != 1 {
		t.Fatalf("%+v %v", ch, err)
	}
	if err := os.RemoveAll(filepath.Join(w.dir, ".PseudoClaude")); err != nil {
		t.Fatal(err)
	}
	if ch = scan(t, c); len(ch.Removed) != 2 || c.Snapshot().Len() != 0 {
		t.Fatalf("%+v", ch)
	}
	if entries, err := os.ReadDir(w.dir); err != nil || len(entries) != 0 {
		t.Fatalf("listing made something: %v %v", entries, err)
	}
}

// Truncated and written anew, larger than before: nothing of the old row stays.
func TestRefresh_rewritten(t *testing.T) {
	w := newWorkspace(t)
	w.append(idA, message("user", "old title", 100))
	c := open(t, w, t.TempDir())
	scan(t, c)
	if err := os.WriteFile(w.path(idA), []byte(message("user", "new title", 200)+message("assistant", "x", 201)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Refresh(context.Background(), w.path(idA)); err != nil {
		t.Fatal(err)
	}
	r, err := c.Snapshot().Lookup(idA)
	if err != nil || r.Title != "new title" || r.Physical != 2 {
		t.Fatalf("%+v %v", r, err)
	}
}

func TestLookup(t *testing.T) {
	w := newWorkspace(t)
	for _, id := range []string{idA, idB, "20260829-100000-aaaa"} {
		w.append(id, message("user", id, 100))
	}
	c := open(t, w, t.TempDir())
	scan(t, c)
	for _, c2 := range []struct {
		name string
		want string
		err  error
	}{
		{idA, idA, nil},
		{"pseudoclaude:" + idA, idA, nil},
		{"20260829", "20260829-100000-aaaa", nil},
		{"pseudoclaude:20260829", "20260829-100000-aaaa", nil},
		{"2026", "", session.ErrAmbiguous},
		{"202", "", session.ErrNotFound},
		{"", "", session.ErrNotFound},
		{"claude:" + idA, "", session.ErrNotFound},
	} {
		r, err := c.Snapshot().Lookup(c2.name)
		if r.Native != c2.want || !errors.Is(err, c2.err) {
			t.Errorf("%q: %q %v, want %q %v", c2.name, r.Native, err, c2.want, c2.err)
		}
	}
	var amb *session.AmbiguousError
	if _, err := c.Snapshot().Lookup("20260828"); !errors.As(err, &amb) || len(amb.Candidates) != 2 {
		t.Errorf("candidates: %v", err)
	}
	if r, ok := c.Snapshot().ByPath(w.path(idB)); !ok || r.Native != idB {
		t.Errorf("by path: %+v", r)
	}
}

// A cursor skips nothing and repeats nothing while other sessions change.
func TestList_pagesUnderChange(t *testing.T) {
	w := newWorkspace(t)
	var ids []string
	for i := range 25 {
		id := fmt.Sprintf("20260828-1000%02d-aaaa", i)
		ids = append(ids, id)
		w.append(id, message("user", id, int64(1000+i)))
	}
	slices.Reverse(ids)
	c := open(t, w, t.TempDir())
	scan(t, c)
	for _, by := range []Sort{ByUpdated, ByCreated, BySize, ByTitle} {
		want := titles(t, c, Query{Sort: by, Limit: MaxLimit})
		var got []string
		q := Query{Sort: by, Limit: 4}
		for page := 0; ; page++ {
			p, err := c.Snapshot().List(q)
			if err != nil {
				t.Fatal(err)
			}
			if p.Total != c.Snapshot().Len() {
				t.Fatalf("total %d of %d", p.Total, c.Snapshot().Len())
			}
			for _, r := range p.Rows {
				got = append(got, r.Title)
			}
			if q.Cursor = p.Next; q.Cursor == "" {
				break
			}
			// Another session comes to the front.
			id := fmt.Sprintf("20260829-%d000%02d-bbbb", by, page)
			w.append(id, message("user", "zz new", 9000))
			if _, err := c.Refresh(context.Background(), w.path(id)); err != nil {
				t.Fatal(err)
			}
		}
		got = slices.DeleteFunc(got, func(s string) bool { return s == "zz new" })
		if diff := cmp.Diff(slices.DeleteFunc(want, func(s string) bool { return s == "zz new" }), got); diff != "" {
			t.Errorf("sort %d: %s", by, diff)
		}
	}
	for _, bad := range []string{"x", "bm8", mustCursor(t, c)} {
		if _, err := c.Snapshot().List(Query{Cursor: bad}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("cursor %q: %v", bad, err)
		}
	}
	for _, bad := range []int{-1, MaxLimit + 1} {
		if _, err := c.Snapshot().List(Query{Limit: bad}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("limit %d: %v", bad, err)
		}
	}
}

// mustCursor is a cursor of another query.
func mustCursor(t *testing.T, c *Catalog) string {
	t.Helper()
	p, err := c.Snapshot().List(Query{Limit: 1, Sort: BySize})
	if err != nil || p.Next == "" {
		t.Fatal(p, err)
	}
	return p.Next
}

func TestScope(t *testing.T) {
	top := t.TempDir()
	top, err := filepath.EvalSymlinks(top)
	if err != nil {
		t.Fatal(err)
	}
	mkdir := func(p string) string {
		p = filepath.Join(top, p)
		if err := os.MkdirAll(p, 0o700); err != nil {
			t.Fatal(err)
		}
		return p
	}
	write := func(p, text string) {
		if err := os.WriteFile(filepath.Join(top, p), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A repository with a linked worktree, as git lays them out.
	repo, tree := mkdir("repo"), mkdir("tree")
	mkdir("repo/.git/worktrees/tree")
	mkdir("repo/sub")
	write("repo/.git/HEAD", "ref: refs/heads/main\n")
	mkdir("repo/sub/.git") // empty: not a repository
	write("repo/.git/worktrees/tree/gitdir", filepath.Join(tree, ".git")+"\n")
	write("repo/.git/worktrees/tree/commondir", "../..\n")
	write("tree/.git", "gitdir: "+filepath.Join(repo, ".git/worktrees/tree")+"\n")
	if err := os.Symlink(repo, filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	c, err := Open(Options{FS: vfs.OS(), Clock: now})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		cwd   string
		scope Scope
		row   string
		want  bool
	}{
		{repo, Exact, repo, true},
		{repo + "/", Exact, repo, true},
		{filepath.Join(top, "link"), Exact, repo, true},
		{repo, Exact, filepath.Join(top, "link"), true},
		{repo, Subtree, filepath.Join(top, "link", "sub"), true},
		{repo, Exact, filepath.Join(repo, "sub"), false},
		{repo, Subtree, filepath.Join(repo, "sub"), true},
		{"/h/data", Subtree, "/h/data/analysis", true},
		{"/h/data", Subtree, "/h/data-analysis", false},
		{"/", Subtree, "/h", true},
		{tree, Repository, filepath.Join(repo, "sub"), true},
		{filepath.Join(repo, "sub"), Repository, tree, true},
		{tree, Repository, top, false},
		{`C:\Users\me`, Exact, `c:\Users\me`, true},
		{`C:\Users\me`, Subtree, `c:/Users/me/x`, true},
		{`C:\Users\me`, Subtree, `c:\Users\me2`, false},
		{"/h/my_p", Exact, "/h/my-p", false},
		{"/h/漢字", Exact, "/h/汉字", false},
	} {
		if got := c.scope(tc.cwd, tc.scope).contains(c.examine(tc.row)); got != tc.want {
			t.Errorf("%q in scope %d of %q: %v", tc.row, tc.scope, tc.cwd, got)
		}
	}
}

func TestAnnotate_survivesAndIsShared(t *testing.T) {
	w, home := newWorkspace(t), t.TempDir()
	w.append(idA, message("user", "by prompt", 100))
	a, b := open(t, w, home), open(t, w, home)
	scan(t, a)
	scan(t, b)
	id := session.ID{Agent: "pseudoclaude", Native: idA}
	yes := true
	if _, _, err := a.Annotate(context.Background(), id, func(n Note) Note { n.Title, n.Archived = "named", &yes; return n }); err != nil {
		t.Fatal(err)
	}
	r, _, err := b.Annotate(context.Background(), id, func(n Note) Note { n.Tags = []string{"x"}; return n })
	if err != nil || r.Title != "named" || r.TitleSource != session.TitleUser || !r.Archived {
		t.Fatalf("%+v %v", r, err)
	}
	files, err := filepath.Glob(filepath.Join(a.OverlayDir(), "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if ch, err := a.Refresh(context.Background(), files[0]); err != nil || len(ch.Updated) != 1 {
		t.Fatal(ch, err)
	}
	if r, ok := a.Snapshot().Get(id); !ok || !slices.Equal(r.Note.Tags, []string{"x"}) {
		t.Fatalf("%+v", r)
	}
	if got := titles(t, a, Query{}); got != nil {
		t.Errorf("archived and listed: %q", got)
	}
	if got := titles(t, a, Query{Archived: OnlyArchived, Text: "NAMED"}); len(got) != 1 {
		t.Errorf("%q", got)
	}
	// A damaged file is set aside, not lost, and does not stop anything.
	file := files[0]
	if err := os.WriteFile(file, []byte("{broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, w, home)
	scan(t, c)
	if got := titles(t, c, Query{}); !slices.Equal(got, []string{"by prompt"}) {
		t.Errorf("%q", got)
	}
	if b, err := os.ReadFile(file + ".corrupt-1"); err != nil || string(b) != "{broken" {
		t.Errorf("%q %v", b, err)
	}
}

func TestPrune(t *testing.T) {
	w, home := newWorkspace(t), t.TempDir()
	old := now.t.Add(-40 * 24 * time.Hour).Unix()
	w.append(idA, message("user", "old and idle", old))
	w.append(idB, message("user", "old but held", old))
	w.append(idC, message("user", "old by id, active", now.t.Add(-time.Hour).Unix()))
	c := open(t, w, home)
	scan(t, c)
	j := journal.New(vfs.OS(), now)
	release, err := j.Hold(context.Background(), w.path(idB))
	if err != nil {
		t.Fatal(err)
	}
	defer release() //nolint:errcheck // the end of the test
	o := PruneOptions{OlderThan: 30 * 24 * time.Hour, DryRun: true}
	p, err := c.Prune(context.Background(), o)
	if err != nil || len(p.Sessions) != 1 || p.Sessions[0].Native != idA || len(p.Kept) != 1 || !strings.Contains(p.Kept[0].Why, "holds") || p.Bytes == 0 {
		t.Fatalf("%+v %v", p, err)
	}
	if _, err := os.Stat(w.path(idA)); err != nil {
		t.Fatalf("a dry run removed something: %v", err)
	}
	o.DryRun = false
	if p, err = c.Prune(context.Background(), o); err != nil || len(p.Sessions) != 1 {
		t.Fatalf("%+v %v", p, err)
	}
	if _, err := os.Stat(filepath.Dir(w.path(idA))); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(home, ".local/share/Trash/files", idA, "conversation.jsonl")); err != nil {
		t.Fatalf("not in the trash: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(home, ".local/share/Trash/info", idA+".trashinfo")); err != nil || !strings.Contains(string(b), "Path="+filepath.Dir(w.path(idA))) {
		t.Fatalf("%q %v", b, err)
	}
	if c.Snapshot().Len() != 2 {
		t.Fatal("the row stays")
	}
}

func TestLoad(t *testing.T) {
	w := newWorkspace(t)
	log := message("user", "q", 1) + message("assistant", "a", 2)
	w.append(idA, log)
	c := open(t, w, t.TempDir())
	scan(t, c)
	o, err := c.Load(context.Background(), session.ID{Agent: "pseudoclaude", Native: idA}, LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	want, err := journal.Revision(strings.NewReader(log), int64(len(log)))
	if err != nil || o.Revision != want || o.Transcript.Len() != 2 || o.Row.Revision != want {
		t.Fatalf("%+v %v", o, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Load(ctx, o.Row.ID, LoadOptions{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
