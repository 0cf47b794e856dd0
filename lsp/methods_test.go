package lsp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agent-ls/agent-ls/lsp"
	"github.com/agent-ls/agent-ls/lsp/lsptest"
	"github.com/agent-ls/agent-ls/lsp/rpc"
)

// page is an answer of session/read.
type page struct {
	Session struct {
		Can    map[string]bool
		WhyNot map[string]string
		Unread bool
		Status string
	}
	Entries             []entry
	HasBefore, HasAfter bool
	Leaf, Revision      string
	Branches            []struct {
		Leaf, ForkedAt string
		Entries        int
	}
}

func (p page) ids() []string {
	var out []string
	for _, e := range p.Entries {
		out = append(out, e.ID)
	}
	return out
}

func texts(p page) string {
	var out []string
	for _, e := range p.Entries {
		for _, b := range e.Content {
			out = append(out, b.Text)
		}
	}
	return strings.Join(out, " ")
}

// Pages, forward and backward, in either view, give every entry once.
func TestRead_pages(t *testing.T) {
	repeated := chat(7) + chat(7)[:len(chat(3))] + chat(7) // ids that come two and three times
	for _, c := range []struct{ name, text string }{
		{"clean", chat(7)},
		{"repeated ids", repeated},
		{"bad lines", chat(3) + "{\n\x00\x00\x00\nnot json\n" + lsptest.ClaudeSay(claudeNative, uuid(9), uuid(2), "user", "on")},
	} {
		for _, view := range []string{"effective", "physical"} {
			t.Run(c.name+" "+view, func(t *testing.T) {
				st := lsptest.NewStore(t)
				st.Claude(claudeNative, c.text)
				e := edit(t, st, setup{})
				read := func(p map[string]any) page {
					p["sessionId"], p["view"] = claudeNative, view
					var out page
					e.Do("session/read", p, &out)
					return out
				}
				whole := read(map[string]any{"limit": 1000})
				if whole.HasBefore || whole.HasAfter {
					t.Fatal("the whole has something before or after it")
				}
				want := whole.ids()
				if again := slices.Compact(slices.Sorted(slices.Values(want))); len(again) != len(want) {
					t.Errorf("ids are not different: %v", want)
				}
				var forward []string
				for p := read(map[string]any{"limit": 2}); ; p = read(map[string]any{"limit": 2, "after": forward[len(forward)-1]}) {
					forward = append(forward, p.ids()...)
					if !p.HasAfter || len(forward) > len(want) {
						break
					}
				}
				if !slices.Equal(forward, want) {
					t.Errorf("forward %v, want %v", forward, want)
				}
				backward := want[len(want)-1:]
				for {
					p := read(map[string]any{"limit": 2, "before": backward[0]})
					backward = append(p.ids(), backward...)
					if !p.HasBefore || len(backward) > len(want) {
						break
					}
				}
				if !slices.Equal(backward, want) {
					t.Errorf("backward %v, want %v", backward, want)
				}
				for _, id := range want {
					if err := e.Call("session/read", map[string]any{"sessionId": claudeNative, "entry": id}, nil); err != nil {
						if code, data := lsptest.Code(err); code != -32602 || data["field"] != "block" { // no content
							t.Errorf("entry %s: %v", id, err)
						}
					}
				}
			})
		}
	}
}

// A page ends before it is too large, and the next goes on there.
func TestRead_pageOfLargeEntries(t *testing.T) {
	st := lsptest.NewStore(t)
	var b strings.Builder
	const n = 40
	for i := range n {
		b.WriteString(lsptest.Say("user", fmt.Sprint(i, " ", strings.Repeat("y", 250<<10))))
	}
	st.PseudoClaude(sessionID, b.String())
	e := edit(t, st, setup{})
	got, pages := 0, 0
	for p := (map[string]any{"sessionId": sessionID}); ; {
		var raw json.RawMessage
		e.Do("session/read", p, &raw)
		if len(raw) > 10<<20 {
			t.Errorf("a page of %d bytes", len(raw))
		}
		var out page
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatal(err)
		}
		got, pages = got+len(out.Entries), pages+1
		if !out.HasAfter {
			break
		}
		p["after"] = out.Entries[len(out.Entries)-1].ID
	}
	if got != n || pages < 2 {
		t.Errorf("%d entries on %d pages, want %d on several", got, pages, n)
	}
}

