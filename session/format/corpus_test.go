package format

import (
	"bytes"
	"io"
	"testing"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/jsonl"
	"github.com/agent-ls/agent-ls/testdata/gen/corpus"
)

// The generated transcripts are what the benchmarks stand on: the same for
// the same seed, valid line by line, and read without a finding.
func TestCorpus(t *testing.T) {
	for name, write := range map[string]func(io.Writer, corpus.Transcript) error{
		"claude": corpus.Claude, "pseudoclaude": corpus.PseudoClaude, "mini-agent": corpus.MiniAgent,
	} {
		for _, boundary := range []int{0, 100} {
			spec := corpus.Transcript{Seed: 7, Lines: 600, Boundary: boundary, ID: claudeID}
			var a, b, other bytes.Buffer
			spec2 := spec
			spec2.Seed = 8
			for _, w := range []struct {
				to   *bytes.Buffer
				spec corpus.Transcript
			}{{&a, spec}, {&b, spec}, {&other, spec2}} {
				if err := write(w.to, w.spec); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(a.Bytes(), b.Bytes()) || bytes.Equal(a.Bytes(), other.Bytes()) {
				t.Errorf("%s: the seed does not decide the bytes", name)
			}
			r := jsonl.NewReader(bytes.NewReader(a.Bytes()), 0, 1, jsonl.Options{})
			for l := range r.Lines() {
				if !jsonl.Valid(l.Raw) {
					t.Fatalf("%s line %d is no JSON", name, l.Num)
				}
			}
			var f session.Format
			for _, g := range All() {
				if g.Name() == name {
					f = g
				}
			}
			tr, _, err := session.Read(f, claudeID, bytes.NewReader(a.Bytes()), session.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if n := len(tr.Problems()) + len(tr.Current().Problems); n > 0 {
				t.Errorf("%s boundary %d: %d findings, the first: %+v", name, boundary, n, append(tr.Problems(), tr.Current().Problems...)[0])
			}
			physical, effective := tr.Counts()
			if physical < 300 || boundary == 0 && effective < 300 || boundary > 0 && name != "mini-agent" && effective > 200 {
				t.Errorf("%s boundary %d: %d of %d messages count", name, boundary, effective, physical)
			}
		}
	}
}
