package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// Kinds of damage and surprise that public reports about the agent describe,
// each as the smallest transcript that shows it.
func TestClaude_publicReports(t *testing.T) {
	text := func(s string) string { return `{"type":"text","text":"` + s + `"}` }
	use := func(id string) string { return `{"type":"tool_use","id":"` + id + `","name":"Read","input":{}}` }
	result := func(id, parent, call string) string {
		return fmt.Sprintf(`{"parentUuid":%s,"type":"user","uuid":"%s","sessionId":"`+claudeID+`","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"%s","content":"r"}]}}`+"\n", quotedOrNull(parent), id, call)
	}
	say := func(id, parent, block string) string { return assistantLine(id, parent, "null", block) }
	part := func(id, parent, msg, block string) string {
		return strings.Replace(say(id, parent, block), `"msg_`+id+`"`, `"`+msg+`"`, 1)
	}
	base := userLine("u1", "", "one") + say("a1", "u1", text("hi"))
	progress := func(id, parent string) string {
		return fmt.Sprintf(`{"parentUuid":%s,"type":"progress","uuid":"%s","data":{}}`+"\n", quotedOrNull(parent), id)
	}
	var ticks strings.Builder
	for i := range 4000 {
		ticks.WriteString(progress(fmt.Sprintf("p%d", i), "a1"))
	}
	var lost strings.Builder
	lostWant := [][]string{{"user", "one"}, {"assistant", "hi"}}
	for i := range 22 {
		lost.WriteString(userLine(fmt.Sprintf("v%d", i), fmt.Sprintf("gone%d", i), fmt.Sprintf("more %d", i)) + say(fmt.Sprintf("b%d", i), fmt.Sprintf("v%d", i), text("ok")))
		lostWant = append(lostWant, []string{"user", fmt.Sprintf("more %d", i)}, []string{"assistant", "ok"})
	}
	oneHi := [][]string{{"user", "one"}, {"assistant", "hi"}}
	for _, tt := range []struct {
		name, log string
		want      [][]string
		codes     []session.Code // beside those of the order of time
	}{
		{
			"parallel results lost on resume",
			userLine("u1", "", "go") + part("a1", "u1", "M", use("t1")) + part("a2", "a1", "M", use("t2")) + result("r1", "a1", "t1") + result("r2", "a2", "t2") + say("a3", "r2", text("done")),
			[][]string{{"user", "go"}, {"assistant", "tool_use:t1", "tool_use:t2"}, {"user", "tool_result:t1", "tool_result:t2"}, {"assistant", "done"}},
			nil,
		},
		{
			"result whose call was never written",
			base + result("r1", "a1", "nowhere") + userLine("u2", "r1", "two"),
			[][]string{{"user", "one"}, {"assistant", "hi"}, {"user", "two"}},
			[]session.Code{session.OrphanToolResult},
		},
		{"progress lines fork the chain", base + progress("p1", "u1") + progress("p2", "p1"), oneHi, nil},
		{"4,000 of them", base + ticks.String(), oneHi, nil},
		{
			"progress lines in the chain",
			userLine("u1", "", "one") + progress("p1", "u1") + progress("p2", "p1") + say("a1", "p2", text("hi")), oneHi, nil,
		},
		{"22 lost parents", base + lost.String(), lostWant, slicesRepeat(session.MissingParent, 22)},
		{
			"snapshot with the id of a message",
			userLine("u1", "", "one") + `{"type":"file-history-snapshot","messageId":"u1","uuid":"u1","snapshot":{}}` + "\n" + say("a1", "u1", text("hi")), oneHi, nil,
		},
		{"every id twice", userLine("u1", "", "one") + userLine("u1", "", "one") + say("a1", "u1", text("hi")) + say("a1", "u1", text("hi")), oneHi, slicesRepeat(session.DuplicateID, 2)},
		{"history repeated as a block", base + base + base, oneHi, slicesRepeat(session.DuplicateID, 4)},
		{
			"lines of another session",
			base + strings.ReplaceAll(userLine("u2", "a1", "two")+say("a2", "u2", text("ok")), claudeID, "22222222-2222-4222-8222-222222222222"),
			[][]string{{"user", "one"}, {"assistant", "hi"}, {"user", "two"}, {"assistant", "ok"}},
			[]session.Code{session.WrongSessionID},
		},
		{
			"two processes on one session",
			base + userLine("u2", "a1", "left") + userLine("v2", "a1", "right") + say("a2", "u2", text("left answer")) + say("b2", "v2", text("right answer")),
			[][]string{{"user", "one"}, {"assistant", "hi"}, {"user", "right"}, {"assistant", "right answer"}},
			nil,
		},
		{
			"cut record with a whole one glued on",
			userLine("u1", "", "one") + `{"parentUuid":"u1","type":"assistant","uuid":"x","mess` + say("a1", "u1", text("hi")),
			oneHi,
			[]session.Code{session.GluedLines, session.BadJSON},
		},
		{"two records on one line", strings.TrimSuffix(userLine("u1", "", "one"), "\n") + say("a1", "u1", text("hi")), oneHi, []session.Code{session.GluedLines}},
		{"NUL run alone", userLine("u1", "", "one") + "\x00\x00\x00\x00\n" + say("a1", "u1", text("hi")), oneHi, []session.Code{session.NULRun}},
		{"NUL run before a record", userLine("u1", "", "one") + "\x00\x00\x00\x00" + say("a1", "u1", text("hi")), oneHi, []session.Code{session.NULRun}},
		{
			"killed while writing, then an append",
			base + `{"parentUuid":"a1","type":"user","uu` + "\n" + userLine("u2", "a1", "two"),
			[][]string{{"user", "one"}, {"assistant", "hi"}, {"user", "two"}},
			[]session.Code{session.BadJSON},
		},
		{"killed while writing", base + `{"parentUuid":"a1","type":"user","uu`, oneHi, []session.Code{session.TornTail}},
		{"byte order mark", "\ufeff" + base, oneHi, nil},
		{"parent behind its child", say("a1", "u1", text("hi")) + userLine("u1", "", "one"), oneHi, nil},
		{
			"interrupted call, then the user went on",
			userLine("u1", "", "one") + say("a1", "u1", use("t1")) + userLine("u2", "a1", "two"),
			[][]string{{"user", "one", "two"}},
			[]session.Code{session.DanglingCall},
		},
		{
			"error of the API between messages",
			userLine("u1", "", "one") + strings.Replace(say("e1", "u1", text("API Error: 400")), `"type":"assistant","uuid"`, `"isApiErrorMessage":true,"type":"assistant","uuid"`, 1) + userLine("u2", "e1", "two"),
			[][]string{{"user", "one", "two"}},
			nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := openClaude(t, claudeID, []byte(tt.log))
			if diff := cmp.Diff(tt.want, l.sent(t, "")); diff != "" {
				t.Error(diff)
			}
			var codes []session.Code
			for _, p := range append(l.tr.Problems(), l.tr.Current().Problems...) {
				if p.Code != session.ClockWentBack {
					codes = append(codes, p.Code)
				}
			}
			if diff := cmp.Diff(tt.codes, codes); diff != "" {
				t.Errorf("findings:\n%s", diff)
			}
		})
	}
}