// Tips of a tree are offered as branches, and each can be read and resumed.
func TestRead_branches(t *testing.T) {
	st := lsptest.NewStore(t)
	st.Claude(claudeNative, chat(4)+lsptest.ClaudeSay(claudeNative, uuid(60), uuid(1), "user", "instead"))
	e := edit(t, st, setup{})
	var p page
	e.Do("session/read", map[string]any{"sessionId": claudeNative}, &p)
	if p.Leaf != uuid(60) || texts(p) != "m0 m1 instead" || len(p.Branches) != 1 {
		t.Fatalf("%+v", p)
	}
	b := p.Branches[0]
	if b.Leaf != uuid(3) || b.ForkedAt != uuid(1) || b.Entries != 2 {
		t.Errorf("branch %+v", b)
	}
	e.Do("session/read", map[string]any{"sessionId": claudeNative, "leaf": b.Leaf}, &p)
	if texts(p) != "m0 m1 m2 m3" {
		t.Errorf("the branch reads %s", texts(p))
	}
	e.Do("session/read", map[string]any{"sessionId": claudeNative, "leaf": "newest"}, &p)
	if p.Leaf != uuid(60) {
		t.Errorf("newest leaf %s", p.Leaf)
	}
	var r resumed
	e.Do("session/resume", map[string]any{"sessionId": claudeNative, "leaf": b.Leaf, "subscribe": false}, &r)
	if len(r.Messages) != 4 {
		t.Errorf("%d messages of the branch", len(r.Messages))
	}
	e.Do("session/read", map[string]any{"sessionId": claudeNative, "view": "physical"}, &p)
	if x := p.Entries[2]; x.Effective || x.Excluded != "dead-branch" {
		t.Errorf("physical: %+v", x)
	}
}

// An earlier parent begins a branch in a tree; nothing that stood is changed.
func TestAppend_branch(t *testing.T) {
	st := lsptest.NewStore(t)
	path := st.Claude(claudeNative, chat(4))
	e := edit(t, st, setup{})
	e.Do("session/append", map[string]any{"sessionId": claudeNative, "parentId": uuid(1), "messages": []any{user("again")}}, nil)
	if !strings.HasPrefix(st.Read(path), chat(4)) {
		t.Error("what stood has changed")
	}
	var p page
	e.Do("session/read", map[string]any{"sessionId": claudeNative}, &p)
	if texts(p) != "m0 m1 again" || len(p.Branches) != 1 {
		t.Errorf("%s %+v", texts(p), p.Branches)
	}
}

// What a store cannot do is said, with a way out.
func TestUnsupported(t *testing.T) {
	st := lsptest.NewStore(t)
	st.Claude(claudeNative, chat(2))
	e := edit(t, st, setup{})
	for _, c := range []struct {
		method string
		params map[string]any
	}{
		{"session/replace", map[string]any{"sessionId": claudeNative, "reason": "x", "messages": []any{user("x")}}},
	} {
		code, data := lsptest.Code(e.Call(c.method, c.params, nil))
		if code != -32012 || data["why"] == nil || data["instead"] == nil {
			t.Errorf("%s: %d %v", c.method, code, data)
		}
	}
}

// A revision holds as long as the bytes, for every method that takes one.
func TestExpectedRevision(t *testing.T) {
	st := lsptest.NewStore(t)
	path := st.PseudoClaude(sessionID, lsptest.Say("user", "one"))
	e := edit(t, st, setup{})
	for _, live := range []bool{false, true} {
		if live {
			e.Do("session/subscribe", map[string]any{"sessionId": sessionID, "after": "end"}, nil)
		}
		var p page
		e.Do("session/read", map[string]any{"sessionId": sessionID}, &p)
		st.Append(path, lsptest.Say("user", "between"))
		var now page
		e.Do("session/read", map[string]any{"sessionId": sessionID}, &now)
		before := st.Read(path)
		for _, method := range []string{"session/append", "session/replace"} {
			params := map[string]any{"sessionId": sessionID, "reason": "x", "messages": []any{user("x")}, "expectedRevision": p.Revision}
			if code, data := lsptest.Code(e.Call(method, params, nil)); code != -32801 || data["revision"] != now.Revision {
				t.Errorf("%s: %d %v, want revision %s", method, code, data, now.Revision)
			}
		}
		if st.Read(path) != before {
			t.Error("a refused write left something behind")
		}
		e.Do("session/append", map[string]any{"sessionId": sessionID, "messages": []any{user("x")}, "expectedRevision": now.Revision}, nil)
	}
}

