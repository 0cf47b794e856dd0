package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// inOneGo queues what fill does while the client reads nothing, and then gives
// all that the client gets.
func inOneGo(t *testing.T, o Options, fill func(p *peer)) []string {
	t.Helper()
	p := newPeer(t, o, &testHandler{})
	// The writer takes the first and blocks on it in the pipe; it is more than
	// it gathers, so that nothing else is taken.
	if err := p.conn.Notify("plug", "plug", Raw(`["`+strings.Repeat("x", gather)+`"]`)); err != nil {
		t.Fatal(err)
	}
	if head, err := p.lines.Peek(1); err != nil || len(head) != 1 {
		t.Fatal(err)
	}
	fill(p)
	p.next()
	_ = p.in.Close()
	var got []string
	for {
		m, err := unframe(p.framing, p.lines)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.NewReplacer(`{"jsonrpc":"2.0","method":`, "", `"params":`, "").Replace(m))
	}
	if err := <-p.served; err != nil {
		t.Fatal(err)
	}
	return got
}

func notify(t *testing.T, c *Conn, key, method string, params any) {
	t.Helper()
	if err := c.Notify(key, method, params); err != nil {
		t.Error(err)
	}
}

func TestNotify_leavesAsQueued(t *testing.T) {
	got := inOneGo(t, Options{}, func(p *peer) {
		notify(t, p.conn, "a", "m", 1)
		notify(t, p.conn, "b", "m", Raw(`[2]`))
		notify(t, p.conn, "a", "m\n\"", nil)
		notify(t, p.conn, "", "m", "x\xff")
	})
	want := []string{`"m",1}`, `"m",[2]}`, `"m\n\""}`, `"m","x` + "\uFFFD" + `"}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLazy_folds(t *testing.T) {
	state, made := 0, 0
	got := inOneGo(t, Options{}, func(p *peer) {
		for i := range 1000 {
			state = i
			p.conn.Lazy("a", "update", func() any { made++; return state })
			p.conn.Lazy("b", "nothing", func() any { return nil })
		}
		notify(t, p.conn, "a", "after", nil)
	})
	if diff := cmp.Diff([]string{`"update",999}`, `"after"}`}, got); diff != "" {
		t.Error(diff)
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
}

func TestLazy_changeWhileMaking(t *testing.T) {
	var state atomic.Int64
	got := inOneGo(t, Options{}, func(p *peer) {
		var update func() any
		update = func() any {
			seen := state.Load()
			if seen == 0 {
				state.Store(1)
				p.conn.Lazy("a", "update", update) // seen before the change
			}
			return seen
		}
		p.conn.Lazy("a", "update", update)
	})
	if diff := cmp.Diff([]string{`"update",0}`, `"update",1}`}, got); diff != "" {
		t.Error(diff)
	}
}

func TestMore_keepsItsPlace(t *testing.T) {
	part := 0
	got := inOneGo(t, Options{}, func(p *peer) {
		var update func() any
		update = func() any {
			if part++; part < 3 {
				p.conn.Lazy("a", "update", update) // folds into this one
				return More{part}
			}
			return part
		}
		p.conn.Lazy("a", "update", update)
		notify(t, p.conn, "b", "other", 1)
		notify(t, p.conn, "a", "after", nil)
		notify(t, p.conn, "b", "other", 2)
	})
	want := []string{`"update",1}`, `"other",1}`, `"update",2}`, `"other",2}`, `"update",3}`, `"after"}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMore_foldsWhileItWaits(t *testing.T) {
	got := inOneGo(t, Options{}, func(p *peer) {
		first := true
		p.conn.Lazy("a", "update", func() any {
			if first {
				first = false
				return More{1}
			}
			return 2
		})
		p.conn.Lazy("b", "other", func() any {
			p.conn.Lazy("a", "late", func() any { return 3 }) // the rest of update will see it
			return nil
		})
	})
	if diff := cmp.Diff([]string{`"update",1}`, `"update",2}`}, got); diff != "" {
		t.Error(diff)
	}
}

func TestLazy_badMakersAreSkipped(t *testing.T) {
	got := inOneGo(t, Options{}, func(p *peer) {
		p.conn.Lazy("a", "panics", func() any { panic("x") })
		p.conn.Lazy("b", "unencodable", func() any { return func() {} })
		p.conn.Lazy("c", "fine", func() any { return true })
		if err := p.conn.Notify("a", "m", make(chan int)); err == nil {
			t.Error("a channel was encoded")
		}
		notify(t, p.conn, "a", "m", 1)
	})
	if diff := cmp.Diff([]string{`"fine",true}`, `"m",1}`}, got); diff != "" {
		t.Error(diff)
	}
}

