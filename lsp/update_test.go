package lsp_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/agent-ls/agent-ls/lsp/lsptest"
)

const (
	claudeNative = "11111111-1111-4111-8111-111111111111"
	qualified    = "pseudoclaude:" + sessionID
)

// uuid is the n-th of a Claude transcript.
func uuid(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// chat is a Claude transcript of n messages, each hanging on the one before.
func chat(n int) string {
	var b strings.Builder
	parent := ""
	for i := range n {
		role := []string{"user", "assistant"}[i%2]
		b.WriteString(lsptest.ClaudeSay(claudeNative, uuid(i), parent, role, fmt.Sprint("m", i)))
		parent = uuid(i)
	}
	return b.String()
}

// What happens to the file, and what a subscriber is told of it.
func TestUpdate_resets(t *testing.T) {
	boundary := `{"parentUuid":null,"logicalParentUuid":"` + uuid(1) + `","isSidechain":false,"type":"system","subtype":"compact_boundary","content":"Conversation compacted","uuid":"` + uuid(50) +
		`","timestamp":"2026-08-28T15:20:30.000Z","sessionId":"` + claudeNative + `","compactMetadata":{"trigger":"manual","preTokens":9}}` + "\n"
	summary := strings.Replace(lsptest.ClaudeSay(claudeNative, uuid(51), uuid(50), "user", "summary"), `"isSidechain":false`, `"isSidechain":false,"isCompactSummary":true`, 1)
	for _, c := range []struct {
		name, before string
		claude       bool
		do           func(t *testing.T, st *lsptest.Store, path string)
		reset        string
		after        []string // texts of the conversation then
	}{
		{
			name: "replace", before: lsptest.Say("user", "old"),
			do: func(_ *testing.T, st *lsptest.Store, path string) {
				st.Append(path, `{"type":"replace","reason":"compact","ts":1787926831}`+"\n"+lsptest.Say("user", "new"))
			},
			reset: "replace", after: []string{"new"},
		},
		{
			name: "compaction", claude: true, before: chat(2),
			do:    func(_ *testing.T, st *lsptest.Store, path string) { st.Append(path, boundary+summary) },
			reset: "compaction", after: []string{"Conversation compacted", "summary"},
		},
		{
			name: "branch", claude: true, before: chat(4),
			do: func(_ *testing.T, st *lsptest.Store, path string) {
				st.Append(path, lsptest.ClaudeSay(claudeNative, uuid(60), uuid(1), "user", "instead"))
			},
			reset: "branch", after: []string{"m0", "m1", "instead"},
		},
		{
			name: "truncated", before: lsptest.Say("user", "one") + lsptest.Say("user", "two"),
			do: func(t *testing.T, _ *lsptest.Store, path string) {
				if err := os.Truncate(path, int64(len(lsptest.Say("user", "one")))); err != nil {
					t.Fatal(err)
				}
			},
			reset: "truncated", after: []string{"one"},
		},
		{
			name: "replaced", before: lsptest.Say("user", "one"),
			do: func(t *testing.T, st *lsptest.Store, path string) {
				st.Append(path+".new", lsptest.Say("user", "other"))
				if err := os.Rename(path+".new", path); err != nil {
					t.Fatal(err)
				}
			},
			reset: "replaced", after: []string{"other"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := lsptest.NewStore(t)
			id, path := qualified, ""
			if c.claude {
				id, path = "claude:"+claudeNative, st.Claude(claudeNative, c.before)
			} else {
				path = st.PseudoClaude(sessionID, c.before)
			}
			e := edit(t, st, setup{})
			e.Do("session/subscribe", map[string]any{"sessionId": id, "after": "end"}, nil)
			c.do(t, st, path)
			e.Await(lsptest.WasReset(id, c.reset))
			var page struct{ Entries []entry }
			e.Do("session/read", map[string]any{"sessionId": id}, &page)
			var texts []string
			for _, x := range page.Entries {
				for _, b := range x.Content {
					texts = append(texts, b.Text)
				}
			}
			if got, want := strings.Join(texts, " "), strings.Join(c.after, " "); got != want {
				t.Errorf("read again: %s, want %s", got, want)
			}
		})
	}
}

// Subscriptions begin where the client says.
func TestSubscribe_after(t *testing.T) {
	for _, c := range []struct {
		name  string
		after any
		want  []string
	}{
		{"from the start", nil, []string{"m0", "m1", "m2", "m3", "new"}},
		{"from the end", "end", []string{"new"}},
		{"behind an entry", uuid(1), []string{"m2", "m3", "new"}},
		{"behind an offset", fmt.Sprint(len(chat(3))), []string{"m3", "new"}},
		{"behind an entry that is not there", "nowhere", []string{"m0", "m1", "m2", "m3", "new"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := lsptest.NewStore(t)
			path := st.Claude(claudeNative, chat(4))
			e := edit(t, st, setup{})
			p := map[string]any{"sessionId": claudeNative}
			if c.after != nil {
				p["after"] = c.after
			}
			e.Do("session/subscribe", p, nil)
			st.Append(path, lsptest.ClaudeSay(claudeNative, uuid(9), uuid(3), "user", "new"))
			e.Await(lsptest.HasTexts("claude:"+claudeNative, c.want...))
		})
	}
}

// A second subscription takes the place of the first: nothing comes twice.
func TestSubscribe_again(t *testing.T) {
	st := lsptest.NewStore(t)
	path := st.PseudoClaude(sessionID, lsptest.Say("user", "one"))
	e := edit(t, st, setup{})
	for range 3 {
		e.Do("session/subscribe", map[string]any{"sessionId": sessionID, "after": "end"}, nil)
	}
	st.Append(path, lsptest.Say("user", "two"))
	e.Await(lsptest.HasTexts(qualified, "two"))
	st.Append(path, lsptest.Say("user", "three"))
	e.Await(lsptest.HasTexts(qualified, "two", "three"))
}

// After unsubscribe nothing comes; a later subscription begins anew.
func TestUnsubscribe(t *testing.T) {
	st := lsptest.NewStore(t)
	path := st.PseudoClaude(sessionID, lsptest.Say("user", "one"))
	e := edit(t, st, setup{})
	e.Do("session/subscribe", map[string]any{"sessionId": sessionID, "after": "end"}, nil)
	e.Do("session/unsubscribe", map[string]any{"sessionId": sessionID}, nil)
	e.Do("session/unsubscribe", map[string]any{"sessionId": sessionID}, nil) // idempotent
	st.Append(path, lsptest.Say("user", "unseen"))
	e.Do("session/subscribe", map[string]any{"sessionId": sessionID, "after": "end"}, nil)
	st.Append(path, lsptest.Say("user", "seen"))
	e.Await(lsptest.HasTexts(qualified, "seen"))
}

// A session that has no file yet is followed from its first byte on.
func TestResume_newSession(t *testing.T) {
	st := lsptest.NewStore(t)
	e := edit(t, st, setup{})
	var made forked
	e.Do("session/new", map[string]any{"agent": "pseudoclaude", "cwd": st.Workspace}, &made)
	var r resumed
	e.Do("session/resume", map[string]any{"sessionId": made.Session.SessionID}, &r)
	if len(r.Messages) != 0 {
		t.Fatalf("%+v", r)
	}
	path := filepath.Join(st.Workspace, ".PseudoClaude", "sessions", strings.TrimPrefix(made.Session.SessionID, "pseudoclaude:"), "conversation.jsonl")
	st.Append(path, lsptest.Say("user", "first"))
	e.Await(lsptest.HasTexts(made.Session.SessionID, "first"))
	e.Do("session/append", map[string]any{"sessionId": made.Session.SessionID, "messages": []any{user("second")}}, nil)
	e.Await(lsptest.HasTexts(made.Session.SessionID, "first", "second"))
}

// Entries between a resume and its subscription are not lost, however fast
// another process writes.
func TestResume_underLoad(t *testing.T) {
	st := lsptest.NewStore(t)
	path := st.PseudoClaude(sessionID, lsptest.Say("user", "w0"))
	e := edit(t, st, setup{})
	const n = 300
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 1; i < n; i++ {
			st.Append(path, lsptest.Say("user", fmt.Sprint("w", i)))
		}
	}()
	var r struct {
		Messages []struct{ Content []struct{ Text string } }
	}
	e.Do("session/resume", map[string]any{"sessionId": sessionID}, &r)
	var want []string
	for i := len(r.Messages); i < n; i++ {
		want = append(want, fmt.Sprint("w", i))
	}
	if len(want) > 0 {
		e.Await(lsptest.HasTexts(qualified, want...))
	}
	<-done
}

