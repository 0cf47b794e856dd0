package format

import (
	"io/fs"
	"os"
	"strings"
	"testing"
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
