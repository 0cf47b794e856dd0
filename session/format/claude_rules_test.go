package format

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session"
)

// claudeTree writes a transcript from short lines:
//
//	u1 a1<u1           user, assistant (the first letter tells)
//	t1<a1:x r1<t1:x    call of tool x, its result
//	n1<u1 s1<u1 p1<u1  isMeta text, sidechain user, progress
//	h1<a1 y1<a1 l1<a1  attachment, system, local command
//	b1+meta c1<b1      compact boundary with members of its metadata, summary
//	pin=a1 pin!=a1     pin below, explicit
//
// a message id is the line's own, or what follows @.
func claudeTree(lines string) string {
	var b strings.Builder
	for _, l := range strings.Fields(lines) {
		if id, ok := strings.CutPrefix(l, "pin!="); ok {
			fmt.Fprintf(&b, `{"type":"last-prompt","leafUuid":"%s","explicit":true}`+"\n", id)
			continue
		}
		if id, ok := strings.CutPrefix(l, "pin="); ok {
			fmt.Fprintf(&b, `{"type":"last-prompt","leafUuid":"%s"}`+"\n", id)
			continue
		}
		l, extra, _ := strings.Cut(l, "+")
		l, msg, _ := strings.Cut(l, "@")
		l, call, _ := strings.Cut(l, ":")
		id, parent, _ := strings.Cut(l, "<")
		if msg == "" {
			msg = id
		}
		user := func(content string) string {
			return `"type":"user","message":{"role":"user","content":` + content + `}`
		}
		rest := map[byte]string{
			'u': user(`"` + id + `"`),
			'a': `"type":"assistant","message":{"id":"` + msg + `","role":"assistant","content":[{"type":"text","text":"` + id + `"}]}`,
			't': `"type":"assistant","message":{"id":"` + msg + `","role":"assistant","content":[{"type":"tool_use","id":"` + call + `","name":"Read","input":{}}]}`,
			'r': user(`[{"type":"tool_result","tool_use_id":"` + call + `","content":"x"}]`),
			'n': user(`"`+id+`"`) + `,"isMeta":true`,
			's': user(`"`+id+`"`) + `,"isSidechain":true`,
			'p': `"type":"progress"`,
			'h': `"type":"attachment","attachment":{"type":"date"}`,
			'y': `"type":"system","subtype":"turn_duration"`,
			'l': `"type":"system","subtype":"local_command","content":"` + id + `"`,
			'b': `"type":"system","subtype":"compact_boundary","logicalParentUuid":null,"compactMetadata":{` + extra + `}`,
			'c': user(`"`+id+`"`) + `,"isCompactSummary":true`,
			'x': `"type":"new-thing"`,
		}[id[0]]
		fmt.Fprintf(&b, `{"uuid":"%s","parentUuid":%s,%s}`+"\n", id, quotedOrNull(parent), rest)
	}
	return b.String()
}

