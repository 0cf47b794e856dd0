package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/format"
	"github.com/agent-ls/agent-ls/session/vfs"
)

func agent(t testing.TB, name string) session.Format {
	t.Helper()
	for _, f := range format.All() {
		if f.Name() == name {
			return f
		}
	}
	t.Fatalf("no format %s", name)
	return nil
}

func compile(t testing.TB, q Query) *Matcher {
	t.Helper()
	m, err := Compile(q)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// hits gives all hits of a log, in one go.
func hits(t interface{ Fatal(...any) }, m *Matcher, f session.Format, log []byte) []Hit {
	var out []Hit
	if _, err := m.transcript(context.Background(), f, bytes.NewReader(log), place{}, func(h Hit, _ place) bool {
		out = append(out, h)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// marked shows the matches of a snippet in brackets.
func marked(h Hit) string {
	units := utf16.Encode([]rune(h.Snippet))
	var b strings.Builder
	at := 0
	for _, r := range h.Ranges {
		b.WriteString(string(utf16.Decode(units[at:r.Start])) + "[" + string(utf16.Decode(units[r.Start:r.End])) + "]")
		at = r.End
	}
	return b.String() + string(utf16.Decode(units[at:]))
}

func claudeLine(typ, content string) string {
	return `{"type":"` + typ + `","uuid":"u","timestamp":"2026-08-28T14:20:30.000Z","message":{"role":"` + typ + `","content":` + content + `},"toolUseResult":"needle"}` + "\n"
}

func TestTranscript(t *testing.T) {
	call := claudeLine("assistant", `[{"type":"thinking","thinking":"hmm Needle"},{"type":"tool_use","id":"t","name":"Bash","input":{"command":"grep \"needle\" /etc","n":[{"deep":"pin"}]}}]`)
	result := claudeLine("user", `[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"one\ntwo needles\n"}]}]`)
	for _, tt := range []struct {
		name string
		q    Query
		log  string
		want []string
	}{
		{"any case", Query{Text: "NEEDLE"}, claudeLine("user", `"a Needle, a needle"`), []string{"a [Needle], a [needle]"}},
		{"this case", Query{Text: "Needle", CaseSensitive: true}, claudeLine("user", `"a needle, a Needle"`), []string{"a needle, a [Needle]"}},
		{"no key, no envelope", Query{Text: "content"}, claudeLine("user", `"x"`), nil},
		{"thinking first", Query{Text: "needle"}, call, []string{"hmm [Needle]"}},
		{"arguments", Query{Text: "deep"}, call, nil},
		{"strings of arguments", Query{Text: `"needle" /etc`}, call, []string{`grep ["needle" /etc]`}},
		{"deep arguments", Query{Text: "pin"}, call, []string{"[pin]"}},
		{"name of a tool", Query{Text: "bash"}, call, []string{"[Bash]"}},
		{"a result, on one line", Query{Text: "needle"}, result, []string{"one two [needle]s "}},
		{"over a line feed", Query{Text: "one\ntwo"}, result, []string{"[one two] needles "}},
		{"escaped letters", Query{Text: "needle"}, claudeLine("user", `"\u006eeedle"`), []string{"[needle]"}},
		{"escaped CJK", Query{Text: "漢字"}, claudeLine("user", `"x \u6f22\u5b57"`), []string{"x [漢字]"}},
		{"plain CJK", Query{Text: "漢字"}, claudeLine("user", `"🙂 漢字 y"`), []string{"🙂 [漢字] y"}},
		{"Kelvin", Query{Text: "kelvin"}, claudeLine("user", `"Kelvin"`), []string{"[Kelvin]"}},
		{"umlaut in any case", Query{Text: "GRÖSSE"}, claudeLine("user", `"größse grösse"`), []string{"größse [grösse]"}},
		{"escaped slash", Query{Text: "a/b"}, claudeLine("user", `"a\/b"`), []string{"[a/b]"}},
		{"special characters", Query{Text: "a.c"}, claudeLine("user", `"abc a.c"`), []string{"abc [a.c]"}},
		{"regular expression", Query{Text: `n.+?e\b`, Regexp: true}, claudeLine("user", `"a needle, no noise"`), []string{"a [needle], [no noise]"}},
		{"role", Query{Text: "needle", Roles: []session.Role{session.Tool}}, claudeLine("user", `"needle"`) + result, []string{"one two [needle]s "}},
		{"too early", Query{Text: "needle", Since: time.Date(2026, 8, 29, 0, 0, 0, 0, time.UTC)}, claudeLine("user", `"needle"`), nil},
		{"too late", Query{Text: "needle", Until: time.Date(2026, 8, 28, 0, 0, 0, 0, time.UTC)}, claudeLine("user", `"needle"`), nil},
		{"control characters", Query{Text: "needle"}, claudeLine("user", `"\u001b[2J needle\u0007"`), []string{" [2J [needle] "}},
		{"glued lines", Query{Text: "needle"}, strings.TrimSuffix(claudeLine("user", `"needle 1"`), "\n") + claudeLine("user", `"needle 2"`), []string{"[needle] 1", "[needle] 2"}},
		{"bad line", Query{Text: "needle"}, `{"type":"user","message":"needle` + "\n" + claudeLine("user", `"needle"`), []string{"[needle]"}},
		{"last line without a line feed", Query{Text: "needle"}, strings.TrimSuffix(claudeLine("user", `"needle"`), "\n"), []string{"[needle]"}},
		{"long text", Query{Text: "needle"}, claudeLine("user", `"`+strings.Repeat("x", 500)+`needle`+strings.Repeat("y", 500)+`"`), []string{"…" + strings.Repeat("x", 60) + "[needle]" + strings.Repeat("y", 134) + "…"}},
		{"long match", Query{Text: "y+", Regexp: true}, claudeLine("user", `"x`+strings.Repeat("y", 500)+`"`), []string{"x[" + strings.Repeat("y", 199) + "]…"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, h := range hits(t, compile(t, tt.q), agent(t, "claude"), []byte(tt.log)) {
				got = append(got, marked(h))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCompile_refuses(t *testing.T) {
	for _, q := range []Query{{}, {Text: " \n"}, {Text: "(", Regexp: true}, {Text: "a*", Regexp: true}, {Text: strings.Repeat("x", 5000)}, {Text: "\xff"}} {
		_, err := Compile(q)
		var invalid *session.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "query" {
			t.Errorf("%.20q: %v", q.Text, err)
		}
	}
}

// The prefilter changes nothing: with it and without it the same is found,
// whatever is looked for and however the log is written.
func TestMatcher_prefilter(t *testing.T) {
	f := agent(t, "claude")
	letters := rapid.SampledFrom([]rune("abcABCksKSſK漢éÉß\"\\/<&' \n🙂ıİ"))
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOfN(letters, 0, 12).Draw(t, "text"))
		query := string(rapid.SliceOfN(letters, 1, 4).Draw(t, "query"))
		m, err := Compile(Query{Text: query, CaseSensitive: rapid.Bool().Draw(t, "case")})
		if err != nil {
			t.Skip("blank")
		}
		var b strings.Builder
		for _, r := range text {
			switch how := rapid.IntRange(0, 3).Draw(t, "spelling"); {
			case how == 0 || r < 0x20:
				for _, u := range utf16.Encode([]rune{r}) {
					fmt.Fprintf(&b, `\u%04x`, u)
				}
			case r == '"' || r == '\\' || r == '/' && how == 1:
				b.WriteString(`\` + string(r))
			default:
				b.WriteRune(r)
			}
		}
		log := []byte(claudeLine("user", `"`+b.String()+`"`))
		if !json.Valid(log) {
			t.Fatalf("%q", log)
		}
		with := hits(t, m, f, log)
		m.needle = nil
		without := hits(t, m, f, log)
		if diff := cmp.Diff(without, with); diff != "" {
			t.Fatalf("%q in %q: %s", query, log, diff)
		}
		fold := ""
		if !m.query.CaseSensitive {
			fold = "(?i)"
		}
		if found := regexp.MustCompile(fold + regexp.QuoteMeta(query)).MatchString(text); found != (len(with) > 0) {
			t.Fatalf("%q in %q: %v", query, text, with)
		}
	})
}

// Whatever the query and the bytes, nothing breaks, and the ranges of a
// snippet lie in it.
func FuzzTranscript(f *testing.F) {
	f.Add("needle", false, []byte(claudeLine("user", `"needle"`)))
	f.Add("n.*e", true, []byte(claudeLine("user", `"néedle 🙂"`)))
	f.Add(`\b`, true, []byte(claudeLine("user", `[{"type":"tool_use","name":"x","input":[[["a"]]]}]`)))
	f.Fuzz(func(t *testing.T, query string, re bool, log []byte) {
		m, err := Compile(Query{Text: query, Regexp: re})
		if err != nil {
			return
		}
		for _, h := range hits(t, m, agent(t, "claude"), log) {
			n := len(utf16.Encode([]rune(h.Snippet)))
			at := 0
			for _, r := range h.Ranges {
				if r.Start < at || r.End < r.Start || r.End > n {
					t.Fatalf("ranges %v of %d units %q", h.Ranges, n, h.Snippet)
				}
				at = r.End
			}
			if strings.ContainsAny(h.Snippet, "\n\r\x1b\x00") {
				t.Fatalf("snippet %q", h.Snippet)
			}
		}
	})
}

func TestAppendLower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "raw")
		want := bytes.Clone(raw)
		for i, c := range want {
			if c >= 'A' && c <= 'Z' {
				want[i] = c + 32
			}
		}
		if got := appendLower([]byte("A"), raw); string(got) != "A"+string(want) {
			t.Fatalf("%q: %q", raw, got)
		}
	})
}

type clock struct{}

func (clock) Now() time.Time { return time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC) }

// store makes sessions of so many lines each, every third with a needle, and
// a catalog of them.
func store(t testing.TB, sessions, lines int) (*catalog.Catalog, string) {
	t.Helper()
	home := t.TempDir()
	dir := filepath.Join(home, ".claude", "projects", "-home-dev-proj")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range sessions {
		var b strings.Builder
		for k := range lines {
			word := "hay"
			if k%3 == 0 {
				word = "Needle"
			}
			fmt.Fprintf(&b, `{"type":"user","uuid":"%d-%d","cwd":"/home/dev/proj","timestamp":"2026-08-%02dT14:20:%02d.000Z","message":{"role":"user","content":"%s %d %d"}}`+"\n", i, k, 1+i%28, k%60, word, i, k)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%08d-1111-4111-8111-111111111111.jsonl", i)), []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := catalog.Open(catalog.Options{
		FS: vfs.OS(), Env: session.Env{Home: home, GOOS: "linux", Getenv: func(string) string { return "" }},
		Formats: format.All(), Clock: clock{}, PID: os.Getpid(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Scan(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	return c, dir
}

func places(list []SessionHit) []string {
	var out []string
	for _, h := range list {
		out = append(out, fmt.Sprintf("%s:%d", h.EntryID, h.Pos.Line))
	}
	return out
}

// Pages of any size give what one page gives, each hit once, and what Found
// was called with.
func TestSessions_pages(t *testing.T) {
	c, _ := store(t, 31, 20)
	m := compile(t, Query{Text: "needle"})
	all, err := Sessions(context.Background(), c, m, Options{Limit: MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	want := places(all.Hits)
	if len(want) != 31*7 || all.Next != "" || all.Sessions != 31 || all.Bytes < 31*20*100 || len(all.Failed) > 0 {
		t.Fatalf("%d hits, %+v", len(want), all)
	}
	if !slices.IsSortedFunc(all.Hits, func(a, b SessionHit) int { return b.Session.UpdatedAt.Compare(a.Session.UpdatedAt) }) {
		t.Error("not the newest session first")
	}
	for _, limit := range []int{1, 5, 7, 100} {
		var got, found []string
		o := Options{Limit: limit, Found: func(h []SessionHit) error { found = append(found, places(h)...); return nil }}
		for {
			res, err := Sessions(context.Background(), c, m, o)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, places(res.Hits)...)
			if o.Cursor = res.Next; o.Cursor == "" {
				break
			}
			if len(res.Hits) != limit {
				t.Fatalf("%d hits on a page of %d that is not the last", len(res.Hits), limit)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pages of %d: %s", limit, diff)
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("found in pages of %d: %s", limit, diff)
		}
	}
}

func TestSessions_refuses(t *testing.T) {
	c, _ := store(t, 3, 10)
	m := compile(t, Query{Text: "needle"})
	first, err := Sessions(context.Background(), c, m, Options{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	for field, o := range map[string]Options{
		"limit":  {Limit: 1001},
		"cursor": {Cursor: "x"},
	} {
		_, err := Sessions(context.Background(), c, m, o)
		var invalid *session.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%+v: %v", o, err)
		}
	}
	var invalid *session.InvalidError
	if _, err := Sessions(context.Background(), c, compile(t, Query{Text: "hay"}), Options{Cursor: first.Next}); !errors.As(err, &invalid) {
		t.Errorf("the cursor of another query: %v", err)
	}
}

// A session that went away is passed over, one that cannot be read is told,
// and the others are searched all the same.
func TestSessions_faults(t *testing.T) {
	c, dir := store(t, 4, 3)
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(files[1]); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(files[1], 0o700); err != nil { // cannot be read
		t.Fatal(err)
	}
	res, err := Sessions(context.Background(), c, compile(t, Query{Text: "needle"}), Options{})
	if err != nil || len(res.Hits) != 2 || len(res.Failed) != 1 {
		t.Errorf("%d hits, failed %v, %v", len(res.Hits), res.Failed, err)
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Sessions(stopped, c, compile(t, Query{Text: "needle"}), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	full := errors.New("full")
	if _, err := Sessions(context.Background(), c, compile(t, Query{Text: "needle"}), Options{Found: func([]SessionHit) error { return full }}); !errors.Is(err, full) {
		t.Errorf("refused hits: %v", err)
	}
}

// BenchmarkSessions compares looking through all sessions with reading their
// files, in the same run.
func BenchmarkSessions(b *testing.B) {
	c, dir := store(b, 200, 2000)
	for name, text := range map[string]string{"rare": "no such words", "common": "needle"} {
		m := compile(b, Query{Text: text})
		b.Run(name, func(b *testing.B) {
			var ours, floor time.Duration
			for b.Loop() {
				start := time.Now()
				res, err := Sessions(context.Background(), c, m, Options{Limit: MaxLimit})
				if err != nil {
					b.Fatal(err)
				}
				ours += time.Since(start)
				b.SetBytes(res.Bytes)
				start = time.Now()
				var read int64
				err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
					if err != nil || d.IsDir() || read >= res.Bytes {
						return err
					}
					raw, err := os.ReadFile(path)
					read += int64(len(raw))
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
				floor += time.Since(start)
			}
			b.ReportMetric(float64(ours)/float64(floor), "x-floor")
		})
	}
}
