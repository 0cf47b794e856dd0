// Package lsptest is an editor for tests: a server in the same process, spoken
// to over a pipe, and expectations instead of sleeps.
//
// It knows no method. Invariant: when New's cleanup has run, the server has
// ended as after shutdown and exit.
package lsptest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/agent-ls/agent-ls/lsp"
	"github.com/agent-ls/agent-ls/lsp/rpc"
)

// Patience is how long an expectation is waited for.
const Patience = 20 * time.Second

// Editor is a client. It is safe for concurrent use.
type Editor struct {
	t    testing.TB
	conn *rpc.Conn

	mu     sync.Mutex // guards what follows
	got    []Notification
	change chan struct{} // closed and replaced when got grows
	read   int           // of got, by Next
	state  State
	gate   chan struct{} // closed unless the editor does not read
}

// Notification is what the server sent unasked.
type Notification struct {
	Method string
	Params json.RawMessage
}

// New connects an editor to a server and initializes it with params (nil for
// none). The server is shut down when the test ends.
func New(t testing.TB, s *lsp.Server, params any) *Editor {
	t.Helper()
	e := Connect(t, s)
	if params == nil {
		params = map[string]any{"processId": nil, "capabilities": map[string]any{}}
	}
	e.Do("initialize", params, nil)
	if err := e.conn.Notify("", "initialized", struct{}{}); err != nil {
		t.Fatal(err)
	}
	return e
}

// Connect is New without initialize.
func Connect(t testing.TB, s *lsp.Server) *Editor {
	t.Helper()
	toServer, fromEditor := io.Pipe()
	toEditor, fromServer := io.Pipe()
	e := &Editor{
		t: t, change: make(chan struct{}), gate: make(chan struct{}),
		state: State{Sessions: map[string]*Mirror{}, Progress: map[string][]json.RawMessage{}},
	}
	close(e.gate)
	e.conn = rpc.NewConn(toEditor, fromEditor, rpc.Options{Framing: rpc.LSP})
	server := rpc.NewConn(toServer, fromServer, rpc.Options{})
	served, ended := make(chan error, 1), make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), server) }()
	go func() { ended <- e.conn.Serve(context.Background(), e) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		// A test may have ended the connection itself; then these fail.
		_ = e.conn.Call(ctx, "shutdown", nil, nil)
		_ = e.conn.Notify("", "exit", nil)
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("the server ended with %v", err)
			}
		case <-ctx.Done():
			t.Error("the server does not end after exit")
		}
		_ = e.conn.Close(ctx)
		<-ended
	})
	return e
}

// Order implements rpc.Handler: notifications are kept in their order.
func (e *Editor) Order(*rpc.Request) (string, bool) { return "", true }

// Handle implements rpc.Handler.
func (e *Editor) Handle(_ context.Context, r *rpc.Request) (any, error) {
	if !r.Notify {
		return nil, &rpc.Error{Code: rpc.CodeMethodNotFound, Message: "the test editor has no " + r.Method}
	}
	e.mu.Lock()
	gate := e.gate
	e.mu.Unlock()
	<-gate
	e.mu.Lock()
	defer e.mu.Unlock()
	n := Notification{r.Method, json.RawMessage(r.Params)}
	e.got = append(e.got, n)
	e.note(n)
	close(e.change)
	e.change = make(chan struct{})
	return nil, nil
}

// StopReading makes the editor stop reading at the next notification, until
// resume is called.
func (e *Editor) StopReading() (resume func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	gate := make(chan struct{})
	e.gate = gate
	resume = sync.OnceFunc(func() { close(gate) })
	e.t.Cleanup(resume) // before that of Connect
	return resume
}

// Call sends a request. The error of the server is an *rpc.Error.
func (e *Editor) Call(method string, params, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	var raw rpc.Raw
	if err := e.conn.Call(ctx, method, params, &raw); err != nil {
		return err
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(raw, result)
}

// Do is Call that ends the test on an error.
func (e *Editor) Do(method string, params, result any) {
	e.t.Helper()
	if err := e.Call(method, params, result); err != nil {
		e.t.Fatalf("%s: %v", method, err)
	}
}

// Tell sends a notification.
func (e *Editor) Tell(method string, params any) {
	e.t.Helper()
	if err := e.conn.Notify("", method, params); err != nil {
		e.t.Fatal(err)
	}
}

// Conn is the connection below, for what the methods here do not offer.
func (e *Editor) Conn() *rpc.Conn { return e.conn }

// Next gives the next notification of a method, and passes over others.
func (e *Editor) Next(method string) json.RawMessage {
	e.t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	for {
		e.mu.Lock()
		for e.read < len(e.got) {
			n := e.got[e.read]
			e.read++
			if n.Method == method {
				e.mu.Unlock()
				return n.Params
			}
		}
		change := e.change
		e.mu.Unlock()
		select {
		case <-change:
		case <-deadline.C:
			e.t.Fatalf("no %s came", method)
		}
	}
}

// Pending gives what has come and was not asked for by Next.
func (e *Editor) Pending() []Notification {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Notification(nil), e.got[e.read:]...)
}

// Code gives the code of a server's error, and its data decoded; 0 where err
// is none.
func Code(err error) (int64, map[string]any) {
	e, ok := err.(*rpc.Error) //nolint:errorlint // Call gives it bare
	if !ok {
		return 0, nil
	}
	b, merr := json.Marshal(e.Data)
	if merr != nil {
		return e.Code, nil
	}
	var data map[string]any
	if json.Unmarshal(b, &data) != nil {
		return e.Code, nil
	}
	return e.Code, data
}

// String shows a notification in test output.
func (n Notification) String() string { return fmt.Sprintf("%s %s", n.Method, n.Params) }