// An append behind a session that is followed does not read the log again.
func TestAppend_liveCostsItsOwnBytes(t *testing.T) {
	st := lsptest.NewStore(t)
	path := st.PseudoClaude(sessionID, strings.Repeat(lsptest.Say("user", strings.Repeat("z", 1000)), 5000))
	fs := &watchedFS{FS: osFS(), path: path}
	e := edit(t, st, setup{fs: fs})
	e.Do("session/subscribe", map[string]any{"sessionId": sessionID, "after": "end"}, nil)
	e.Do("session/append", map[string]any{"sessionId": sessionID, "messages": []any{user("warm")}}, nil)
	start := fs.read.Load()
	for range 5 {
		e.Do("session/append", map[string]any{"sessionId": sessionID, "messages": []any{user("more")}}, nil)
	}
	if got := fs.read.Load() - start; got > 5*256<<10 {
		t.Errorf("5 appends read %d bytes of a log of %d", got, len(st.Read(path)))
	}
}

// Batch durability answers when the bytes are on disk as well.
func TestAppend_batch(t *testing.T) {
	st := lsptest.NewStore(t)
	path := st.PseudoClaude(sessionID, lsptest.Say("user", "one"))
	e := edit(t, st, setup{})
	e.Do("session/append", map[string]any{"sessionId": sessionID, "durability": "batch", "messages": []any{user("batched")}}, nil)
	if !strings.Contains(st.Read(path), "batched") {
		t.Error("answered before it was written")
	}
}

// A tool call and its result are written as a pair and answered with both ids.
func TestAppend_toolCall(t *testing.T) {
	for _, agent := range []string{"pseudoclaude", "claude", "mini-agent"} {
		t.Run(agent, func(t *testing.T) {
			st := lsptest.NewStore(t)
			e := edit(t, st, setup{})
			var made forked
			e.Do("session/new", map[string]any{"agent": agent, "cwd": st.Workspace, "model": "m"}, &made)
			id := made.Session.SessionID
			var res struct{ Entries []entry }
			e.Do("session/append", map[string]any{"sessionId": id, "messages": []any{
				user("look"),
				map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "tool_use", "id": "c", "name": "Read", "input": map[string]any{"file_path": "/a"}}}},
				map[string]any{"role": "tool", "content": []any{map[string]any{"type": "tool_result", "toolUseId": "c", "content": []any{map[string]any{"type": "text", "text": "A"}}}}},
			}}, &res)
			if len(res.Entries) != 3 {
				t.Fatalf("%+v", res)
			}
			var r resumed
			e.Do("session/resume", map[string]any{"sessionId": id, "subscribe": false}, &r)
			if got := r.shape(); got != "user text; assistant tool_use; tool tool_result" {
				t.Errorf("resumed %s", got)
			}
			var p page
			e.Do("session/read", map[string]any{"sessionId": id}, &p)
			for i, x := range res.Entries {
				if p.Entries[i].ID != x.ID || p.Entries[i].Offset != x.Offset {
					t.Errorf("answered %+v, reads %+v", x, p.Entries[i])
				}
			}
		})
	}
}

// A call without a result is cut from what a model gets, and nothing is made up.
func TestResume_dangling(t *testing.T) {
	st := lsptest.NewStore(t)
	st.PseudoClaude(sessionID, lsptest.Say("user", "q")+strings.SplitAfter(calls, "\n")[0])
	e := edit(t, st, setup{})
	var r resumed
	e.Do("session/resume", map[string]any{"sessionId": sessionID, "subscribe": false}, &r)
	if r.shape() != "user text" || r.Report.Dangling == nil || r.Report.Dangling.Dropped != 1 {
		t.Errorf("%s %+v", r.shape(), r.Report)
	}
}

// The agent's own CLI is offered as an argument vector.
func TestResume_command(t *testing.T) {
	st := lsptest.NewStore(t)
	st.Claude(claudeNative, chat(2))
	e := edit(t, st, setup{})
	var r struct {
		Command *struct {
			Argv []string
			CWD  string
		}
	}
	e.Do("session/resume", map[string]any{"sessionId": claudeNative, "subscribe": false}, &r)
	if r.Command == nil || !slices.Contains(r.Command.Argv, claudeNative) {
		t.Errorf("%+v", r.Command)
	}
}

