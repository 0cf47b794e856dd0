package jsonl

import "bytes"

// Part is a piece of a damaged line: a complete JSON value, or a fragment.
type Part struct {
	Off, Len int  // within the line's Raw
	Whole    bool // a complete, valid JSON value
}

// salvageBudget bounds the work on hostile lines: the bytes looked at in vain
// are at most this many times the length of the line.
const salvageBudget = 16

// Salvage takes a line apart that is not one JSON value: two records without
// a line feed between them, a cut record with a whole one glued on, NUL runs
// between records. The parts cover every byte but white space and NULs, in
// order.
//
// Values that stand one behind the other from the start are whole. Behind a
// fragment an object counts only if accept says that it looks like a record,
// since a cut record holds complete inner objects too. The work is linear in
// the length of the line.
func Salvage(raw []byte, accept func(value []byte) bool) []Part {
	var parts []Part
	budget := salvageBudget*len(raw) + 4096
	for i := 0; ; {
		for i < len(raw) && (raw[i] == 0 || raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\r' || raw[i] == '\n') {
			i++
		}
		if i >= len(raw) {
			return parts
		}
		end, ok := value(raw, i)
		if ok {
			parts = append(parts, Part{Off: i, Len: end - i, Whole: true})
			i = end
			continue
		}
		budget -= end - i
		next := len(raw)
		for c := i + 1; budget > 0; {
			j := bytes.Index(raw[c:], []byte(`{"`))
			if j < 0 {
				break
			}
			c += j
			if end, ok := value(raw, c); ok && accept(raw[c:end]) {
				next = c
				break
			} else {
				budget -= end - c + 2
			}
			c++
		}
		n := len(bytes.TrimRight(raw[i:next], "\x00 \t\r\n"))
		parts = append(parts, Part{Off: i, Len: n})
		i = next
	}
}
