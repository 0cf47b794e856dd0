package format

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/session"
)

// logGen writes transcripts as the agent does, with everything that can
// happen to one on the way. A line names lines before it only, and an id comes
// again only with its line, and not over a boundary.
type logGen struct {
	t     *rapid.T
	b     bytes.Buffer
	n     int
	ids   []string // of the lines of the conversation
	lines []string // the same, whole
	msg   int
}

func (g *logGen) id() string {
	g.n++
	return fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012x", g.n)
}

func (g *logGen) any(label string) string {
	if len(g.ids) == 0 {
		return ""
	}
	return g.ids[rapid.IntRange(0, len(g.ids)-1).Draw(g.t, label)]
}

func quotedOrNull(s string) string {
	if s == "" {
		return "null"
	}
	return `"` + s + `"`
}

func (g *logGen) node(typ, parent, rest string) string {
	id := g.id()
	if rapid.IntRange(0, 40).Draw(g.t, "again") == 0 && len(g.lines) > 0 {
		g.b.WriteString(g.lines[rapid.IntRange(0, len(g.lines)-1).Draw(g.t, "line")])
	}
	line := fmt.Sprintf(`{"parentUuid":%s,"type":"%s","uuid":"%s","timestamp":"2026-12-01T05:00:%02d.000Z","sessionId":"11111111-1111-4111-8111-111111111111",%s}`+"\n",
		quotedOrNull(parent), typ, id, g.n%60, rest)
	g.b.WriteString(line)
	g.lines = append(g.lines, line)
	g.ids = append(g.ids, id)
	return id
}

func (g *logGen) user(parent, text string) string {
	return g.node("user", parent, `"message":{"role":"user","content":"`+text+`"}`)
}

func (g *logGen) say(parent string, blocks ...string) string {
	g.msg++
	for _, b := range blocks {
		parent = g.node("assistant", parent, fmt.Sprintf(`"message":{"id":"msg_%d","role":"assistant","model":"m","content":[%s]}`, g.msg, b))
	}
	return parent
}

// write makes about steps turns.
func (g *logGen) write(steps int) []byte {
	tip := ""
	for range steps {
		switch rapid.IntRange(0, 19).Draw(g.t, "step") {
		case 0, 1, 2, 3, 4:
			tip = g.say(g.user(tip, fmt.Sprintf("question %d", g.n)), `{"type":"text","text":"answer"}`)
		case 5, 6, 7:
			tip = g.parallel(tip)
		case 8:
			tip = g.node("attachment", tip, `"attachment":{"type":"date"}`)
		case 9:
			tip = g.node("system", tip, `"subtype":"turn_duration"`)
		case 10:
			fmt.Fprintf(&g.b, `{"type":"last-prompt","leafUuid":"%s"}`+"\n", tip)
		case 11:
			if a := g.any("rewind"); a != "" {
				tip = g.user(a, "another way")
				fmt.Fprintf(&g.b, `{"type":"last-prompt","leafUuid":"%s","explicit":true}`+"\n", claudeNoPin)
			}
		case 12, 13:
			tip = g.compact(tip)
		case 14:
			tip = g.node("user", tip, `"isMeta":true,"message":{"role":"user","content":"note"}`)
		case 15:
			g.node("user", g.any("aside"), `"isSidechain":true,"message":{"role":"user","content":"helper"}`)
		case 16:
			g.b.WriteString(`{"parentUuid":"` + tip + `","type":"user","uu` + "\n")
		case 17:
			fmt.Fprintf(&g.b, `{"type":"last-prompt","leafUuid":"%s","explicit":%v}`+"\n", g.any("pin"), rapid.Bool().Draw(g.t, "explicit"))
		case 18:
			tip = g.node("progress", tip, `"data":{}`)
		case 19:
			fmt.Fprintf(&g.b, `{"type":"custom-title","customTitle":"t %d \"compact_boundary\""}`+"\n", g.n)
		}
	}
	return g.b.Bytes()
}

func (g *logGen) parallel(tip string) string {
	tip = g.user(tip, "do it")
	n := rapid.IntRange(1, 3).Draw(g.t, "calls")
	var blocks, ids []string
	for k := range n {
		id := fmt.Sprintf("call_%d_%d", g.n, k)
		ids = append(ids, id)
		blocks = append(blocks, `{"type":"tool_use","id":"`+id+`","name":"Read","input":{}}`)
	}
	first := len(g.ids)
	tip = g.say(tip, blocks...)
	made := g.ids[first:]
	answered := rapid.IntRange(0, n).Draw(g.t, "answered")
	for k := range answered {
		tip = g.node("user", made[k], `"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"`+ids[k]+`","content":"r"}]}`)
	}
	if answered > 0 {
		tip = g.say(tip, `{"type":"text","text":"done"}`)
	}
	return tip
}