func slicesRepeat[T any](v T, n int) (out []T) {
	for range n {
		out = append(out, v)
	}
	return out
}

// Trees of hostile shape take time in proportion to their size: with more,
// this test would not end.
func TestClaude_hostileTrees(t *testing.T) {
	const n = 30_000
	var deep, flat, ring bytes.Buffer
	for i := range n {
		parent := ""
		if i > 0 {
			parent = fmt.Sprint("u", i-1)
		}
		deep.WriteString(userLine(fmt.Sprint("u", i), parent, "x"))
		flat.WriteString(userLine(fmt.Sprint("u", i), "root", "x"))
		ring.WriteString(userLine(fmt.Sprint("u", i), fmt.Sprint("u", (i+1)%n), "x"))
	}
	for _, tt := range []struct {
		name string
		log  []byte
		want int
	}{{"deep", deep.Bytes(), n}, {"ring", ring.Bytes(), n}, {"flat", flat.Bytes(), n}} {
		l := openClaude(t, claudeID, tt.log)
		if got := len(l.tr.Current().Chain); got != tt.want {
			t.Errorf("%s: %d entries in the conversation, want %d", tt.name, got, tt.want)
		}
	}
	side := bytes.ReplaceAll(flat.Bytes(), []byte(`"root"`), []byte(`null`))
	if r := openClaude(t, claudeID, side).tr.Current(); len(r.Chain) != 1 || len(r.Branches) != n-1 {
		t.Errorf("%d entries, %d branches", len(r.Chain), len(r.Branches))
	}
}

// blockSource gives a file that is made while it is read.
type blockSource struct {
	head, tail string
	n          int64 // bytes of escaped NULs between them
}

var escapedNULs = strings.Repeat(`\u0000`, 10_000)

func (s *blockSource) Size() int64 { return int64(len(s.head)) + s.n + int64(len(s.tail)) }

