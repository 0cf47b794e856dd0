// Package rpc is the connection to one editor: framing, order, cancellation
// and a bounded outgoing queue around the connection of go.lsp.dev/jsonrpc2.
//
// It does not know any method but $/cancelRequest. Invariant: it never
// panics on input, never allocates what a header merely claims, and never
// writes anything but protocol to its output.
package rpc

import (
	"context"
	"io"

	"go.uber.org/zap"
)

// Framing is how messages are delimited.
type Framing uint8

// Framings.
const (
	Auto   Framing = iota // from the first byte after a BOM and white space
	LSP                   // Content-Length headers
	NDJSON                // one JSON value a line
)

// Options of NewConn.
type Options struct {
	Framing    Framing
	MaxMessage int64 // default 256 MiB
	Log        *zap.Logger
	Workers    int // concurrent slow requests; default 8
}

// Request is a call or a notification from the client. Its fields are copies
// and stay valid.
type Request struct {
	Method string
	Params []byte // JSON, or nil
	Notify bool   // no answer is wanted
	ID     string // raw JSON of the id
}

// Handler answers requests. For a notification the result is dropped and an
// error is logged. ctx ends when the request is cancelled or the connection ends.
type Handler interface {
	// Order tells, on the read goroutine and before Handle, how a request is
	// run: requests of an equal non-empty key run one after the other in the
	// order of arrival, "" means concurrently; inline runs it on the read
	// goroutine (life cycle, small state changes).
	Order(r *Request) (key string, inline bool)
	Handle(ctx context.Context, r *Request) (result any, err error)
}

// Error is a JSON-RPC error with code and data.
type Error struct {
	Code    int64
	Message string
	Data    any
}

func (e *Error) Error() string { return e.Message }

// Conn is a connection. It is safe for concurrent use.
type Conn struct{}

// NewConn makes a connection; Serve makes it work.
func NewConn(r io.Reader, w io.Writer, o Options) *Conn { panic("not yet") }

// Serve reads until the input ends, the framing is lost, or ctx ends; it
// returns after all handlers have ended and everything queued is written.
// A lost framing is an error, the end of input is nil.
func (c *Conn) Serve(ctx context.Context, h Handler) error { panic("not yet") }

// Notify queues a notification. Messages of one key leave in the order in
// which they were queued.
func (c *Conn) Notify(key, method string, params any) error { panic("not yet") }

// Lazy queues a notification whose params are made when it is about to be
// written; make may return nil for "nothing to send any more". At most one
// Lazy of a key is pending: a further one is dropped, since the pending one
// will see the newer state.
func (c *Conn) Lazy(key, method string, make func() any) { panic("not yet") }

// Call sends a request to the client and waits for the answer.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error { panic("not yet") }

// Close ends Serve after what is queued has been written, or when ctx ends.
func (c *Conn) Close(ctx context.Context) error { panic("not yet") }
