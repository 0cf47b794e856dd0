package rpc

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// byParam takes the key from params {"k": ...}.
func byParam(r *Request) (string, bool) {
	var p struct {
		K string `json:"k"`
	}
	_ = json.Unmarshal(r.Params, &p) // others have no key
	return p.K, false
}

// gates lets tests decide when a request ends: method "hold" tells that it
// runs, by its id, and ends when its gate is opened.
type gates struct {
	running chan string
	mu      sync.Mutex
	gate    map[string]chan struct{}
}

func newGates() *gates {
	return &gates{running: make(chan string, 2000), gate: map[string]chan struct{}{}}
}

func (g *gates) of(id string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gate[id] == nil {
		g.gate[id] = make(chan struct{})
	}
	return g.gate[id]
}

func (g *gates) open(id string) { close(g.of(id)) }

func (g *gates) handle(ctx context.Context, r *Request) (any, error) {
	if !strings.HasPrefix(r.Method, "hold") {
		return plain(ctx, r)
	}
	g.running <- r.ID
	select {
	case <-g.of(r.ID):
		return nil, nil
	case <-ctx.Done():
		if r.Method == "hold-wrap" {
			return nil, errorf(CodeInternal, "wrapped: %v", ctx.Err())
		}
		if r.Method == "hold-write" {
			return "written", nil
		}
		if r.Method == "hold-storage" {
			return nil, errorf(-32014, "disk full")
		}
		return nil, ctx.Err()
	}
}

func (g *gates) handler() *testHandler {
	return &testHandler{
		order: func(r *Request) (string, bool) {
			key, _ := byParam(r)
			return key, r.Method == "inline"
		},
		slow:   func(r *Request) bool { return r.Method == "hold-slow" },
		handle: g.handle,
	}
}

func TestOrder_equalKeyRunsInOrderOfArrival(t *testing.T) {
	const keys, each = 7, 60
	var mu sync.Mutex
	ran := map[string][]string{}
	h := &testHandler{order: byParam, handle: func(_ context.Context, r *Request) (any, error) {
		key, _ := byParam(r)
		runtime.Gosched()
		mu.Lock()
		defer mu.Unlock()
		ran[key] = append(ran[key], string(r.Params))
		return Raw(r.Params), nil
	}}
	var in strings.Builder
	want := map[string][]string{}
	for i := range keys * each {
		key := fmt.Sprintf("k%d", i%keys)
		params := fmt.Sprintf(`{"k":%q,"i":%d}`, key, i)
		want[key] = append(want[key], params)
		if i%3 == 0 {
			in.WriteString(frame(NDJSON, note("n", params)))
		} else {
			in.WriteString(frame(NDJSON, req(i, "r", params)))
		}
	}
	got, err := talk(t, NDJSON, strings.NewReader(in.String()), Options{}, h)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, ran); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	answered := map[string]int{}
	for _, m := range got {
		var a struct {
			ID     int `json:"id"`
			Result struct {
				K string `json:"k"`
			} `json:"result"`
		}
		if err := json.Unmarshal([]byte(m), &a); err != nil {
			t.Fatal(err)
		}
		if last, seen := answered[a.Result.K]; seen && a.ID < last {
			t.Errorf("key %s: %d answered after %d", a.Result.K, a.ID, last)
		}
		answered[a.Result.K] = a.ID
	}
}

func TestOrder_slowOneDelaysOnlyItsKey(t *testing.T) {
	g := newGates()
	p := newPeer(t, Options{}, g.handler())
	p.send(req(1, "hold", `{"k":"a"}`), req(2, "null", `{"k":"a"}`), req(3, "null", `{"k":"b"}`), req(4, "null", `{}`))
	await(t, g.running)
	got := map[string]bool{digest(t, p.next()): true, digest(t, p.next()): true}
	if diff := cmp.Diff(map[string]bool{ok("3", "null"): true, ok("4", "null"): true}, got); diff != "" {
		t.Fatal(diff)
	}
	g.open("1")
	p.want(ok("1", "null"), ok("2", "null"))
}

func TestSlower_neverTakesThePlaceOfFast(t *testing.T) {
	g := newGates()
	p := newPeer(t, Options{Workers: 3}, g.handler())
	for i := range 200 {
		p.send(req(i, "hold-slow", `{}`))
	}
	for range 3 {
		await(t, g.running)
	}
	for i := range 50 {
		id := fmt.Sprint(1000 + i)
		p.send(req(id, "null", `{}`))
		p.want(ok(id, "null"))
	}
	if n := len(g.running); n != 0 {
		t.Errorf("%d slow requests run beside the 3 workers", n)
	}
	go func() {
		for i := range 200 {
			g.open(fmt.Sprint(i))
		}
	}()
	for range 200 {
		p.next()
	}
}

