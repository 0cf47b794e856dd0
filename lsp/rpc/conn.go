package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"go.lsp.dev/jsonrpc2"
)

// Conn is a connection. It is safe for concurrent use. Both ends can be one: a
// client says its framing, calls, and serves what the server sends.
type Conn struct {
	options Options
	r       io.Reader
	w       io.Writer
	in      *stream
	rpc     jsonrpc2.Conn
	out     *queue
	handler Handler
	fast    chan struct{} // slots
	slow    chan struct{}

	framed    chan struct{} // closed when framing is set
	framing   Framing
	setFramed sync.Once
	roomy     chan struct{} // capacity 1: a request has ended
	stopping  chan struct{} // closed by Stop
	idle      chan struct{} // closed when stopped and no request is under way
	drained   chan struct{} // closed when all is written, or given up
	inputOver chan struct{} // closed when nothing is read any more
	served    chan struct{} // closed at the end of Serve
	abandoned chan struct{} // closed when Close gives up
	abandon   sync.Once

	mu           sync.Mutex
	stopped      bool
	serving      bool
	err          error // what Serve returns
	serial       int64
	ids          map[string]*call // by idKey
	calls        map[int64]*call  // by serial
	keys         map[string][]*call
	pending      int // requests under way
	pendingBytes int64
}

// NewConn makes a connection; Serve makes it work.
func NewConn(r io.Reader, w io.Writer, o Options) *Conn {
	o = o.withDefaults()
	c := &Conn{
		options: o, r: r, w: w, out: newQueue(o.MaxQueued, o.Log),
		fast: make(chan struct{}, fastSlots), slow: make(chan struct{}, o.Workers),
		framed: make(chan struct{}), roomy: make(chan struct{}, 1), stopping: make(chan struct{}),
		idle: make(chan struct{}), drained: make(chan struct{}), inputOver: make(chan struct{}),
		served: make(chan struct{}), abandoned: make(chan struct{}),
		ids: map[string]*call{}, calls: map[int64]*call{}, keys: map[string][]*call{},
	}
	c.in = &stream{c: c, in: newFrames(r, o.Framing, o.MaxMessage)}
	c.rpc = jsonrpc2.NewConn(c.in)
	if o.Framing != Auto {
		c.setFraming(o.Framing)
	}
	return c
}

// Serve reads until the input ends, the framing is lost, the output is broken,
// Stop or Close is called, or ctx ends; it returns after all handlers have
// ended and everything queued is written. After the end of ctx, or when nothing
// can be written any more, both have Options.Grace for it.
//
// A lost framing and a broken output are errors, the end of input or of ctx is
// nil. Serve closes reader and writer where they are io.Closers; a Read that
// Close does not interrupt is left behind in its goroutine.
func (c *Conn) Serve(ctx context.Context, h Handler) error {
	base, cancel := context.WithCancelCause(ctx)
	defer cancel(ErrClosed)
	defer close(c.served)
	c.mu.Lock()
	c.serving, c.handler = true, h
	c.mu.Unlock()

	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		<-c.framed // Serve sets it at the latest when it stops
		w := &writer{q: c.out, w: c.w, framing: c.framing}
		if err := w.run(); err != nil {
			c.out.drop(fmt.Errorf("%w: output: %w", ErrClosed, err))
			c.fail(fmt.Errorf("output: %w", err))
			cancel(ErrClosed)
		}
	}()
	c.rpc.Go(base, c.handle)

	w := waiter{ended: base.Done(), abandoned: c.abandoned, grace: c.options.Grace}
	defer w.stop()
	select {
	case <-c.stopping:
	case <-base.Done():
		c.Stop()
	}
	c.setFraming(LSP)
	done := w.wait(c.idle)
	c.out.close(ErrClosed)
	done = done && w.wait(wrote)
	if !done {
		c.out.drop(ErrClosed)
		c.fail(errors.New("gave up before all was answered and written"))
	}
	cancel(ErrClosed)
	close(c.drained)
	err := closeBoth(c.r, c.w)
	select {
	case <-c.inputOver:
		if done {
			<-c.rpc.Done()
		}
	default: // blocked in a Read
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && err != nil {
		c.err = fmt.Errorf("output: %w", err)
	}
	return c.err
}

// closeBoth gives the error of the writer, which may be that of a late write.
func closeBoth(r io.Reader, w io.Writer) error {
	if rc, ok := r.(io.Closer); ok {
		_ = rc.Close() // only to end a Read
	}
	if wc, ok := w.(io.Closer); ok {
		return wc.Close()
	}
	return nil
}

// A waiter waits for the steps of an end that has a time limit from a moment on.
type waiter struct {
	ended     <-chan struct{} // then grace begins
	abandoned <-chan struct{}
	grace     time.Duration
	timer     *time.Timer
	over      <-chan time.Time
}

