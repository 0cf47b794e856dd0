package rpc

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCall(t *testing.T) {
	var p *peer
	h := &testHandler{handle: func(ctx context.Context, r *Request) (any, error) {
		var answer struct {
			A int `json:"a"`
		}
		err := p.conn.Call(ctx, "window/ask", map[string]int{"q": 1}, &answer)
		var e *Error
		if errors.As(err, &e) {
			return []any{e.Code, e.Message, e.Data}, nil
		}
		return answer.A, err
	}}
	p = newPeer(t, Options{}, h)
	const ask1 = `{"jsonrpc":"2.0","method":"window/ask","params":{"q":1},"id":1}`
	p.send(req(1, "m", `{}`)) // our id 1 and the client's are two things
	p.want(ask1)
	p.send(`{"jsonrpc":"2.0","id":77,"result":{"a":1}}`, `{"jsonrpc":"2.0","id":1,"result":{"a":5}}`, `{"jsonrpc":"2.0","id":1,"result":{"a":6}}`)
	p.want(ok("1", "5"))
	p.send(req(2, "m", `{}`))
	p.want(strings.Replace(ask1, `"id":1`, `"id":2`, 1))
	p.send(`[{"jsonrpc":"2.0","id":2,"error":{"code":-32099,"message":"no","data":[1]}}]`)
	p.want(ok("2", `[-32099,"no",[1]]`))
	p.send(req(3, "m", `{}`))
	p.want(strings.Replace(ask1, `"id":1`, `"id":3`, 1))
	p.send(`{"jsonrpc":"2.0","id":3,"error":"odd"}`)
	p.want(ok("3", `[-32603,"answer with an error that is no error object",null]`))
	p.send(req(4, "m", `{}`))
	p.want(strings.Replace(ask1, `"id":1`, `"id":4`, 1))
	p.send(cancelOf("4")) // goes through to the client
	p.want(cancelOf("4"), "4 -32800")
	p.send(req(5, "m", `{}`))
	p.want(strings.Replace(ask1, `"id":1`, `"id":5`, 1))
	p.send(`{"jsonrpc":"2.0","id":5,"result":"wrong type"}`)
	p.want("5 -32603")
	p.send(req(6, "m", `{}`))
	p.want(strings.Replace(ask1, `"id":1`, `"id":6`, 1))
	got, err := p.end() // nobody will answer
	if diff := cmp.Diff([]string{"6 -32603"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// TestConn_bothEnds lets two connections talk, as a test client may.
func TestConn_bothEnds(t *testing.T) {
	for _, f := range []Framing{LSP, NDJSON} {
		aR, bW := io.Pipe()
		bR, aW := io.Pipe()
		server, client := NewConn(aR, aW, Options{}), NewConn(bR, bW, Options{Framing: f})
		notes := make(chan string, 1)
		ended := make(chan error, 2)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		go func() { ended <- server.Serve(ctx, &testHandler{}) }()
		go func() {
			ended <- client.Serve(ctx, &testHandler{handle: func(_ context.Context, r *Request) (any, error) {
				notes <- r.Method + string(r.Params)
				return nil, nil
			}})
		}()
		// Waits until the client has shown its framing.
		if err := server.Notify("", "hello", []int{1}); err != nil {
			t.Fatal(err)
		}
		var raw Raw
		if err := client.Call(ctx, "echo", map[string]string{"x": "y"}, &raw); err != nil || string(raw) != `{"x":"y"}` {
			t.Errorf("%v: %s %v", f, raw, err)
		}
		var e *Error
		if err := client.Call(ctx, "fail", nil, nil); !errors.As(err, &e) || e.Code != -32011 || string(e.Data.(Raw)) != `{"line":3}` {
			t.Errorf("%v: %v", f, err)
		}
		if got := await(t, notes); got != "hello[1]" {
			t.Errorf("%v: %s", f, got)
		}
		if err := client.Close(ctx); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := await(t, ended); err != nil {
				t.Error(err)
			}
		}
		cancel()
	}
}

func TestStop_byInlineHandler(t *testing.T) {
	g := newGates()
	var p *peer
	h := g.handler()
	h.order = func(r *Request) (string, bool) { return "", r.Method == "exit" }
	h.handle = func(ctx context.Context, r *Request) (any, error) {
		if r.Method == "exit" {
			p.conn.Stop()
			p.conn.Stop()
			return nil, nil
		}
		return g.handle(ctx, r)
	}
	p = newPeer(t, Options{Framing: NDJSON}, h)
	p.send(req(1, "hold", `{}`))
	await(t, g.running)
	// What stands behind exit is not run, although the input goes on.
	p.send(note("exit", `{}`))
	await(t, p.conn.stopping)
	g.open("1")
	got, err := p.rest()
	if diff := cmp.Diff([]string{ok("1", "null")}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := io.WriteString(p.in, "x\n"); err == nil {
		t.Error("the input is still open")
	}
}

func TestServe_contextEnds(t *testing.T) {
	inR, inW := io.Pipe()
	defer inW.Close()
	var out strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	g := newGates()
	c := NewConn(inR, &out, Options{Framing: NDJSON})
	ended := make(chan error, 1)
	go func() { ended <- c.Serve(ctx, g.handler()) }()
	_, _ = io.WriteString(inW, frame(NDJSON, req(1, "hold", `{}`))) // seen to run
	await(t, g.running)
	cancel()
	if err := await(t, ended); err != nil {
		t.Error(err)
	}
	if got := digest(t, strings.TrimSpace(out.String())); got != "1 -32800" {
		t.Errorf("wrote %s", got)
	}
}

// stuck is a writer whose client never reads.
type stuck struct{ closed chan struct{} }

func (s *stuck) Write([]byte) (int, error) { <-s.closed; return 0, io.ErrClosedPipe }
func (s *stuck) Close() error              { close(s.closed); return nil }

func TestServe_graceForAClientThatDoesNotRead(t *testing.T) {
	inR, inW := io.Pipe()
	defer inW.Close()
	ctx, cancel := context.WithCancel(t.Context())
	c := NewConn(inR, &stuck{make(chan struct{})}, Options{Framing: LSP, Grace: time.Millisecond})
	ended := make(chan error, 1)
	go func() { ended <- c.Serve(ctx, &testHandler{}) }()
	notify(t, c, "", "m", nil)
	cancel()
	if err := await(t, ended); err == nil || !strings.Contains(err.Error(), "gave up") {
		t.Errorf("Serve: %v", err)
	}
}

func TestClose_givesUpWithItsContext(t *testing.T) {
	inR, inW := io.Pipe()
	defer inW.Close()
	c := NewConn(inR, &stuck{make(chan struct{})}, Options{Framing: LSP})
	ended := make(chan error, 1)
	go func() { ended <- c.Serve(t.Context(), &testHandler{}) }()
	notify(t, c, "", "m", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// Before Serve has begun there is nothing to wait for, and after it is over.
	for running := false; !running; runtime.Gosched() {
		c.mu.Lock()
		running = c.serving
		c.mu.Unlock()
	}
	if err := c.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	if err := await(t, ended); err == nil {
		t.Error("Serve gave no error")
	}
	if err := NewConn(inR, io.Discard, Options{}).Close(ctx); err != nil {
		t.Errorf("Close without Serve: %v", err)
	}
}

func TestServe_brokenOutput(t *testing.T) {
	for _, how := range []string{"closed", "short"} {
		g := newGates()
		inR, inW := io.Pipe()
		var w io.Writer = shortWriter{}
		if how == "closed" {
			outR, outW := io.Pipe()
			_ = outR.Close()
			w = outW
		}
		c := NewConn(inR, w, Options{Framing: NDJSON})
		ended := make(chan error, 1)
		go func() { ended <- c.Serve(t.Context(), g.handler()) }()
		_, _ = io.WriteString(inW, frame(NDJSON, req(1, "hold", `{}`), req(2, "null", `{}`))) // the second breaks it
		err := await(t, ended)                                                                // the first was cancelled
		if err == nil || !strings.HasPrefix(err.Error(), "output: ") {
			t.Errorf("%s: Serve: %v", how, err)
		}
		if err := c.Notify("", "m", nil); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: Notify: %v", how, err)
		}
	}
}

type shortWriter struct{}

func (shortWriter) Write(b []byte) (int, error) { return len(b) / 2, nil }

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("EIO") }

func TestServe_brokenInput(t *testing.T) {
	in := io.MultiReader(strings.NewReader(call1("1", "null")+"\n"), failingReader{})
	got, err := talk(t, NDJSON, in, Options{}, &testHandler{})
	if diff := cmp.Diff([]string{ok("1", "null")}, got); diff != "" {
		t.Error(diff)
	}
	if err == nil || err.Error() != "input: EIO" {
		t.Errorf("Serve: %v", err)
	}
}

// TestServe_leavesAReadBehind: a terminal cannot be interrupted by Close.
func TestServe_leavesAReadBehind(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close() // ends the goroutine that was left
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewConn(struct{ io.Reader }{r}, io.Discard, Options{}).Serve(ctx, &testHandler{}); err != nil {
		t.Error(err)
	}
}

func TestServe_nothingInAutoFraming(t *testing.T) {
	for _, in := range []string{"", " \r\n", "\xEF\xBB\xBF"} {
		var out strings.Builder
		c := NewConn(strings.NewReader(in), &out, Options{})
		notify(t, c, "", "m", nil)
		if err := c.Serve(t.Context(), &testHandler{}); err != nil {
			t.Errorf("%q: %v", in, err)
		}
		if want := frame(LSP, `{"jsonrpc":"2.0","method":"m"}`); out.String() != want {
			t.Errorf("%q: wrote %q", in, out.String())
		}
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestMemory_aClaimIsNotAllocated(t *testing.T) {
	const bound = 2 << 20
	for _, in := range []string{
		"Content-Length: 268435456\r\n\r\n{}",                                  // just within the limit
		"Content-Length: 4000000000\r\n\r\n{}",                                 // skipped
		"Content-Length: " + strings.Repeat("9", 8000) + "\r\n\r\n",            // no number
		strings.Repeat("Content-Length: 268435456\r\n", 2000) + "\r\n" + "[1",  // bounded block
		"Content-Length: 100000\r\n\r\n[1" + strings.Repeat(",1", 49998) + "]", // a batch of a hundred thousand
	} {
		n := allocated(func() { _, _ = talk(t, LSP, strings.NewReader(in), Options{}, &testHandler{}) })
		if n > bound {
			t.Errorf("%.40q: %d bytes allocated", in, n)
		}
	}
	// A line that is too long is read over, not kept.
	long := io.LimitReader(zeros{}, 64<<20)
	n := allocated(func() {
		got, _ := talk(t, NDJSON, io.MultiReader(strings.NewReader("{"), long, strings.NewReader("\n")), Options{MaxMessage: 1 << 20}, &testHandler{})
		if diff := cmp.Diff([]string{"null -32700"}, []string{digest(t, got[0])}); diff != "" {
			t.Error(diff)
		}
	})
	if n > 8<<20 {
		t.Errorf("%d bytes allocated for a line that is too long", n)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	return len(b), nil
}

func TestMemory_largeMessagesAreNotKept(t *testing.T) {
	const size = 6 << 20
	h := &testHandler{handle: func(_ context.Context, r *Request) (any, error) {
		if r.Method == "large" {
			return strings.Repeat("x", size), nil
		}
		return len(r.Params), nil
	}}
	for _, f := range []Framing{LSP, NDJSON} {
		p := newPeer(t, Options{Framing: f}, h)
		before := heap()
		check := func(after string) {
			t.Helper()
			if grown := int64(heap()) - int64(before); grown > 2<<20 {
				t.Errorf("%v: %d MiB kept after a large %s", f, grown>>20, after)
			}
		}
		p.send(req(1, "take", `["`+strings.Repeat("x", size)+`"]`))
		p.want(ok("1", "6291460"))
		check("request")
		p.send(req(2, "large", `{}`))
		if m := p.next(); len(m) < size {
			t.Fatal(m)
		}
		check("answer")
	}
}
