package jsonl

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// String decodes a JSON string value (with its quotes). Lone surrogates and
// invalid UTF-8 become U+FFFD, as Go and JavaScript readers see them. ok is
// false where value is no string.
func String(value []byte) (s string, ok bool) {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return "", false
	}
	in := value[1 : len(value)-1]
	if bytes.IndexByte(in, '\\') < 0 && utf8.Valid(in) {
		return string(in), true
	}
	return string(AppendString(make([]byte, 0, len(in)), in)), true
}

// AppendString appends the decoded form of the inside of a valid JSON string
// to dst.
func AppendString(dst, in []byte) []byte {
	for i := 0; i < len(in); {
		j := bytes.IndexByte(in[i:], '\\')
		if j < 0 {
			j = len(in) - i
		}
		dst = appendValid(dst, in[i:i+j])
		if i += j; i == len(in) {
			break
		}
		if i+1 == len(in) { // no valid string ends like this
			return append(dst, '\\')
		}
		switch in[i+1] {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := unit(in[i:])
			if utf16.IsSurrogate(r) {
				if pair := utf16.DecodeRune(r, unit(in[i+6:])); pair != utf8.RuneError {
					dst = utf8.AppendRune(dst, pair)
					i += 12
					continue
				}
				r = utf8.RuneError
			}
			dst = utf8.AppendRune(dst, r)
			i += 6
			continue
		default: // quote, backslash, slash
			dst = append(dst, in[i+1])
		}
		i += 2
	}
	return dst
}

// appendValid appends in with U+FFFD for each byte that is no UTF-8.
func appendValid(dst, in []byte) []byte {
	if utf8.Valid(in) {
		return append(dst, in...)
	}
	for len(in) > 0 {
		r, n := utf8.DecodeRune(in)
		dst = utf8.AppendRune(dst, r)
		in = in[n:]
	}
	return dst
}

// unit reads `\uXXXX` at the start of in; -1 where it is not there.
func unit(in []byte) rune {
	if len(in) < 6 || in[0] != '\\' || in[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range in[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// Int decodes a JSON integer; ok is false for anything else, and where it
// does not fit.
func Int(value []byte) (n int64, ok bool) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil
}

// Bool decodes true and false.
func Bool(value []byte) (b, ok bool) {
	switch string(value) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}
