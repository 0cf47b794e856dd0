package format

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/chain"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// large is a source that is read as a long transcript is.
type large struct{ *bytes.Reader }

func (large) Size() int64 { return 2 << 20 }

// sameRead compares a read by several goroutines with one by the caller's.
func sameRead(t interface {
	Helper()
	Fatalf(string, ...any)
}, f session.Format, native string, data []byte, opt jsonl.Options,
) {
	t.Helper()
	want, wantCost, err := session.Read(f, native, bytes.NewReader(data), session.ReadOptions{Options: opt})
	if err != nil {
		t.Fatalf("%v", err)
	}
	got, cost, err := session.Read(f, native, large{bytes.NewReader(data)}, session.ReadOptions{Options: opt, Workers: 3})
	if err != nil {
		t.Fatalf("%v", err)
	}
	same := func(name string, want, got any) {
		t.Helper()
		if !reflect.DeepEqual(want, got) { // cmp takes minutes for long transcripts
			t.Fatalf("%s of %s:\n%s", name, native, cmp.Diff(want, got))
		}
	}
	same("cost", wantCost, cost)
	same("entries", want.Entries(), got.Entries())
	same("problems", want.Problems(), got.Problems())
	same("conversation", want.Current(), got.Current())
}

// However many goroutines decode a transcript, and wherever their batches end,
// it is the same.
func TestRead_inParallel(t *testing.T) {
	for _, f := range All() {
		n := 0
		err := filepath.WalkDir(filepath.Join("..", "..", "testdata", f.Name()), func(file string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(file) != ".jsonl" {
				return err
			}
			data, err := os.ReadFile(file)
			native := strings.TrimSuffix(filepath.Base(file), ".jsonl")
			for _, window := range []int{0, 4 << 10} {
				sameRead(t, f, native, data, jsonl.Options{Window: window})
			}
			n++
			return err
		})
		if err != nil || n == 0 && f.Name() != pcName {
			t.Fatalf("%d transcripts of %s: %v", n, f.Name(), err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		parent := "null"
		for i := range rapid.IntRange(0, 40).Draw(t, "lines") {
			id := fmt.Sprintf(`"%08d-0000-4000-8000-000000000000"`, i)
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				b.WriteString(`{"type":"user","uuid":` + id + "\n") // cut
			case 1:
				b.WriteString("\x00\x00\x00")
			case 2:
				fmt.Fprintf(&b, `{"type":"last-prompt","leafUuid":%s,"sessionId":"%s"}`, parent, claudeID)
			case 3:
				fmt.Fprintf(&b, `{"type":"user","uuid":%s,"parentUuid":%s,"message":{"content":"%s"}}`+"\n", id, parent, strings.Repeat("x", 300))
			default:
				fmt.Fprintf(&b, `{"type":"assistant","uuid":%s,"parentUuid":%s,"sessionId":"%s","message":{"id":"m%d","content":[{"type":"tool_use","id":"t%d"}]}}`+"\n", id, parent, claudeID, i/2, i)
				parent = id
			}
		}
		sameRead(t, claude{}, claudeID, b.Bytes(), jsonl.Options{Window: rapid.IntRange(1, 200).Draw(t, "window"), MaxLine: rapid.Int64Range(100, 500).Draw(t, "max")})
	})
}

// faulty is a format that panics on one line.
type faulty struct{ claude }

func (f faulty) Decode(dst []session.Entry, line jsonl.Line) []session.Entry {
	if line.Num == 50 {
		panic("line 50")
	}
	return f.claude.Decode(dst, line)
}

func (faulty) Replay(string) session.Replayer { return chain.Tree(chain.TreeRules{}) }

// A panic of a decoder reaches whoever reads, who can recover.
func TestRead_inParallelPanics(t *testing.T) {
	defer func() {
		if r := recover(); r != "line 50" {
			t.Errorf("recovered %v", r)
		}
	}()
	data := strings.Repeat(`{"type":"user","uuid":"u"}`+"\n", 1000)
	_, _, err := session.Read(faulty{}, claudeID, large{bytes.NewReader([]byte(data))}, session.ReadOptions{Options: jsonl.Options{Window: 64}, Workers: 2})
	t.Errorf("no panic, and %v", err)
}
