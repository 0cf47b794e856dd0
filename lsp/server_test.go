package lsp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agent-ls/agent-ls/lsp/lsptest"
	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/session/vfs"
)

const sessionID = "20260828-142030-a1b2"

// transcript writes a PseudoClaude session and gives its path.
func transcript(t testing.TB, ws, text string) string {
	t.Helper()
	path := filepath.Join(ws, ".PseudoClaude", "sessions", sessionID, "conversation.jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	appendText(t, path, text)
	return path
}

func appendText(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func say(role, text string) string {
	return fmt.Sprintf("{\"type\":\"message\",\"role\":%q,\"content\":%q,\"ts\":1787926830}\n", role, text)
}

func user(text string) map[string]any { return map[string]any{"role": "user", "content": text} }

type entry struct {
	ID        string
	Offset    int64
	Effective bool
	Excluded  string
	Role      string
	Content   []struct{ Type, Text string }
}

type update struct {
	Reset    string
	Revision string
	Entries  []entry
}

func nextUpdate(t testing.TB, e *lsptest.Editor) update {
	t.Helper()
	var u update
	if err := json.Unmarshal(e.Next("session/update"), &u); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestLifecycle(t *testing.T) {
	s, ws := newServer(t)
	e := lsptest.Connect(t, s)
	for _, c := range []struct {
		method string
		params any
		code   int64
	}{
		{"session/list", nil, -32002},
		{"unknown/method", nil, -32002},
		{"shutdown", nil, -32002},
		{"initialize", folders(ws), 0},
		{"initialize", folders(ws), -32600},
		{"unknown/method", nil, -32601},
		{"session/list", []any{1}, -32602},
		{"session/list", map[string]any{"cwd": "relative"}, -32602},
		{"session/list", map[string]any{"status": []any{"asleep"}}, -32602},
		{"session/list", nil, 0},
		{"shutdown", nil, 0},
		{"session/list", nil, -32600},
		{"shutdown", nil, -32600},
	} {
		if code, _ := lsptest.Code(e.Call(c.method, c.params, nil)); code != c.code {
			t.Errorf("%s: code %d, want %d", c.method, code, c.code)
		}
	}
	if s.ExitCode() != 0 {
		t.Error("exit code after shutdown")
	}
}

// A bad parameter is named, whatever the method.
func TestBadParams(t *testing.T) {
	s, ws := newServer(t)
	transcript(t, ws, say("user", "q")+say("assistant", "a"))
	e := lsptest.New(t, s, folders(ws))
	id := "pseudoclaude:" + sessionID
	for _, c := range []struct {
		method string
		params map[string]any
		code   int64
		field  string
	}{
		{"session/read", map[string]any{}, -32602, "sessionId"},
		{"session/read", map[string]any{"sessionId": id, "limit": 0}, -32602, "limit"},
		{"session/read", map[string]any{"sessionId": id, "limit": 1001}, -32602, "limit"},
		{"session/read", map[string]any{"sessionId": id, "view": "sideways"}, -32602, "view"},
		{"session/read", map[string]any{"sessionId": id, "after": "nowhere"}, -32602, "after"},
		{"session/read", map[string]any{"sessionId": id, "after": "0", "before": "0"}, -32602, "before"},
		{"session/read", map[string]any{"sessionId": id, "leaf": "nowhere"}, -32602, "leaf"},
		{"session/read", map[string]any{"sessionId": id, "maxBlock": -1}, -32602, "maxBlock"},
		{"session/read", map[string]any{"sessionId": id, "entry": "0", "block": 7}, -32602, "block"},
		{"session/read", map[string]any{"sessionId": id, "entry": "0", "range": map[string]any{"start": 9, "end": 1}}, -32602, "range"},
		{"session/read", map[string]any{"uri": "http://x/y"}, -32602, "uri"},
		{"session/read", map[string]any{"uri": "file:///nowhere"}, -32011, ""},
		{"session/read", map[string]any{"sessionId": "nothing-like-it"}, -32011, ""},
		{"session/append", map[string]any{"sessionId": id}, -32602, "messages"},
		{"session/append", map[string]any{"sessionId": id, "messages": []any{map[string]any{"role": "system", "content": "x"}}}, -32602, "messages[0].role"},
		{"session/append", map[string]any{"sessionId": id, "messages": []any{user("")}}, -32602, "messages[0].content"},
		{"session/append", map[string]any{"sessionId": id, "messages": []any{map[string]any{"role": "user", "content": 7}}}, -32602, "messages[0].content"},
		{"session/append", map[string]any{"sessionId": id, "messages": []any{user("x")}, "durability": "never"}, -32602, "durability"},
		{"session/append", map[string]any{"sessionId": id, "messages": []any{user("x")}, "parentId": "nowhere"}, -32602, "parentId"},
		{"session/replace", map[string]any{"sessionId": id, "messages": []any{user("x")}}, -32602, "reason"},
		{"session/new", map[string]any{"agent": "pseudoclaude", "cwd": "relative"}, -32602, "cwd"},
		{"session/new", map[string]any{"cwd": ws}, -32602, "agent"},
		{"session/prune", map[string]any{"olderThanDays": -1}, -32602, "olderThanDays"},
		{"session/prune", map[string]any{"basis": "mood"}, -32602, "basis"},
		{"session/list", map[string]any{"cursor": "foreign"}, -32602, "cursor"},
		{"session/list", map[string]any{"sort": "mood"}, -32602, "sort"},
		{"session/watch", map[string]any{"archived": "perhaps"}, -32602, "archived"},
	} {
		code, data := lsptest.Code(e.Call(c.method, c.params, nil))
		if field, _ := data["field"].(string); code != c.code || field != c.field {
			t.Errorf("%s %v: code %d field %q, want %d %q", c.method, c.params, code, field, c.code, c.field)
		}
	}
	var list struct{ Total int }
	e.Do("session/list", map[string]any{}, &list)
	if list.Total != 1 {
		t.Errorf("after all that %d sessions are listed", list.Total)
	}
}

// The answer to an append leaves behind the update of its own bytes, once.
func TestAppend_answerAfterUpdate(t *testing.T) {
	s, ws := newServer(t)
	transcript(t, ws, say("user", "q"))
	e := lsptest.New(t, s, folders(ws))
	e.Do("session/subscribe", map[string]any{"sessionId": sessionID, "after": "end"}, nil)
	for i := range 30 {
		var res struct{ Entries []entry }
		e.Do("session/append", map[string]any{"sessionId": sessionID, "messages": []any{user(fmt.Sprint("m", i))}}, &res)
		var got []string
		for _, n := range e.Pending() {
			if n.Method == "session/update" {
				var u update
				if err := json.Unmarshal(n.Params, &u); err != nil {
					t.Fatal(err)
				}
				for _, x := range u.Entries {
					got = append(got, x.ID)
				}
			}
		}
		if len(got) != i+1 || len(res.Entries) != 1 || got[i] != res.Entries[0].ID {
			t.Fatalf("append %d: updates %v before the answer %v", i, got, res.Entries)
		}
	}
}

// Read, then subscribe behind what was read, while another writer is at work:
// nothing is lost and nothing comes twice.
func TestSubscribe_afterReadUnderLoad(t *testing.T) {
	s, ws := newServer(t)
	path := transcript(t, ws, say("user", "first"))
	e := lsptest.New(t, s, folders(ws))
	const n = 400
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range n {
			appendText(t, path, say("user", fmt.Sprint("w", i)))
		}
	})
	defer wg.Wait()
	for range 10 {
		var page struct{ Entries []entry }
		e.Do("session/read", map[string]any{"sessionId": sessionID, "view": "physical", "limit": 1000}, &page)
		last := page.Entries[len(page.Entries)-1]
		e.Do("session/subscribe", map[string]any{"sessionId": sessionID, "after": last.ID}, nil)
		next := len(page.Entries)
		u := update{}
		for len(u.Entries) == 0 && next < n+1 {
			u = nextUpdate(t, e)
		}
		for _, x := range u.Entries {
			if want := fmt.Sprint("w", next-1); x.Content[0].Text != want {
				t.Fatalf("after %d entries came %q, want %q", next, x.Content[0].Text, want)
			}
			next++
		}
		e.Do("session/unsubscribe", map[string]any{"sessionId": sessionID}, nil)
		drain(e) // what came before the end of the subscription
	}
}

// drain passes over what has come.
func drain(e *lsptest.Editor) {
	for _, n := range e.Pending() {
		e.Next(n.Method)
	}
}

// What another process does to the file reaches the subscriber: growth, half
// lines, truncation, replacement, removal.
func TestUpdate_whateverHappens(t *testing.T) {
	s, ws := newServer(t)
	path := transcript(t, ws, say("user", "one"))
	e := lsptest.New(t, s, folders(ws))
	e.Do("session/subscribe", map[string]any{"sessionId": sessionID, "after": "end"}, nil)
	appendText(t, path, say("user", "two")+`{"type":"message","role":"user","content":"thr`)
	if u := nextUpdate(t, e); u.Reset != "" || len(u.Entries) != 1 || u.Entries[0].Content[0].Text != "two" {
		t.Fatalf("half a line: %+v", u)
	}
	appendText(t, path, "ee\",\"ts\":1787926831}\n")
	if u := nextUpdate(t, e); len(u.Entries) != 1 || u.Entries[0].Content[0].Text != "three" {
		t.Fatalf("the rest of it: %+v", u)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if u := nextUpdate(t, e); u.Reset == "" {
		t.Fatalf("truncated: %+v", u)
	}
	if err := os.WriteFile(path+".new", []byte(say("user", "other")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	// Nothing was left to drop: from the start on, or a reset.
	if u := nextUpdate(t, e); u.Reset == "" && (len(u.Entries) != 1 || u.Entries[0].Offset != 0) {
		t.Fatalf("replaced: %+v", u)
	}
	var page struct{ Entries []entry }
	e.Do("session/read", map[string]any{"sessionId": sessionID}, &page)
	if len(page.Entries) != 1 || page.Entries[0].Content[0].Text != "other" {
		t.Fatalf("read again: %+v", page)
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if u := nextUpdate(t, e); u.Reset != "removed" {
		t.Fatalf("removed: %+v", u)
	}
}

// A tool call does not count until its result is there; then it comes again.
func TestUpdate_toolCallComesAgain(t *testing.T) {
	s, ws := newServer(t)
	path := transcript(t, ws, say("user", "q"))
	e := lsptest.New(t, s, folders(ws))
	e.Do("session/subscribe", map[string]any{"sessionId": sessionID, "after": "end"}, nil)
	appendText(t, path, `{"type":"message","role":"assistant","tool_calls":[{"ID":"c","Name":"x","Arguments":{}}],"ts":1787926831}`+"\n")
	u := nextUpdate(t, e)
	if len(u.Entries) != 1 || u.Entries[0].Effective || u.Entries[0].Excluded != "dangling-tool-call" {
		t.Fatalf("%+v", u)
	}
	call := u.Entries[0].ID
	appendText(t, path, `{"type":"message","role":"user","tool_result":{"CallID":"c","Name":"x","Content":"y","IsError":false},"ts":1787926832}`+"\n")
	u = nextUpdate(t, e)
	if len(u.Entries) != 2 || u.Entries[0].ID != call || !u.Entries[0].Effective || !u.Entries[1].Effective {
		t.Fatalf("%+v", u)
	}
}

// A second writer is refused and told who holds the session.
func TestAppend_heldByAnother(t *testing.T) {
	s, ws := newServer(t)
	path := transcript(t, ws, say("user", "q"))
	e := lsptest.New(t, s, folders(ws))
	other := journal.New(vfs.OS(), wallClock{})
	release, err := other.Hold(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	code, data := lsptest.Code(e.Call("session/append", map[string]any{"sessionId": sessionID, "messages": []any{user("x")}}, nil))
	if code != -32013 || data["pid"] != float64(os.Getpid()) {
		t.Fatalf("code %d data %v", code, data)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	e.Do("session/append", map[string]any{"sessionId": sessionID, "messages": []any{user("x")}}, nil)
}

// A disk that cannot be written leaves the log as it was.
func TestAppend_storageFailure(t *testing.T) {
	s, ws := newServer(t)
	path := transcript(t, ws, say("user", "q"))
	e := lsptest.New(t, s, folders(ws))
	// Root may write anywhere, but not to a directory in place of the lock file.
	if err := os.Mkdir(journal.LockPath(path), 0o700); err != nil {
		t.Fatal(err)
	}
	code, data := lsptest.Code(e.Call("session/append", map[string]any{"sessionId": sessionID, "messages": []any{user("x")}}, nil))
	if code != -32014 || data["errno"] != "EISDIR" || data["path"] == nil {
		t.Fatalf("code %d data %v", code, data)
	}
	b, err := os.ReadFile(path)
	if err != nil || string(b) != say("user", "q") {
		t.Fatalf("%q %v", b, err)
	}
}

// An earlier parent in a linear store is a rewind: the conversation goes on
// from there, and the log keeps everything.
func TestAppend_rewind(t *testing.T) {
	s, ws := newServer(t)
	transcript(t, ws, say("user", "one")+say("assistant", "two")+say("user", "three"))
	e := lsptest.New(t, s, folders(ws))
	var all struct{ Entries []entry }
	e.Do("session/read", map[string]any{"sessionId": sessionID}, &all)
	e.Do("session/append", map[string]any{"sessionId": sessionID, "parentId": all.Entries[1].ID, "messages": []any{user("instead")}}, nil)
	var page struct{ Entries []entry }
	e.Do("session/read", map[string]any{"sessionId": sessionID}, &page)
	var texts []string
	for _, x := range page.Entries {
		texts = append(texts, x.Content[0].Text)
	}
	if got := strings.Join(texts, " "); got != "one two instead" {
		t.Errorf("conversation: %s", got)
	}
}

// A torn tail is closed by the next append, stays one bad line, and is
// diagnosed and repaired on demand.
func TestTornTail(t *testing.T) {
	s, ws := newServer(t)
	path := transcript(t, ws, say("user", "one")+`{"type":"message","ro`)
	e := lsptest.New(t, s, folders(ws))
	var d struct {
		Findings []struct{ Code, Action string }
		Actions  []string
	}
	e.Do("session/diagnose", map[string]any{"sessionId": sessionID}, &d)
	if len(d.Findings) != 1 || d.Findings[0].Code != "torn-tail" || len(d.Actions) != 1 {
		t.Fatalf("%+v", d)
	}
	e.Do("session/append", map[string]any{"sessionId": sessionID, "messages": []any{user("two")}}, nil)
	b, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(b), say("user", "one")+`{"type":"message","ro`+"\n{") {
		t.Fatalf("%q %v", b, err)
	}
	var res struct {
		Messages []struct{ Role string }
		Report   struct{ BadLines []struct{ Line int } }
	}
	e.Do("session/resume", map[string]any{"sessionId": sessionID, "subscribe": false}, &res)
	if len(res.Messages) != 2 || len(res.Report.BadLines) != 1 || res.Report.BadLines[0].Line != 2 {
		t.Fatalf("%+v", res)
	}
	appendText(t, path, `{"type":"mess`)
	e.Do("session/repair", map[string]any{"sessionId": sessionID, "dryRun": false}, &d)
	if b, err = os.ReadFile(path); err != nil || !strings.HasSuffix(string(b), `{"type":"mess`+"\n\n") && !strings.HasSuffix(string(b), `{"type":"mess`+"\n") {
		t.Fatalf("%q %v", b, err)
	}
}

// Two servers (two editor windows) on one session see each other's appends.
func TestTwoServers(t *testing.T) {
	a, ws := newServer(t)
	transcript(t, ws, say("user", "q"))
	ea, eb := lsptest.New(t, a, folders(ws)), lsptest.New(t, serverIn(t, ws), folders(ws))
	for _, e := range []*lsptest.Editor{ea, eb} {
		e.Do("session/subscribe", map[string]any{"sessionId": sessionID, "after": "end"}, nil)
	}
	for i := range 10 {
		from, to := ea, eb
		if i%2 == 1 {
			from, to = eb, ea
		}
		text := fmt.Sprint("m", i)
		from.Do("session/append", map[string]any{"sessionId": sessionID, "messages": []any{user(text)}}, nil)
		for _, e := range []*lsptest.Editor{from, to} {
			if u := nextUpdate(t, e); len(u.Entries) != 1 || u.Entries[0].Content[0].Text != text {
				t.Fatalf("%s: %+v", text, u)
			}
		}
	}
}

// Changes of the list come to those who watch it, as far as they asked.
func TestWatch(t *testing.T) {
	s, ws := newServer(t)
	e := lsptest.New(t, s, folders(ws))
	e.Do("session/watch", map[string]any{"cwd": ws}, nil)
	path := transcript(t, ws, say("user", "made later"))
	type changed struct {
		Added, Updated []struct{ Title string }
		Removed        []string
	}
	title := ""
	for title != "made later" {
		var c changed
		if err := json.Unmarshal(e.Next("session/changed"), &c); err != nil {
			t.Fatal(err)
		}
		for _, x := range append(c.Added, c.Updated...) {
			title = x.Title
		}
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	for {
		var c changed
		if err := json.Unmarshal(e.Next("session/changed"), &c); err != nil {
			t.Fatal(err)
		}
		if len(c.Removed) > 0 {
			return
		}
	}
}

// The reminder is in the answer and not in the log.
func TestResume_reminder(t *testing.T) {
	s, ws := newServer(t)
	old := time.Now().Add(-7 * time.Hour).Unix()
	path := transcript(t, ws, fmt.Sprintf("{\"type\":\"message\",\"role\":\"user\",\"content\":\"q\",\"ts\":%d}\n", old))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	e := lsptest.New(t, s, folders(ws))
	var res struct {
		Reminder *struct{ Text, LastMessageAt string }
	}
	e.Do("session/resume", map[string]any{"sessionId": sessionID}, &res)
	if res.Reminder == nil || !strings.Contains(res.Reminder.Text, "7 hours") {
		t.Fatalf("%+v", res.Reminder)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before) {
		t.Fatalf("the log changed: %q", after)
	}
	// It follows from now on.
	appendText(t, path, say("assistant", "new"))
	if u := nextUpdate(t, e); len(u.Entries) != 1 || u.Entries[0].Content[0].Text != "new" {
		t.Fatalf("%+v", u)
	}
}

// A long text comes cut at a character boundary, and in parts on demand.
func TestRead_longBlock(t *testing.T) {
	s, ws := newServer(t)
	text := strings.Repeat("äb", 1000)
	transcript(t, ws, say("user", text))
	e := lsptest.New(t, s, folders(ws))
	var page struct {
		Entries []struct {
			ID      string
			Content []struct {
				Text string
				Cut  *struct{ Bytes int }
			}
		}
	}
	e.Do("session/read", map[string]any{"sessionId": sessionID, "maxBlock": 100}, &page)
	b := page.Entries[0].Content[0]
	if len(b.Text) > 100 || !strings.HasPrefix(text, b.Text) || b.Cut == nil || b.Cut.Bytes != len(text) {
		t.Fatalf("%d bytes, %+v", len(b.Text), b.Cut)
	}
	var whole strings.Builder
	for whole.Len() < len(text) {
		var part struct{ Text string }
		e.Do("session/read", map[string]any{"sessionId": sessionID, "entry": page.Entries[0].ID, "range": map[string]any{"start": whole.Len(), "end": whole.Len() + 701}}, &part)
		if part.Text == "" {
			t.Fatal("an empty part")
		}
		whole.WriteString(part.Text)
	}
	if whole.String() != text {
		t.Error("the parts do not make the whole")
	}
}
