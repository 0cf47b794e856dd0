package format

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/agent-ls/agent-ls/session"
)

var update = flag.Bool("update", false, "write the answers of the archives anew")

// roots are where the archives' stores are mounted.
var roots = map[string]string{
	"claude":       "/home/dev/.claude",
	"mini-agent":   "/home/dev/.mini-agent",
	"pseudoclaude": "/home/dev/proj/.PseudoClaude/sessions",
}

// TestConformance runs testdata/<agent>/*.txtar of every format: an archive is
// a store (below store/) and the answers wanted (want/list, want/read,
// want/resume, want/problems; those that are there are checked). A member
// whose name ends in .q has exact bytes: Go-quoted strings, one a line, joined.
func TestConformance(t *testing.T) {
	top := filepath.Join("..", "..", "testdata")
	known := map[string]bool{}
	for _, f := range All() {
		known[f.Name()] = true
		files, err := filepath.Glob(filepath.Join(top, f.Name(), "*.txtar"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			t.Errorf("format %s has no archives in testdata/%s", f.Name(), f.Name())
		}
		for _, file := range files {
			t.Run(f.Name()+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { conform(t, f, file) })
		}
	}
	dirs, err := filepath.Glob(filepath.Join(top, "*", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if agent := filepath.Base(filepath.Dir(d)); !known[agent] {
			t.Errorf("%s is for no format", d)
		}
	}
}

func conform(t *testing.T, f session.Format, file string) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(bytes.TrimSpace(ar.Comment)) == 0 {
		t.Error("the archive does not say what it shows")
	}
	store := fstest.MapFS{}
	for _, m := range ar.Files {
		name, ok := strings.CutPrefix(m.Name, "store/")
		if !ok {
			continue
		}
		data := m.Data
		if plain, ok := strings.CutSuffix(name, ".q"); ok {
			name, data = plain, unquoteLines(t, m.Data)
		}
		store[name] = &fstest.MapFile{Data: data, Mode: 0o600}
	}
	got := answers(t, f, store)
	seen := false
	for i, m := range ar.Files {
		want, ok := strings.CutPrefix(m.Name, "want/")
		if !ok {
			continue
		}
		seen = true
		have, ok := got[want]
		if !ok {
			t.Errorf("%s: there is no such answer", m.Name)
			continue
		}
		if *update {
			ar.Files[i].Data = []byte(have)
		} else if diff := cmp.Diff(strings.Split(string(m.Data), "\n"), strings.Split(have, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", m.Name, diff)
		}
	}
	if !seen {
		t.Error("the archive wants nothing")
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(ar), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func unquoteLines(t *testing.T, data []byte) []byte {
	t.Helper()
	var out []byte
	for line := range strings.Lines(string(data)) {
		s, err := strconv.Unquote(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		out = append(out, s...)
	}
	return out
}

// answers gives what the format makes of a store, as text.
func answers(t *testing.T, f session.Format, store fstest.MapFS) map[string]string {
	t.Helper()
	root := session.Root{Dir: roots[f.Name()], FS: store}
	var paths []string
	for p := range store {
		if _, ok := f.Identify(p); ok {
			paths = append(paths, p)
		}
	}
	if lazy, ok := f.(session.Lazy); ok {
		dirs, err := fs.ReadDir(store, ".")
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range dirs {
			if p, ok := lazy.Expected(d.Name()); ok && d.IsDir() && !slices.Contains(paths, p) {
				paths = append(paths, p)
			}
		}
	}
	slices.Sort(paths)
	var list, read, resume, problems strings.Builder
	for _, p := range paths {
		native, _ := f.Identify(p)
		s, err := f.Summarize(root, p, session.Session{})
		if err != nil {
			fmt.Fprintf(&list, "%s not listed: %v\n", native, err)
			continue
		}
		fmt.Fprintf(&list, "%s %s %q model=%s messages=%s/%s updated=%s%s\n", native, s.TitleSource, s.Title, dash(s.Model),
			count(s.Effective), count(s.Physical), s.UpdatedAt.UTC().Format("2006-01-02T15:04:05Z"), marks(s))
		file, err := store.Open(p)
		if err != nil {
			continue // its first message is still to come
		}
		data := store[p].Data
		_ = file.Close()
		src := bytes.NewReader(data)
		tr, _, err := session.Read(f, native, src, session.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := tr.Current()
		for _, b := range []*strings.Builder{&read, &resume, &problems} {
			if len(paths) > 1 {
				fmt.Fprintf(b, "# %s\n", native)
			}
		}
		for i, e := range tr.Entries() {
			why := r.Excluded[i].String()
			if why == "" {
				why = "counts"
			}
			fmt.Fprintf(&read, "line %d at %d+%d %s %s: %s%s\n", e.Pos.Line, e.Pos.Offset, e.Pos.Length, dash(e.Role.String()), e.Kind, why, badText(e.Bad))
		}
		for m, err := range session.Messages(f, src, tr, r) {
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&resume, "%s:%s\n", m.Role, blocksText(m.Blocks))
		}
		for _, p := range slices.Concat(tr.Problems(), r.Problems) {
			fmt.Fprintf(&problems, "%s %s line %d at %d+%d: %s\n", p.Severity, p.Code, p.Pos.Line, p.Pos.Offset, p.Pos.Length, p.Text)
		}
	}
	return map[string]string{"list": list.String(), "read": read.String(), "resume": resume.String(), "problems": problems.String()}
}

func marks(s session.Session) string {
	out := ""
	if s.Empty {
		out += " empty"
	}
	if s.Problems > 0 {
		out += " problems=" + strconv.Itoa(s.Problems)
	}
	return out
}

func count(n int) string {
	if n == session.UnknownCount {
		return "?"
	}
	return strconv.Itoa(n)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func badText(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// blocksText shows blocks on one line, long texts by their length.
func blocksText(list []session.Block) string {
	var b strings.Builder
	short := func(s string) string {
		if len(s) > 60 {
			return fmt.Sprintf("%d bytes", len(s))
		}
		return strconv.Quote(s)
	}
	for _, x := range list {
		switch x := x.(type) {
		case session.Text:
			b.WriteString(" text " + short(x.Text))
		case session.Thinking:
			b.WriteString(" thinking " + short(x.Text))
		case session.ToolUse:
			fmt.Fprintf(&b, " call %s %s %s %s", x.ID, x.Name, x.Kind, short(string(x.Input)))
			for _, l := range x.Locations {
				fmt.Fprintf(&b, " @%s:%d", l.Path, l.Line)
			}
		case session.ToolResult:
			fmt.Fprintf(&b, " result %s", x.UseID)
			if x.IsError {
				b.WriteString(" error")
			}
			if x.Spilled != "" {
				b.WriteString(" spilled " + x.Spilled)
			}
			b.WriteString(blocksText(x.Content))
		case session.Image:
			b.WriteString(" image " + x.MIMEType)
		case session.Unknown:
			b.WriteString(" unknown")
		}
	}
	return b.String()
}
