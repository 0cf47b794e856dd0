package format

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/session"
)

const claudeID = "11111111-1111-4111-8111-111111111111"

func TestClaude_projectDir(t *testing.T) {
	long := "/" + strings.Repeat("verylongdirectoryname/", 10) + "enough"
	for cwd, want := range map[string]string{
		"/home/dev/proj":               "-home-dev-proj",
		"/h/data-analysis":             "-h-data-analysis",
		"/h/data/analysis":             "-h-data-analysis",
		"my_p":                         "my-p",
		"/a b.c/ü":                     "-a-b-c--",
		"/x/\U0001F600":                "-x---",
		"/nfd-e\u0301":                 "-nfd-e-",
		"/项目":                          "---",
		`C:\Users\me`:                  "C--Users-me",
		`c:\Users\me`:                  "c--Users-me",
		"/" + strings.Repeat("a", 199): "-" + strings.Repeat("a", 199),
	} {
		if got := claudeProjectDir(cwd); got != want {
			t.Errorf("%q: %q, want %q", cwd, got, want)
		}
	}
	// The hash is abs(h*31 + unit) in 32 bits, in base 36, as JavaScript has it.
	h := int32(0)
	for _, c := range long {
		h = h*31 + c
	}
	got := claudeProjectDir(long)
	if len(got) <= 201 || got[200] != '-' || strings.TrimLeft(got[201:], "0123456789abcdefghijklmnopqrstuvwxyz") != "" {
		t.Errorf("%q", got)
	}
	if claudeProjectDir(long + "x")[:200] != got[:200] || claudeProjectDir(long+"x") == got {
		t.Error("two long paths with a common start are told apart by the hash only")
	}
	// "aaaa…" of 201 units overflows to a known value: 32-bit arithmetic.
	var sum uint32
	for range 201 {
		sum = sum*31 + 'a'
	}
	abs := int64(int32(sum))
	if abs < 0 {
		abs = -abs
	}
	want := strings.Repeat("a", 200) + "-" + fmt.Sprint(base36(abs))
	if got := claudeProjectDir(strings.Repeat("a", 201)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func base36(n int64) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	s := ""
	for ; n > 0; n /= 36 {
		s = string(digits[n%36]) + s
	}
	return s
}

func TestClaude_paths(t *testing.T) {
	var f claude
	const u = "22222222-2222-4222-8222-222222222222"
	for _, tt := range []struct{ path, native, owner string }{
		{"projects/-w/" + u + ".jsonl", u, ""},
		{"projects/-w/ABCDEFAB-1111-4111-8111-111111111111.jsonl", "ABCDEFAB-1111-4111-8111-111111111111", ""},
		{"projects/-w/agent-123.jsonl", "", ""},
		{"projects/-w/notes.jsonl", "", ""},
		{"projects/-w/" + u + ".jsonl.bak", "", ""},
		{"projects/" + u + ".jsonl", "", ""},
		{"projects/-w/memory/x.md", "", ""},
		{"projects/-w/sessions-index.json", "", ""},
		{"other/-w/" + u + ".jsonl", "", ""},
		{"projects/-w/" + u + "/custom-title.json", "", "projects/-w/" + u + ".jsonl"},
		{"projects/-w/" + u + "/archived.json", "", "projects/-w/" + u + ".jsonl"},
		{"projects/-w/" + u + "/tool-results/x.txt", "", "projects/-w/" + u + ".jsonl"},
		{"projects/-w/" + u + "/subagents/agent-a1.jsonl", "agent-a1@" + u, ""},
		{"projects/-w/" + u + "/subagents/agent-a1.meta.json", "", "projects/-w/" + u + "/subagents/agent-a1.jsonl"},
		{"projects/-w/" + u + "/subagents/workflows/r1/agent-a1.jsonl", "agent-a1@" + u + "/workflows/r1", ""},
		{"projects/-w/" + u + "/subagents/workflows/r1/agent-a1.meta.json", "", "projects/-w/" + u + "/subagents/workflows/r1/agent-a1.jsonl"},
		{"projects/-w/" + u + "/subagents/workflows/r1/run.json", "", "projects/-w/" + u + ".jsonl"},
	} {
		native, ok := f.Identify(tt.path)
		if ok != (tt.native != "") || ok && native != tt.native {
			t.Errorf("%s is %q, %v; want %q", tt.path, native, ok, tt.native)
		}
		owner, ok := f.Owner(tt.path)
		if ok != (tt.owner != "") || ok && owner != tt.owner {
			t.Errorf("%s belongs to %q, %v; want %q", tt.path, owner, ok, tt.owner)
		}
		for dir := tt.path; tt.native+tt.owner != "" && !strings.Contains(tt.path, "tool-results"); {
			i := strings.LastIndexByte(dir, '/')
			if i < 0 {
				break
			}
			if dir = dir[:i]; !f.Enter(dir) {
				t.Errorf("%s is not entered on the way to %s", dir, tt.path)
			}
		}
	}
	for _, dir := range []string{"plugins", "file-history/" + u, "projects/-w/memory", "projects/-w/" + u + "/tool-results", "sessions/x", "todos"} {
		if f.Enter(dir) {
			t.Errorf("%s is entered", dir)
		}
	}
}

func TestClaude_roots(t *testing.T) {
	var f claude
	env := func(k string) string { return map[string]string{"CLAUDE_CONFIG_DIR": "/cfg"}[k] }
	for _, tt := range []struct {
		env  session.Env
		want []string
	}{
		{session.Env{Home: "/home/me"}, []string{"/home/me/.claude"}},
		{session.Env{Home: "/home/me", Getenv: env}, []string{"/cfg"}},
		{session.Env{Home: "/home/me", Getenv: env, Roots: map[string][]string{"claude": {"/a/.claude", "/b/projects"}}}, []string{"/a/.claude", "/b"}},
		{session.Env{}, nil},
	} {
		if got := f.Roots(tt.env); !cmp.Equal(got, tt.want) {
			t.Errorf("%v, want %v", got, tt.want)
		}
	}
}

// claudeRow summarizes one transcript, with side files below its directory.
func claudeRow(t *testing.T, log string, side map[string]string, alive func(int) bool) (session.Session, error) {
	t.Helper()
	store := fstest.MapFS{"projects/-w/" + claudeID + ".jsonl": {Data: []byte(log), ModTime: time.Unix(1, 0)}}
	for name, data := range side {
		store[name] = &fstest.MapFile{Data: []byte(data)}
	}
	root := session.Root{Dir: "/s", FS: store, Alive: alive}
	s, err := claude{}.Summarize(root, "projects/-w/"+claudeID+".jsonl", session.Session{})
	for _, l := range (claude{}).Live(root) {
		if strings.EqualFold(l.Native, s.Native) {
			l.Over(&s)
		}
	}
	return s, err
}

func userLine(id, parent, text string) string {
	return fmt.Sprintf(`{"parentUuid":%s,"type":"user","uuid":"%s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w","sessionId":"`+claudeID+`","message":{"role":"user","content":%q}}`+"\n", quotedOrNull(parent), id, text)
}

func assistantLine(id, parent, stop, block string) string {
	return fmt.Sprintf(`{"parentUuid":%s,"type":"assistant","uuid":"%s","timestamp":"2026-01-01T00:00:01.000Z","sessionId":"`+claudeID+`","message":{"id":"msg_%s","role":"assistant","model":"claude-x","content":[%s],"stop_reason":%s}}`+"\n", quotedOrNull(parent), id, id, block, stop)
}

// First prompts: what is typed is found, what programs wrote is passed over.
func TestClaude_firstPrompt(t *testing.T) {
	long := strings.Repeat("w", 199) + "\U0001F600" + "tail"
	for _, tt := range []struct {
		name, want string
		texts      []string
	}{
		{"plain", "hello", []string{"hello"}},
		{"command with a prompt", "real", []string{"<command-name>/init</command-name>", "real"}},
		{"command alone", "/init", []string{"<command-name>/init</command-name>\n<command-args></command-args>"}},
		{"first of two commands", "/a", []string{"<command-name>/a</command-name>", "<command-name>/b</command-name>"}},
		{"bash", "! ls", []string{"<bash-input> ls </bash-input>"}},
		{"stdout and stderr", "real", []string{"<local-command-stdout>x</local-command-stdout>", "<local-command-stderr>x</local-command-stderr>", "real"}},
		{"caveat in a tag", "real", []string{"<local-command-caveat>Caveat</local-command-caveat>", "real"}},
		{"old caveat", "Caveat: old", []string{"Caveat: old", "real"}},
		{"hook", "real", []string{"<session-start-hook>x</session-start-hook>", "real"}},
		{"tick and goal", "real", []string{"<tick>1</tick>", "<goal>x</goal>", "real"}},
		{"unknown tag", "real", []string{"<foo-bar>x</foo-bar>", "real"}},
		{"tag with attributes", "real", []string{`<teammate-message from="x">y</teammate-message>`, "real"}},
		{"capital tag is typed", "<Foo>x</Foo>", []string{"<Foo>x</Foo>"}},
		{"less-than is typed", "<3 you", []string{"<3 you"}},
		{"generics are typed", "Vec<u8> is what?", []string{"Vec<u8> is what?"}},
		{"interrupted", "real", []string{"[Request interrupted by user]", "[Request interrupted by user for tool use]", "real"}},
		{"blank", "real", []string{" \n\t", "real"}},
		{"selection before the prompt", "explain this", []string{"<ide_selection>foo</ide_selection> explain this"}},
		{"two of them", "explain this", []string{"<ide_opened_file>f</ide_opened_file>\n<ide_selection>foo</ide_selection>\nexplain this"}},
		{"selection alone", "real", []string{"<ide_selection>foo</ide_selection>", "real"}},
		{"reminder before the prompt", "do it", []string{"<system-reminder>x</system-reminder>\ndo it"}},
		{"lines", "a  b\r \tc", []string{"a\n\nb\r\n\tc"}},
		{"surrounding space", "x", []string{"  x \n"}},
		{"cut", strings.Repeat("w", 200) + "…", []string{strings.Repeat("w", 201)}},
		{"not cut", strings.Repeat("w", 200), []string{strings.Repeat("w", 200)}},
		{"pair not split", strings.Repeat("w", 199) + "…", []string{long}},
		{"cut at a space", strings.Repeat("w", 199) + "…", []string{strings.Repeat("w", 199) + " " + "more"}},
		{"none", "", []string{"<tick>1</tick>"}},
	} {
		log, parent := "", ""
		for i, s := range tt.texts {
			id := fmt.Sprintf("u%d", i)
			log += userLine(id, parent, s)
			parent = id
		}
		s, err := claudeRow(t, log, nil, nil)
		if err != nil || s.FirstPrompt != tt.want || s.Title != tt.want {
			t.Errorf("%s: prompt %q, title %q, %v; want %q", tt.name, s.FirstPrompt, s.Title, err, tt.want)
		}
	}
}

func TestClaude_titles(t *testing.T) {
	base := userLine("u1", "", "hello")
	dir := "projects/-w/" + claudeID + "/"
	for _, tt := range []struct {
		name, log string
		side      map[string]string
		title     string
		source    session.TitleSource
	}{
		{"prompt", "", nil, "hello", session.TitlePrompt},
		{"custom beats all", `{"type":"custom-title","customTitle":" Mine "}` + "\n" + `{"type":"ai-title","aiTitle":"Ai"}` + "\n", nil, "Mine", session.TitleUser},
		{"ai beats last prompt", `{"type":"ai-title","aiTitle":"Ai"}` + "\n" + `{"type":"last-prompt","lastPrompt":"lp"}` + "\n", nil, "Ai", session.TitleAgent},
		{"last prompt beats summary", `{"type":"summary","summary":"sum","leafUuid":"x"}` + "\n" + `{"type":"last-prompt","lastPrompt":"lp"}` + "\n", nil, "lp", session.TitlePrompt},
		{"last prompt without one", `{"type":"last-prompt","lastPrompt":"lp"}` + "\n" + `{"type":"last-prompt","leafUuid":"x"}` + "\n", nil, "lp", session.TitlePrompt},
		{"injected last prompt", `{"type":"last-prompt","lastPrompt":"<tick>x</tick>"}` + "\n", nil, "hello", session.TitlePrompt},
		{"summary beats prompt", `{"type":"summary","summary":"one"}` + "\n" + `{"type":"summary","summary":"two"}` + "\n", nil, "two", session.TitleAgent},
		{"cleared", `{"type":"custom-title","customTitle":"Mine"}` + "\n" + `{"type":"custom-title","customTitle":""}` + "\n", nil, "hello", session.TitlePrompt},
		{"agent-name is none", `{"type":"agent-name","agentName":"Bob"}` + "\n", nil, "hello", session.TitlePrompt},
		{"side file", "", map[string]string{dir + "custom-title.json": `{"customTitle":"Side","by":"user"}`}, "Side", session.TitleUser},
		{"line beats side file", `{"type":"custom-title","customTitle":"Line"}` + "\n", map[string]string{dir + "custom-title.json": `{"customTitle":"Side"}`}, "Line", session.TitleUser},
		{"broken side file", "", map[string]string{dir + "custom-title.json": `{"customTitle":`}, "hello", session.TitlePrompt},
		{"two lines", `{"type":"custom-title","customTitle":"a\nb"}` + "\n", nil, "a b", session.TitleUser},
	} {
		s, err := claudeRow(t, base+tt.log, tt.side, nil)
		if err != nil || s.Title != tt.title || s.TitleSource != tt.source {
			t.Errorf("%s: %q from %v, %v; want %q from %v", tt.name, s.Title, s.TitleSource, err, tt.title, tt.source)
		}
	}
}

// What is no session is not listed, and nothing else is left out.
func TestClaude_listed(t *testing.T) {
	side := `{"parentUuid":null,"isSidechain":true,"type":"user","uuid":"s1","message":{"role":"user","content":"x"}}` + "\n"
	for _, tt := range []struct {
		name, log string
		listed    bool
	}{
		{"empty", "", false},
		{"white space", "\n \n\n", false},
		{"snapshots only", `{"type":"file-history-snapshot","messageId":"u1","snapshot":{}}` + "\n", false},
		{"queue only", `{"type":"queue-operation","operation":"enqueue","content":"x"}` + "\n", false},
		{"all sidechain", side + side, false},
		{"garbage only", "garbage\n\x00\x00\n", false},
		{"title only", `{"type":"custom-title","customTitle":"T"}` + "\n", true},
		{"summary only", `{"type":"summary","summary":"T"}` + "\n", true},
		{"last prompt only", `{"type":"last-prompt","lastPrompt":"T"}` + "\n", true},
		{"first line sidechain", side + userLine("u1", "", "hello"), true},
		{"no prompt", assistantLine("a1", "", "null", `{"type":"text","text":"hi"}`), true},
		{"prompt far down", `{"type":"mode","x":"` + strings.Repeat("z", 300<<10) + `"}` + "\n" + userLine("u1", "", "late"), true},
		{"image only", `{"parentUuid":null,"type":"user","uuid":"u1","message":{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}}]}}` + "\n", true},
		{"damaged start", "{\"parentUuid\"\n" + userLine("u1", "", "hello"), true},
	} {
		_, err := claudeRow(t, tt.log, nil, nil)
		if listed := err == nil; listed != tt.listed || err != nil && !errors.Is(err, session.ErrNotFound) {
			t.Errorf("%s: listed %v, %v", tt.name, listed, err)
		}
	}
}

// A session that the SDK or we forked names where it came from.
func TestClaude_forkedRow(t *testing.T) {
	const from = "33333333-1111-4111-8111-111111111111"
	log := strings.Replace(userLine("u1", "", "hello"), `"cwd"`, `"forkedFrom":{"sessionId":"`+from+`","messageUuid":"x"},"cwd"`, 1) + userLine("u2", "u1", "own")
	s, err := claudeRow(t, log, nil, nil)
	if err != nil || s.Kind != session.Fork || s.Parent != (session.ID{Agent: "claude", Native: from}) {
		t.Errorf("%v of %v, %v", s.Kind, s.Parent, err)
	}
	if s, err := claudeRow(t, userLine("u1", "", "hello"), nil, nil); err != nil || s.Kind != session.Main || !s.Parent.IsZero() {
		t.Errorf("%v of %v, %v", s.Kind, s.Parent, err)
	}
}

func TestClaude_status(t *testing.T) {
	ask, done := userLine("u1", "", "go"), assistantLine("a1", "u1", `"end_turn"`, `{"type":"text","text":"hi"}`)
	call := assistantLine("a1", "u1", `"tool_use"`, `{"type":"tool_use","id":"t1","name":"Bash","input":{}}`)
	result := `{"parentUuid":"a1","type":"user","uuid":"r1","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}}` + "\n"
	reg := func(status, id string) map[string]string {
		return map[string]string{"sessions/77.json": `{"pid":77,"sessionId":"` + id + `","status":"` + status + `","startedAt":1767225600000,"updatedAt":1767225600001}`, "sessions/x.json": "{"}
	}
	yes, no := func(pid int) bool { return pid == 77 }, func(int) bool { return false }
	for _, tt := range []struct {
		name, log string
		side      map[string]string
		alive     func(int) bool
		want      session.Status
		pid       int
	}{
		{"turn ended", ask + done, nil, nil, session.StatusIdle, 0},
		{"open call", ask + call, nil, nil, session.StatusRequiresAction, 0},
		{"answered call", ask + call + result, nil, nil, session.StatusUnknown, 0},
		{"unanswered prompt", ask, nil, nil, session.StatusUnknown, 0},
		{"call left behind", ask + call + userLine("u2", "a1", "other"), nil, nil, session.StatusUnknown, 0},
		{"alive and busy", ask + done, reg("busy", claudeID), yes, session.StatusRunning, 77},
		{"alive and idle", ask + call, reg("idle", claudeID), yes, session.StatusIdle, 77},
		{"alive, of a new word", ask + done, reg("dreaming", claudeID), yes, session.StatusIdle, 77},
		{"dead", ask + done, reg("busy", claudeID), no, session.StatusIdle, 0},
		{"another session", ask, reg("busy", "22222222-1111-4111-8111-111111111111"), yes, session.StatusUnknown, 0},
		{"not known who lives", ask + done, reg("busy", claudeID), nil, session.StatusIdle, 0},
	} {
		s, err := claudeRow(t, tt.log, tt.side, tt.alive)
		if err != nil || s.Status != tt.want || s.WriterPID != tt.pid || (tt.pid != 0) == s.WriterSince.IsZero() {
			t.Errorf("%s: %v by %d since %v, %v; want %v by %d", tt.name, s.Status, s.WriterPID, s.WriterSince, err, tt.want, tt.pid)
		}
	}
}

// Reading on from a cursor gives the row that reading everything gives,
// wherever the file was cut before.
func TestClaude_rowFromCursor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &logGen{t: t}
		g.b.WriteString(`{"type":"mode","pad":"` + strings.Repeat("p", claudeWhole) + `"}` + "\n")
		g.write(rapid.IntRange(0, 5).Draw(t, "first"))
		if rapid.Bool().Draw(t, "long") {
			g.b.WriteString(`{"type":"ai-title","aiTitle":"Ai"}` + "\n" + `{"type":"mode","pad":"` + strings.Repeat("p", 3*claudeTail) + `"}` + "\n")
		}
		cut := g.b.Len()
		data := string(g.write(rapid.IntRange(0, 6).Draw(t, "then")))
		cut -= rapid.IntRange(0, min(40, cut-claudeWhole-24)).Draw(t, "back")
		const p = "projects/-w/" + claudeID + ".jsonl"
		row := func(data string, prev session.Session) session.Session {
			s, err := claude{}.Summarize(session.Root{Dir: "/s", FS: fstest.MapFS{p: {Data: []byte(data)}}}, p, prev)
			if err != nil && !errors.Is(err, session.ErrNotFound) {
				t.Fatal(err)
			}
			return s
		}
		grown, whole := row(data, row(data[:cut], session.Session{})), row(data, session.Session{})
		if diff := cmp.Diff(whole, grown, cmpopts.IgnoreFields(session.Session{}, "Cursor")); diff != "" {
			t.Fatalf("from the start (-), from a cursor (+):\n%s", diff)
		}
	})
}

