package jsonl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// got is a line with its bytes copied, for comparison.
type got struct {
	Num            int
	Offset, Length int64
	Lead           int
	Raw            string
	Flaw           Flaw
}

func copied(l Line) got {
	return got{l.Num, l.Offset, l.Length, l.Lead, string(l.Raw), l.Flaw}
}

func readAll(t testing.TB, src io.ReaderAt, opt Options) []got {
	t.Helper()
	r := NewReader(src, 0, 1, opt)
	var out []got
	for l := range r.Lines() {
		out = append(out, copied(l))
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	if p := r.Pending(); p.Length > 0 {
		out = append(out, copied(p))
	}
	return out
}

func TestReader(t *testing.T) {
	for _, c := range []struct {
		name, in string
		opt      Options
		want     []got
	}{
		{"empty", "", Options{}, nil},
		{"one", "{}\n", Options{}, []got{{1, 0, 2, 0, "{}", 0}}},
		{"crlf and blank", "{}\r\n\r\n\n[]\n", Options{}, []got{{1, 0, 3, 0, "{}", 0}, {2, 4, 1, 0, "", 0}, {3, 6, 0, 0, "", 0}, {4, 7, 2, 0, "[]", 0}}},
		{"bom", "\xef\xbb\xbf{}\n", Options{}, []got{{1, 0, 5, 3, "{}", BOM}}},
		{"nul run before and behind", "\x00\x00{}\x00\n", Options{}, []got{{1, 0, 5, 2, "{}", NULRun}}},
		{"nul line", "\x00\x00\n{}\n", Options{}, []got{{1, 0, 2, 2, "", NULRun}, {2, 3, 2, 0, "{}", 0}}},
		{"torn tail", "{}\n{\"a", Options{}, []got{{1, 0, 2, 0, "{}", 0}, {2, 3, 3, 0, "{\"a", Torn}}},
		{"longer than the window", "{}\n" + strings.Repeat("x", 20) + "\n{}\n", Options{Window: 8}, []got{{1, 0, 2, 0, "{}", 0}, {2, 3, 20, 0, strings.Repeat("x", 20), 0}, {3, 24, 2, 0, "{}", 0}}},
		{"too long", strings.Repeat("x", 30) + "\n{}\n", Options{Window: 8, MaxLine: 20}, []got{{1, 0, 30, 0, strings.Repeat("x", 30), TooLong}, {2, 31, 2, 0, "{}", 0}}},
		{"line feed inside a string is an end", "{\"a\":\"\n\"}\n", Options{}, []got{{1, 0, 6, 0, "{\"a\":\"", 0}, {2, 7, 2, 0, "\"}", 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, readAll(t, strings.NewReader(c.in), c.opt)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// bytesGen makes sources with every kind of flaw.
func bytesGen() *rapid.Generator[[]byte] {
	piece := rapid.SampledFrom([]string{
		"{}", `{"a":"b"}`, "\n", "\n", "\r\n", "\x00\x00", "\xef\xbb\xbf", " ", `{"cut":"`, strings.Repeat("y", 40), "\"", "[1,2]",
	})
	return rapid.Custom(func(t *rapid.T) []byte {
		return []byte(strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(t, "pieces"), ""))
	})
}

// Lines partition the bytes.
func TestReader_partition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := bytesGen().Draw(t, "src")
		opt := Options{Window: rapid.IntRange(1, 64).Draw(t, "window"), MaxLine: rapid.Int64Range(1, 100).Draw(t, "max")}
		r := NewReader(bytes.NewReader(src), 0, 1, opt)
		at, num := int64(0), 1
		for l := range r.Lines() {
			if l.Offset != at || l.Num != num {
				t.Fatalf("line at %d number %d, want %d and %d", l.Offset, l.Num, at, num)
			}
			if l.Flaw.Has(TooLong) != (l.Length > opt.MaxLine) {
				t.Fatalf("line of %d bytes, limit %d: flaw %v", l.Length, opt.MaxLine, l.Flaw)
			}
			if !bytes.Equal(l.Raw, src[at+int64(l.Lead):at+int64(l.Lead)+int64(len(l.Raw))]) {
				t.Fatalf("raw is not at offset %d + lead %d", l.Offset, l.Lead)
			}
			at += l.Length + 1
			num++
			if src[at-1] != '\n' {
				t.Fatalf("line does not end at a line feed")
			}
		}
		if r.Offset() != at || r.Pending().Length != int64(len(src))-at {
			t.Fatalf("offset %d pending %d, want %d and %d", r.Offset(), r.Pending().Length, at, int64(len(src))-at)
		}
	})
}

// growing is a source of which only a part is there.
type growing struct {
	all []byte
	n   int
}

func (g *growing) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(g.all[:g.n]).ReadAt(p, off)
}

// Any split of the bytes and any window give the same lines.
func TestReader_anySplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := bytesGen().Draw(t, "src")
		limit := rapid.Int64Range(1, 100).Draw(t, "max")
		var want []got
		for l := range NewReader(bytes.NewReader(src), 0, 1, Options{MaxLine: limit}).Lines() {
			g := copied(l)
			want = append(want, g)
		}
		g := &growing{all: src}
		r := NewReader(g, 0, 1, Options{Window: rapid.IntRange(1, 64).Draw(t, "window"), MaxLine: limit})
		var have []got
		for g.n < len(src) {
			g.n = min(len(src), g.n+rapid.IntRange(1, 20).Draw(t, "step"))
			for l := range r.Lines() {
				have = append(have, copied(l))
			}
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Fatal(diff)
		}
		if p := r.Pending(); p.Length != int64(len(src))-r.Offset() {
			t.Fatalf("pending %d of %d", p.Length, int64(len(src))-r.Offset())
		}
	})
}