func TestCancel(t *testing.T) {
	tests := []struct {
		name, id, cancel, method, want string
	}{
		{"number", "1", "1", "hold", "1 -32800"},
		{"beyond 64 bits", "99999999999999999999999", "99999999999999999999999", "hold", "99999999999999999999999 -32800"},
		{"string", `"x"`, `"x"`, "hold", `"x" -32800`},
		{"string in other spelling", `"\u0078"`, `"x"`, "hold", `"\u0078" -32800`},
		{"error that hides the cause", "1", "1", "hold-wrap", "1 -32800"},
		{"what was done is told", "1", "1", "hold-write", ok("1", `"written"`)},
		{"error of its own", "1", "1", "hold-storage", "1 -32014"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGates()
			p := newPeer(t, Options{}, g.handler())
			p.send(req(tt.id, tt.method, `{}`))
			await(t, g.running)
			p.send(cancelOf(`"1"`), cancelOf(`{}`), cancelOf(tt.cancel))
			p.want(tt.want)
			p.send(req(tt.id, "null", `{}`)) // free again
			p.want(ok(tt.id, "null"))
		})
	}
}

func TestCancel_whileWaiting(t *testing.T) {
	g := newGates()
	p := newPeer(t, Options{Workers: 1}, g.handler())
	p.send(req(1, "hold-slow", `{"k":"a"}`))
	await(t, g.running)
	// Behind its key, for a worker, and in a batch.
	p.send(req(2, "null", `{"k":"a"}`), req(3, "null", `{"k":"a"}`), cancelOf("2"))
	p.want("2 -32800")
	p.send(req(4, "hold-slow", `{}`), cancelOf("4"))
	p.want("4 -32800")
	p.send(`[`+req(5, "null", `{"k":"a"}`)+`,`+req(6, "null", `{"k":"a"}`)+`,`+cancelOf("6")+`]`, cancelOf("5"))
	p.want("[5 -32800,6 -32800]")
	g.open("1")
	p.want(ok("1", "null"), ok("3", "null"))
}

func TestCancel_races(t *testing.T) {
	h := &testHandler{order: byParam, handle: func(ctx context.Context, _ *Request) (any, error) {
		for range 3 {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			runtime.Gosched()
		}
		return nil, nil
	}}
	for round := range 20 {
		var in strings.Builder
		for i := range 100 {
			in.WriteString(frame(LSP, req(i, "m", fmt.Sprintf(`{"k":"%d"}`, i%5*(round%2)))))
			in.WriteString(frame(LSP, cancelOf(fmt.Sprint(i-i%3))))
		}
		got, err := talk(t, LSP, strings.NewReader(in.String()), Options{}, h)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, m := range got {
			d := digest(t, m)
			id := strings.Fields(strings.TrimPrefix(strings.ReplaceAll(d, ",", " "), `{"jsonrpc":"2.0" "id":`))[0]
			if seen[id] {
				t.Errorf("id %s answered twice", id)
			}
			seen[id] = true
			if !strings.HasSuffix(d, " -32800") && !strings.HasSuffix(d, `"result":null}`) {
				t.Errorf("answer %s", d)
			}
		}
		if len(seen) != 100 {
			t.Errorf("%d of 100 answered", len(seen))
		}
	}
}

func TestDuplicateID_inFlight(t *testing.T) {
	g := newGates()
	p := newPeer(t, Options{}, g.handler())
	p.send(req(`"a"`, "hold", `{}`))
	await(t, g.running)
	p.send(req(`"a"`, "null", `{}`), `[`+req(`"\u0061"`, "null", `{}`)+`]`)
	p.want(`"a" -32600`, `["\u0061" -32600]`)
	p.send(cancelOf(`"a"`)) // still that of the first
	p.want(`"a" -32800`)
	p.send(`[` + req(1, "hold", `{}`) + `,` + req(1, "null", `{}`) + `,` + req(2, "hold", `{}`) + `]`)
	await(t, g.running)
	await(t, g.running) // 2, so that the member before it has been seen
	g.open("1")
	g.open("2")
	p.want("[" + ok("1", "null") + ",1 -32600," + ok("2", "null") + "]")
}

func TestBatch_membersRunConcurrently(t *testing.T) {
	g := newGates()
	p := newPeer(t, Options{}, g.handler())
	p.send(`[`+req(1, "hold", `{}`)+`,`+req(2, "hold", `{}`)+`,`+note("x", `{}`)+`]`, req(3, "null", `{}`))
	await(t, g.running)
	await(t, g.running)
	p.want(ok("3", "null")) // a batch delays nothing
	g.open("2")
	g.open("1")
	p.want("[" + ok("1", "null") + "," + ok("2", "null") + "]")
}

func TestBatch_answerIsBounded(t *testing.T) {
	h := &testHandler{handle: func(context.Context, *Request) (any, error) { return strings.Repeat("x", 30_000), nil }}
	var members []string
	for i := range 10 {
		members = append(members, req(i, "m", `{}`))
	}
	got, err := talk(t, NDJSON, strings.NewReader("["+strings.Join(members, ",")+"]\n"), Options{MaxMessage: 100_000}, h)
	if err != nil || len(got) != 1 {
		t.Fatal(err, len(got))
	}
	if d := digest(t, got[0]); strings.Count(d, "result") != 3 || strings.Count(d, "-32603") != 7 {
		t.Errorf("answers: %d results, %d faults", strings.Count(d, "result"), strings.Count(d, "-32603"))
	}
}

