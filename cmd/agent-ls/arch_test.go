package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/agent-ls/agent-ls"

// layers says, for each package, which packages of ours and which
// third-party modules it may import. The standard library is free unless
// noStd names it. It is the authority on the direction of imports; see
// ARCHITECTURE.md.
var layers = map[string][]string{
	"session/jsonl":        {},
	"session/parallel":     {},
	"session":              {"session/jsonl", "session/parallel"},
	"session/chain":        {"session", "session/jsonl"},
	"session/format":       {"session", "session/jsonl", "session/chain", "github.com/go-json-experiment/json"},
	"session/vfs":          {"golang.org/x/sys"},
	"session/vfs/errorfs":  {"session/vfs"},
	"session/journal":      {"session", "session/jsonl", "session/vfs"},
	"session/overlay":      {"session", "session/vfs"},
	"session/catalog":      {"session", "session/jsonl", "session/vfs", "session/journal", "session/overlay"},
	"session/search":       {"session", "session/jsonl", "session/parallel", "session/catalog"},
	"session/conversation": {"session"},
	"session/store":        {"session", "session/jsonl", "session/vfs", "session/journal", "session/conversation", "session/format", "session/catalog"},
	"watcher":              {"session", "session/jsonl", "session/vfs", "session/journal", "session/catalog", "github.com/fsnotify/fsnotify", "go.uber.org/zap"},
	"lsp/wire":             {"go.lsp.dev/protocol", "go.lsp.dev/uri", "github.com/go-json-experiment/json"},
	"lsp/rpc":              {"go.lsp.dev/jsonrpc2", "go.uber.org/zap", "github.com/go-json-experiment/json"},
	"lsp":                  {"session", "session/jsonl", "session/parallel", "session/search", "session/journal", "session/catalog", "watcher", "lsp/wire", "lsp/rpc", "go.lsp.dev/protocol", "go.lsp.dev/uri", "go.uber.org/zap", "github.com/go-json-experiment/json"},
	"lsp/lsptest":          {"lsp", "lsp/wire", "lsp/rpc"},
	"cmd/agent-ls":         {"*"},
}

// noStd are standard packages that a package must not import: the pure ones
// know neither locks nor the system.
var noStd = map[string][]string{
	"session/jsonl":    {"sync", "os", "log", "log/slog"},
	"session/parallel": {"sync", "os", "log", "log/slog"},
	"session":          {"sync", "os", "log", "log/slog"},
	"session/chain":    {"sync", "os", "log", "log/slog"},
	"session/format":   {"sync", "os", "log", "log/slog"},
	"lsp/wire":         {"sync", "os", "log", "log/slog"},
}

// TestImports reads the files itself: a test that asks the go command is
// answered from the test cache after a violation was added.
func TestImports(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	for file, imports := range importsOf(t, root) {
		pkg := path.Dir(file)
		seen[pkg] = true
		allowed, ok := layers[pkg]
		if !ok {
			t.Errorf("%s: package %s has no line in layers", file, pkg)
			continue
		}
		for _, imp := range imports {
			if why := forbidden(pkg, imp, allowed); why != "" {
				t.Errorf("%s: %s", file, why)
			}
		}
	}
	for pkg := range layers {
		if !seen[pkg] {
			t.Errorf("layers has a line for %s, which does not exist", pkg)
		}
	}
}

func forbidden(pkg, imp string, allowed []string) string {
	first, _, _ := strings.Cut(imp, "/")
	if !strings.Contains(first, ".") {
		if slices.Contains(noStd[pkg], imp) {
			return pkg + " must not import " + imp
		}
		return ""
	}
	if slices.Contains(allowed, "*") {
		return ""
	}
	ours, isOurs := strings.CutPrefix(imp, module+"/")
	for _, a := range allowed {
		if isOurs && ours == a {
			return ""
		}
		if !isOurs && (imp == a || strings.HasPrefix(imp, a+"/")) {
			return ""
		}
	}
	return pkg + " must not import " + strings.TrimPrefix(imp, module+"/")
}

// TestImports_seesViolations plants violations and expects them named.
func TestImports_seesViolations(t *testing.T) {
	for _, c := range []struct{ pkg, imp, want string }{
		{"lsp", module + "/session/format", "lsp must not import session/format"},
		{"session/chain", module + "/session/vfs", "session/chain must not import session/vfs"},
		{"session", "sync", "session must not import sync"},
		{"session", "sync/atomic", ""},
		{"watcher", "go.lsp.dev/protocol", "watcher must not import go.lsp.dev/protocol"},
		{"watcher", "github.com/fsnotify/fsnotify", ""},
		{"session/vfs", "golang.org/x/sys/unix", ""},
	} {
		if got := forbidden(c.pkg, c.imp, layers[c.pkg]); got != c.want {
			t.Errorf("%s imports %s: got %q, want %q", c.pkg, c.imp, got, c.want)
		}
	}
}

// importsOf gives the imports of every non-test Go file below root, outside
// testdata, by slash path relative to root.
func importsOf(t *testing.T, root string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != root && (name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		key := filepath.ToSlash(rel)
		out[key] = nil
		for _, s := range f.Imports {
			imp, err := strconv.Unquote(s.Path.Value)
			if err != nil {
				return err
			}
			out[key] = append(out[key], imp)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