// Batches give the same lines, and what they gave stays as it was.
func TestReader_batches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := bytesGen().Draw(t, "src")
		opt := Options{Window: rapid.IntRange(1, 64).Draw(t, "window"), MaxLine: rapid.Int64Range(1, 100).Draw(t, "max")}
		var want []got
		plain := NewReader(bytes.NewReader(src), 0, 1, opt)
		for l := range plain.Lines() {
			want = append(want, copied(l))
		}
		var kept []Line
		var spare []byte
		r := NewReader(bytes.NewReader(src), 0, 1, opt)
		for {
			lines, used := r.Batch(nil, spare)
			if len(lines) == 0 {
				break
			}
			kept = append(kept, lines...)
			if spare = nil; rapid.Bool().Draw(t, "reuse") { // of another buffer than the lines'
				spare = make([]byte, 0, cap(used))
			}
		}
		var have []got
		for _, l := range kept {
			have = append(have, copied(l))
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(plain.Pending(), r.Pending()); diff != "" || plain.Offset() != r.Offset() || plain.BytesRead() != r.BytesRead() {
			t.Fatalf("end %d, want %d: %s", r.Offset(), plain.Offset(), diff)
		}
	})
}

func TestBackward_isForwardReversed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := bytesGen().Draw(t, "src")
		opt := Options{Window: rapid.IntRange(1, 64).Draw(t, "window"), MaxLine: rapid.Int64Range(1, 100).Draw(t, "max")}
		r := NewReader(bytes.NewReader(src), 0, 1, Options{MaxLine: opt.MaxLine})
		var want []got
		for l := range r.Lines() {
			g := copied(l)
			g.Num = 0
			want = append(want, g)
		}
		if p := r.Pending(); p.Length > 0 {
			g := copied(p)
			g.Num = 0
			want = append(want, g)
		}
		slices.Reverse(want)
		seq, failed := Backward(bytes.NewReader(src), int64(len(src)), opt)
		var have []got
		for l := range seq {
			have = append(have, copied(l))
		}
		if err := failed(); err != nil {
			t.Fatal(err)
		}
		if len(want) != len(have) {
			t.Fatalf("%q: %d lines, want %d: %+v", src, len(have), len(want), have)
		}
		for i := range want {
			w, h := want[i], have[i]
			if w.Flaw.Has(Torn) && w.Length > opt.MaxLine { // a prefix is compared by its length only
				w.Raw, h.Raw = "", ""
			}
			if diff := cmp.Diff(w, h); diff != "" {
				t.Fatalf("%q line %d from the end: %s", src, i, diff)
			}
		}
	})
}

func TestLastIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := rapid.SliceOfN(rapid.SampledFrom([]byte("ab")), 0, 60).Draw(t, "src")
		pat := rapid.SliceOfN(rapid.SampledFrom([]byte("ab")), 1, 5).Draw(t, "pattern")
		floor := rapid.IntRange(0, len(src)).Draw(t, "floor")
		got, err := LastIndex(bytes.NewReader(src), int64(floor), int64(len(src)), pat, Options{Window: rapid.IntRange(1, 16).Draw(t, "window")})
		if err != nil {
			t.Fatal(err)
		}
		want := bytes.LastIndex(src[floor:], pat)
		if want >= 0 {
			want += floor
		}
		if int64(want) != got {
			t.Fatalf("%q in %q from %d: %d, want %d", pat, src, floor, got, want)
		}
	})
}