// A resume gives what there is although nothing can be noted about it.
func TestResume_withoutOverlay(t *testing.T) {
	st := lsptest.NewStore(t)
	st.PseudoClaude(sessionID, lsptest.Say("user", "q"))
	if err := os.WriteFile(filepath.Join(st.Home, "state"), []byte("a file in the way"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := edit(t, st, setup{})
	var r resumed
	e.Do("session/resume", map[string]any{"sessionId": sessionID, "subscribe": false}, &r)
	if len(r.Messages) != 1 {
		t.Errorf("%+v", r)
	}
	if code, _ := lsptest.Code(e.Call("session/tag", map[string]any{"sessionId": sessionID, "tags": []any{"x"}}, nil)); code != -32014 {
		t.Errorf("a tag that cannot be kept: code %d", code)
	}
}

// All names of a session find it; what fits several is refused with them.
func TestNames(t *testing.T) {
	st := lsptest.NewStore(t)
	path := st.PseudoClaude(sessionID, lsptest.Say("user", "q"))
	st.PseudoClaude("20260828-142030-ffff", lsptest.Say("user", "other"))
	e := edit(t, st, setup{})
	for _, p := range []map[string]any{
		{"sessionId": qualified},
		{"sessionId": sessionID},
		{"sessionId": sessionID[:17]},
		{"uri": "file://" + path},
	} {
		var out page
		e.Do("session/read", p, &out)
		if texts(out) != "q" {
			t.Errorf("%v gives %q", p, texts(out))
		}
	}
	code, data := lsptest.Code(e.Call("session/read", map[string]any{"sessionId": "20260828"}, nil))
	if candidates, _ := data["candidates"].([]any); code != -32602 || len(candidates) != 2 {
		t.Errorf("code %d %v", code, data)
	}
	if code, _ := lsptest.Code(e.Call("session/read", map[string]any{"sessionId": "202"}, nil)); code != -32011 && code != -32602 {
		t.Errorf("a prefix that is too short: code %d", code)
	}
}

// Names, tags and marks are idempotent, and seen by the list.
func TestAnnotate(t *testing.T) {
	st := lsptest.NewStore(t)
	st.PseudoClaude(sessionID, lsptest.Say("user", "q"))
	e := edit(t, st, setup{})
	type answer struct {
		Session struct {
			Title, TitleSource string
			Tags               []string
			Archived           bool
		}
	}
	for range 2 {
		var a answer
		e.Do("session/rename", map[string]any{"sessionId": sessionID, "title": " a\n name "}, &a)
		if a.Session.Title != "a name" || a.Session.TitleSource != "user" {
			t.Errorf("%+v", a)
		}
		e.Do("session/tag", map[string]any{"sessionId": sessionID, "tags": []any{"b", "a", "b", " "}}, &a)
		if !slices.Equal(a.Session.Tags, []string{"b", "a"}) {
			t.Errorf("%+v", a)
		}
		e.Do("session/archive", map[string]any{"sessionId": sessionID}, &a)
		if !a.Session.Archived {
			t.Errorf("%+v", a)
		}
	}
	total := func(p map[string]any) int {
		var list struct{ Total int }
		e.Do("session/list", p, &list)
		return list.Total
	}
	if a, b, c := total(map[string]any{}), total(map[string]any{"archived": "include"}), total(map[string]any{"archived": "only", "query": "A NAME"}); a != 0 || b != 1 || c != 1 {
		t.Errorf("listed %d %d %d", a, b, c)
	}
	var a answer
	e.Do("session/rename", map[string]any{"sessionId": sessionID, "title": ""}, &a)
	if a.Session.Title != "q" || a.Session.TitleSource != "prompt" {
		t.Errorf("the name was not taken away: %+v", a)
	}
	for method, field := range map[string]string{"session/rename": "title", "session/tag": "tags"} {
		if code, data := lsptest.Code(e.Call(method, map[string]any{"sessionId": sessionID}, nil)); code != -32602 || data["field"] != field {
			t.Errorf("%s without %s: %d %v", method, field, code, data)
		}
	}
}

// Deleting goes to the trash, is refused while another process writes, and a
// session that was never written can be deleted too.
func TestDelete(t *testing.T) {
	st := lsptest.NewStore(t)
	path := st.PseudoClaude(sessionID, lsptest.Say("user", "q"))
	e := edit(t, st, setup{})
	var res struct{ Trashed string }
	e.Do("session/delete", map[string]any{"sessionId": sessionID}, &res)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Stat(strings.TrimPrefix(res.Trashed, "file://")); err != nil {
		t.Error(err)
	}
	var made forked
	e.Do("session/new", map[string]any{"agent": "pseudoclaude", "cwd": st.Workspace}, &made)
	e.Do("session/delete", map[string]any{"sessionId": made.Session.SessionID, "permanently": true}, nil)
	if code, _ := lsptest.Code(e.Call("session/read", map[string]any{"sessionId": made.Session.SessionID}, nil)); code != -32011 {
		t.Errorf("read after delete: code %d", code)
	}
}

// Pruning only shows what it would do unless told otherwise, by the client's
// own rule where it has set one.
func TestPrune(t *testing.T) {
	st := lsptest.NewStore(t)
	path := st.PseudoClaude(sessionID, `{"type":"message","role":"user","content":"old","ts":1700000000}`+"\n")
	old := time.Unix(1700000000, 0)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	e := edit(t, st, setup{})
	prune := func(p map[string]any) int {
		var res struct {
			Sessions []struct{ SessionID string }
			Bytes    int64
		}
		e.Do("session/prune", p, &res)
		return len(res.Sessions)
	}
	e.Tell("workspace/didChangeConfiguration", map[string]any{"settings": map[string]any{"agentLs": map[string]any{"prune": map[string]any{"olderThanDays": 36000}}}})
	if n := prune(map[string]any{}); n != 0 {
		t.Errorf("%d are too old by the client's rule", n)
	}
	if n := prune(map[string]any{"olderThanDays": 30}); n != 1 {
		t.Errorf("%d are too old", n)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal("a dry run has deleted: ", err)
	}
	if n := prune(map[string]any{"olderThanDays": 30, "dryRun": false}); n != 1 {
		t.Errorf("%d were pruned", n)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("it is still there")
	}
}

// A session that no longer fits what a watcher asked for is removed for him.
func TestWatch_leavesTheFilter(t *testing.T) {
	st := lsptest.NewStore(t)
	st.PseudoClaude(sessionID, lsptest.Say("user", "q"))
	e := edit(t, st, setup{})
	e.Do("session/read", map[string]any{"sessionId": sessionID}, nil) // the scan has ended
	e.Do("session/watch", map[string]any{"archived": "exclude"}, nil)
	e.Do("session/archive", map[string]any{"sessionId": sessionID}, nil)
	e.Await(lsptest.Expectation{
		Description: "the session removed",
		Check: func(s lsptest.State) lsptest.Verdict {
			for _, n := range s.Notifications {
				var c struct{ Removed []string }
				if n.Method == "session/changed" && json.Unmarshal(n.Params, &c) == nil && slices.Contains(c.Removed, qualified) {
					return lsptest.Met
				}
			}
			return lsptest.Unmet
		},
	})
	e.Do("session/unwatch", nil, nil)
	e.Do("session/unwatch", nil, nil) // idempotent
}

// Settings that cannot be used are refused as a whole, with the field.
func TestConfiguration(t *testing.T) {
	for _, c := range []struct {
		options any
		field   string // "" is taken
	}{
		{nil, ""},
		{[]any{}, ""},
		{map[string]any{}, ""},
		{map[string]any{"unknown": 1}, ""},
		{map[string]any{"watch": map[string]any{"poll": "never", "debounceMs": 100}}, ""},
		{map[string]any{"stores": map[string]any{"claude": map[string]any{"enabled": false}}}, ""},
		{"words", "initializationOptions"},
		{map[string]any{"stores": []any{1}}, "initializationOptions.stores"},
		{map[string]any{"stores": map[string]any{"claude": map[string]any{"roots": "x"}}}, "initializationOptions.stores.claude.roots"},
		{map[string]any{"stores": map[string]any{"nobody": map[string]any{}}}, "stores.nobody"},
		{map[string]any{"stores": map[string]any{"claude": map[string]any{"roots": []any{"relative"}}}}, "stores.claude.roots"},
		{map[string]any{"watch": map[string]any{"poll": "sometimes"}}, "watch.poll"},
		{map[string]any{"watch": map[string]any{"debounceMs": -1}}, "watch.debounceMs"},
		{map[string]any{"prune": map[string]any{"basis": "mood"}}, "prune.basis"},
		{map[string]any{"prune": map[string]any{"olderThanDays": -3}}, "prune.olderThanDays"},
	} {
		t.Run(fmt.Sprint(c.options), func(t *testing.T) {
			s, ws := newServer(t)
			e := lsptest.Connect(t, s)
			p, ok := folders(ws).(map[string]any)
			if !ok {
				t.Fatal("params are no object")
			}
			p["initializationOptions"] = c.options
			code, data := lsptest.Code(e.Call("initialize", p, nil))
			if field, _ := data["field"].(string); field != c.field || (code != 0) != (c.field != "") {
				t.Errorf("code %d field %q, want %q", code, field, c.field)
			}
			if code != 0 { // it may be tried again
				delete(p, "initializationOptions")
				e.Do("initialize", p, nil)
			}
		})
	}
}

// Stores can be switched off and moved while the server runs.
func TestConfiguration_stores(t *testing.T) {
	st := lsptest.NewStore(t)
	path := st.Claude(claudeNative, chat(2))
	e := edit(t, st, setup{})
	e.Do("session/read", map[string]any{"sessionId": claudeNative}, nil)
	e.Do("session/watch", map[string]any{}, nil)
	set := func(store map[string]any) {
		e.Tell("workspace/didChangeConfiguration", map[string]any{"settings": map[string]any{"agentLs": map[string]any{"stores": map[string]any{"claude": store}}}})
	}
	set(map[string]any{"enabled": false})
	listed(t, e, 0)
	moved := filepath.Join(st.Home, "elsewhere", "projects")
	if err := os.MkdirAll(filepath.Dir(moved), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Dir(filepath.Dir(path)), moved); err != nil {
		t.Fatal(err)
	}
	set(map[string]any{"roots": []any{filepath.Dir(moved)}})
	listed(t, e, 1)
}

// Clients that encode an empty object as an array are understood.
func TestEmptyParams(t *testing.T) {
	st := lsptest.NewStore(t)
	e := edit(t, st, setup{})
	for _, p := range []any{nil, map[string]any{}, []any{}, rpc.Raw("[ ]")} {
		if err := e.Call("session/list", p, nil); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
}

// When the editor's process has ended the server ends, as after exit.
func TestProcessDeath(t *testing.T) {
	st := lsptest.NewStore(t)
	gone := make(chan struct{})
	var asked atomic.Int64
	s := server(t, st, setup{lsp: func(o *lsp.Options) {
		o.WatchProcess = func(_ context.Context, pid int) <-chan struct{} { asked.Store(int64(pid)); return gone }
	}})
	e := lsptest.Connect(t, s)
	p := st.Folders()
	p["processId"] = 4711
	e.Do("initialize", p, nil)
	if got := asked.Load(); got != 4711 {
		t.Errorf("process %d is watched", got)
	}
	close(gone)
	for e.Call("session/list", nil, nil) == nil { //nolint:revive // until the connection has ended
	}
	if s.ExitCode() != 1 {
		t.Error("exit code without shutdown")
	}
}

// At the end of the input all that was asked for is still done and answered.
func TestEndOfInput_finishesWrites(t *testing.T) {
	st := lsptest.NewStore(t)
	path := st.PseudoClaude(sessionID, lsptest.Say("user", "one"))
	c := lsptest.NewScript(t, server(t, st, setup{}))
	c.Send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"processId":null,"workspaceFolders":[{"uri":"file://` + st.Workspace + `","name":"ws"}]}}`)
	const n = 20
	for i := range n {
		c.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/append","params":{"sessionId":%q,"durability":"batch","messages":[{"role":"user","content":"b%d"}]}}`, i+1, sessionID, i))
	}
	answers := c.End()
	for _, m := range answers {
		if m.Error != nil {
			t.Errorf("%s: %+v", m.ID, m.Error)
		}
	}
	if len(answers) != n+1 {
		t.Errorf("%d answers, want %d", len(answers), n+1)
	}
	log := st.Read(path)
	for i := range n {
		if !strings.Contains(log, fmt.Sprintf("%q", fmt.Sprint("b", i))) {
			t.Errorf("b%d is not in the log", i)
		}
	}
	for l := range strings.Lines(log) {
		if !json.Valid([]byte(l)) {
			t.Errorf("a torn line: %q", l)
		}
	}
}