// The loading rules, one by one.
func TestClaude_rules(t *testing.T) {
	const base = "u1 a1<u1 u2<a1 a2<u2 "
	const keepsSegment = `b1+"preservedSegment":{"headUuid":"u2","anchorUuid":"c1","tailUuid":"a2"} `
	const keepsMessages = `b1+"preservedMessages":{"anchorUuid":"c1","uuids":["u2","a2"]} `
	for _, tt := range []struct{ name, log, want string }{
		{"rewind", base + "u3<a1 a3<u3", "u1 a1 u3 a3"},
		{"unanswered prompt is a tip", base + "u3<a1", "u1 a1 u3"},
		{"late attachment takes its branch back", base + "u3<a1 a3<u3 h1<a2", "u1 a1 u2 a2"},
		{"late attachment on a turn that was answered since", base + "h1<a1", "u1 a1 u2 a2"},
		{"late tick takes nothing", base + "u3<a1 a3<u3 p1<a2", "u1 a1 u3 a3"},
		{"ticks in a row as links", "u1 p1<u1 p2<p1 p3<p2 a1<p3", "u1 a1"},
		{"meta tip loses against any other", base + "u3<a1 a3<u3 n1<a3", "u1 a1 u2 a2"},
		{"meta tip is taken for want of others", base + "n1<a2", "u1 a1 u2 a2 n1"},
		{"sidechain does not win", base + "s1", "u1 a1 u2 a2"},
		{"sidechain hanging on the tip", base + "s1<a2", "u1 a1 u2 a2"},
		{"what the program says below the tip", base + "l1<a2 y1<l1", "u1 a1 u2 a2 l1"},
		{"only sidechain", "s1 s2<s1", ""},
		{"new type at the end", base + "x1<a2", "u1 a1 u2 a2"},
		{"new type at a fork", base + "x1<a1 u3<x1", "u1 a1 u3"},

		{"pin on the older branch", base + "u3<a1 a3<u3 pin=a2", "u1 a1 u2 a2"},
		{"pin and what came below it later", base + "u3<a1 a3<u3 pin=a2 u4<a2 a4<u4", "u1 a1 u2 a2 u4 a4"},
		{"pin before its entry", "u1 pin=a1 a1<u1 u2<u1", "u1 a1"},
		{"pin on an attachment", base + "h1<a2 u3<a1 a3<u3 pin=h1", "u1 a1 u2 a2"},
		{"pin on an attachment of an answered turn", base + "h1<a1 pin=h1", "u1 a1"},
		{"explicit pin", base + "pin!=u2", "u1 a1 u2"},
		{"explicit pin holds against later lines", base + "pin!=a1 u3<a1 a3<u3", "u1 a1"},
		{"unknown pin", base + "u3<a1 pin=gone", "u1 a1 u3"},
		{"nil pin", base + "pin=a2 u3<a1 pin!=" + claudeNoPin, "u1 a1 u3"},
		{"nil pin, not explicit", base + "pin=a2 u3<a1 pin=" + claudeNoPin, "u1 a1 u3"},
		{"the last pin counts", base + "u3<a1 pin=a2 pin=u3", "u1 a1 u3"},
		{"pin on a meta line", base + "n1<a2 u3<a1 pin=n1", "u1 a1 u2 a2 n1"},

		{"parallel, in order", "u1 t1<u1:x@m t2<t1:y@m r1<t1:x r2<t2:y a1<r2", "u1 t1 t2 r1 r2 a1"},
		{"parallel, out of order", "u1 t1<u1:x@m t2<t1:y@m r2<t2:y r1<t1:x a1<r1", "u1 t1 t2 r2 r1 a1"},
		{"parallel, nothing after", "u1 t1<u1:x@m t2<t1:y@m r1<t1:x r2<t2:y", "u1 t1 t2 r1 r2"},
		{"parallel, siblings", "u1 t1<u1:x@m t2<u1:y@m r1<t1:x r2<t2:y a1<r2", "u1 t2 t1 r1 r2 a1"},
		{"parallel, ticks between", "u1 t1<u1:x@m t2<t1:y@m p1<t1 r1<p1:x r2<t2:y a1<r2", "u1 t1 t2 r1 r2 a1"},
		{"parallel, a text below the orphan", "u1 t1<u1:x@m t2<t1:y@m r1<t1:x u9<r1 r2<t2:y a1<r2", "u1 t1 t2 r1 r2 a1"},
		{"parallel, notes behind the results", "u1 t1<u1:x@m t2<t1:y@m r1<t1:x n1<r1 n2<n1 r2<t2:y a1<r2", "u1 t1 t2 r1 r2 n1 n2 a1"},
		{"parallel, one running", "u1 t1<u1:x@m t2<t1:y@m r1<t1:x", "u1 t1 t2 r1"},
		{"parallel, one never answered", "u1 t1<u1:x@m t2<t1:y@m r1<t1:x a1<r1", "u1 t1 r1 a1"},

		{"compaction", base + "b1 c1<b1 u3<c1", "b1 c1 u3"},
		{"two", base + "b1 c1<b1 u3<c1 b2 c2<b2 a4<c2", "b2 c2 a4"},
		{"nothing after the boundary", base + "b1", "u1 a1 u2 a2"},
		{"only an attachment after it", base + "b1 h1<b1", "u1 a1 u2 a2"},
		{"boundary with a parent", base + "b1<a2 c1<b1 u3<c1", "b1 c1 u3"},
		{"that with nothing after", base + "b1<a2", "u1 a1 u2 a2"},
		{"rewind behind the boundary", base + "b1 c1<b1 u3<c1 a3<u3 u4<a1", "u1 a1 u4"},
		{"segment kept", base + keepsSegment + "c1<b1 u3<c1", "b1 c1 u2 a2 u3"},
		{"messages kept", base + keepsMessages + "c1<b1 u3<c1", "b1 c1 u2 a2 u3"},
		{"kept, going on from the last kept", base + keepsMessages + "c1<b1 u3<a2 a3<u3", "b1 c1 u2 a2 u3 a3"},
		{"kept, nothing after", base + keepsSegment + "c1<b1", "b1 c1 u2 a2"},
		{"kept, one missing", base + strings.Replace(keepsMessages, `"u2"`, `"gone"`, 1) + "c1<b1 u3<c1", "b1 c1 u3"},
		{"kept, head not above tail", base + strings.Replace(keepsSegment, `"u2"`, `"c1"`, 1) + "c1<b1 u3<c1", "b1 c1 u3"},
		{"kept, anchor is the boundary", base + strings.Replace(keepsSegment, `"c1"`, `"b1"`, 1) + "c1<b1 u3<c1", "b1 u2 a2 c1 u3"},
		{"kept twice", base + keepsSegment + `c1<b1 u3<c1 b2+"preservedSegment":{"headUuid":"a2","anchorUuid":"c2","tailUuid":"u3"} c2<b2 a4<c2`, "b2 c2 a2 u3 a4"},

		{"lost parent", "u1 a1<u1 u2<gone a2<u2", "u1 a1 u2 a2"},
		{"lost parent bridges no sidechain", "u1 s1 a1<gone", "u1 a1"},
		{"lost parent at the start", "u1<gone a1<u1", "u1 a1"},
		{"cycle above the tip", "u1<u2 a1<u1 u2<a1 a2<u2", "u1 a1 u2 a2"},
		{"cycle of two", "u1<a1 a1<u1", "u1 a1"},
		{"child before parent", "a2<u2 u2<a1 a1<u1 u1", "u1 a1 u2 a2"},
		{"last copy's parent", "u1 a1<u1 u2<a1 u2<u1", "u1 u2"},
		{"orphan result", "u1 r1<u1:gone a1<r1", "u1 a1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := claudeTree(tt.log)
			tr := checkLive(t, claude{}, []byte(log))
			var got []string
			for _, i := range tr.Current().Chain {
				got = append(got, tr.Entries()[i].ID)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The newest tip and any other leaf can be asked for, and every branch says
// where it forks.
func TestClaude_leaves(t *testing.T) {
	tr := read(t, claude{}, claudeTree("u1 a1<u1 y1<a1 u2<y1 a2<u2 u3<a1 a3<u3 u4<a2 pin=a3"))
	chainOf := func(leaf string) string {
		r, err := tr.Resolve(leaf)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, i := range r.Chain {
			ids = append(ids, tr.Entries()[i].ID)
		}
		return strings.Join(ids, " ")
	}
	for leaf, want := range map[string]string{
		"": "u1 a1 u3 a3", session.LeafNewest: "u1 a1 u2 a2 u4", "a2": "u1 a1 u2 a2", "u1": "u1", "u4": "u1 a1 u2 a2 u4",
	} {
		if got := chainOf(leaf); got != want {
			t.Errorf("leaf %q: %s, want %s", leaf, got, want)
		}
	}
	if diff := cmp.Diff([]session.Branch{{Leaf: "u4", ForkedAt: "a1", Entries: 3}}, tr.Current().Branches); diff != "" {
		t.Error(diff)
	}
}