func TestSalvage(t *testing.T) {
	record := func(v []byte) bool { return bytes.HasPrefix(v, []byte(`{"type"`)) }
	for _, c := range []struct {
		name, in string
		want     []string // "+" whole, "-" fragment
	}{
		{"one", `{"a":1}`, []string{`+{"a":1}`}},
		{"glued", `{"a":1}{"b":2}`, []string{`+{"a":1}`, `+{"b":2}`}},
		{"NULs between", "{\"a\":1}\x00\x00{\"b\":2}", []string{`+{"a":1}`, `+{"b":2}`}},
		{"cut in a string", `{"a":"cut{"type":1}`, []string{`-{"a":"cut`, `+{"type":1}`}},
		{"cut before a value", `{"a":{"type":1}`, []string{`-{"a":`, `+{"type":1}`}},
		{"inner objects of a cut record do not count", `{"a":[{"x":1},{"y":2}`, []string{`-{"a":[{"x":1},{"y":2}`}},
		{"garbage behind", `{"a":1}xyz`, []string{`+{"a":1}`, `-xyz`}},
		{"garbage before", `xyz{"type":1}`, []string{`-xyz`, `+{"type":1}`}},
		{"two cut records and a whole one", `{"a":"x{"b":"y{"type":2}{"c":3}`, []string{`-{"a":"x{"b":"y`, `+{"type":2}`, `+{"c":3}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var have []string
			for _, p := range Salvage([]byte(c.in), record) {
				mark := "-"
				if p.Whole {
					mark = "+"
				}
				have = append(have, mark+c.in[p.Off:p.Off+p.Len])
			}
			if diff := cmp.Diff(c.want, have); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Hostile lines cost linear work: with quadratic work these would take hours.
func TestSalvage_hostile(t *testing.T) {
	for _, unit := range []string{`{"`, `{"a":`, `{"a":"`, `[{"`, "{\"a\":1}x"} {
		line := []byte(strings.Repeat(unit, 1<<20/len(unit)))
		calls := 0
		Salvage(line, func([]byte) bool { calls++; return false })
		if calls > len(line) {
			t.Errorf("%q: %d candidates", unit, calls)
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `{"a":[1,2,{"b":null}],"c":"\u00e9\n"}`, `-0.5e+3`, `01`, `1.`, `"\q"`, "\"\x01\"", `tru`, `[1,]`, `{"a":1,}`, `{"a"}`,
		` {} `, `{}x`, `"\ud800"`, strings.Repeat("[", 100) + strings.Repeat("]", 100), strings.Repeat(`{"a":[`, 70) + strings.Repeat(`]}`, 70), "", " ", `"abcdefg\"hij"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if got, want := Valid(in), json.Valid(in); got != want {
			t.Errorf("Valid(%q) = %v, encoding/json says %v", in, got, want)
		}
	})
}

func FuzzString(f *testing.F) {
	for _, s := range []string{`"a"`, `"\ud83d\ude42"`, `"\ud83d"`, `"\ude42\ud83d x"`, "\"\xff\"", `"\/\b\f"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var want string
		if len(in) == 0 || in[0] != '"' || json.Unmarshal(in, &want) != nil || in[len(in)-1] != '"' {
			return
		}
		if got, ok := String(in); !ok || got != want {
			t.Errorf("String(%q) = %q %v, want %q", in, got, ok, want)
		}
	})
}

func TestMembers_agreesWithDecoder(t *testing.T) {
	in := []byte(` {"a" : 1 , "b\n": {"x":[{}]}, "c":"y", "a": null } `)
	var have []string
	if !Members(in, func(k, v []byte) bool { have = append(have, string(k)+"="+string(v)); return true }) {
		t.Fatal("no object")
	}
	if diff := cmp.Diff([]string{"a=1", `b\n={"x":[{}]}`, `c="y"`, "a=null"}, have); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{``, `[]`, `{`, `{"a":1`, `{"a":1}}`, `{"a":1,}`, `{a:1}`, `{"a":}`} {
		if Members([]byte(bad), func(_, _ []byte) bool { return true }) {
			t.Errorf("Members(%q) took it for an object", bad)
		}
	}
	have = nil
	if !Elements([]byte(`[1, "x",[2],{}]`), func(v []byte) bool { have = append(have, string(v)); return true }) {
		t.Fatal("no array")
	}
	if diff := cmp.Diff([]string{"1", `"x"`, "[2]", "{}"}, have); diff != "" {
		t.Error(diff)
	}
}

func ExampleReader() {
	r := NewReader(strings.NewReader("{\"a\":1}\n{\"b\":2}\n{\"torn"), 0, 1, Options{})
	for l := range r.Lines() {
		fmt.Println(l.Num, l.Offset, string(l.Raw))
	}
	fmt.Println("pending from", r.Pending().Offset)
	// Output:
	// 1 0 {"a":1}
	// 2 8 {"b":2}
	// pending from 16
}