func TestServe_handlersFinishAfterEndOfInput(t *testing.T) {
	for _, f := range []Framing{LSP, NDJSON} {
		g := newGates()
		p := newPeer(t, Options{Framing: f, Workers: 1}, g.handler())
		p.send(req(1, "hold-slow", `{"k":"a"}`), req(2, "null", `{"k":"a"}`), req(3, "hold-slow", `{}`), `[`+req(4, "null", `{"k":"a"}`)+`]`)
		_ = p.in.Close()
		await(t, p.conn.stopping)
		id := await(t, g.running) // 1 or 3
		g.open("1")
		g.open("3")
		got, err := p.rest()
		if err != nil {
			t.Error(err)
		}
		if len(got) != 4 {
			t.Errorf("%v, %s first: got %q", f, id, got)
		}
	}
}

func TestServe_lostFramingStillAnswers(t *testing.T) {
	g := newGates()
	p := newPeer(t, Options{}, g.handler())
	p.send(req(1, "hold", `{}`))
	await(t, g.running)
	if _, err := io.WriteString(p.in, "Content-Length: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	p.want("null -32700")
	await(t, p.conn.stopping)
	g.open("1")
	got, err := p.rest()
	if diff := cmp.Diff([]string{ok("1", "null")}, got); diff != "" {
		t.Error(diff)
	}
	if err == nil || err.Error() != `input: Content-Length "x" is no length` {
		t.Errorf("Serve: %v", err)
	}
}

func TestMaxPending_readingWaits(t *testing.T) {
	g := newGates()
	p := newPeer(t, Options{MaxPending: 5, Framing: NDJSON}, g.handler())
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range 10 {
			_, _ = io.WriteString(p.in, frame(NDJSON, req(i, "hold", `{"k":"a"}`))) // checked by what comes back
		}
	}()
	for i := range 10 {
		if id := await(t, g.running); id != fmt.Sprint(i) {
			t.Fatalf("%s runs, want %d", id, i)
		}
		p.conn.mu.Lock()
		pending := p.conn.pending
		p.conn.mu.Unlock()
		if pending > 5 {
			t.Errorf("%d requests pending", pending)
		}
		g.open(fmt.Sprint(i))
		p.want(ok(fmt.Sprint(i), "null"))
	}
	await(t, sent)
}

func TestHandler_requestsKeepTheirBytes(t *testing.T) {
	// Run with -tags jsonrpc2poison, jsonrpc2 scribbles over its own requests.
	var mu sync.Mutex
	var kept []*Request
	h := &testHandler{order: func(r *Request) (string, bool) { return "", r.ID == "" }, handle: func(_ context.Context, r *Request) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, r)
		return nil, nil
	}}
	var in strings.Builder
	for i := range 300 {
		in.WriteString(frame(LSP, req(i, fmt.Sprintf("m%d", i), fmt.Sprintf(`{"i":%d}`, i)), note("n", fmt.Sprintf(`{"i":%d}`, i))))
	}
	if _, err := talk(t, LSP, strings.NewReader(in.String()), Options{}, h); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range kept {
		if r.Notify != (r.ID == "") || !r.Notify && (r.Method != "m"+r.ID || string(r.Params) != `{"i":`+r.ID+`}`) || r.Notify && r.Method != "n" {
			t.Errorf("request %+v", r)
		}
		seen[r.Method+string(r.Params)] = true
	}
	if len(seen) != 600 {
		t.Errorf("%d different requests", len(seen))
	}
}

// gatekeeper refuses all that arrives after "shutdown".
type gatekeeper struct {
	*testHandler
	shut atomic.Bool
}

func (g *gatekeeper) Refuse(r *Request) error {
	switch {
	case r.Method == "refuse-panics":
		panic("x")
	case g.shut.Load():
		return errorf(CodeInvalidRequest, "shut down")
	}
	return nil
}

func TestGatekeeper_refusesByOrderOfArrival(t *testing.T) {
	h := newGates()
	g := &gatekeeper{testHandler: h.handler()}
	g.handle = func(ctx context.Context, r *Request) (any, error) {
		if r.Method == "inline" {
			g.shut.Store(true)
			return nil, nil
		}
		return h.handle(ctx, r)
	}
	p := newPeer(t, Options{}, g)
	p.send(req(0, "refuse-panics", `{}`), req(1, "hold", `{"k":"a"}`), req(2, "null", `{"k":"a"}`))
	p.want("0 -32603")
	await(t, h.running)
	p.send(req(3, "inline", `{}`), req(4, "null", `{}`), note("inline", `{}`))
	p.want(ok("3", "null"), "4 -32600")
	h.open("1")
	p.want(ok("1", "null"), ok("2", "null"))
}
