package jsonl

import (
	"bytes"
	"strings"
	"testing"
)

// walk enters every container of the next value down to depth levels.
func walk(c *Cursor, depth int, visit func(key, value []byte)) {
	switch {
	case depth > 0 && c.Object():
		for {
			key, ok := c.Member()
			if !ok {
				return
			}
			from := c.Pos()
			walk(c, depth-1, visit)
			visit(key, c.Since(from))
		}
	case depth > 0 && c.Array():
		for c.Element() {
			from := c.Pos()
			walk(c, depth-1, visit)
			visit(nil, c.Since(from))
		}
	default:
		c.Value()
	}
}

// However deep a cursor enters, it accepts what Valid accepts, and visits the
// members of an object as Members does.
func FuzzCursor(f *testing.F) {
	for _, s := range []string{
		`{"a":"x\\","b":[1,"]",{"c":"}"}],"d":{} }`, `[ "\"" , {"a":null}, [] ,1e3]`, `{}`, `[]`, ` { "a" : "\\\"" , "b" : true } `,
		``, ` `, `1`, `"x"`, `{"a"}`, `{"a":}`, `{,}`, `[,]`, `[1,]`, `{"a":1,}`, `[1 2]`, `{"a":1}}`, `[[[]]]x`, `{"a":[}`, `"a`, `{"a" : {"b" :[1 , 2 ] } }`,
		`{"a:":":"}`, `{"\"":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		agrees(t, raw)
		var want, got [][]byte
		k := NewKnownCursor(raw)
		walk(&k, 3, func([]byte, []byte) {}) // ends on anything
		if !Members(raw, func(k, v []byte) bool { want = append(want, k, v); return true }) {
			return
		}
		c := NewCursor(raw)
		level := 0
		for c.Object(); ; {
			k, ok := c.Member()
			if !ok {
				break
			}
			from := c.Pos()
			if level++; level%2 == 0 {
				c.Value()
			} else {
				walk(&c, 3, func([]byte, []byte) {})
			}
			got = append(got, k, c.Since(from))
		}
		k = NewKnownCursor(raw)
		walk(&k, 3, func([]byte, []byte) {})
		if !k.Done() {
			t.Fatalf("%q is valid, but not to a cursor that knows so", raw)
		}
		if !bytes.Equal(bytes.Join(want, []byte("|")), bytes.Join(got, []byte("|"))) {
			t.Fatalf("%q: want %q, got %q", raw, want, got)
		}
	})
}

// agrees compares cursors that enter few and many containers.
func agrees(t *testing.T, raw []byte) {
	t.Helper()
	for depth := range 4 {
		c := NewCursor(raw)
		walk(&c, depth, func([]byte, []byte) {})
		if got, want := c.Done(), Valid(raw); got != want {
			t.Fatalf("depth %d: %.40q is taken for valid: %v, want %v", depth, raw, got, want)
		}
	}
}

// Nesting is bounded alike, whether it is entered or passed over.
func TestCursor_depth(t *testing.T) {
	for _, n := range []int{maxDepth - 1, maxDepth, maxDepth + 1} {
		agrees(t, []byte(strings.Repeat("[", n)+strings.Repeat("]", n)))
	}
}
