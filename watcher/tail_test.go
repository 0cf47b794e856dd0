package watcher

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// tailed is a Tail with a reader of lines on it, as a feed has.
type tailed struct {
	t     *testing.T
	path  string
	fs    *countingFS
	tail  *Tail
	lines *jsonl.Reader
}

func newTailed(t *testing.T, text string, off int64) *tailed {
	d := &tailed{t: t, path: filepath.Join(t.TempDir(), "log"), fs: newCountingFS()}
	if text != "-" {
		d.write(text)
	}
	d.tail = NewTail(d.fs, d.path, off)
	d.lines = jsonl.NewReader(d.tail, off, 1, jsonl.Options{})
	t.Cleanup(d.tail.Close)
	return d
}

func (d *tailed) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *tailed) write(text string) { d.must(os.WriteFile(d.path, []byte(text), 0o644)) }

func (d *tailed) append(text string) {
	f, err := os.OpenFile(d.path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	d.must(err)
	_, err = f.WriteString(text)
	d.must(err)
	d.must(f.Close())
}

func (d *tailed) overwrite(off int64, text string) {
	f, err := os.OpenFile(d.path, os.O_WRONLY, 0)
	d.must(err)
	_, err = f.WriteAt([]byte(text), off)
	d.must(err)
	d.must(f.Close())
}

func (d *tailed) replace(text string) {
	d.must(os.WriteFile(d.path+".tmp", []byte(text), 0o644))
	d.must(os.Rename(d.path+".tmp", d.path))
}

// touch sets a modification time that no write can have had.
func (d *tailed) touch() {
	long := time.Unix(1_000_000_000, 0)
	d.must(os.Chtimes(d.path, long, long))
}

// look gives the reason and the lines behind it, as "grown: one two".
func (d *tailed) look(next func() (Growth, error)) string {
	g, err := next()
	if err != nil {
		return "error"
	}
	var out strings.Builder
	out.WriteString(g.Reason.String() + ":")
	switch g.Reason {
	case Grown:
	case Undone:
		d.lines = jsonl.NewReader(d.tail, d.lines.Offset(), d.lines.Num(), jsonl.Options{})
	default:
		if g.Reason >= Truncated {
			d.lines = jsonl.NewReader(d.tail, 0, 1, jsonl.Options{})
		}
		return out.String()
	}
	for l := range d.lines.Lines() {
		if len(l.Raw) > 100 {
			fmt.Fprintf(&out, " (%d bytes)", len(l.Raw))
			continue
		}
		out.WriteString(" " + string(l.Raw))
	}
	d.must(d.lines.Err())
	d.tail.Keep(d.lines.Offset())
	// What the Tail knows from memory is what the disk has.
	got, err := d.tail.Revision()
	d.must(err)
	data, err := os.ReadFile(d.path)
	d.must(err)
	want, err := journal.Revision(bytes.NewReader(data), g.Info.Size)
	d.must(err)
	if got != want {
		d.t.Errorf("revision %s, want %s", got, want)
	}
	return out.String()
}

func TestTail(t *testing.T) {
	long := strings.Repeat("x", 3000)
	tests := []struct {
		name  string
		first string // content, "-" for no file
		off   int64
		steps []func(*tailed)
		want  []string // of a look before the first step, and after each
	}{
		{"grows", "one\n", 0, []func(*tailed){
			func(d *tailed) {},
			func(d *tailed) { d.append("two\nthr") },
			func(d *tailed) { d.append("ee\n") },
		}, []string{"grown: one", "unchanged:", "grown: two", "grown: three"}},
		{"begins in the middle", "one\ntwo\n", 4, []func(*tailed){
			func(d *tailed) { d.append("three\n") },
		}, []string{"grown: two", "grown: three"}},
		{"begins at the end", "one\n", 4, []func(*tailed){
			func(d *tailed) { d.append("two\n") },
			func(d *tailed) { d.overwrite(0, "ONE") },
		}, []string{"unchanged:", "grown: two", "rewritten:"}},
		{"begins inside a line", "one\ntwo\n", 5, []func(*tailed){
			func(d *tailed) {},
		}, []string{"rewritten:", "grown: one two"}},
		{"begins behind the end", "one\n", 100, []func(*tailed){
			func(d *tailed) {},
		}, []string{"overrun:", "grown: one"}},
		{"missing, then there", "-", 0, []func(*tailed){
			func(d *tailed) {},
			func(d *tailed) { d.write("one\n") },
		}, []string{"removed:", "unchanged:", "grown: one"}},
		{"removed and made again", "one\n", 0, []func(*tailed){
			func(d *tailed) { d.must(os.Remove(d.path)) },
			func(d *tailed) {},
			func(d *tailed) { d.write("one\n") },
		}, []string{"grown: one", "removed:", "unchanged:", "grown: one"}},
		{"replaced", "one\n", 0, []func(*tailed){
			func(d *tailed) { d.replace("one\ntwo\n") },
			func(d *tailed) {},
		}, []string{"grown: one", "replaced:", "grown: one two"}},
		{"truncated", "one\ntwo\n", 0, []func(*tailed){
			func(d *tailed) { d.must(os.Truncate(d.path, 3)) },
			func(d *tailed) {},
			func(d *tailed) { d.append("!\n") },
		}, []string{"grown: one two", "truncated:", "grown:", "grown: one!"}},
		{"truncated and outgrown", "one\n", 0, []func(*tailed){
			func(d *tailed) { d.write("two\nthree\n") },
			func(d *tailed) {},
		}, []string{"grown: one", "rewritten:", "grown: two three"}},
		{"written anew, same size", "one\n", 0, []func(*tailed){
			func(d *tailed) { d.write("two\n"); d.touch() },
			func(d *tailed) {},
		}, []string{"grown: one", "rewritten:", "grown: two"}},
		{"an unfinished line taken back", "one\ntw", 0, []func(*tailed){
			func(d *tailed) { d.must(os.Truncate(d.path, 4)) },
			func(d *tailed) { d.append("three\n") },
		}, []string{"grown: one", "undone:", "grown: three"}},
		{"an unfinished line written anew", "one\ntw", 0, []func(*tailed){
			func(d *tailed) { d.write("one\nthree\n") },
		}, []string{"grown: one", "undone: three"}},
		{"an unfinished first line taken back", "tw", 0, []func(*tailed){
			func(d *tailed) { d.must(os.Truncate(d.path, 0)) },
			func(d *tailed) { d.append("three\n") },
		}, []string{"grown:", "undone:", "grown: three"}},
		{"a long unfinished line taken back", "one\n" + strings.Repeat("y", 9000), 0, []func(*tailed){
			func(d *tailed) { d.must(os.Truncate(d.path, 4)) },
			func(d *tailed) { d.append("two\n") },
		}, []string{"grown: one", "truncated:", "grown: one two"}},
		{"taken back together with a line", "one\ntwo\nthr", 0, []func(*tailed){
			func(d *tailed) { d.write("one\nTWO\nthree\n") },
			func(d *tailed) {},
		}, []string{"grown: one two", "rewritten:", "grown: one TWO three"}},
		{"long lines", long + "\n", 0, []func(*tailed){
			func(d *tailed) { d.append(long + long) },
			func(d *tailed) { d.append("\n") },
			func(d *tailed) { d.overwrite(8999, "!") },
			func(d *tailed) {},
		}, []string{"grown: (3000 bytes)", "grown:", "grown: (6000 bytes)", "rewritten:", "grown: (3000 bytes) (6000 bytes)"}},
		{"a directory", "one\n", 0, []func(*tailed){
			func(d *tailed) { d.must(os.Remove(d.path)); d.must(os.Mkdir(d.path, 0o755)) },
			func(d *tailed) { d.must(os.Remove(d.path)); d.write("two\n") },
			func(d *tailed) {},
		}, []string{"grown: one", "error", "replaced:", "grown: two"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := newTailed(t, test.first, test.off)
			got := []string{d.look(d.tail.Next)}
			for _, step := range test.steps {
				step(d)
				got = append(got, d.look(d.tail.Next))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("looks (-want +got)\n%s", diff)
			}
			d.tail.Close()
			if n := d.fs.open.Load(); n != 0 {
				t.Errorf("%d files left open", n)
			}
		})
	}
}

func TestTail_bytesChangedFarInFront(t *testing.T) {
	d := newTailed(t, strings.Repeat("some line\n", 1000), 0)
	d.look(d.tail.Next)
	d.overwrite(500, "S")
	d.touch()
	if got := d.look(d.tail.Next); got != "unchanged:" || !d.tail.Suspect() {
		t.Fatalf("first look %q, suspect %v", got, d.tail.Suspect())
	}
	if got := d.look(d.tail.Verify); got != "rewritten:" {
		t.Fatalf("verified %q", got)
	}
	if got := d.look(d.tail.Next); !strings.Contains(got, "Some line") || d.tail.Suspect() {
		t.Fatalf("then %.40q, suspect %v", got, d.tail.Suspect())
	}
}

func TestTail_touched(t *testing.T) {
	d := newTailed(t, strings.Repeat("some line\n", 1000), 0)
	d.look(d.tail.Next)
	d.touch()
	if got := d.look(d.tail.Next); got != "unchanged:" || !d.tail.Suspect() {
		t.Fatalf("first look %q, suspect %v", got, d.tail.Suspect())
	}
	if got := d.look(d.tail.Verify); got != "unchanged:" || d.tail.Suspect() {
		t.Fatalf("verified %q, suspect %v", got, d.tail.Suspect())
	}
	// A growth explains a suspicious look: the write was under way.
	d.touch()
	d.append("more\n")
	d.touch()
	if got := d.look(d.tail.Next); got != "grown: more" || d.tail.Suspect() {
		t.Fatalf("growth %q, suspect %v", got, d.tail.Suspect())
	}
}

// prints is how much is read to make sure of what was read before.
func prints(size int) int64 {
	if size <= tailPrint {
		return int64(size)
	}
	return tailPrint + headPrint
}

// The work of a look does not depend on how long the file is.
func TestTail_work(t *testing.T) {
	for _, size := range []int{1 << 10, 1 << 20, 100 << 20} {
		if size > 1<<20 && testing.Short() {
			continue
		}
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			line := strings.Repeat("x", 1023) + "\n"
			d := newTailed(t, strings.Repeat(line, size/len(line)), 0)
			d.look(d.tail.Next)
			work := func(what string, bytes, stats int64) {
				t.Helper()
				if got := d.fs.bytes.Swap(0); got != bytes {
					t.Errorf("%s read %d bytes, want %d", what, got, bytes)
				}
				if got := d.fs.stats.Swap(0); got != stats {
					t.Errorf("%s took %d stats, want %d", what, got, stats)
				}
			}
			d.fs.bytes.Store(0)
			d.fs.stats.Store(0)
			if got, err := d.tail.Next(); err != nil || got.Reason != Unchanged {
				t.Fatal(got, err)
			}
			work("a look without growth", 0, 1)
			d.append(line)
			if got, err := d.tail.Next(); err != nil || got.Reason != Grown {
				t.Fatal(got, err)
			}
			n := 0
			for range d.lines.Lines() {
				n++
			}
			if _, err := d.tail.Revision(); err != nil || n != 1 {
				t.Fatal(n, err)
			}
			work("a line", int64(len(line))+prints(size), 1)
			d.append("unfinished")
			for range 3 {
				if _, err := d.tail.Next(); err != nil {
					t.Fatal(err)
				}
				for range d.lines.Lines() {
					t.Fatal("a line")
				}
			}
			work("an unfinished line, and two looks at it", int64(len("unfinished"))+prints(size+len(line)), 3)
		})
	}
}
