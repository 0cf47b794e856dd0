// Package rpc is the connection to one editor: framing, order, cancellation
// and a bounded outgoing queue around the connection of go.lsp.dev/jsonrpc2.
//
// It does not know any method but $/cancelRequest. Invariant: it never
// panics on input, never allocates what a header merely claims, and never
// writes anything but protocol to its output.
//
// One message takes this way:
//
//	input -> frames -> parse -> stream.Read -> jsonrpc2 -> Conn.handle -> Handler
//	output <- queue <- stream.Write <- jsonrpc2 <- answer
//
// jsonrpc2 runs the read loop, hands the reading on when a request runs
// concurrently, and matches the answers to our own calls. It sees the client's
// requests under serial numbers: ids, batches, order, cancellation and the
// outgoing queue are kept here, since its own ways close the connection on bad
// input, swap concurrent requests and drop answers after the end of input.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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

func (f Framing) String() string { return [...]string{"auto", "lsp", "ndjson"}[f] }

// Codes of the errors that this package itself answers with.
const (
	CodeParse            = -32700 // no JSON, or a message that could not be read
	CodeInvalidRequest   = -32600
	CodeMethodNotFound   = -32601
	CodeInvalidParams    = -32602
	CodeInternal         = -32603
	CodeRequestCancelled = -32800
)

// ErrClosed is given by Notify and Call when the connection has ended, and is
// the cause with which the contexts of requests end then.
var ErrClosed = errors.New("connection closed")

// Options of NewConn.
type Options struct {
	Framing    Framing
	MaxMessage int64 // largest message read, in bytes; default 256 MiB
	Log        *zap.Logger
	Workers    int           // concurrent slow requests, see Slower; default 8
	MaxQueued  int           // bytes of encoded messages that wait to be written; default 8 MiB
	MaxPending int           // requests under way, waiting ones included; default 1024
	Grace      time.Duration // for handlers and the queue after Serve's ctx has ended; default 5 s
}

func (o Options) withDefaults() Options {
	if o.MaxMessage <= 0 {
		o.MaxMessage = 256 << 20
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Workers <= 0 {
		o.Workers = 8
	}
	if o.MaxQueued <= 0 {
		o.MaxQueued = 8 << 20
	}
	if o.MaxPending <= 0 {
		o.MaxPending = 1024
	}
	if o.Grace <= 0 {
		o.Grace = 5 * time.Second
	}
	return o
}

// Request is a call or a notification from the client. Its fields are copies
// and stay valid.
type Request struct {
	Method string
	Params []byte // JSON object or array, or nil
	Notify bool   // no answer is wanted
	ID     string // raw JSON of the id
}

// Handler answers requests. For a notification the result is dropped and an
// error is logged. ctx ends when the request is cancelled or the connection ends.
// A panic is answered with CodeInternal and does not end the connection.
type Handler interface {
	// Order tells, on the read goroutine and before Handle, how a request is
	// run: requests of an equal non-empty key run one after the other in the
	// order of arrival, "" means concurrently; inline runs it on the read
	// goroutine (life cycle, small state changes). It is called in the order of
	// arrival, so it is also the place to look at state that inline requests
	// change. The answer leaves under the same key, see Notify.
	Order(r *Request) (key string, inline bool)
	// Handle gives the result, which is encoded before the next request of the
	// key runs. An error that is no *Error is answered with CodeInternal, one
	// that wraps context.Canceled with CodeRequestCancelled.
	Handle(ctx context.Context, r *Request) (result any, err error)
}

// Slower is a Handler that knows its slow requests. Options.Workers of those
// run at a time, so that they never take the place of the others; all others
// are taken for fast.
type Slower interface {
	Handler
	// Slow is called once for each request, after Order, on the read goroutine.
	Slow(r *Request) bool
}

// Gatekeeper is a Handler that refuses requests by the order in which they
// arrive, as the life cycle of a server does: what came before shutdown is
// still answered, however late it runs.
type Gatekeeper interface {
	Handler
	// Refuse is called before Order, on the read goroutine. With an error the
	// request is answered at once and not run; a notification is dropped.
	Refuse(r *Request) error
}

// Raw is JSON that is already encoded, without leading or trailing space. As
// result or params it is written as it is.
type Raw []byte

// MarshalJSON gives r itself, so that a Raw may also be part of a result.
func (r Raw) MarshalJSON() ([]byte, error) {
	if len(r) == 0 {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON keeps a copy of data.
func (r *Raw) UnmarshalJSON(data []byte) error {
	*r = append((*r)[:0], data...)
	return nil
}

// Reply is a result with a say in when it leaves. A handler returns it in
// place of the bare result.
type Reply struct {
	Result any
	// Key under which the answer is queued, if it is not the key of Order: it
	// leaves behind every Notify and Lazy that was queued under this key.
	Key string
	// After runs when the answer has been queued, before the next request of
	// the same key: what it sends leaves behind the answer.
	After func()
}

// More is what the function given to Lazy returns when Params is only a part:
// it is called again after Params have been written, and nothing queued later
// under the same key leaves in between, while other keys have their turn.
type More struct{ Params any }

// Error is a JSON-RPC error with code and data.
type Error struct {
	Code    int64
	Message string
	Data    any
}

func (e *Error) Error() string { return e.Message }

func errorf(code int64, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// encoding are the options of everything that is written: transcripts are
// hostile, so that bad UTF-8 becomes U+FFFD and is not an error.
var encoding = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// Encode gives the JSON of v as a result would be written.
func Encode(v any) (Raw, error) {
	switch v := v.(type) {
	case nil:
		return Raw("null"), nil
	case Raw:
		if len(v) == 0 {
			return Raw("null"), nil
		}
		return v, nil
	}
	return json.Marshal(v, encoding)
}

// encodeError gives the JSON of an error object. Data that cannot be encoded
// are left out, since an error must be answered all the same.
func encodeError(e *Error) Raw {
	dst := append([]byte(nil), `{"code":`...)
	dst = appendInt(dst, e.Code)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, e.Message)
	if e.Data != nil {
		if data, err := Encode(e.Data); err == nil {
			dst = append(append(dst, `,"data":`...), data...)
		}
	}
	return append(dst, '}')
}

// AppendString appends s as a JSON string.
func AppendString(dst []byte, s string) []byte {
	dst, err := jsontext.AppendQuote(dst, strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil { // cannot be, s is valid UTF-8
		return append(dst, `""`...)
	}
	return dst
}
