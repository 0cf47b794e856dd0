package rpc

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// A row is one input and what is answered. Rows with messages run on both
// framings; raw ones are exact bytes for one.
type row struct {
	name     string
	messages []string
	lsp      string // exact bytes
	ndjson   string // exact bytes
	// want has an answer each: a fault as "id code", a result as its message.
	want []string
	// inOrder rows need each message to be answered before the next is read.
	inOrder bool
	lost    string // part of the error that Serve returns; nothing is read after
}

const maxTestMessage = 1 << 20

func ok(id, result string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}` }

func call1(id, method string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"}`
}

func lspFrame(m string) string { return frame(LSP, m) }

var rows = []row{
	// JSON
	{name: "no JSON", messages: []string{`hello`}, want: []string{"null -32700"}},
	{name: "cut off JSON", messages: []string{`{"jsonrpc":"2.0","id":1,"method":"ec`}, want: []string{"null -32700"}},
	{name: "bytes behind the value", messages: []string{call1("1", "null") + `x`}, want: []string{"null -32700"}},
	{name: "two values", messages: []string{call1("1", "null") + call1("2", "null")}, want: []string{"null -32700"}},
	{name: "balanced but not JSON in params", messages: []string{`{"jsonrpc":"2.0","id":1,"method":"echo","params":{a:b}}`}, want: []string{"null -32700"}},
	{name: "trailing comma", messages: []string{`{"jsonrpc":"2.0","id":1,"method":"echo","params":[1,]}`}, want: []string{"null -32700"}},
	{name: "NaN", messages: []string{`{"jsonrpc":"2.0","id":1,"method":"echo","params":[NaN]}`}, want: []string{"null -32700"}},
	{name: "control character in string", messages: []string{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[\"\x01\"]}"}, want: []string{"null -32700"}},
	{name: "NUL bytes", messages: []string{"\x00\x00\x00"}, want: []string{"null -32700"}},
	{name: "nested too deep", messages: []string{`{"jsonrpc":"2.0","id":1,"method":"echo","params":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`}, want: []string{"null -32700"}},
	{name: "array not closed", messages: []string{strings.Repeat("[", 200000)}, want: []string{"null -32700"}},
	{name: "bad UTF-8 in params", messages: []string{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"null\",\"params\":[\"\xff\"]}"}, want: []string{ok("1", "null")}},
	{name: "unpaired surrogate in params", messages: []string{`{"jsonrpc":"2.0","id":1,"method":"null","params":["\ud800"]}`}, want: []string{ok("1", "null")}},
	{name: "error does not repeat 1 MB of input", messages: []string{`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", 100000) + `"}`}, want: []string{"1 -32600"}},

	// Types of the envelope
	{name: "number", messages: []string{`17`}, want: []string{"null -32600"}},
	{name: "string", messages: []string{`"initialize"`}, want: []string{"null -32600"}},
	{name: "null message", messages: []string{`null`}, want: []string{"null -32600"}},
	{name: "empty object", messages: []string{`{}`}, want: []string{"null -32600"}},
	{name: "jsonrpc missing", messages: []string{`{"id":1,"method":"null"}`}, want: []string{"1 -32600"}},
	{name: "jsonrpc 1.0", messages: []string{`{"jsonrpc":"1.0","id":1,"method":"null"}`}, want: []string{"1 -32600"}},
	{name: "jsonrpc a number", messages: []string{`{"jsonrpc":2.0,"id":1,"method":"null"}`}, want: []string{"1 -32600"}},
	{name: "method missing", messages: []string{`{"jsonrpc":"2.0","id":1}`}, want: []string{"1 -32600"}},
	{name: "method a number", messages: []string{`{"jsonrpc":"2.0","id":1,"method":5}`}, want: []string{"1 -32600"}},
	{name: "method null", messages: []string{`{"jsonrpc":"2.0","id":1,"method":null}`}, want: []string{"1 -32600"}},
	{name: "method with escapes", messages: []string{`{"jsonrpc":"2.0","id":1,"method":"\u006eu\u006cl"}`}, want: []string{ok("1", "null")}},
	{name: "member name with escapes", messages: []string{`{"jsonrpc":"2.0","\u0069d":1,"method":"null"}`}, want: []string{ok("1", "null")}},
	{name: "members in another order, unknown ones", messages: []string{`{"params":[],"x":{"id":7},"method":"null","id":1,"jsonrpc":"2.0"}`}, want: []string{ok("1", "null")}},
	{name: "upper-case member", messages: []string{`{"jsonrpc":"2.0","ID":1,"method":"null"}`}, want: nil},
	{name: "id twice", messages: []string{`{"jsonrpc":"2.0","id":1,"id":2,"method":"null"}`}, want: []string{"null -32600"}},
	{name: "method twice", messages: []string{`{"jsonrpc":"2.0","id":1,"method":"null","method":"panic"}`}, want: []string{"null -32600"}},
	{name: "params a string", messages: []string{`{"jsonrpc":"2.0","id":1,"method":"null","params":"x"}`}, want: []string{"1 -32602"}},
	{name: "params a number in a notification", messages: []string{`{"jsonrpc":"2.0","method":"null","params":3}`}, want: nil},
	{name: "params null", messages: []string{`{"jsonrpc":"2.0","id":1,"method":"echo","params":null}`}, want: []string{ok("1", "null")}},
	{name: "request and response in one", messages: []string{`{"jsonrpc":"2.0","id":1,"method":"null","result":1}`}, want: []string{"1 -32600"}},
	{name: "answer to nothing", messages: []string{`{"jsonrpc":"2.0","id":1,"result":1}`}, want: nil},
	{name: "answer with a string id", messages: []string{`{"jsonrpc":"2.0","id":"x","result":1}`}, want: nil},
	{name: "answer with result and error", messages: []string{`{"jsonrpc":"2.0","id":5,"result":1,"error":2}`}, want: nil},
	{name: "error answer without id", messages: []string{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`}, want: nil},

	// Ids
	{name: "id 2^53+1", messages: []string{call1("9007199254740993", "null")}, want: []string{ok("9007199254740993", "null")}},
	{name: "id beyond 64 bits", messages: []string{call1("123456789012345678901234567890", "null")}, want: []string{ok("123456789012345678901234567890", "null")}},
	{name: "id negative", messages: []string{call1("-7", "null")}, want: []string{ok("-7", "null")}},
	{name: "id zero", messages: []string{call1("0", "null")}, want: []string{ok("0", "null")}},
	{name: "id string", messages: []string{call1(`"a b"`, "null")}, want: []string{ok(`"a b"`, "null")}},
	{name: "id empty string", messages: []string{call1(`""`, "null")}, want: []string{ok(`""`, "null")}},
	{name: "id with escapes comes back as it was", messages: []string{call1(`"\u0041\/\n"`, "null")}, want: []string{ok(`"\u0041\/\n"`, "null")}},
	{name: "id 1 and \"1\" are two", messages: []string{call1(`1`, "null"), call1(`"1"`, "null")}, want: []string{ok(`1`, "null"), ok(`"1"`, "null")}},
	{name: "id null is a notification", messages: []string{call1("null", "null")}, want: nil},
	{name: "id a fraction", messages: []string{call1("1.5", "null")}, want: []string{"null -32600"}},
	{name: "id an exponent", messages: []string{call1("1e3", "null")}, want: []string{"null -32600"}},
	{name: "id bool", messages: []string{call1("true", "null")}, want: []string{"null -32600"}},
	{name: "id object", messages: []string{call1("{}", "null")}, want: []string{"null -32600"}},
	{name: "id array", messages: []string{call1("[1]", "null")}, want: []string{"null -32600"}},
	{name: "id too long", messages: []string{call1(`"`+strings.Repeat("x", 2000)+`"`, "null")}, want: []string{"null -32600"}},
	{name: "id bad UTF-8", messages: []string{call1("\"\xff\"", "null")}, want: []string{"null -32600"}},
	{name: "id used again after the answer", inOrder: true, messages: []string{call1("1", "null"), call1("1", "fail")}, want: []string{ok("1", "null"), "1 -32011"}},

	// What handlers do
	{name: "unknown method", messages: []string{call1("1", "nope")}, want: []string{"1 -32601"}},
	{name: "unknown notification", messages: []string{`{"jsonrpc":"2.0","method":"nope"}`}, want: nil},
	{name: "unknown $/ notification", messages: []string{`{"jsonrpc":"2.0","method":"$/nope","params":{}}`}, want: nil},
	{name: "unknown $/ request", messages: []string{call1("1", "$/nope")}, want: []string{"1 -32601"}},
	{name: "notification that fails", messages: []string{`{"jsonrpc":"2.0","method":"fail"}`}, want: nil},
	{name: "notification that panics", messages: []string{`{"jsonrpc":"2.0","method":"panic"}`}, want: nil},
	{name: "panic", messages: []string{call1("1", "panic")}, want: []string{"1 -32603"}},
	{name: "run-time panic", messages: []string{call1("1", "nilpanic")}, want: []string{"1 -32603"}},
	{name: "plain error", messages: []string{call1("1", "plainfail")}, want: []string{"1 -32603"}},
	{name: "nil *Error", messages: []string{call1("1", "nilerror")}, want: []string{"1 -32603"}},
	{name: "result that cannot be encoded", messages: []string{call1("1", "unencodable")}, want: []string{"1 -32603"}},
	{name: "result with bad UTF-8", messages: []string{call1("1", "badutf8")}, want: []string{ok("1", `"a`+"\uFFFD"+`b"`)}},
	{name: "Raw result with bad UTF-8", messages: []string{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[\"\xff\"]}"}, want: []string{ok("1", `["`+"\uFFFD"+`"]`)}},
	{name: "Order panics", messages: []string{call1("1", "order-panics"), `{"jsonrpc":"2.0","method":"order-panics"}`}, want: []string{"1 -32603"}},

	// Cancel
	{name: "cancel of nothing", messages: []string{`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":12}}`}, want: nil},
	{name: "cancel with an id beyond 32 bits", messages: []string{`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":9007199254740993}}`}, want: nil},
	{name: "cancel without params", messages: []string{`{"jsonrpc":"2.0","method":"$/cancelRequest"}`}, want: nil},
	{name: "cancel with bad params", messages: []string{`{"jsonrpc":"2.0","method":"$/cancelRequest","params":[1]}`, `{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":{}}}`}, want: nil},
	{name: "cancel as a request", messages: []string{`{"jsonrpc":"2.0","id":3,"method":"$/cancelRequest","params":{"id":12}}`}, want: []string{ok("3", "null")}},

	// Batches
	{name: "empty batch", messages: []string{`[]`}, want: []string{"null -32600"}},
	{name: "empty batch with space", messages: []string{` [ ] `}, want: []string{"null -32600"}},
	{name: "batch of one", messages: []string{`[` + call1("1", "null") + `]`}, want: []string{`[` + ok("1", "null") + `]`}},
	{name: "batch in order with bad members", messages: []string{`[1,` + call1("1", "null") + `,{},"x",` + call1("2", "fail") + `,` + call1("3", "null") + `]`}, want: []string{
		"[null -32600," + ok("1", "null") + ",null -32600,null -32600,2 -32011," + ok("3", "null") + "]",
	}},
	{name: "batch of notifications", messages: []string{`[{"jsonrpc":"2.0","method":"null"},{"jsonrpc":"2.0","method":"fail"}]`}, want: nil},
	{name: "batch of answers", messages: []string{`[{"jsonrpc":"2.0","id":1,"result":1}]`}, want: nil},
	{name: "batch with an id used again after the answer", inOrder: true, messages: []string{`[` + call1("1", "null") + `,` + call1("1", "fail") + `]`}, want: []string{`[` + ok("1", "null") + `,1 -32011]`}},
	{name: "batch in a batch", messages: []string{`[[` + call1("1", "null") + `]]`}, want: []string{"[null -32600]"}},
	{name: "batch cut off", messages: []string{`[` + call1("1", "null") + `,`}, want: []string{"null -32700"}},
	{name: "batch too long", messages: []string{`[1` + strings.Repeat(",1", 100000) + `]`}, want: []string{"null -32600"}},
	{name: "batch with cancel and a panic", messages: []string{`[{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}},` + call1("1", "panic") + `]`}, want: []string{"[1 -32603]"}},

	// Sizes
	{name: "message over the limit", messages: []string{`{"jsonrpc":"2.0","id":1,"method":"null","params":["` + strings.Repeat("x", maxTestMessage) + `"]}`}, want: []string{"null -32700"}},
	{name: "message near the limit", messages: []string{`{"jsonrpc":"2.0","id":1,"method":"null","params":["` + strings.Repeat("x", maxTestMessage-100) + `"]}`}, want: []string{ok("1", "null")}},

	// Headers
	{name: "lower case, any order, unknown field", lsp: "x-trace: 1\r\ncontent-type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length: 40\r\n\r\n" + call1("1", "null"), want: []string{ok("1", "null")}},
	{name: "bare LF", lsp: "Content-Length: 40\n\n" + call1("1", "null"), want: []string{ok("1", "null")}},
	{name: "no space and much space", lsp: "Content-Length:40\r\n\r\n" + call1("1", "null") + "Content-Length: \t 40 \r\n\r\n" + call1("2", "null"), want: []string{ok("1", "null"), ok("2", "null")}},
	{name: "charset utf8 in quotes", lsp: "Content-Length: 40\r\nContent-Type: x/y; charset=\"UTF8\"\r\n\r\n" + call1("1", "null"), want: []string{ok("1", "null")}},
	{name: "charset utf-16", lsp: "Content-Length: 40\r\nContent-Type: x/y; charset=utf-16\r\n\r\n" + call1("1", "null"), want: []string{"null -32700"}},
	{name: "length 0", lsp: "Content-Length: 0\r\n\r\n", want: []string{"null -32700"}},
	{name: "equal lengths", lsp: "Content-Length: 40\r\nContent-Length: 40\r\n\r\n" + call1("1", "null"), want: []string{ok("1", "null")}},
	{name: "two lengths", lsp: "Content-Length: 40\r\nContent-Length: 41\r\n\r\n" + call1("1", "null"), want: []string{"null -32700"}, lost: "two Content-Length headers, 40 and 41"},
	{name: "BOM", lsp: "\xEF\xBB\xBF" + lspFrame(call1("1", "null")), want: []string{ok("1", "null")}},
	{name: "white space first", lsp: " \t\r\n\n" + lspFrame(call1("1", "null")), want: []string{ok("1", "null")}},
	{name: "BOM and white space", lsp: "\xEF\xBB\xBF\r\n" + lspFrame(call1("1", "null")), want: []string{ok("1", "null")}},
	{name: "blank lines between", lsp: lspFrame(call1("1", "null")) + "\r\n\n", want: []string{ok("1", "null")}},
	{name: "length missing", lsp: "Content-Type: x/y\r\n\r\n" + call1("1", "null"), want: []string{"null -32700"}, lost: "without Content-Length"},
	{name: "length negative", lsp: "Content-Length: -1\r\n\r\n" + call1("1", "null"), want: []string{"null -32700"}, lost: `Content-Length "-1" is no length`},
	{name: "length with sign", lsp: "Content-Length: +40\r\n\r\n" + call1("1", "null"), want: []string{"null -32700"}, lost: "no length"},
	{name: "length hexadecimal", lsp: "Content-Length: 0x27\r\n\r\n" + call1("1", "null"), want: []string{"null -32700"}, lost: "no length"},
	{name: "length empty", lsp: "Content-Length:\r\n\r\n" + call1("1", "null"), want: []string{"null -32700"}, lost: "no length"},
	{name: "length beyond 64 bits", lsp: "Content-Length: 99999999999999999999\r\n\r\n", want: []string{"null -32700"}, lost: "no length"},
	{name: "length 2 GiB and no body", lsp: "Content-Length: 2147483648\r\n\r\n", want: []string{"null -32700", "null -32700"}, lost: "ended inside a message that was skipped"},
	{name: "length too short", lsp: "Content-Length: 30\r\n\r\n" + call1("1", "null"), want: []string{"null -32700", "null -32700"}, lost: "is no header"},
	{name: "line without colon", lsp: "hello world\r\n\r\n", want: []string{"null -32700"}, lost: "is no header"},
	{name: "name with space", lsp: "Content Length: 40\r\n\r\n", want: []string{"null -32700"}, lost: "is no header"},
	{name: "JSON without header later", lsp: lspFrame(call1("1", "null")) + call1("2", "null"), want: []string{ok("1", "null"), "null -32700"}, lost: "message without Content-Length header"},
	{name: "header line without end", lsp: "X-Long: " + strings.Repeat("x", 100000), want: []string{"null -32700"}, lost: "header line longer than 8192 bytes"},
	{name: "header block without end", lsp: strings.Repeat("X-Many: 1234567890\r\n", 10000), want: []string{"null -32700"}, lost: "header block longer than"},
	{name: "binary", lsp: "\x7fELF\x02\x01\x01\n", want: []string{"null -32700"}, lost: "is no header"},
	{name: "UTF-16", lsp: "\xff\xfeC\x00o\x00\r\x00\n\x00", want: []string{"null -32700"}, lost: "is no header"},

	// Lines
	{name: "CRLF and blank lines", ndjson: "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"null\"}\r\n\r\n \n\t\n", want: []string{ok("1", "null")}},
	{name: "BOM and white space", ndjson: "\xEF\xBB\xBF\n \t" + call1("1", "null") + "\n", want: []string{ok("1", "null")}},
	{name: "pretty JSON over lines", ndjson: "{\n\"id\": 1\n}\n", want: []string{"null -32700", "null -32700", "null -32700"}},
	{name: "header on a line", ndjson: call1("1", "null") + "\nContent-Length: 40\n", want: []string{ok("1", "null"), "null -32700"}},
	{name: "begins with a batch", ndjson: "[" + call1("1", "null") + "]\n", want: []string{"[" + ok("1", "null") + "]"}},
	{name: "second BOM", ndjson: call1("1", "null") + "\n\xEF\xBB\xBF" + call1("2", "null") + "\n", want: []string{ok("1", "null"), "null -32700"}},
}

// rowHandler runs all inline, so that the answers have one order, or all
// concurrently.
func rowHandler(inline bool) *testHandler {
	return &testHandler{
		order: func(r *Request) (string, bool) {
			if r.Method == "order-panics" {
				panic("order")
			}
			return "", inline
		},
	}
}

// digest shortens an answer as it stands in row.want.
func digest(t *testing.T, m string) string {
	t.Helper()
	if strings.HasPrefix(m, "[") {
		var members []jsontext.Value
		if err := json.Unmarshal([]byte(m), &members); err != nil {
			t.Fatal(err)
		}
		parts := make([]string, len(members))
		for i, v := range members {
			parts[i] = digest(t, string(v))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	var a struct {
		ID    jsontext.Value `json:"id"`
		Error *struct {
			Code    int64  `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(m), &a); err != nil {
		t.Fatalf("%v in %.200s", err, m)
	}
	if a.Error == nil {
		return m
	}
	if a.Error.Message == "" || len(a.Error.Message) > 600 || strings.Contains(a.Error.Message, "secret") {
		t.Errorf("message %.700q", a.Error.Message)
	}
	return fmt.Sprintf("%s %d", a.ID, a.Error.Code)
}

func checkRow(t *testing.T, f Framing, r row, inline bool, wrap func(io.Reader) io.Reader) {
	t.Helper()
	bytes := map[Framing]string{LSP: r.lsp, NDJSON: r.ndjson}[f]
	if r.messages != nil {
		bytes = frame(f, r.messages...)
	}
	if bytes == "" || r.inOrder && !inline {
		t.SkipNow()
	}
	want := append([]string(nil), r.want...)
	bytes += frame(f, call1("99", "null"))
	if r.lost == "" {
		want = append(want, ok("99", "null"))
	}
	// Rows over several messages are detected from their own first byte.
	o := Options{MaxMessage: maxTestMessage}
	if r.messages != nil {
		o.Framing = f
	}
	got, err := talk(t, f, wrap(strings.NewReader(bytes)), o, rowHandler(inline))
	for i := range got {
		got[i] = digest(t, got[i])
	}
	if !inline {
		slices.Sort(want)
		slices.Sort(got)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	switch {
	case r.lost == "" && err != nil:
		t.Errorf("Serve: %v", err)
	case r.lost != "" && (err == nil || !strings.Contains(err.Error(), r.lost)):
		t.Errorf("Serve: %v, want %q", err, r.lost)
	}
}

func TestMalformed(t *testing.T) {
	for _, r := range rows {
		for _, f := range []Framing{LSP, NDJSON} {
			t.Run(fmt.Sprintf("%v/%s", f, r.name), func(t *testing.T) {
				t.Run("inline", func(t *testing.T) { checkRow(t, f, r, true, asItIs) })
				t.Run("concurrent", func(t *testing.T) { checkRow(t, f, r, false, asItIs) })
				// Answers do not depend on how the input is cut into reads.
				t.Run("bytewise", func(t *testing.T) { checkRow(t, f, r, true, iotest.OneByteReader) })
			})
		}
	}
}

func asItIs(r io.Reader) io.Reader { return r }

// TestServe_inputCutAnywhere cuts a conversation at each byte: what was
// complete is answered, and only an end between messages is clean.
func TestServe_inputCutAnywhere(t *testing.T) {
	messages := []string{call1("1", "null"), `[` + call1("2", "null") + `]`, call1("3", "null")}
	answers := []string{ok("1", "null"), `[` + ok("2", "null") + `]`, ok("3", "null")}
	for _, f := range []Framing{LSP, NDJSON} {
		var ends []int
		whole := ""
		for _, m := range messages {
			whole += frame(f, m)
			ends = append(ends, len(whole))
		}
		for cut := range len(whole) + 1 {
			var want []string
			clean := cut == 0
			for i, end := range ends {
				// The line end itself may be missing.
				if end <= cut || f == NDJSON && end-1 <= cut {
					want = append(want, answers[i])
					clean = clean || end == cut || f == NDJSON && end-1 == cut
				}
			}
			got, err := talk(t, f, strings.NewReader(whole[:cut]), Options{Framing: f}, rowHandler(true))
			for i := range got {
				got[i] = digest(t, got[i])
			}
			if !clean {
				want = append(want, "null -32700")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%v cut at %d (-want +got):\n%s", f, cut, diff)
			}
			if lost := !clean && f == LSP; lost != (err != nil) {
				t.Errorf("%v cut at %d: Serve: %v", f, cut, err)
			}
		}
	}
}