// TestReply_leavesBehindItsUpdate is the order that session/append needs: its
// own bytes first come back as updates, in parts, then it is answered.
func TestReply_leavesBehindItsUpdate(t *testing.T) {
	for _, reply := range []any{"done", Reply{Result: "done", Key: "update"}} {
		var p *peer
		key := "update"
		if _, is := reply.(Reply); is {
			key = "request"
		}
		h := &testHandler{order: func(*Request) (string, bool) { return key, false }, handle: func(context.Context, *Request) (any, error) {
			part := 0
			p.conn.Lazy("update", "update", func() any {
				if part++; part < 3 {
					return More{part}
				}
				return part
			})
			if r, is := reply.(Reply); is {
				r.After = func() { _ = p.conn.Notify("update", "behind", nil) } // seen below
				return r, nil
			}
			return reply, nil
		}}
		p = newPeer(t, Options{}, h)
		p.send(req(1, "append", `{}`))
		p.want(note("update", "1"), note("update", "2"), note("update", "3"), ok("1", `"done"`))
		if _, is := reply.(Reply); is {
			p.want(`{"jsonrpc":"2.0","method":"behind"}`)
		}
	}
}

func TestReply_afterThatPanics(t *testing.T) {
	h := &testHandler{order: func(*Request) (string, bool) { return "k", false }, handle: func(context.Context, *Request) (any, error) {
		return Reply{After: func() { panic("x") }}, nil
	}}
	p := newPeer(t, Options{}, h)
	p.send(req(1, "m", `{}`), req(2, "m", `{}`))
	p.want(ok("1", "null"), ok("2", "null"))
}

