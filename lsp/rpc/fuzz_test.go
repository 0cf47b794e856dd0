package rpc

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// FuzzServe takes any input. It is answered with protocol only, not more than
// in proportion, and the connection ends.
func FuzzServe(f *testing.F) {
	for _, r := range rows {
		for _, fr := range []Framing{LSP, NDJSON} {
			bytes := map[Framing]string{LSP: r.lsp, NDJSON: r.ndjson}[fr]
			if r.messages != nil {
				bytes = frame(fr, r.messages...)
			}
			if bytes != "" && len(bytes) < 4096 {
				f.Add(uint8(Auto), []byte(bytes))
				f.Add(uint8(fr), []byte(bytes+frame(fr, call1("99", "null"))))
			}
		}
	}
	f.Fuzz(func(t *testing.T, framing uint8, input []byte) {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c := NewConn(bytes.NewReader(input), &out, Options{Framing: Framing(framing % 3), MaxMessage: 1 << 16, Workers: 2})
		err := c.Serve(ctx, &testHandler{order: func(r *Request) (string, bool) {
			return r.Method, len(r.Params)%2 == 1
		}, slow: func(r *Request) bool { return r.Method == "null" }, handle: func(ctx context.Context, r *Request) (any, error) {
			if r.Method == "wait" { // would be forever
				return nil, nil
			}
			return plain(ctx, r)
		}})
		if ctx.Err() != nil {
			t.Fatal("Serve did not end")
		}
		if err != nil && !strings.HasPrefix(err.Error(), "input: ") {
			t.Errorf("Serve: %v", err)
		}
		if limit := 1000 + 300*len(input); out.Len() > limit {
			t.Errorf("%d bytes written for %d", out.Len(), len(input))
		}
		for r := bufio.NewReader(&out); ; {
			m, err := unframe(c.framing, r)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			checkAnswer(t, m)
		}
	})
}

// checkAnswer wants a JSON-RPC answer or a batch of such.
func checkAnswer(t *testing.T, m string) {
	t.Helper()
	if strings.HasPrefix(m, "[") {
		var members []jsontext.Value
		if err := json.Unmarshal([]byte(m), &members); err != nil || len(members) == 0 {
			t.Fatalf("batch %s: %v", m, err)
		}
		for _, v := range members {
			checkAnswer(t, string(v))
		}
		return
	}
	var a struct {
		JSONRPC string         `json:"jsonrpc"`
		ID      jsontext.Value `json:"id"`
		Result  jsontext.Value `json:"result"`
		Error   *struct {
			Code    int64          `json:"code"`
			Message string         `json:"message"`
			Data    jsontext.Value `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(m), &a, json.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(true)); err != nil {
		t.Fatalf("%v in %s", err, m)
	}
	if a.JSONRPC != "2.0" || a.ID == nil || (a.Result == nil) == (a.Error == nil) || a.Error != nil && (a.Error.Code >= 0 || a.Error.Message == "") {
		t.Errorf("answer %s", m)
	}
}

// chunks cuts the input into reads of the sizes that plan gives.
type chunks struct {
	input, plan []byte
	i           int
}

func (c *chunks) Read(b []byte) (int, error) {
	if len(c.input) == 0 {
		return 0, io.EOF
	}
	n := len(c.input)
	if len(c.plan) > 0 {
		n = min(n, 1+int(c.plan[c.i%len(c.plan)]))
		c.i++
	}
	n = copy(b, c.input[:min(n, len(b))])
	c.input = c.input[n:]
	return n, nil
}

// FuzzDispatch makes a conversation of program, one message a byte: calls with
// few ids and keys, notifications, cancels, batches. Each call is answered
// once, and each key runs in order.
func FuzzDispatch(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7})
	f.Add([]byte{1, 0x80, 0x81, 0x82, 0x40, 0x41, 0x43, 0xC5, 0xFF, 0x80, 0x81})
	f.Add([]byte{2, 0x3F, 0x3F, 0x3F, 0x7F, 0x7F, 0x10, 0x10, 0x10, 0x11, 0x91, 0xD1})
	f.Add(bytes.Repeat([]byte{0x07, 0xC8, 0x47, 0x88}, 50))
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 500 {
			return
		}
		fr := LSP
		if len(program)%2 == 1 {
			fr = NDJSON
		}
		var in strings.Builder
		var members []string
		want := map[string]int{}
		for i, b := range program {
			// bits: kind 2, id 3, key 2, behaviour 1
			id, params := fmt.Sprint(b>>1&7), fmt.Sprintf(`{"k":"%s","i":%d,"b":%d}`, strings.Repeat("k", int(b>>4&3)), i, b&1)
			m := ""
			switch b >> 6 {
			case 0, 1:
				m = req(id, "m", params)
				want[id]++
			case 2:
				m = note("m", params)
			case 3:
				m = cancelOf(id)
			}
			if b%5 == 0 {
				members = append(members, m)
				continue
			}
			in.WriteString(frame(fr, m))
			if b%7 == 0 && len(members) > 0 {
				in.WriteString(frame(fr, "["+strings.Join(members, ",")+"]"))
				members = nil
			}
		}
		if len(members) > 0 {
			in.WriteString(frame(fr, "["+strings.Join(members, ",")+"]"))
		}
		var mu sync.Mutex
		arrived := map[string]int{}
		last := map[string]int{}
		running := map[string]int{}
		h := &testHandler{order: func(r *Request) (string, bool) {
			key, _ := byParam(r)
			mu.Lock()
			defer mu.Unlock()
			arrived[string(r.Params)] = len(arrived)
			return key, false
		}, slow: func(r *Request) bool { return len(r.ID)%2 == 0 }, handle: func(ctx context.Context, r *Request) (any, error) {
			var p struct {
				K    string `json:"k"`
				I, B int
			}
			if err := json.Unmarshal(r.Params, &p, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Error(err)
			}
			mu.Lock()
			seq := arrived[string(r.Params)]
			if prev, ran := last[p.K]; p.K != "" && ran && (prev >= seq || running[p.K] > 0) {
				t.Errorf("key %s: %d after %d, %d running", p.K, seq, prev, running[p.K])
			}
			last[p.K] = seq
			running[p.K]++
			mu.Unlock()
			defer func() {
				mu.Lock()
				running[p.K]--
				mu.Unlock()
			}()
			if p.B == 1 {
				runtime.Gosched()
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				panic("sometimes")
			}
			return Reply{Result: p.I, After: runtime.Gosched}, nil
		}}
		got := map[string]int{}
		// Read to the end, and then some, with small bounds all over.
		answers, err := talk(t, fr, &chunks{input: []byte(in.String()), plan: program}, Options{Framing: fr, Workers: 1, MaxPending: 3, MaxQueued: 100}, h)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range answers {
			checkAnswer(t, m)
			var batch []struct{ ID jsontext.Value }
			if !strings.HasPrefix(m, "[") {
				m = "[" + m + "]"
			}
			if err := json.Unmarshal([]byte(m), &batch, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Fatal(err)
			}
			for _, a := range batch {
				got[string(a.ID)]++
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answers by id (-want +got):\n%s", diff)
		}
	})
}
