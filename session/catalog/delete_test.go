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
	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// tree gives all paths below dir.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		out = append(out, filepath.ToSlash(rel))
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return out
}

func claudeID(n int) session.ID { return session.ID{Agent: "claude", Native: uuid(n)} }

// side writes files that belong to session 1, beside those of others.
func (s *claudeStore) side() {
	s.write(s.log(1), prompt("/", "goes", 1))
	s.write(s.log(2), prompt("/", "stays", 1))
	dir := strings.TrimSuffix(s.log(1), ".jsonl")
	s.write(filepath.Join(dir, "tool-results", "a.txt"), "spilled")
	s.write(filepath.Join(dir, "subagents", "agent-x.jsonl"), prompt("/", "help", 1))
	s.write(filepath.Join(dir, "subagents", "agent-x.meta.json"), `{"description":"helper"}`)
	s.write(filepath.Join(dir, "subagents", "agent-y.jsonl"), prompt("/", "help too", 1))
	s.write(strings.TrimSuffix(s.log(2), ".jsonl")+"/custom-title.json", `{"customTitle":"kept"}`)
}

func TestDelete_whatBelongsToIt(t *testing.T) {
	for _, permanently := range []bool{false, true} {
		s := newClaudeStore(t)
		s.side()
		c := s.open(Options{})
		scan(t, c)
		ch, trashed, err := c.Delete(context.Background(), claudeID(1), DeleteOptions{Permanently: permanently})
		if err != nil || len(ch.Removed) != 3 || len(ch.Updated)+len(ch.Added) != 0 {
			t.Fatalf("%+v %v", ch, err)
		}
		want := []string{".", "-w", "-w/" + uuid(2), "-w/" + uuid(2) + "/custom-title.json", "-w/" + uuid(2) + ".jsonl"}
		slices.Sort(want)
		got := tree(t, s.path("projects"))
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		trash := filepath.Join(s.home, ".local", "share", "Trash")
		files := tree(t, trash)
		if permanently {
			if files != nil || trashed != "" {
				t.Errorf("in the trash: %q, %q", files, trashed)
			}
			continue
		}
		if trashed != filepath.Join(trash, "files", uuid(1)+".jsonl") {
			t.Errorf("trashed %q", trashed)
		}
		for _, want := range []string{"files/" + uuid(1) + ".jsonl", "files/" + uuid(1) + "/tool-results/a.txt", "info/" + uuid(1) + ".jsonl.trashinfo", "info/" + uuid(1) + ".trashinfo"} {
			if !slices.Contains(files, want) {
				t.Errorf("%s is not in the trash: %q", want, files)
			}
		}
	}
}

// A helper goes alone, with its meta file.
func TestDelete_helper(t *testing.T) {
	s := newClaudeStore(t)
	s.side()
	c := s.open(Options{})
	scan(t, c)
	before := len(tree(t, s.path("projects")))
	ch, _, err := c.Delete(context.Background(), session.ID{Agent: "claude", Native: "agent-x@" + uuid(1)}, DeleteOptions{Permanently: true})
	if err != nil || len(ch.Removed) != 1 {
		t.Fatalf("%+v %v", ch, err)
	}
	if n := len(tree(t, s.path("projects"))); n != before-2 {
		t.Errorf("%d files and directories of %d: %q", n, before, tree(t, s.path("projects")))
	}
}

func TestDelete_refused(t *testing.T) {
	s := newClaudeStore(t)
	s.side()
	c := s.open(Options{PID: os.Getpid() + 1})
	scan(t, c)
	j := journal.New(vfs.OS(), now)
	release, err := j.Hold(context.Background(), s.log(1))
	if err != nil {
		t.Fatal(err)
	}
	before := tree(t, s.home)
	var locked *session.LockedError
	if _, _, err := c.Delete(context.Background(), claudeID(1), DeleteOptions{}); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("held: %v", err)
	}
	if diff := cmp.Diff(before, tree(t, s.home)); diff != "" {
		t.Error(diff)
	}
	if _, _, err := c.Delete(context.Background(), claudeID(1), DeleteOptions{Force: true}); err != nil {
		t.Errorf("forced: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Delete(context.Background(), claudeID(1), DeleteOptions{}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("gone: %v", err)
	}
}

