package lsp_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("update", false, "rewrite the types in docs/protocol.md")

const typesFence = "```ts\n"

// The published types are those of lsp/wire, all of them, with every field.
func TestProtocolTypes(t *testing.T) {
	path := filepath.Join("..", "docs", "protocol.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	from := strings.Index(doc, typesFence)
	if from < 0 {
		t.Fatal("docs/protocol.md has no block of types")
	}
	from += len(typesFence)
	to := from + strings.Index(doc[from:], "```")
	want := wireTypes(t)
	if *rewrite {
		if err := os.WriteFile(path, []byte(doc[:from]+want+doc[to:]), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, doc[from:to]); diff != "" {
		t.Errorf("docs/protocol.md differs from lsp/wire (go test ./lsp -run ProtocolTypes -update): %s", diff)
	}
}

// wireTypes declares the structs of lsp/wire in TypeScript, by name.
func wireTypes(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("wire", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	decls := map[string]string{}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				if typ, ok := spec.(*ast.TypeSpec); ok {
					if st, ok := typ.Type.(*ast.StructType); ok {
						decls[typ.Name.Name] = declare(t, typ.Name.Name, st)
					}
				}
			}
		}
	}
	var names []string
	for name := range decls {
		names = append(names, name)
	}
	slices.Sort(names)
	var out strings.Builder
	for _, name := range names {
		out.WriteString(decls[name])
	}
	return out.String()
}

func declare(t *testing.T, name string, st *ast.StructType) string {
	t.Helper()
	var fields, parents []string
	for _, f := range st.Fields.List {
		if len(f.Names) == 0 {
			parents = append(parents, typeText(t, f.Type))
			continue
		}
		tag := strings.Trim(f.Tag.Value, "`")
		tag = strings.TrimSuffix(strings.TrimPrefix(tag, `json:"`), `"`)
		key, rest, _ := strings.Cut(tag, ",")
		optional := ""
		if _, pointer := f.Type.(*ast.StarExpr); pointer || rest != "" {
			optional = "?"
		}
		note := ""
		if f.Comment != nil {
			note = " // " + strings.TrimSpace(f.Comment.Text())
		}
		fields = append(fields, fmt.Sprintf("  %s%s: %s;%s\n", key, optional, typeText(t, f.Type), note))
	}
	extends := ""
	if len(parents) > 0 {
		extends = " extends " + strings.Join(parents, ", ")
	}
	return "interface " + name + extends + " {\n" + strings.Join(fields, "") + "}\n"
}

func typeText(t *testing.T, e ast.Expr) string {
	t.Helper()
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeText(t, e.X)
	case *ast.ArrayType:
		return typeText(t, e.Elt) + "[]"
	case *ast.MapType:
		return "Record<" + typeText(t, e.Key) + ", " + typeText(t, e.Value) + ">"
	case *ast.SelectorExpr: // jsontext.Value
		return "unknown"
	case *ast.Ident:
		switch e.Name {
		case "string":
			return "string"
		case "int", "int64", "float64":
			return "number"
		case "bool":
			return "boolean"
		case "any":
			return "unknown"
		}
		return e.Name
	}
	t.Fatalf("type %T has no counterpart", e)
	return ""
}