func (g *logGen) compact(tip string) string {
	meta := `"trigger":"auto"`
	var anchor string
	if k := len(g.ids); k > 3 {
		anchor = fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012x", g.n+2)
		switch rapid.IntRange(0, 3).Draw(g.t, "kept") {
		case 1:
			meta += fmt.Sprintf(`,"preservedSegment":{"headUuid":"%s","anchorUuid":"%s","tailUuid":"%s"}`, g.ids[k-2], anchor, g.ids[k-1])
		case 2:
			meta += fmt.Sprintf(`,"preservedMessages":{"anchorUuid":"%s","uuids":["%s","%s"]}`, anchor, g.ids[k-3], g.ids[k-1])
		}
	}
	parent := ""
	if rapid.IntRange(0, 5).Draw(g.t, "hangs") == 0 {
		parent = tip
	}
	g.lines = nil
	b := g.node("system", parent, `"subtype":"compact_boundary","logicalParentUuid":`+quotedOrNull(tip)+`,"compactMetadata":{`+meta+`}`)
	if rapid.IntRange(0, 5).Draw(g.t, "crash") == 0 {
		g.n++ // the summary had its id already
		return tip
	}
	return g.node("user", b, `"isCompactSummary":true,"message":{"role":"user","content":"summary"}`)
}

// resumedAs is what resuming gives, for comparison.
func resumedAs(t failer, data []byte, from int64) map[string]any {
	t.Helper()
	var f claude
	tr, _, err := session.Read(f, "11111111-1111-4111-8111-111111111111", bytes.NewReader(data), session.ReadOptions{From: from})
	if err != nil {
		t.Fatal(err)
	}
	r := tr.Current()
	out := map[string]any{"leaf": r.Leaf, "end": r.End, "dangling": r.Dangling, "cycle": r.Report.Cycle, "missing": r.Report.MissingParents}
	var messages []session.Message
	for m, err := range session.Messages(f, bytes.NewReader(data), tr, r) {
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, m)
	}
	out["messages"] = messages
	var chain []string
	for _, i := range r.Chain {
		chain = append(chain, tr.Entries()[i].ID)
	}
	out["chain"] = chain
	return out
}

// modeLines are what the generator fills up with.
var modeLines = regexp.MustCompile(`(?m)^\{"type":"mode.*\n`)

// Where resuming from the end is offered, it gives what resuming from the
// start gives.
func TestClaude_tailLaw(t *testing.T) {
	offered, tried := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := &logGen{t: t}
		g.write(rapid.IntRange(0, 6).Draw(t, "before"))
		// Enough that the slack does not reach the start.
		for range 3 {
			fmt.Fprintf(&g.b, `{"type":"mode","mode":"%s"}`+"\n", strings.Repeat("x", 60<<10))
		}
		data := g.write(rapid.IntRange(0, 10).Draw(t, "after"))
		tried++
		var f claude
		// Half of the file is the least that Tail saves.
		pad := bytes.Repeat([]byte(`{"type":"mode"}`+"\n"), 1+len(data)*2/16)
		data = append(pad, data...)
		off, ok := f.Tail(bytes.NewReader(data), int64(len(data)))
		if !ok {
			return
		}
		offered++
		if off <= 0 || data[off-1] != '\n' {
			t.Fatalf("offset %d is no start of a line", off)
		}
		if diff := cmp.Diff(resumedAs(t, data, 0), resumedAs(t, data, off)); diff != "" {
			t.Fatalf("from the start (-) and from %d (+):\n%s\n%s", off, diff, modeLines.ReplaceAll(data, nil))
		}
	})
	if offered*20 < tried {
		t.Errorf("offered for %d of %d transcripts only: the law says nothing", offered, tried)
	}
}

// failer is what helpers for tests and for properties need.
type failer interface {
	Helper()
	Fatal(args ...any)
}

// The work of resuming a long transcript with a late boundary follows what is
// behind the boundary.
func TestClaude_tailWork(t *testing.T) {
	data := bigClaude(8_000, true)
	src := &counted{ReaderAt: bytes.NewReader(data)}
	var f claude
	off, ok := f.Tail(src, int64(len(data)))
	if !ok || int64(len(data))-off > 2<<20 {
		t.Fatalf("offset %d of %d, %v", off, len(data), ok)
	}
	// No pin is behind the boundary, so all is looked through for one, once.
	pinned := append(bytes.Clone(data[:len(data):len(data)]), []byte(`{"type":"last-prompt","leafUuid":"`+claudeNoPin+`"}`+"\n")...)
	src = &counted{ReaderAt: bytes.NewReader(pinned)}
	if _, ok = f.Tail(src, int64(len(pinned))); !ok || src.n > 4<<20 {
		t.Fatalf("read %d bytes of %d, %v", src.n, len(pinned), ok)
	}
}

// counted counts the bytes that are read.
type counted struct {
	io.ReaderAt
	n int64
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	c.n += int64(n)
	return n, err
}
