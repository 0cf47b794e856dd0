package rpc

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestServe_answersAfterEnd(t *testing.T) {
	for _, f := range []Framing{LSP, NDJSON} {
		in := frame(f, `{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":1}}`)
		got, err := talk(t, f, strings.NewReader(in), Options{}, &testHandler{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{`{"jsonrpc":"2.0","id":1,"result":{"a":1}}`}, got); diff != "" {
			t.Error(diff)
		}
	}
}