// The server itself, another server and another program write at once: each
// entry reaches the client once, in the order of the bytes.
func TestUpdate_threeWriters(t *testing.T) {
	st := lsptest.NewStore(t)
	path := st.PseudoClaude(sessionID, lsptest.Say("user", "first"))
	e, other := edit(t, st, setup{}), lsptest.New(t, serverIn(t, st.Workspace), st.Folders())
	e.Do("session/subscribe", map[string]any{"sessionId": sessionID}, nil)
	const n = 40
	var ended []chan struct{}
	for _, write := range []func(int){
		func(i int) { st.Append(path, lsptest.Say("user", fmt.Sprint("p", i))) },
		func(i int) {
			e.Do("session/append", map[string]any{"sessionId": sessionID, "messages": []any{user(fmt.Sprint("a", i))}}, nil)
		},
		func(i int) {
			other.Do("session/append", map[string]any{"sessionId": sessionID, "messages": []any{user(fmt.Sprint("b", i))}}, nil)
		},
	} {
		done := make(chan struct{})
		ended = append(ended, done)
		go func() {
			defer close(done)
			for i := range n {
				write(i)
			}
		}()
	}
	for _, done := range ended {
		<-done
	}
	e.Await(lsptest.InSession(qualified, "all entries", func(m *lsptest.Mirror) bool { return len(m.Entries) == 3*n+1 }))
	e.Look(func(s lsptest.State) {
		m := s.Sessions[qualified]
		if len(m.Twice) > 0 || len(m.Resets) > 0 {
			t.Errorf("twice %v, resets %v", m.Twice, m.Resets)
		}
		seen := map[string]int{}
		for i, text := range m.Texts() {
			seen[text]++
			if i > 0 && m.Entries[i].Line != m.Entries[i-1].Line+1 {
				t.Errorf("line %d behind line %d", m.Entries[i].Line, m.Entries[i-1].Line)
			}
		}
		if len(seen) != 3*n+1 {
			t.Errorf("%d different entries, want %d", len(seen), 3*n+1)
		}
	})
}

