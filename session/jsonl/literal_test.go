package jsonl

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Whatever goes in, a strict decoder takes what comes out; of a valid string
// it gets what String gives.
func FuzzLiteral(f *testing.F) {
	for _, s := range []string{
		`plain`, `a \"quoted\" word \\ and\nmore\/`, `\ud83d\ude42 🙂 \u00e9`, `\ud83d`, `\ude42\ud83d x`, `\ud83d\u0041`, "\xff\xfe ok",
		`"`, "\x00\x1f\t", `\x`, `\u12`, `\`, `12345678\`, `\uD83D\uDE4`, "1234567\"8", "123456\xe6\xbc", "漢字かな한글",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		quoted := append(append([]byte{'"'}, in...), '"')
		out := append(AppendLiteral([]byte{'"'}, in), '"')
		plain, err := jsontext.AppendUnquote(nil, out)
		if err != nil || !utf8.Valid(out) || !Valid(out) {
			t.Fatalf("%q became %q: %v", in, out, err)
		}
		if !Valid(quoted) {
			return
		}
		want, _ := String(quoted)
		if string(plain) != want {
			t.Fatalf("%q became %q, which is %q, want %q", in, out, plain, want)
		}
		if lone := bytes.Contains([]byte(want), []byte("\uFFFD")); !lone && !bytes.Equal(out, quoted) {
			t.Fatalf("%q was changed to %q", in, out)
		}
	})
}