func (s *blockSource) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		at := off + int64(n)
		mid := at - int64(len(s.head))
		switch {
		case mid < 0:
			n += copy(p[n:], s.head[at:])
		case mid < s.n:
			n += copy(p[n:min(int64(len(p)), int64(n)+s.n-mid)], escapedNULs[mid%6:])
		case at < s.Size():
			n += copy(p[n:], s.tail[mid-s.n:])
		default:
			return n, io.EOF
		}
	}
	return n, nil
}

func (s *blockSource) Stat() (fs.FileInfo, error) { return blockInfo{s.Size()}, nil }
func (s *blockSource) Read([]byte) (int, error)   { return 0, errors.ErrUnsupported }
func (s *blockSource) Close() error               { return nil }
func (s *blockSource) Open(name string) (fs.File, error) {
	if name == "projects/-w/"+claudeID+".jsonl" {
		return s, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

type blockInfo struct{ size int64 }

func (i blockInfo) Name() string       { return claudeID + ".jsonl" }
func (i blockInfo) Size() int64        { return i.size }
func (i blockInfo) Mode() fs.FileMode  { return 0o600 }
func (i blockInfo) ModTime() time.Time { return time.Unix(1, 0) }
func (i blockInfo) IsDir() bool        { return false }
func (i blockInfo) Sys() any           { return nil }

// A line of 144 MB of escaped NULs costs neither the list nor the reader more
// than windows of memory, and what is around it is read.
func TestClaude_hugeLine(t *testing.T) {
	src := &blockSource{
		head: userLine("u1", "", "one") + `{"parentUuid":"u1","type":"user","uuid":"big","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"`,
		n:    24 << 20 * 6,
		tail: `"}]}}` + "\n" + assistantLine("a1", "big", `"end_turn"`, `{"type":"text","text":"hi"}`),
	}
	var f claude
	s, err := f.Summarize(session.Root{Dir: "/s", FS: src}, "projects/-w/"+claudeID+".jsonl", session.Session{})
	if err != nil || s.Title != "one" || s.Model != "claude-x" {
		t.Fatalf("%+v %v", s, err)
	}
	tr, cost, err := session.Read(f, claudeID, src, session.ReadOptions{Options: jsonl.Options{MaxLine: 1 << 20}})
	if err != nil || cost.Skipped < src.n || len(tr.Current().Chain) != 2 {
		t.Fatalf("%+v, chain %v, %v", cost, tr.Current().Chain, err)
	}
	if p := tr.Problems(); len(p) == 0 || p[0].Code != session.TooLongLine || p[0].Pos.Line != 2 {
		t.Errorf("%v", p)
	}
}

// Rows of transcripts whose facts are in unusual places.
func TestClaude_publicReportsRows(t *testing.T) {
	pad := func(n int) string { return `{"type":"mode","pad":"` + strings.Repeat("p", n) + `"}` + "\n" }
	prompt := userLine("u1", "", "hello")
	var many strings.Builder
	many.WriteString(prompt)
	for i := range 10_000 {
		if i == 5001 {
			many.WriteString(`{"type":"custom-title","customTitle":"Renamed","sessionId":"` + claudeID + `"}` + "\n")
		}
		many.WriteString(pad(100))
	}
	image := `{"parentUuid":null,"type":"user","uuid":"u1","message":{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + strings.Repeat("A", 61<<10) + `"}},{"type":"text","text":"what is this?"}]}}` + "\n"
	talk := assistantLine("a9", "u1", "null", `{"type":"text","text":"the \"custom-title\" line and \"ai-title\" and \"type\":\"tag\""}`)
	for _, tt := range []struct{ name, log, title string }{
		{"title in the middle of 300 KB", prompt + pad(150<<10) + `{"type":"custom-title","customTitle":"Middle"}` + "\n" + pad(150<<10), "Middle"},
		{"title in the middle that only talk mentions later", prompt + pad(150<<10) + `{"type":"custom-title","customTitle":"Middle"}` + "\n" + talk + pad(150<<10), "Middle"},
		{"rename at line 5,002", many.String(), "Renamed"},
		{"mixed titles, the last in the tail", prompt + `{"type":"custom-title","customTitle":"A"}` + "\n" + pad(150<<10) + `{"type":"custom-title","customTitle":"B"}` + "\n" + pad(150<<10) + `{"type":"custom-title","customTitle":"C"}` + "\n", "C"},
		{"mixed titles, taken back in the tail", prompt + pad(150<<10) + `{"type":"custom-title","customTitle":"B"}` + "\n" + pad(150<<10) + `{"type":"custom-title","customTitle":""}` + "\n", "hello"},
		{"first prompt of 61 KB with an image", image + pad(100<<10), "what is this?"},
		{"12 MB result before the end", prompt + `{"parentUuid":"u1","type":"user","uuid":"r","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"` + strings.Repeat("x", 12<<20) + `"}]}}` + "\n", "hello"},
	} {
		s, err := claudeRow(t, tt.log, nil, nil)
		if err != nil || s.Title != tt.title {
			t.Errorf("%s: %q, %v; want %q", tt.name, s.Title, err, tt.title)
		}
	}

	// Sessions of scripts are shown, and marked; the first line tells.
	for first, want := range map[string]bool{"sdk-cli": true, "sdk-ts": true, "sdk-py": true, "cli": false, "claude-vscode": false, "daemon": false} {
		log := strings.Replace(prompt, `"cwd"`, `"entrypoint":"`+first+`","cwd"`, 1) + strings.Replace(userLine("u2", "u1", "x"), `"cwd"`, `"entrypoint":"other","cwd"`, 1)
		if s, err := claudeRow(t, log, nil, nil); err != nil || s.Programmatic != want {
			t.Errorf("%s: %v, %v", first, s.Programmatic, err)
		}
	}

	// The times are those of the entries, not of the file; the working
	// directory is the first, whatever the directory in the store is called.
	log := prompt + strings.ReplaceAll(strings.Replace(userLine("u2", "u1", "x"), "2026-01-01", "2026-02-01", 1), `"/w"`, `"/elsewhere"`)
	s, err := claudeRow(t, log, nil, nil)
	if err != nil || s.CWD != "/w" || s.CreatedAt.Format(time.DateOnly) != "2026-01-01" || s.UpdatedAt.Format(time.DateOnly) != "2026-02-01" {
		t.Errorf("%+v %v", s, err)
	}

	// A file that vanishes between the list and the look at it.
	if _, err := (claude{}).Summarize(session.Root{FS: fstest.MapFS{}}, "projects/-w/"+claudeID+".jsonl", session.Session{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is gone: %v", err)
	}
}

// A line that is read half is read whole when it is complete, and a file cut
// to nothing starts anew.
func TestClaude_liveDamage(t *testing.T) {
	var f claude
	whole := userLine("u1", "", "one") + assistantLine("a1", "u1", "null", `{"type":"text","text":"hi"}`)
	cut := len(whole) - 40
	l := session.NewLoader(f, claudeID)
	src := &growingFile{data: []byte(whole[:cut])}
	r := jsonl.NewReader(src, 0, 1, jsonl.Options{})
	for line := range r.Lines() {
		l.Add(line)
	}
	if n := len(l.Transcript().Current().Chain); n != 1 {
		t.Fatalf("half a line counts: %d", n)
	}
	src.data = []byte(whole)
	for line := range r.Lines() {
		if e := l.Add(line); e != session.Extended {
			t.Errorf("effect %d", e)
		}
	}
	if n := len(l.Transcript().Current().Chain); n != 2 {
		t.Fatalf("the completed line does not count: %d", n)
	}
	row, err := claudeRow(t, strings.Repeat(whole, 400), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range []string{"", userLine("z1", "", "anew")} {
		store := fstest.MapFS{"projects/-w/" + claudeID + ".jsonl": {Data: []byte(log)}}
		s, err := f.Summarize(session.Root{FS: store}, "projects/-w/"+claudeID+".jsonl", row)
		if log == "" && !errors.Is(err, session.ErrNotFound) || log != "" && s.Title != "anew" {
			t.Errorf("cut to %d bytes: %q, %v", len(log), s.Title, err)
		}
	}
}

type growingFile struct{ data []byte }

func (g *growingFile) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(g.data).ReadAt(p, off)
}

// Usage that is repeated on every line of a call is told apart by its key.
func TestClaude_usageOnce(t *testing.T) {
	line := func(out int) string {
		return fmt.Sprintf(`{"type":"assistant","uuid":"a%d","parentUuid":null,"requestId":"req_1","message":{"id":"msg_1","role":"assistant","model":"m","content":[],"usage":{"input_tokens":5,"output_tokens":%d,"cache_read_input_tokens":7}}}`, out, out)
	}
	var f claude
	seen := map[string]session.Usage{}
	for _, out := range []int{1, 20} {
		u := f.Body([]byte(line(out))).Usage
		seen[u.Key] = *u
	}
	want := map[string]session.Usage{"msg_1 req_1": {Input: 5, Output: 20, CacheRead: 7, CacheWrite: -1, Cost: -1, Key: "msg_1 req_1"}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}
