package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/vfs/errorfs"
)

func call(id string) session.Message {
	return session.Message{Role: session.Assistant, Blocks: []session.Block{session.ToolUse{ID: id, Name: "n", Input: []byte("{}")}}}
}

func result(id string, parts ...string) session.Message {
	r := session.ToolResult{UseID: id, Name: "n"}
	for _, p := range parts {
		r.Content = append(r.Content, session.Text{Text: p})
	}
	return session.Message{Role: session.Tool, Blocks: []session.Block{r}}
}

// Ids that clean to one name, or to none, get files of their own, inside the
// session's directory; the log names them and reading shows both.
func TestSpill(t *testing.T) {
	c, err := NewContext(t.TempDir(), Options{Clock: newClock(), SpillAbove: 1000})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, c)
	big := strings.Repeat("ü", 5000)
	ids := []string{"call/1", "call:1", "call_1", "../../x", "", "..", strings.Repeat("long", 200), "ж"}
	for _, id := range ids {
		if err := errors.Join(w.Append(call(id)), w.Append(result(id, id, big))); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Append(call("small")), w.Append(result("small", "stays")), w.Close()); err != nil {
		t.Fatal(err)
	}
	if log := sizeOf(t, c.o.FS, c.JSONLPath); log > 64<<10 {
		t.Errorf("the log holds what was spilled: %d bytes", log)
	}
	r, err := Resume(context.Background(), c.Workspace, c.ID, "", c.o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Writer.Close()
	files, results := map[string]bool{}, 0
	for _, m := range r.Messages {
		res, ok := m.Blocks[0].(session.ToolResult)
		if !ok {
			continue
		}
		results++
		full, err := c.Output(res)
		if err != nil {
			t.Fatal(err)
		}
		if res.UseID == "small" {
			if full != "stays" || res.Spilled != "" {
				t.Errorf("%q %q", full, res.Spilled)
			}
			continue
		}
		files[res.Spilled] = true
		if filepath.Dir(res.Spilled) != c.SpillDir || full != res.UseID+"\n\n"+big {
			t.Errorf("%q: %d bytes", res.Spilled, len(full))
		}
		preview := res.Content[0].(session.Text).Text
		if len(preview) > 4000 || !strings.Contains(preview, "üü") || strings.ContainsRune(preview, '\uFFFD') || !strings.Contains(preview, res.Spilled) {
			t.Errorf("preview %.100q", preview)
		}
		if i, err := os.Stat(res.Spilled); err != nil || i.Mode().Perm() != 0o600 {
			t.Error(i, err)
		}
	}
	if len(files) != len(ids) || results != len(ids)+1 {
		t.Errorf("%d files for %d results", len(files), results)
	}
}

// A compaction that copies a large result writes no second file.
func TestSpill_again(t *testing.T) {
	c, err := NewContext(t.TempDir(), Options{Clock: newClock(), SpillAbove: 10})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, c)
	conv := w.Conversation()
	if err := errors.Join(conv.AddUser("q"), conv.Add(call("c")), conv.Add(result("c", "a large result"))); err != nil {
		t.Fatal(err)
	}
	if err := conv.Compact("compact", conv.Messages()[1:]); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Append(call("c")), w.Append(result("c", "another result"))); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(c.SpillDir)
	if err != nil || len(list) != 2 {
		t.Errorf("%d files: %v", len(list), err)
	}
}

// A spill that fails is an error, leaves no part, and nothing in the log.
func TestSpill_diskFull(t *testing.T) {
	mem, fsys, c := onMem(t)
	c.o.SpillAbove = 10
	w := writer(t, c)
	if err := w.Append(call("c")); err != nil {
		t.Fatal(err)
	}
	before := sizeOf(t, mem, c.JSONLPath)
	fsys.Room(5)
	if err := w.Append(result("c", "a large result")); err == nil {
		t.Fatal("a short write is no error")
	}
	fsys.Clear()
	fsys.Add(errorfs.Rule{Kind: errorfs.Sync, Base: "c.txt", Err: syscall.EIO})
	if err := w.Append(result("c", "a large result")); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if _, err := mem.Stat(filepath.Join(c.SpillDir, "c.txt")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a part is left", err)
	}
	if n := sizeOf(t, mem, c.JSONLPath); n != before {
		t.Error("the log names what is not there")
	}
	// What the log names survives a crash.
	if err := w.Append(result("c", "a large result")); err != nil {
		t.Fatal(err)
	}
	o := c.o
	o.FS = mem.Crash(nil)
	r, err := Resume(context.Background(), c.Workspace, c.ID, "", o)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Context.Output(r.Messages[1].Blocks[0].(session.ToolResult))
	if err != nil || got != "a large result" {
		t.Errorf("%q %v", got, err)
	}
}

// A transcript that names any other file gets none of it.
func TestOutput_outside(t *testing.T) {
	c, err := NewContext(t.TempDir(), Options{Clock: newClock()})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{
		filepath.Join(c.Workspace, "secret.txt"), filepath.Join(c.SpillDir, "..", "conversation.jsonl"),
		filepath.Join(c.SpillDir, "a", "b.txt"), "c.txt",
	} {
		if _, err := c.Output(session.ToolResult{Spilled: p}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%q: %v", p, err)
		}
	}
	if _, err := c.Output(session.ToolResult{Spilled: filepath.Join(c.SpillDir, "gone.txt")}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