// The rows of the sessions that the product itself wrote.
func TestClaude_sampleRows(t *testing.T) {
	store := os.DirFS(claudeSampleStore)
	root := session.Root{Dir: "/store", FS: store}
	type row struct {
		Title, Source, First, Model, Branch, CWD, Parent, Tool string
		Physical, Effective                                    int
		Programmatic                                           bool
	}
	got := map[string]row{}
	err := fs.WalkDir(store, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if _, ok := (claude{}).Identify(p); !ok {
			return nil
		}
		s, err := claude{}.Summarize(root, p, session.Session{})
		if err != nil {
			return err
		}
		got[s.Native] = row{s.Title, s.TitleSource.String(), s.FirstPrompt, s.Model, s.GitBranch, s.CWD, s.Parent.Native, s.ParentTool, s.Physical, s.Effective, s.Programmatic}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const m, proj = "claude-opus-5-5", "/home/dev/proj"
	want := map[string]row{
		"11111111-1111-4111-8111-111111111111":                         {"and continue", "prompt", "BASHECHO please", m, "HEAD", proj, "", "", 23, 23, true},
		"11e7bfac-52c3-49bb-84ca-8290c0e5c83b":                         {"BASHECHO please", "prompt", "BASHECHO please", m, "HEAD", proj, "", "", 25, 25, true},
		"149443d5-5b09-4b61-89e8-50404c0d1e47":                         {"/clear", "prompt", "/clear", "", "HEAD", proj, "", "", 3, 3, true},
		"22222222-2222-4222-8222-222222222222":                         {"My new title", "user", "BIGOUT please", m, "HEAD", proj, "", "", 32, 32, true},
		"44444444-4444-4444-8444-444444444444":                         {"Titled by me", "user", "WRITEFILE first turn", m, "main", "/home/dev/tui", "", "", 21, 8, false},
		"672bdaae-39da-47c3-91c1-ebc2958b44f2":                         {"Hello there, first prompt", "prompt", "Hello there, first prompt", m, "HEAD", proj, "", "", 2, 2, true},
		"agent-a1d47ea43af0c146a@22222222-2222-4222-8222-222222222222": {"look around", "agent", "Inner prompt BASHECHO please", m, "HEAD", proj, "22222222-2222-4222-8222-222222222222", "toolu_9hj89ey97600000000000000", 5, 5, true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