// Links are neither followed nor a way out of the store.
func TestDelete_links(t *testing.T) {
	s, other := newClaudeStore(t), newClaudeStore(t)
	other.write(other.log(1), prompt("/", "elsewhere", 1))
	other.write(other.path("precious", "file"), "x")
	s.write(s.log(2), prompt("/", "here", 1))
	for to, from := range map[string]string{
		other.path("projects", "-w"): s.path("projects", "-linked"),
		other.path("precious"):       strings.TrimSuffix(s.log(2), ".jsonl"),
	} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	before := tree(t, other.home)
	for _, o := range []DeleteOptions{{}, {Permanently: true, Force: true}} {
		c := s.open(Options{})
		scan(t, c)
		if _, _, err := c.Delete(context.Background(), claudeID(1), o); err == nil {
			t.Errorf("%+v: deleted behind a link", o)
		}
		p, err := c.Prune(context.Background(), PruneOptions{})
		if err != nil || len(p.Kept) != 0 && !strings.Contains(p.Kept[0].Why, "outside") {
			t.Errorf("%+v %v", p, err)
		}
	}
	c := s.open(Options{})
	s.write(s.log(2), prompt("/", "here", 1))
	scan(t, c)
	if _, _, err := c.Delete(context.Background(), claudeID(2), DeleteOptions{Permanently: true}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, tree(t, other.home)); diff != "" {
		t.Error(diff)
	}
}

// Whatever becomes of a session between listing and deleting counts.
func TestPrune_writtenSinceListed(t *testing.T) {
	w := newWorkspace(t)
	old := now.t.Add(-40 * 24 * time.Hour).Unix()
	w.append(idA, message("user", "was old", old))
	w.append(idB, message("user", "vanishes", old))
	c := open(t, w, t.TempDir())
	scan(t, c)
	w.append(idA, message("user", "is new", now.t.Unix()))
	if err := os.RemoveAll(filepath.Dir(w.path(idB))); err != nil {
		t.Fatal(err)
	}
	p, err := c.Prune(context.Background(), PruneOptions{OlderThan: 30 * 24 * time.Hour})
	if err != nil || len(p.Sessions) != 0 || len(p.Kept) != 0 {
		t.Fatalf("%+v %v", p, err)
	}
	if _, err := os.Stat(w.path(idA)); err != nil {
		t.Error(err)
	}
	if c.Snapshot().Len() != 1 {
		t.Error("the row of what vanished stays")
	}
}

func TestPrune_rules(t *testing.T) {
	const month = 30 * 24 * time.Hour
	at := func(age time.Duration) int64 { return now.t.Add(-age).Unix() }
	id := func(n int) string { return fmt.Sprintf("20260828-1000%02d-aaaa", n) }
	w := newWorkspace(t)
	for n, age := range []time.Duration{month, month + time.Second, 2 * month, 2 * month, 2 * month, 2 * month, time.Hour} {
		w.append(id(n), message("user", fmt.Sprint(n), at(age)))
	}
	c := open(t, w, t.TempDir())
	scan(t, c)
	mark := func(n int, edit func(*Note)) {
		if _, _, err := c.Annotate(context.Background(), session.ID{Agent: "pseudoclaude", Native: id(n)}, func(n Note) Note { edit(&n); return n }); err != nil {
			t.Fatal(err)
		}
	}
	yes := true
	mark(2, func(n *Note) { n.Resumed = now.t.Add(-time.Hour) })
	mark(3, func(n *Note) { n.ReadAt = now.t.Add(-month) })
	mark(4, func(n *Note) { n.ReadAt, n.Archived = now.t.Add(-2*month), &yes })
	keep := func(r Row) string {
		if r.Native == id(5) {
			return "it is the current one"
		}
		return ""
	}
	for _, dry := range []bool{true, false} {
		before := tree(t, w.dir)
		p, err := c.Prune(context.Background(), PruneOptions{OlderThan: month, Keep: keep, DryRun: dry, Permanently: true})
		if err != nil {
			t.Fatal(err)
		}
		var gone []string
		for _, r := range p.Sessions {
			gone = append(gone, r.Title)
		}
		slices.Sort(gone)
		if diff := cmp.Diff([]string{"1", "4"}, gone); diff != "" {
			t.Errorf("dry %v: %s", dry, diff)
		}
		why := map[string]string{}
		for _, k := range p.Kept {
			why[k.ID.Native] = k.Why
		}
		if diff := cmp.Diff(map[string]string{id(2): "it was resumed recently", id(3): "it was read recently", id(5): "it is the current one"}, why); diff != "" {
			t.Errorf("dry %v: %s", dry, diff)
		}
		if diff := cmp.Diff(before, tree(t, w.dir)); dry && diff != "" {
			t.Errorf("a dry run did something: %s", diff)
		}
		if dry == (len(p.Change.Removed) != 0) {
			t.Errorf("dry %v: %+v", dry, p.Change)
		}
	}
	// By creation, all are of one moment in August: none is old.
	if p, err := c.Prune(context.Background(), PruneOptions{OlderThan: month, ByCreated: true}); err != nil || len(p.Sessions)+len(p.Kept) != 0 {
		t.Errorf("by creation: %+v %v", p, err)
	}
	if p, err := c.Prune(context.Background(), PruneOptions{OlderThan: time.Hour, ByCreated: true, DryRun: true, CWD: w.dir}); err != nil || len(p.Sessions) == 0 {
		t.Errorf("by creation, an hour: %+v %v", p, err)
	}
	if p, err := c.Prune(context.Background(), PruneOptions{DryRun: true, CWD: "/elsewhere"}); err != nil || len(p.Sessions)+len(p.Kept) != 0 {
		t.Errorf("of another directory: %+v %v", p, err)
	}
}

