package jsonl

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// maxDepth bounds nesting, as encoding/json does.
const maxDepth = 10000

// Valid reports whether raw is exactly one JSON value with optional white
// space around it. Unlike encoding/json it is indifferent to UTF-8: agents
// that write JavaScript strings produce lone surrogates and worse. It
// allocates nothing, or a few bytes per nesting level beyond 64.
func Valid(raw []byte) bool {
	i := space(raw, 0)
	end, ok := value(raw, i)
	return ok && space(raw, end) == len(raw)
}

// Value finds the JSON value that begins at raw[i] (after white space) and
// validates it. end is the index behind it.
func Value(raw []byte, i int) (start, end int, ok bool) {
	start = space(raw, i)
	end, ok = value(raw, start)
	return start, end, ok
}

// Members walks the members of the JSON object raw and validates all of it.
// visit gets each key without quotes (escapes as written) and each value as
// written; it returns false to stop, which skips the rest unvalidated. The
// result is false when raw is no valid JSON object. No allocation.
func Members(raw []byte, visit func(key, value []byte) bool) bool {
	c := NewCursor(raw)
	if !c.Object() {
		return false
	}
	for {
		key, ok := c.Member()
		if !ok {
			return c.Done()
		}
		value := c.Value()
		if value == nil {
			return false
		}
		if !visit(key, value) {
			return true
		}
	}
}

// Elements walks the elements of the JSON array raw, as Members does.
func Elements(raw []byte, visit func(value []byte) bool) bool {
	c := NewCursor(raw)
	if !c.Array() {
		return false
	}
	for c.Element() {
		value := c.Value()
		if value == nil {
			return false
		}
		if !visit(value) {
			return true
		}
	}
	return c.Done()
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// stack holds one bit per open container: 1 for an object. Levels beyond 64
// spill into more.
type stack struct {
	bits  uint64
	more  []uint64
	depth int
	limit int
}

func (s *stack) push(object bool) bool {
	if s.depth == s.limit {
		return false
	}
	if s.depth > 0 && s.depth%64 == 0 {
		s.more = append(s.more, s.bits)
	}
	s.bits <<= 1
	if object {
		s.bits |= 1
	}
	s.depth++
	return true
}

func (s *stack) pop() {
	s.depth--
	s.bits >>= 1
	if s.depth > 0 && s.depth%64 == 0 {
		s.bits = s.more[len(s.more)-1]
		s.more = s.more[:len(s.more)-1]
	}
}

func (s *stack) object() bool { return s.bits&1 == 1 }

// value validates the value that begins at b[i] and gives the index behind
// it.
func value(b []byte, i int) (int, bool) { return valueIn(b, i, 0) }

// valueIn is value inside of depth containers. It does not recurse: nesting
// is in s.
func valueIn(b []byte, i, depth int) (int, bool) {
	s := stack{limit: maxDepth - depth}
	var ok bool
	for {
		// A value begins at b[i].
		if i >= len(b) {
			return i, false
		}
		switch c := b[i]; {
		case c == '"':
			if i, ok = str(b, i); !ok {
				return i, false
			}
		case c == '{':
			if !s.push(true) {
				return i, false
			}
			i = space(b, i+1)
			if i < len(b) && b[i] == '}' {
				s.pop()
				i++
				break
			}
			if i, ok = member(b, i); !ok {
				return i, false
			}
			continue
		case c == '[':
			if !s.push(false) {
				return i, false
			}
			i = space(b, i+1)
			if i < len(b) && b[i] == ']' {
				s.pop()
				i++
				break
			}
			continue
		case c == '-' || c >= '0' && c <= '9':
			if i, ok = number(b, i); !ok {
				return i, false
			}
		case c == 't':
			if i, ok = word(b, i, "true"); !ok {
				return i, false
			}
		case c == 'f':
			if i, ok = word(b, i, "false"); !ok {
				return i, false
			}
		case c == 'n':
			if i, ok = word(b, i, "null"); !ok {
				return i, false
			}
		default:
			return i, false
		}
		// A value ended at b[i]: go on in the container around it.
		for {
			if s.depth == 0 {
				return i, true
			}
			i = space(b, i)
			if i >= len(b) {
				return i, false
			}
			if b[i] == ',' {
				i = space(b, i+1)
				if s.object() {
					if i, ok = member(b, i); !ok {
						return i, false
					}
				}
				break
			}
			if s.object() && b[i] == '}' || !s.object() && b[i] == ']' {
				s.pop()
				i++
				continue
			}
			return i, false
		}
	}
}

// member validates `"key" :` and gives the index of the value.
func member(b []byte, i int) (int, bool) {
	if i >= len(b) || b[i] != '"' {
		return i, false
	}
	i, ok := str(b, i)
	if !ok {
		return i, false
	}
	i = space(b, i)
	if i >= len(b) || b[i] != ':' {
		return i, false
	}
	return space(b, i+1), true
}

func word(b []byte, i int, w string) (int, bool) {
	if len(b)-i < len(w) || string(b[i:i+len(w)]) != w {
		return i, false
	}
	return i + len(w), true
}

func number(b []byte, i int) (int, bool) {
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b):
		return i, false
	case b[i] == '0':
		i++
	case b[i] >= '1' && b[i] <= '9':
		i = digits(b, i)
	default:
		return i, false
	}
	if i < len(b) && b[i] == '.' {
		j := digits(b, i+1)
		if j == i+1 {
			return j, false
		}
		i = j
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		j := digits(b, i)
		if j == i {
			return j, false
		}
		i = j
	}
	return i, true
}

func digits(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks the high bit of the first byte of w that is a quote, a
// backslash or a control character; borrows can only mark bytes behind it.
func special(w uint64) uint64 {
	q := w ^ ones*'"'
	s := w ^ ones*'\\'
	return (((q - ones) &^ q) | ((s - ones) &^ s) | ((w - ones*0x20) &^ w)) & highs
}

// simple are the bytes that make an escape with the backslash before them.
var simple = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// str validates the string whose opening quote is b[i] and gives the index
// behind its closing quote. Eight bytes are looked at in one step.
func str(b []byte, i int) (int, bool) {
	i++
	for {
		for len(b)-i >= 8 {
			m := special(binary.LittleEndian.Uint64(b[i:]))
			if m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		if i >= len(b) {
			return i, false
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, true
		case c == '\\':
			switch {
			case i+1 < len(b) && simple[b[i+1]]:
				i += 2
			case len(b)-i >= 6 && b[i+1] == 'u' && hex4(b[i+2:i+6]):
				i += 6
			default:
				return i, false
			}
		case c < 0x20:
			return i, false
		default:
			i++
		}
	}
}

func hex4(b []byte) bool {
	for _, c := range b {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return false
		}
	}
	return true
}

// IsNull reports whether a value is the literal null.
func IsNull(value []byte) bool { return bytes.Equal(value, []byte("null")) }
