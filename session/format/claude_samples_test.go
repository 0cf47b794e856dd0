package format

import (
	"bytes"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session"
)

const claudeSampleStore = "../../testdata/claude/samples"

// claudeSamples gives the transcripts that the product wrote, by path.
func claudeSamples(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	store := os.DirFS(claudeSampleStore)
	err := fs.WalkDir(store, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(p, ".jsonl") {
			return err
		}
		b, err := fs.ReadFile(store, p)
		out[p] = b
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What the product wrote has no findings, is the same read live and at once,
// and offers the branch that was rewound.
func TestClaude_samples(t *testing.T) {
	for p, data := range claudeSamples(t) {
		native, ok := claude{}.Identify(p)
		if !ok {
			t.Errorf("%s is no transcript", p)
		}
		tr, _, err := session.Read(claude{}, native, bytes.NewReader(data), session.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range append(tr.Problems(), tr.Current().Problems...) {
			t.Errorf("%s: %v", p, problem)
		}
		checkLive(t, claude{}, data)
		var want []session.Branch
		if strings.HasPrefix(native, "4444") {
			want = []session.Branch{{
				Leaf: "838ff0", ForkedAt: "4b2d4d", Entries: 12,
			}}
		}
		got := tr.Current().Branches
		for i := range got {
			got[i].Leaf, got[i].ForkedAt, got[i].Updated = got[i].Leaf[:6], got[i].ForkedAt[:6], time.Time{}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: branches\n%s", p, diff)
		}
	}
}
