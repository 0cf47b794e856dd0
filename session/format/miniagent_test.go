package format

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/session"
)

// miniLog writes lines as "id<parent time text"; role alternates by the first
// letter of the id (u, a; x is neither).
func miniLog(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		if strings.HasPrefix(l, "!") {
			b.WriteString(l[1:] + "\n")
			continue
		}
		head, text, _ := strings.Cut(l, " ")
		at, text, _ := strings.Cut(text, " ")
		id, parent, _ := strings.Cut(head, "<")
		role := map[byte]string{'u': "user", 'a': "assistant", 'x': "note"}[id[0]]
		stamp := ""
		if at != "-" {
			stamp = fmt.Sprintf(`,"timestamp":"2024-01-15T10:00:%sZ"`, at)
		}
		p := "null"
		if parent != "" {
			p = `"` + parent + `"`
		}
		fmt.Fprintf(&b, `{"type":%q,"uuid":%q,"parentUuid":%s,"sessionId":"x"%s,"message":{"role":%q,"content":%q}}`+"\n", role, id, p, stamp, role, text)
	}
	return b.String()
}

// The rules that the description gives, and the points that it leaves open
// (see docs/formats/mini-agent.md).
func TestMiniAgent_conversation(t *testing.T) {
	for _, tt := range []struct {
		name  string
		log   string
		want  []string
		codes []session.Code
	}{
		{"empty", "", nil, nil},
		{"linear", miniLog("u1 00 one", "a1<u1 01 hi"), []string{"user: one", "assistant: hi"}, nil},
		{"rewind leaves the old branch", miniLog("u1 00 one", "a1<u1 01 hi", "u2<a1 02 two", "u3<a1 03 three"), []string{"user: one", "assistant: hi", "user: three"}, nil},
		{"the newest leaf wins, not the last", miniLog("u1 00 one", "u3<u1 09 three", "u2<u1 02 two"), []string{"user: one", "user: three"}, nil},
		{"equal times go by the file", miniLog("u1 00 one", "u2<u1 02 two", "u3<u1 02 three"), []string{"user: one", "user: three"}, nil},
		{"no time is the oldest", miniLog("u1 00 one", "u2<u1 02 two", "u3<u1 - three"), []string{"user: one", "user: two"}, nil},
		{"no times at all: the last", miniLog("u1 - one", "u2<u1 - two", "u3<u1 - three"), []string{"user: one", "user: three"}, nil},
		{"the last copy of an id counts", miniLog("u1 00 one", "a1<u1 01 first", "a1<u1 02 second"), []string{"user: one", "assistant: second"}, []session.Code{session.DuplicateID}},
		{"a lost parent starts the conversation", miniLog("u1 00 one", "a2<gone 05 late"), []string{"assistant: late"}, []session.Code{session.MissingParent}},
		{"a cycle without a leaf", miniLog("u1<a1 00 one", "a1<u1 01 hi"), []string{"user: one", "assistant: hi"}, []session.Code{session.Cycle}},
		{"an entry of its own parent", miniLog("u1<u1 00 one", "a1<u1 01 hi"), []string{"user: one", "assistant: hi"}, []session.Code{session.Cycle}},
		{"another type as leaf ends its branch", miniLog("u1 00 one", "u2<u1 05 two", "a1<u1 02 hi", "x1<a1 09 note"), []string{"user: one", "assistant: hi"}, []session.Code{session.UnknownType}},
		{"bad lines are passed over", miniLog("u1 00 one", "!{", "!", "![1]", `!{"uuid":7}`, "a1<u1 01 hi"), []string{"user: one", "assistant: hi"}, []session.Code{session.BadJSON, session.BadJSON, session.BadJSON}},
		{"glued lines", strings.Replace(miniLog("u1 00 one", "a1<u1 01 hi"), "\n", "", 1), []string{"user: one", "assistant: hi"}, []session.Code{session.GluedLines}},
		{"the sample", string(must(os.ReadFile("../../testdata/mini-agent/rewind.jsonl"))), []string{
			"user: 帮我分析性能问题", "assistant: 好的，先看一下 ...", "user: 继续查一下数据库层", "user: 换个思路，看索引", "assistant: 发现缺少索引",
		}, []session.Code{session.WrongSessionID}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, conversation(t, miniAgent{}, tt.log)); diff != "" {
				t.Error(diff)
			}
			tr := read(t, miniAgent{}, tt.log)
			var codes []session.Code
			for _, p := range append(tr.Problems(), tr.Current().Problems...) {
				codes = append(codes, p.Code)
			}
			if diff := cmp.Diff(tt.codes, codes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestMiniAgent_paths(t *testing.T) {
	var f miniAgent
	if got := f.Roots(session.Env{Home: "/home/me"}); !cmp.Equal(got, []string{"/home/me/.mini-agent"}) {
		t.Error(got)
	}
	if got := f.Roots(session.Env{Home: "/home/me", Roots: map[string][]string{"mini-agent": {"/elsewhere"}}}); !cmp.Equal(got, []string{"/elsewhere"}) {
		t.Error(got)
	}
	for p, want := range map[string]string{"sess-01.jsonl": "sess-01", ".jsonl": "", ".x.jsonl": "", "a/b.jsonl": "", "a.json": ""} {
		if got, ok := f.Identify(p); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q %v", p, got, ok)
		}
	}
	native, p, dirs, err := f.Create(session.Root{FS: fstest.MapFS{}}, session.Session{}, testClock, seeded())
	if err != nil || !isUUID(native) || native[14] != '4' || p != native+".jsonl" || len(dirs) != 1 {
		t.Error(native, p, dirs, err)
	}
}

func TestMiniAgent_summarize(t *testing.T) {
	log := miniLog("x0 00 note", "a0 01 hello", "u1 02 <system-reminder>x</system-reminder>", "u2<u1 03 the question", "u3<u1 09 another way", "a3<u3 08 answer")
	sum := func(log string, prev session.Session) session.Session {
		s, err := miniAgent{}.Summarize(session.Root{FS: fstest.MapFS{"s.jsonl": {Data: []byte(log)}}}, "s.jsonl", prev)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := sum(log, session.Session{})
	if s.Title != "the question" || s.TitleSource != session.TitlePrompt || s.LastPrompt != "another way" || s.Physical != 5 || s.Effective != 3 || s.CreatedAt.Second() != 0 || s.UpdatedAt.Second() != 9 {
		t.Errorf("%+v", s)
	}
	more := log + miniLog("u4<a3 30 more")
	if diff := cmp.Diff(sum(more, session.Session{}), sum(more, s)); diff != "" {
		t.Errorf("from the cursor:\n%s", diff)
	}
	if s := sum("", session.Session{}); !s.Empty || s.Title != "" {
		t.Errorf("%+v", s)
	}
	if s := sum("\x00\x00\n{", session.Session{}); !s.Empty || s.Problems == 0 {
		t.Errorf("%+v", s)
	}
}

// Appending gives the conversation that was there and the drafts, whatever
// the clock says; appending further up starts a branch that becomes current.
func TestMiniAgent_appendThenResume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lines []string
		for i := range rapid.IntRange(0, 12).Draw(t, "n") {
			parent := rapid.IntRange(0, 14).Draw(t, "parent")
			role := rapid.SampledFrom([]string{"u", "a", "x"}).Draw(t, "role")
			l := fmt.Sprintf("%s%d", role, i)
			if parent < i {
				l += "<" + strings.Fields(strings.ReplaceAll(lines[parent], "<", " "))[0]
			}
			lines = append(lines, fmt.Sprintf("%s %02d text%d", l, rapid.IntRange(0, 59).Draw(t, "at"), i))
		}
		log := miniLog(lines...)
		var f miniAgent
		tr, _, err := session.Read(f, "x", strings.NewReader(log), session.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		parent := ""
		if es := tr.Entries(); len(es) > 0 && rapid.Bool().Draw(t, "rewind") {
			parent = es[rapid.IntRange(0, len(es)-1).Draw(t, "at")].ID
		}
		r, err := tr.Resolve(parent)
		if err != nil {
			t.Fatal(err)
		}
		data, err := f.Encode([]byte(log), session.Append{
			Session: session.Session{ID: session.ID{Agent: miniName, Native: "x"}}, Transcript: tr, Parent: parent,
			Drafts: claudeTurn, Clock: fixedClock{testClock.t.AddDate(-3, 0, 0)}, Random: seeded(),
		})
		if err != nil {
			t.Fatal(err)
		}
		grown, _, err := session.Read(f, "x", bytes.NewReader(data), session.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		g := grown.Current()
		if len(g.Chain) != len(r.Chain)+len(claudeTurn) {
			t.Fatalf("%v with %d drafts gave %v\n%s", r.Chain, len(claudeTurn), g.Chain, data)
		}
		for i, e := range r.Chain {
			if g.Chain[i] != e {
				t.Fatalf("%v became %v\n%s", r.Chain, g.Chain, data)
			}
		}
	})
}

func TestMiniAgent_badDraftIsAnError(t *testing.T) {
	for _, d := range []session.Draft{
		draft(session.User), draft(session.System, session.Text{Text: "x"}), draft(session.Tool, session.ToolResult{UseID: "none"}),
	} {
		if got, err := (miniAgent{}).Encode(nil, session.Append{Clock: testClock, Random: seeded(), Drafts: []session.Draft{d}}); !errors.Is(err, session.ErrInvalid) || got != nil {
			t.Errorf("%+v: %q %v", d, got, err)
		}
	}
}