// A session is as active as its subagents.
func TestPrune_activeHelper(t *testing.T) {
	s := newClaudeStore(t)
	s.side()
	dir := strings.TrimSuffix(s.log(1), ".jsonl")
	s.append(filepath.Join(dir, "subagents", "agent-y.jsonl"), strings.ReplaceAll(prompt("/", "late", 2), "2026-01-01", "2026-08-31"))
	c := s.open(Options{})
	scan(t, c)
	p, err := c.Prune(context.Background(), PruneOptions{OlderThan: 30 * 24 * time.Hour, DryRun: true})
	if err != nil || len(p.Sessions) != 1 || p.Sessions[0].Native != uuid(2) {
		t.Fatalf("%+v %v", p, err)
	}
}

// mounted is a file system of which one directory is another one.
type mounted struct {
	vfs.FS
	top string
}

func (m mounted) dev(path string, i vfs.Info, err error) (vfs.Info, error) {
	if _, in := below(m.top, path); in {
		i.ID.Dev = 4711
	}
	return i, err
}

func (m mounted) Stat(path string) (vfs.Info, error) {
	i, err := m.FS.Stat(path)
	return m.dev(path, i, err)
}

func (m mounted) Lstat(path string) (vfs.Info, error) {
	i, err := m.FS.Lstat(path)
	return m.dev(path, i, err)
}

func (m mounted) Rename(from, to string) error {
	_, a := below(m.top, from)
	_, b := below(m.top, to)
	if a != b {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.EXDEV}
	}
	return m.FS.Rename(from, to)
}

func TestTrash(t *testing.T) {
	uid := fmt.Sprint(os.Getuid())
	for _, tt := range []struct {
		name  string
		mount bool
		make  func(top string) error
		want  string // directory of the trash, below home or top
		fails bool
	}{
		{"home", false, nil, ".local/share/Trash", false},
		{"top", true, nil, ".Trash-" + uid, false},
		{"shared", true, func(top string) error {
			d := filepath.Join(top, ".Trash")
			return errors.Join(os.Mkdir(d, 0o700), os.Chmod(d, 0o777|fs.ModeSticky))
		}, ".Trash/" + uid, false},
		{"shared without sticky bit", true, func(top string) error { return os.Mkdir(filepath.Join(top, ".Trash"), 0o777) }, ".Trash-" + uid, false},
		{"shared is a link", true, func(top string) error {
			return errors.Join(os.Mkdir(filepath.Join(top, "x"), 0o777), os.Chmod(filepath.Join(top, "x"), 0o777|fs.ModeSticky), os.Symlink("x", filepath.Join(top, ".Trash")))
		}, ".Trash-" + uid, false},
		{"own is a link", true, func(top string) error {
			return errors.Join(os.Mkdir(filepath.Join(top, "x"), 0o777), os.Symlink("x", filepath.Join(top, ".Trash-"+uid)))
		}, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newClaudeStore(t)
			top := filepath.Join(s.home, "mnt")
			file := filepath.Join(top, "a dir", "100%ü\n.jsonl")
			s.write(file, "one")
			if tt.make != nil {
				if err := tt.make(top); err != nil {
					t.Fatal(err)
				}
			}
			var fsys vfs.FS = vfs.OS()
			base, original := s.home, file
			if tt.mount {
				fsys, base, original = mounted{fsys, top}, top, "a dir/100%ü\n.jsonl"
			}
			c := s.open(Options{FS: fsys})
			for n, name := range []string{"100%ü\n.jsonl", "100%ü\n.2.jsonl"} {
				s.write(file, "one")
				where, err := c.trash(file)
				if tt.fails {
					if !errors.Is(err, errNoTrash) {
						t.Errorf("%v", err)
					}
					if _, err := os.Stat(file); err != nil {
						t.Error(err)
					}
					return
				}
				want := filepath.Join(base, filepath.FromSlash(tt.want), "files", name)
				if err != nil || where != want {
					t.Fatalf("%d: %q %v, want %q", n, where, err, want)
				}
				info, err := os.ReadFile(filepath.Join(base, filepath.FromSlash(tt.want), "info", name+".trashinfo"))
				head := "[Trash Info]\nPath=" + strings.NewReplacer("%", "%25", "ü", "%C3%BC", "\n", "%0A", " ", "%20").Replace(original) + "\nDeletionDate=2026-"
				if err != nil || !strings.HasPrefix(string(info), head) {
					t.Errorf("%q %v, want %q", info, err, head)
				}
				if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("still there: %v", err)
				}
			}
			if where, err := c.trash(file); where != "" || err != nil {
				t.Errorf("nothing there: %q %v", where, err)
			}
		})
	}
}
