package lsp_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/agent-ls/agent-ls/lsp/lsptest"
)

// The examples of the published contract are executed in their order, and
// every method has one.
func TestProtocolExamples(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	s, ws := newServer(t)
	x := &examples{t: t, e: lsptest.Connect(t, s), vars: map[string]any{"workspace": ws}}
	used := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```example\n(.*?)```").FindAllStringSubmatch(string(doc), -1) {
		for line := range strings.Lines(block[1]) {
			x.line(strings.TrimSpace(line))
		}
	}
	x.flush()
	for _, u := range x.used {
		used[u] = true
	}
	for _, m := range append(s.Methods(), "initialize", "initialized", "shutdown", "$/setTrace", "session/update", "session/changed", "$/progress", "workspace/didChangeWorkspaceFolders", "workspace/didChangeConfiguration") {
		if !used[m] {
			t.Errorf("docs/protocol.md has no example of %s", m)
		}
	}
	for _, code := range []int{-32700, -32600, -32601, -32602, -32603, -32002, -32800, -32801, -32011, -32012, -32013, -32014, -32015} {
		if !strings.Contains(string(doc), fmt.Sprintf("`%d`", code)) {
			t.Errorf("docs/protocol.md does not name the code %d", code)
		}
	}
}

type examples struct {
	t      *testing.T
	e      *lsptest.Editor
	vars   map[string]any
	used   []string
	method string
	params any
	open   bool // a request waits for its answer line
}

func (x *examples) line(s string) {
	mark, rest, _ := strings.Cut(s, " ")
	method, text, _ := strings.Cut(rest, " ")
	switch mark {
	case "-->", "==>":
		x.flush()
		x.method, x.params = method, nil
		if text != "" {
			x.params = x.fill(x.parse(text))
		}
		x.used = append(x.used, method)
		if x.open = mark == "-->"; !x.open {
			x.e.Tell(method, x.params)
		}
	case "<--":
		var got any
		if err := x.e.Call(x.method, x.params, &got); err != nil {
			x.t.Fatalf("%s: %v", x.method, err)
		}
		x.open = false
		x.match(x.method, x.parse(rest), got)
	case "<!!":
		err := x.e.Call(x.method, x.params, nil)
		x.open = false
		code, data := lsptest.Code(err)
		if want, aerr := strconv.ParseInt(method, 10, 64); aerr != nil || code != want {
			x.t.Fatalf("%s: code %d (%v), want %s", x.method, code, err, method)
		}
		if text != "" {
			x.match(x.method, x.parse(text), map[string]any(data))
		}
	case "<~~":
		x.used = append(x.used, method)
		var got any
		if err := json.Unmarshal(x.e.Next(method), &got); err != nil {
			x.t.Fatal(err)
		}
		x.match(method, x.parse(text), got)
	case "":
	default:
		x.t.Fatalf("example line %q", s)
	}
}

// flush complains about a request without an answer in the document.
func (x *examples) flush() {
	if x.open {
		x.t.Fatalf("the example of %s shows no answer", x.method)
	}
}

func (x *examples) parse(text string) any {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		x.t.Fatalf("example %s: %v", text, err)
	}
	return v
}

var variable = regexp.MustCompile(`\$[a-z]+`)

// fill puts in the values of variables.
func (x *examples) fill(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = x.fill(v[k])
		}
	case []any:
		for i := range v {
			v[i] = x.fill(v[i])
		}
	case string:
		if variable.FindString(v) == v && v != "" {
			if known, ok := x.vars[v[1:]]; ok {
				return known
			}
			x.t.Fatalf("the example uses %s before it is known", v)
		}
		return variable.ReplaceAllStringFunc(v, func(name string) string { return fmt.Sprint(x.vars[name[1:]]) })
	}
	return v
}

// match checks that got has all that want shows.
func (x *examples) match(where string, want, got any) {
	x.t.Helper()
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			x.t.Fatalf("%s is %v, want an object", where, got)
		}
		for k := range w {
			if _, ok := g[k]; !ok {
				x.t.Fatalf("%s has no %s: %v", where, k, got)
			}
			x.match(where+"."+k, w[k], g[k])
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			x.t.Fatalf("%s is %v, want %d elements", where, got, len(w))
		}
		for i := range w {
			x.match(fmt.Sprintf("%s[%d]", where, i), w[i], g[i])
		}
	case string:
		if variable.FindString(w) == w && w != "" {
			known, ok := x.vars[w[1:]]
			if !ok {
				x.vars[w[1:]] = got
				return
			}
			want = known
		}
		if !reflect.DeepEqual(want, got) {
			x.t.Fatalf("%s is %v, want %v", where, got, want)
		}
	default:
		if !reflect.DeepEqual(want, got) {
			x.t.Fatalf("%s is %v, want %v", where, got, want)
		}
	}
}