func TestNDJSON_oneLineAMessage(t *testing.T) {
	got, err := talk(t, NDJSON, strings.NewReader(call1("1", "pretty")+"\n"), Options{}, &testHandler{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{ok("1", `{"a":[1,2]}`)}, got); diff != "" {
		t.Error(diff)
	}
}

// TestWriter_sizes goes over the sizes at which a message is no longer put
// together with others.
func TestWriter_sizes(t *testing.T) {
	for _, f := range []Framing{LSP, NDJSON} {
		got := inOneGo(t, Options{Framing: f, MaxQueued: 1 << 30}, func(p *peer) {
			for n := gather - 100; n < gather+100; n += 7 {
				notify(t, p.conn, "", "m", strings.Repeat("y", n))
			}
			notify(t, p.conn, "", "m", strings.Repeat("z", 3*gather))
		})
		i := 0
		for n := gather - 100; n < gather+100; n += 7 {
			if want := `"m","` + strings.Repeat("y", n) + `"}`; got[i] != want {
				t.Errorf("%v: message of %d bytes differs", f, n)
			}
			i++
		}
		if len(got) != i+1 {
			t.Errorf("%v: %d messages, want %d", f, len(got), i+1)
		}
	}
}

// heap is what is in use. A sync.Pool lets go of its things at the second
// collection only.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestSlowClient reads nothing while 100 MB of updates are produced, half by
// Notify and half by Lazy: memory stays bounded, and when it reads it gets the
// last state of each lazy key and every notification in order.
func TestSlowClient(t *testing.T) {
	const (
		sessions = 10
		updates  = 500
		size     = 10 << 10 // 10 * 500 * 10 KiB = 50 MiB, twice
		bound    = 16 << 20
	)
	p := newPeer(t, Options{MaxQueued: 1 << 20}, &testHandler{})
	pad := strings.Repeat("x", size)
	before := heap()
	var lazily [sessions]atomic.Int64
	lazyDone := make(chan struct{})
	go func() {
		defer close(lazyDone)
		for i := range updates {
			for s := range sessions {
				lazily[s].Store(int64(i + 1))
				p.conn.Lazy(fmt.Sprint("lazy", s), "lazy", func() any {
					return map[string]any{"s": s, "n": lazily[s].Load(), "pad": pad}
				})
			}
		}
	}()
	var producers sync.WaitGroup
	for s := range sessions {
		producers.Go(func() {
			for i := range updates {
				if err := p.conn.Notify(fmt.Sprint("eager", s), "eager", map[string]any{"s": s, "n": i, "pad": pad}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	await(t, lazyDone) // the lazy half never waits for the client
	var full bool
	for !full { // the other half has come to the bound
		runtime.Gosched()
		p.conn.out.mu.Lock()
		full = p.conn.out.bytes >= p.conn.out.max
		p.conn.out.mu.Unlock()
	}
	if grown := int64(heap()) - int64(before); grown > bound {
		t.Errorf("heap grew by %d MiB while the client read nothing", grown>>20)
	}
	var last, next [sessions]int64
	var lazies int
	for count := 0; count < sessions*updates; {
		var m struct {
			Method string `json:"method"`
			Params struct {
				S int   `json:"s"`
				N int64 `json:"n"`
			} `json:"params"`
		}
		if err := json.Unmarshal([]byte(p.next()), &m); err != nil {
			t.Fatal(err)
		}
		s := m.Params.S
		if m.Method == "lazy" {
			lazies++
			if m.Params.N <= last[s] {
				t.Errorf("session %d: state %d after %d", s, m.Params.N, last[s])
			}
			last[s] = m.Params.N
			continue
		}
		count++
		if m.Params.N != next[s] {
			t.Fatalf("session %d: notification %d, want %d", s, m.Params.N, next[s])
		}
		next[s]++
	}
	producers.Wait()
	for s, n := range last {
		if n != updates {
			t.Errorf("session %d: last state seen %d", s, n)
		}
	}
	if lazies > 3*sessions {
		t.Errorf("%d lazy notifications for %d sessions", lazies, sessions)
	}
	if _, err := p.end(); err != nil {
		t.Error(err)
	}
}

// TestSlowClient_asks sends requests with large answers and reads none of them.
func TestSlowClient_asks(t *testing.T) {
	const requests, size, bound = 250, 128 << 10, 20 << 20
	var ran atomic.Int64
	h := &testHandler{handle: func(context.Context, *Request) (any, error) {
		ran.Add(1)
		return strings.Repeat("x", size), nil
	}}
	p := newPeer(t, Options{MaxQueued: 1 << 20, MaxPending: 150, Framing: NDJSON}, h)
	before := heap()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range requests {
			_, _ = io.WriteString(p.in, frame(NDJSON, req(i, "m", `{}`))) // checked by the answers
		}
	}()
	for full := false; !full; {
		runtime.Gosched()
		p.conn.mu.Lock()
		full = p.conn.pending == p.conn.options.MaxPending
		p.conn.mu.Unlock()
	}
	if grown := int64(heap()) - int64(before); grown > bound {
		t.Errorf("heap grew by %d MiB while the client read nothing; %d requests ran", grown>>20, ran.Load())
	}
	for range requests {
		if m := p.next(); len(m) < size {
			t.Fatalf("answer %s", m)
		}
	}
	await(t, sent)
	if _, err := p.end(); err != nil {
		t.Error(err)
	}
}

// TestSlowClient_nothingRunsForIt: while what waits is at the bound, no further
// request is run, since its result would have to be kept.
func TestSlowClient_nothingRunsForIt(t *testing.T) {
	g := newGates()
	p := newPeer(t, Options{MaxQueued: 1 << 10}, g.handler())
	notify(t, p.conn, "", "m", strings.Repeat("x", gather))
	p.send(req(1, "hold", `{}`), req(2, "hold", `{}`))
	for len(p.conn.fast) < 2 { // both have their slots
		runtime.Gosched()
	}
	p.send(note("n", `{}`), cancelOf("2"))
	if len(g.running) != 0 {
		t.Error("a request runs although the client does not read")
	}
	p.next()
	if id := await(t, g.running); id != "1" {
		t.Errorf("%s runs", id)
	}
	g.open("1")
	got := []string{digest(t, p.next()), digest(t, p.next())}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"2 -32800", ok("1", "null")}, got); diff != "" {
		t.Error(diff)
	}
}

func TestNotify_afterTheEnd(t *testing.T) {
	p := newPeer(t, Options{}, &testHandler{})
	if _, err := p.end(); err != nil {
		t.Fatal(err)
	}
	if err := p.conn.Notify("", "m", nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Notify: %v", err)
	}
	p.conn.Lazy("", "m", func() any { t.Error("made"); return nil })
	if err := p.conn.Call(t.Context(), "m", nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Call: %v", err)
	}
}
