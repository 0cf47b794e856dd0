package lsp_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agent-ls/agent-ls/lsp/lsptest"
	"github.com/agent-ls/agent-ls/lsp/rpc"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/format"
	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/session/vfs"
	"github.com/agent-ls/agent-ls/testdata/gen/corpus"

	"github.com/agent-ls/agent-ls/lsp"
	"github.com/agent-ls/agent-ls/watcher"
)

// BenchmarkResume answers session/resume for a Claude Code transcript of
// 108 MB and 80,000 lines, whole and with its last compaction 400 lines from
// the end. The floor is reading the file once; x-floor is the ratio.
func BenchmarkResume(b *testing.B) {
	home := b.TempDir()
	for _, boundary := range []int{0, 400} {
		id := fmt.Sprintf("%08d-1111-4111-8111-111111111111", boundary)
		path := filepath.Join(home, "claude", "projects", "-home-dev-proj", id+".jsonl")
		err := corpus.File(path, func(w io.Writer) error {
			return corpus.Claude(w, corpus.Transcript{Seed: 1, Lines: 80_000, Bytes: 108_000_000, Boundary: boundary, ID: id})
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("boundary=%d", boundary), func(b *testing.B) { resumeBench(b, home, path, id) })
	}
}

func resumeBench(b *testing.B, home, path, id string) {
	fsys := vfs.OS()
	cat, err := catalog.Open(catalog.Options{
		FS: fsys, Env: session.Env{Home: home, GOOS: "linux", Getenv: func(name string) string {
			if name == "CLAUDE_CONFIG_DIR" {
				return filepath.Join(home, "claude")
			}
			return ""
		}},
		Formats: format.All(), Clock: wallClock{}, PID: os.Getpid(),
	})
	if err != nil {
		b.Fatal(err)
	}
	j := journal.New(fsys, wallClock{})
	defer j.Close()
	s := lsp.NewServer(lsp.Options{
		Catalog: cat, Journal: j, Hub: watcher.NewHub(watcher.HubOptions{Catalog: cat, FS: fsys}),
		Clock: wallClock{}, Random: &counter{}, PID: os.Getpid(),
	})
	e := lsptest.New(b, s, nil)
	for {
		var list struct{ Total int }
		e.Do("session/list", map[string]any{}, &list)
		if list.Total > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	request := &rpc.Request{Method: "session/resume", Params: fmt.Appendf(nil, `{"sessionId":"claude:%s","subscribe":false}`, id)}
	var ours, floor time.Duration
	buf := make([]byte, 1<<20)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		start := time.Now()
		if _, err := s.Handle(context.Background(), request); err != nil {
			b.Fatal(err)
		}
		ours += time.Since(start)
		b.StopTimer()
		start = time.Now()
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		for {
			if _, err := f.Read(buf); err == io.EOF {
				break
			}
		}
		_ = f.Close()
		floor += time.Since(start)
		b.StartTimer()
	}
	b.ReportMetric(float64(ours)/float64(floor), "x-floor")
}
