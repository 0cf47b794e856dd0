package jsonl

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// AppendLiteral appends the inside of a JSON string to dst in such a way that
// it is one that every decoder takes: as it is where that is so, which is
// nearly always and several times faster than decoding and encoding it. Lone
// surrogates and bytes that are no UTF-8 become U+FFFD, as String decodes
// them; what no valid string holds is escaped. in need not be valid.
func AppendLiteral(dst, in []byte) []byte {
	from := 0 // in[from:i] is fine and not yet appended
	replace := func(i, n int, by string) {
		dst = append(dst, in[from:i]...)
		dst = append(dst, by...)
		from = i + n
	}
	for i := 0; ; {
		for len(in)-i >= 8 {
			w := binary.LittleEndian.Uint64(in[i:])
			if m := special(w) | w&highs; m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		if i >= len(in) {
			return append(dst, in[from:]...)
		}
		switch c := in[i]; {
		case c >= utf8.RuneSelf:
			for i < len(in) && in[i] >= utf8.RuneSelf { // most often several in a row
				r, n := utf8.DecodeRune(in[i:])
				if r == utf8.RuneError && n == 1 {
					replace(i, 1, "\uFFFD")
				}
				i += n
			}
		case c == '\\' && i+1 < len(in) && simple[in[i+1]]:
			i += 2
		case c == '\\':
			n, ok := escape(in[i:])
			if !ok {
				if n == 6 { // a lone surrogate
					replace(i, n, "\uFFFD")
				} else {
					replace(i, n, `\\`)
				}
			}
			i += n
		case c == '"':
			replace(i, 1, `\"`)
			i++
		case c < 0x20:
			const hex = "0123456789abcdef"
			replace(i, 1, `\u00`+hex[c>>4:c>>4+1]+hex[c&15:c&15+1])
			i++
		default:
			i++
		}
	}
}

// escape gives the length of the escape that in begins with, which is no simple
// one, both halves of a pair together. Where it is none that stands for itself
// ok is false and n is 1, or 6 for half a pair.
func escape(in []byte) (n int, ok bool) {
	if len(in) > 1 && in[1] == 'u' {
		switch r := unit(in); {
		case r < 0:
			return 1, false
		case r < 0xD800 || r > 0xDFFF:
			return 6, true
		case r < 0xDC00:
			if low := unit(in[6:]); low >= 0xDC00 && low <= 0xDFFF {
				return 12, true
			}
		}
		return 6, false
	}
	return 1, false
}