// A client that does not read while 100 MB are appended costs no memory, is
// told to read again, and then knows what there is.
func TestUpdate_slowClient(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 100 MB")
	}
	st := lsptest.NewStore(t)
	path := st.PseudoClaude(sessionID, lsptest.Say("user", "first"))
	e := edit(t, st, setup{})
	e.Do("session/subscribe", map[string]any{"sessionId": sessionID, "after": "end"}, nil)
	resume := e.StopReading()
	text := strings.Repeat("x", 64<<10)
	n := 1600
	if raced {
		n = 600 // still beyond the bound of what is sent
	}
	for i := range n {
		st.Append(path, lsptest.Say("user", fmt.Sprint(i, text)))
	}
	st.Append(path, lsptest.Say("user", "last"))
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 100<<20 {
		t.Errorf("%d MB are held for a client that does not read", m.HeapAlloc>>20)
	}
	resume()
	e.Await(lsptest.AnyOf(
		lsptest.WasReset(qualified, "overrun"),
		lsptest.InSession(qualified, "the last entry", func(m *lsptest.Mirror) bool {
			return len(m.Entries) > 0 && m.Entries[len(m.Entries)-1].Line == n+2
		}),
	))
	var page struct{ Entries []entry }
	e.Do("session/read", map[string]any{"sessionId": sessionID, "view": "physical", "after": "0", "limit": 1}, &page)
	if len(page.Entries) != 1 {
		t.Fatal("the transcript cannot be read after it")
	}
	st.Append(path, lsptest.Say("user", "afterwards"))
	e.Await(lsptest.InSession(qualified, "what came afterwards", func(m *lsptest.Mirror) bool {
		texts := m.Texts()
		return len(texts) > 0 && texts[len(texts)-1] == "afterwards"
	}))
	e.Look(func(s lsptest.State) {
		if twice := s.Sessions[qualified].Twice; len(twice) > 0 {
			t.Errorf("came twice: %v", twice)
		}
	})
}

// Cost classes, as bytes allocated: an update after forty times the history may
// not cost twice as much. Resolving the transcript anew would.
func TestUpdate_costFollowsNewBytes(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates on its own")
	}
	for _, c := range []struct {
		name string
		log  func(st *lsptest.Store, history int) (id, path string)
		line func(n int) string
	}{
		{
			name: "claude",
			log: func(st *lsptest.Store, history int) (id, path string) {
				return "claude:" + claudeNative, st.Claude(claudeNative, chat(history))
			},
			line: func(n int) string {
				return lsptest.ClaudeSay(claudeNative, uuid(n), uuid(n-1), []string{"user", "assistant"}[n%2], fmt.Sprint("m", n))
			},
		},
		{
			name: "pseudoclaude",
			log: func(st *lsptest.Store, history int) (id, path string) {
				return qualified, st.PseudoClaude(sessionID, strings.Repeat(lsptest.Say("user", "m"), history))
			},
			line: func(n int) string { return lsptest.Say("user", fmt.Sprint("m", n)) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cost := func(history int) uint64 {
				st := lsptest.NewStore(t)
				id, path := c.log(st, history)
				e := edit(t, st, setup{})
				e.Do("session/subscribe", map[string]any{"sessionId": id, "after": "end"}, nil)
				least, seen := ^uint64(0), []string(nil)
				for n := history; n < history+12; n++ {
					var before, after runtime.MemStats
					seen = append(seen, fmt.Sprint("m", n))
					runtime.ReadMemStats(&before)
					st.Append(path, c.line(n))
					e.Await(lsptest.HasTexts(id, seen...))
					runtime.ReadMemStats(&after)
					least = min(least, after.TotalAlloc-before.TotalAlloc)
				}
				return least
			}
			if short, long := cost(1000), cost(40_000); long > 2*short {
				t.Errorf("an update after 40000 entries allocates %d bytes, after 1000 %d", long, short)
			}
		})
	}
}