func (w *waiter) wait(step <-chan struct{}) bool {
	for {
		select {
		case <-step:
			return true
		case <-w.abandoned:
			return false
		case <-w.over:
			w.over = nil
			return false
		case <-w.ended:
			w.ended = nil
			w.timer = time.NewTimer(w.grace)
			w.over = w.timer.C
		}
	}
}

func (w *waiter) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// Stop ends reading as the end of input does, without waiting: requests under
// way are still answered, and then Serve returns. A handler of exit calls it.
func (c *Conn) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	c.stopped = true
	close(c.stopping)
	if c.pending == 0 {
		close(c.idle)
	}
}

// Close stops, and returns when Serve has; when ctx ends before, what is not
// yet answered or written is given up. It must not be called by a handler.
func (c *Conn) Close(ctx context.Context) error {
	c.Stop()
	c.mu.Lock()
	serving := c.serving
	c.mu.Unlock()
	if !serving {
		c.out.drop(ErrClosed)
		return nil
	}
	select {
	case <-c.served:
		return nil
	case <-ctx.Done():
		c.abandon.Do(func() { close(c.abandoned) })
		<-c.served
		return context.Cause(ctx)
	}
}

// Notify queues a notification. Messages of one key leave in the order in
// which they were queued. When Options.MaxQueued bytes wait it blocks until
// the client has read some, so that many notifications are a case for Lazy. It
// gives ErrClosed after the end, and an error if params cannot be encoded.
func (c *Conn) Notify(key, method string, params any) error {
	it := &item{kind: notifyItem, method: method}
	if params != nil {
		body, err := Encode(params)
		if err != nil {
			return fmt.Errorf("params of %s: %w", method, err)
		}
		it.body = body
	}
	return c.out.put(context.Background(), key, it)
}

// Lazy queues a notification whose params are made when it is about to be
// written; make may return nil for "nothing to send any more". At most one
// Lazy of a key is pending: a further one is dropped, since the pending one
// will see the newer state. It never blocks, and does nothing after the end.
//
// make runs on the goroutine that writes: it must not wait, nor call Notify or
// Call. See More for params that come in parts.
func (c *Conn) Lazy(key, method string, make func() any) {
	c.out.putLazy(key, &item{kind: lazyItem, method: method, make: make})
}

// Call sends a request to the client and waits for the answer, which is
// decoded into result unless that is nil. It gives an *Error if the client
// answers with one, ErrClosed after the end of input, and the cause of ctx,
// after which the client is told to cancel. An inline handler must not call it.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	var body jsonrpc2.RawMessage
	if params != nil {
		raw, err := Encode(params)
		if err != nil {
			return fmt.Errorf("params of %s: %w", method, err)
		}
		body = jsonrpc2.RawMessage(raw)
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-c.stopping: // nobody will answer
			cancel(ErrClosed)
		case <-waiting.Done():
		}
	}()
	var raw jsonrpc2.RawMessage
	id, err := c.rpc.Call(waiting, method, body, &raw)
	switch {
	case err == nil:
	case errors.Is(err, jsonrpc2.ErrClientClosing):
		return ErrClosed
	case waiting.Err() != nil:
		if n, ok := id.Number(); ok && ctx.Err() != nil {
			// waiting has ended, so that this is dropped if there is no room.
			_ = c.out.put(waiting, "", &item{
				kind: notifyItem, method: "$/cancelRequest",
				body: append(appendInt(Raw(`{"id":`), n), '}'),
			})
		}
		return context.Cause(waiting)
	default:
		return err
	}
	if result == nil {
		return nil
	}
	if r, is := result.(*Raw); is {
		*r = Raw(raw)
		return nil
	}
	if err := json.Unmarshal(raw, result, encoding); err != nil {
		return fmt.Errorf("result of %s: %w", method, err)
	}
	return nil
}

func (c *Conn) isStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

// fail stops with the error that Serve returns, if it is the first.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	c.Stop()
}

// setFraming tells the writer how to write, once.
func (c *Conn) setFraming(f Framing) {
	c.setFramed.Do(func() {
		c.framing = f
		close(c.framed)
	})
}

// endInput is the end of Read. err is why nothing more can be read.
func (c *Conn) endInput(ctx context.Context, err error) error {
	close(c.inputOver)
	var gone *lostError
	switch {
	case err == nil, errors.Is(err, io.EOF):
		c.Stop()
	case c.isStopped(): // closed by Serve
	case errors.As(err, &gone):
		c.setFraming(LSP)
		c.refuse(ctx, errorf(CodeParse, "%s", gone.Error()))
		c.fail(err)
	default:
		c.fail(fmt.Errorf("input: %w", err))
	}
	<-c.drained
	return io.EOF
}
