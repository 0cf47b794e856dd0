package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/session/vfs"
	"github.com/agent-ls/agent-ls/session/vfs/errorfs"
)

func say(role session.Role, text string) session.Message {
	return session.Message{Role: role, Blocks: []session.Block{session.Text{Text: text}}}
}

// texts renders messages for comparison.
func texts(list []session.Message) []string {
	out := []string{}
	for _, m := range list {
		out = append(out, fmt.Sprint(m.Role, m.Blocks))
	}
	return out
}

// onMem is a new session on a file system that can fail and crash.
func onMem(t *testing.T) (*errorfs.Mem, *errorfs.FS, *Context) {
	t.Helper()
	mem := errorfs.NewMem(os.Getpid())
	if err := errors.Join(mem.MkdirAll("/w", 0o700), mem.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	fsys := errorfs.New(mem, "/w")
	c, err := NewContext("/w", Options{Clock: newClock(), FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	return mem, fsys, c
}

func writer(t *testing.T, c *Context) *Writer {
	t.Helper()
	w, err := OpenWriter(context.Background(), c, "m")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// simpleReader reads a log as PseudoClaude's loader does, as far as text goes.
func simpleReader(log []byte) []string {
	out := []string{}
	for line := range bytes.Lines(log) {
		var e struct{ Type, Role, Content string }
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		switch {
		case e.Type == "replace":
			out = []string{}
		case e.Role != "":
			out = append(out, fmt.Sprintf("%s [{%s}]", e.Role, e.Content))
		}
	}
	return out
}

// Limit "replace and its messages are not atomic": after a crash at any byte
// of it there is the old conversation or the new one, and after the next
// message PseudoClaude sees what we see.
func TestLimit_replaceIsAtomic(t *testing.T) {
	mem, fsys, c := onMem(t)
	w := writer(t, c)
	old := []session.Message{say(session.User, "question"), say(session.Assistant, "answer")}
	for _, m := range old {
		if err := w.Append(m); err != nil {
			t.Fatal(err)
		}
	}
	before := sizeOf(t, mem, c.JSONLPath)
	fsys.Add(errorfs.Rule{Kind: errorfs.Sync, Err: syscall.EIO}) // the bytes stay unsynced
	short := []session.Message{say(session.User, "summary"), say(session.Assistant, "noted"), say(session.User, "go on")}
	var s *journal.StorageError
	if err := w.Replace("compact", short); !errors.As(err, &s) || !s.Unknown {
		t.Fatal(err)
	}
	length := sizeOf(t, mem, c.JSONLPath) - before
	seen := map[int]int{}
	for keep := range length + 1 {
		disk := mem.Crash(func(path string, _ int) int {
			if path == c.JSONLPath {
				return keep
			}
			return 0
		})
		o := c.o
		o.FS = disk
		r, err := Resume(context.Background(), "/w", c.ID, "m", o)
		if err != nil {
			t.Fatal(err)
		}
		got := texts(r.Messages)
		switch {
		case cmp.Equal(got, texts(old)):
			seen[len(old)]++
		case cmp.Equal(got, texts(short)) && keep >= length-1: // but for the last line feed
			seen[len(short)]++
		default:
			t.Fatalf("after %d of %d bytes: %v", keep, length, got)
		}
		if err := r.Writer.Append(say(session.Assistant, "next")); err != nil {
			t.Fatal(err)
		}
		if err := r.Writer.Close(); err != nil {
			t.Fatal(err)
		}
		want := append(got, "assistant [{next}]")
		again, err := Resume(context.Background(), "/w", c.ID, "m", o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, texts(again.Messages)); diff != "" {
			t.Fatalf("after %d of %d bytes, and one message: %s", keep, length, diff)
		}
		log, err := read(disk, c.JSONLPath)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, simpleReader([]byte(log))); diff != "" {
			t.Fatalf("after %d of %d bytes PseudoClaude sees: %s", keep, length, diff)
		}
	}
	if seen[len(old)] == 0 || seen[len(short)] == 0 {
		t.Error("never seen:", seen)
	}
}

func sizeOf(t *testing.T, fsys vfs.FS, path string) int {
	t.Helper()
	i, err := fsys.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(i.Size)
}

// Limit "the hook has no error return": a failed write, and a message that
// cannot be written, stop the conversation and reach the caller.
func TestLimit_hookErrors(t *testing.T) {
	_, fsys, c := onMem(t)
	w := writer(t, c)
	conv := w.Conversation()
	if err := conv.AddUser("kept"); err != nil {
		t.Fatal(err)
	}
	fsys.Room(10)
	if err := conv.AddAssistant("too much"); err == nil {
		t.Fatal("a short write is no error")
	}
	fsys.Room(0)
	if err := conv.Compact("compact", []session.Message{say(session.User, "summary")}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	fsys.Clear()
	bad := []session.ToolUse{{ID: "c", Name: "x", Input: []byte(`{"a":`)}}
	if err := conv.AddAssistantToolCalls("", bad); !errors.Is(err, session.ErrInvalid) {
		t.Fatal(err)
	}
	if err := conv.AddAssistant("kept too"); err != nil {
		t.Fatal(err)
	}
	want := []string{"user [{kept}]", "assistant [{kept too}]"}
	if diff := cmp.Diff(want, texts(conv.Messages())); diff != "" {
		t.Error(diff)
	}
	log, err := read(fsys, c.JSONLPath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, simpleReader([]byte(log))); diff != "" {
		t.Error(diff)
	}
}

// A replace that failed in the middle and could not be undone is repaired
// before the next message, for PseudoClaude's sake.
func TestWriter_repairsItsOwnPart(t *testing.T) {
	_, fsys, c := onMem(t)
	w := writer(t, c)
	if err := w.Append(say(session.User, "question")); err != nil {
		t.Fatal(err)
	}
	fsys.Add(
		errorfs.Rule{Kind: errorfs.Write, Base: "conversation.jsonl", Short: 260, Err: syscall.EIO},
		errorfs.Rule{Kind: errorfs.Truncate, Err: syscall.EIO},
	)
	short := []session.Message{say(session.User, "summary"), say(session.Assistant, "noted")}
	if err := w.Replace("compact", short); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	log, err := read(fsys, c.JSONLPath)
	if err != nil {
		t.Fatal(err)
	}
	if got := simpleReader([]byte(log)); len(got) != 1 || got[0] != "user [{summary}]" {
		t.Fatalf("the part is not what this test wants: %v", got)
	}
	if err := w.Append(say(session.Assistant, "answer")); err != nil {
		t.Fatal(err)
	}
	if log, err = read(fsys, c.JSONLPath); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"user [{question}]", "assistant [{answer}]"}, simpleReader([]byte(log))); diff != "" {
		t.Error(diff)
	}
}

// After a failed sync nobody knows; the writer takes no more.
func TestWriter_syncFails(t *testing.T) {
	_, fsys, c := onMem(t)
	w := writer(t, c)
	fsys.Add(errorfs.Rule{Kind: errorfs.Sync, Err: syscall.EIO})
	var s *journal.StorageError
	if err := w.Append(say(session.User, "perhaps")); !errors.As(err, &s) || !s.Unknown {
		t.Fatal(err)
	}
	if err := w.Append(say(session.User, "no")); !errors.As(err, &s) || s.Unknown || !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
}

// Limit "10 MiB a line": there is none.
func TestLimit_longLine(t *testing.T) {
	c, err := NewContext(t.TempDir(), Options{Clock: newClock()})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, c)
	long := strings.Repeat("0123456789abcdef", 12<<16) // 12 MiB
	for _, text := range []string{"before", long, "after"} {
		if err := w.Append(say(session.User, text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Resume(context.Background(), c.Workspace, c.ID, "", c.o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Writer.Close()
	if len(r.Messages) != 3 || r.Messages[1].Blocks[0] != (session.Text{Text: long}) || len(r.Report.Problems) != 0 {
		t.Errorf("%d messages, problems %v", len(r.Messages), r.Report.Problems)
	}
	if r.Report.Cost.LongestLine < 12<<20 || r.Report.Cost.Bytes == 0 {
		t.Errorf("the report does not tell what reading cost: %+v", r.Report.Cost)
	}
}

// Limit "the count is physical only": both are told.
func TestLimit_bothCounts(t *testing.T) {
	ws, o := t.TempDir(), Options{Clock: newClock()}
	c, err := NewContext(ws, o)
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, c)
	for i := range 5 {
		if err := w.Append(say(session.User, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Replace("compact", []session.Message{say(session.User, "summary")}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	list, err := List(context.Background(), ws, o, ListOptions{})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if s := list[0]; s.Physical != 6 || s.Effective != 1 || s.Title != "0" || s.Model != "m" || s.Size == 0 {
		t.Errorf("%+v", s)
	}
	r, err := Resume(context.Background(), ws, c.ID, "", o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Writer.Close()
	if r.Report.Physical != 6 || r.Report.Effective != 1 {
		t.Errorf("%+v", r.Report)
	}
}

// Listing shows what the user asks for, newest first, and makes nothing.
func TestList(t *testing.T) {
	ws, clk := t.TempDir(), newClock()
	o := Options{Clock: clk}
	var ids []string
	for i := range 3 {
		c, err := NewContext(ws, o)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.ID)
		if i < 2 {
			w := writer(t, c)
			if err := w.Append(say(session.User, fmt.Sprint("title ", i))); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		clk.t = clk.t.Add(time.Minute)
	}
	if err := os.Remove(filepath.Join(ws, ".PseudoClaude", "sessions", ids[0], "tool-results")); err != nil {
		t.Fatal(err)
	}
	before := tree(t, ws)
	for _, c := range []struct {
		l    ListOptions
		want []string
	}{
		{ListOptions{}, []string{ids[1], ids[0]}},
		{ListOptions{Exclude: []string{ids[1]}}, []string{ids[0]}},
		{ListOptions{IncludeEmpty: true}, []string{ids[2], ids[1], ids[0]}},
	} {
		list, err := List(context.Background(), ws, o, c.l)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range list {
			got = append(got, s.Native)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v: %s", c.l, diff)
		}
	}
	if diff := cmp.Diff(before, tree(t, ws)); diff != "" {
		t.Errorf("listing changed the disk: %s", diff)
	}
	if _, err := List(context.Background(), filepath.Join(ws, "nothing here"), o, ListOptions{}); err != nil {
		t.Error(err)
	}
}

// tree gives all paths with the times of their last change.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := d.Info()
		if err == nil {
			out[p] = fmt.Sprint(i.Mode(), i.Size(), i.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Limit "cleaning by creation time": the last activity counts, and a session
// that is held or was resumed lately stays.
func TestLimit_pruneByActivity(t *testing.T) {
	ws, clk, ctx := t.TempDir(), newClock(), context.Background()
	o := Options{Clock: clk, StateDir: t.TempDir(), Env: session.Env{Home: t.TempDir(), GOOS: "linux"}}
	made := func(name string) *Context {
		t.Helper()
		c, err := NewContext(ws, o)
		if err != nil {
			t.Fatal(err)
		}
		w, err := OpenWriter(ctx, c, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Append(say(session.User, name)), w.Close()); err != nil {
			t.Fatal(err)
		}
		clk.t = clk.t.Add(time.Minute)
		return c
	}
	old, busy, resumed, active := made("old"), made("busy"), made("resumed"), made("active")
	clk.t = clk.t.Add(2 * DefaultAge)
	held := writer(t, busy)
	r, err := Resume(ctx, ws, resumed.ID, "", o)
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, active)
	if err := errors.Join(r.Report.NoteErr, r.Writer.Close(), w.Append(say(session.User, "again")), w.Close()); err != nil {
		t.Fatal(err)
	}
	dry, err := Prune(ctx, ws, o, PruneOptions{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old.Dir); err != nil {
		t.Fatal("a dry run removed something")
	}
	got, err := Prune(ctx, ws, o, PruneOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		sessions []session.Session
		bytes    int64
	}{{rows(dry.Sessions), dry.Bytes}, {rows(got.Sessions), got.Bytes}} {
		if len(p.sessions) != 1 || p.sessions[0].Native != old.ID || p.bytes == 0 {
			t.Errorf("pruned %+v, %d bytes", p.sessions, p.bytes)
		}
	}
	kept := map[string]string{}
	for _, k := range got.Kept {
		kept[k.ID.Native] = k.Why
	}
	if len(kept) != 2 || kept[busy.ID] == "" || kept[resumed.ID] == "" {
		t.Errorf("kept %v, want %s and %s", kept, busy.ID, resumed.ID)
	}
	if _, err := os.Stat(old.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("the old session is still there")
	}
	// By creation, as PseudoClaude does it, the active one is old as well.
	byAge, err := Prune(ctx, ws, o, PruneOptions{ByCreated: true, DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	if list := rows(byAge.Sessions); len(list) != 1 || list[0].Native != active.ID {
		t.Errorf("by creation: %+v", list)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	// A session that was resumed and not written to is pruned in the end.
	clk.t = clk.t.Add(2 * DefaultAge)
	if got, err = Prune(ctx, ws, o, PruneOptions{}); err != nil || len(got.Sessions) != 3 {
		t.Errorf("in the end: %+v %v", got, err)
	}
}

func rows(list []catalog.Row) []session.Session {
	var out []session.Session
	for _, r := range list {
		out = append(out, r.Session)
	}
	return out
}
