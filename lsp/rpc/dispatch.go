package rpc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.lsp.dev/jsonrpc2"
	"go.uber.org/zap"
)

// fastSlots is how many requests that are not slow run at a time. By what they
// are they end soon, so this bounds the results that wait for room only.
const fastSlots = 64

// A call is a request under way.
type call struct {
	Request
	serial int64
	id     []byte
	size   int64
	batch  *batch
	place  int // in the batch

	key       string
	slow      bool
	turn      chan struct{} // closed when the calls of key before it have ended; nil if inline
	slots     chan struct{} // where it holds a slot, or nil
	cancel    context.CancelFunc
	cancelled bool // by the client; Conn.mu

	answer    *item
	answerKey string
	after     func()
}

func newCall(m *message, b *batch) *call {
	return &call{
		Request: Request{Method: m.method, Params: m.params, Notify: m.id == nil, ID: string(m.id)},
		id:      m.id, batch: b, place: m.place,
		size: int64(len(m.params) + len(m.method) + len(m.id)),
	}
}

// begin registers cl, and waits for room before. It is not ok if the
// connection has been stopped.
func (c *Conn) begin(cl *call) (ok bool, refused *Error) {
	for {
		c.mu.Lock()
		if c.stopped {
			c.mu.Unlock()
			return false, nil
		}
		if c.pending == 0 || c.pending < c.options.MaxPending && c.pendingBytes+cl.size <= c.options.MaxMessage {
			break
		}
		c.mu.Unlock()
		select {
		case <-c.roomy:
		case <-c.stopping:
		}
	}
	defer c.mu.Unlock()
	if !cl.Notify {
		key := idKey(cl.id)
		if _, taken := c.ids[key]; taken {
			return false, errorf(CodeInvalidRequest, "id %s is that of a request which is not yet answered", shorten(cl.id))
		}
		c.serial++
		cl.serial = c.serial
		c.ids[key] = cl
		c.calls[cl.serial] = cl
	}
	c.pending++
	c.pendingBytes += cl.size
	return true, nil
}

// handle is what jsonrpc2 runs for each request, on the read goroutine. Its
// own context and request are recycled: only DetachContext may be derived from.
func (c *Conn) handle(ctx context.Context, _ *jsonrpc2.Request) (any, error) {
	cl := c.in.current
	c.in.current = nil
	run, cancel := context.WithCancel(jsonrpc2.DetachContext(ctx))
	defer cancel()
	c.mu.Lock()
	cl.cancel = cancel
	c.mu.Unlock()
	inline, refused := c.order(cl)
	switch {
	case refused != nil:
		cl.fail(refused)
	case inline:
		c.invoke(run, cl)
	default:
		c.enter(cl)
		jsonrpc2.Async(ctx)
		if err := c.await(run, cl); err != nil {
			cl.fail(errorf(CodeRequestCancelled, "%s cancelled before it ran", cl.Method))
		} else {
			c.invoke(run, cl)
		}
	}
	if cl.Notify {
		c.release(cl)
	}
	return nil, nil // to Write
}

// order asks the handler whether and how cl is run.
func (c *Conn) order(cl *call) (inline bool, refused *Error) {
	refused = internal(cl) // after a panic
	defer c.recover(cl)
	if g, is := c.handler.(Gatekeeper); is {
		if err := g.Refuse(&cl.Request); err != nil {
			return false, asError(cl, err, false)
		}
	}
	cl.key, inline = c.handler.Order(&cl.Request)
	cl.answerKey = cl.key
	if s, is := c.handler.(Slower); is && !inline {
		cl.slow = s.Slow(&cl.Request)
	}
	return inline, nil
}

// enter takes a place among the calls of its key.
func (c *Conn) enter(cl *call) {
	cl.turn = make(chan struct{})
	if cl.key == "" {
		close(cl.turn)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys[cl.key] = append(c.keys[cl.key], cl)
	if len(c.keys[cl.key]) == 1 {
		close(cl.turn)
	}
}

// await returns when cl may run: it is its turn, there is a slot, and the
// client reads, so that the result will not have to wait for long.
func (c *Conn) await(ctx context.Context, cl *call) error {
	select {
	case <-cl.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	slots := c.fast
	if cl.slow {
		slots = c.slow
	}
	select {
	case slots <- struct{}{}:
		cl.slots = slots
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := c.out.hasRoom(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// invoke runs the handler and keeps its answer.
func (c *Conn) invoke(ctx context.Context, cl *call) {
	result, err, ok := c.run(ctx, cl)
	switch {
	case cl.Notify:
		if err != nil {
			c.options.Log.Debug("notification failed", zap.String("method", cl.Method), zap.Error(err))
		}
		return
	case !ok:
		cl.fail(internal(cl))
		return
	case err != nil:
		c.mu.Lock()
		cancelled := cl.cancelled
		c.mu.Unlock()
		cl.fail(asError(cl, err, cancelled))
		return
	}
	if r, is := result.(Reply); is {
		result, cl.after = r.Result, r.After
		if r.Key != "" {
			cl.answerKey = r.Key
		}
	}
	body, err := Encode(result)
	if err != nil {
		c.options.Log.Error("result cannot be encoded", zap.String("method", cl.Method), zap.Error(err))
		cl.fail(errorf(CodeInternal, "result of %s cannot be encoded", cl.Method))
		return
	}
	cl.answer = &item{kind: resultItem, id: cl.id, body: body}
}

// run calls the handler; it is not ok after a panic.
func (c *Conn) run(ctx context.Context, cl *call) (result any, err error, ok bool) {
	defer c.recover(cl)
	r := cl.Request
	result, err = c.handler.Handle(ctx, &r)
	return result, err, true
}

// recover is deferred around everything that is the handler's.
func (c *Conn) recover(cl *call) {
	if r := recover(); r != nil {
		c.options.Log.Error("handler panicked", zap.String("method", cl.Method), panicked(r), zap.StackSkip("stack", 1))
	}
}

// panicked describes a panic without text that may come from a transcript.
func panicked(r any) zap.Field {
	if err, ok := r.(runtime.Error); ok {
		return zap.NamedError("panic", err)
	}
	return zap.String("panic", fmt.Sprintf("%T", r))
}

func internal(cl *call) *Error {
	return errorf(CodeInternal, "internal error in %s, see the log", cl.Method)
}

func asError(cl *call, err error, cancelled bool) *Error {
	var e *Error
	known := errors.As(err, &e) && e != nil
	switch {
	case !known && errors.Is(err, context.Canceled), cancelled && (!known || e.Code == CodeInternal):
		return errorf(CodeRequestCancelled, "%s cancelled", cl.Method)
	case known:
		return e
	}
	if e == nil && errors.As(err, &e) { // a nil *Error in an error
		return internal(cl)
	}
	return errorf(CodeInternal, "%s: %s", cl.Method, err)
}

func fault(id []byte, e *Error) *item {
	return &item{kind: faultItem, id: id, body: encodeError(e)}
}

func (cl *call) fail(e *Error) { cl.answer = fault(cl.id, e) }

// finish queues the answer of a call and lets the next of its key run.
func (c *Conn) finish(ctx context.Context, serial int64) {
	c.mu.Lock()
	cl := c.calls[serial]
	if cl == nil {
		c.mu.Unlock()
		return
	}
	// The client may use the id again as soon as it has the answer.
	delete(c.calls, serial)
	delete(c.ids, idKey(cl.id))
	c.mu.Unlock()
	if cl.answer == nil { // jsonrpc2 did not run it, since it is closing
		cl.fail(errorf(CodeRequestCancelled, "%s not run, the connection is closing", cl.Method))
	}
	c.reply(ctx, cl.answerKey, cl.batch, cl.place, cl.answer)
	if cl.after != nil {
		func() {
			defer c.recover(cl)
			cl.after()
		}()
	}
	c.release(cl)
}

// release gives back what cl held.
func (c *Conn) release(cl *call) {
	if cl.slots != nil {
		<-cl.slots
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl.turn != nil && cl.key != "" {
		c.leave(cl)
	}
	c.pending--
	c.pendingBytes -= cl.size
	select {
	case c.roomy <- struct{}{}:
	default:
	}
	if c.stopped && c.pending == 0 {
		close(c.idle)
	}
}

// leave wants mu. A cancelled call leaves from the middle.
func (c *Conn) leave(cl *call) {
	calls := c.keys[cl.key]
	i := slices.Index(calls, cl)
	calls = slices.Delete(calls, i, i+1)
	if len(calls) == 0 {
		delete(c.keys, cl.key)
		return
	}
	c.keys[cl.key] = calls
	if i == 0 {
		close(calls[0].turn)
	}
}

// cancelRequest ends the context of the call that params name. Whatever else
// they hold is ignored, as of any notification.
func (c *Conn) cancelRequest(params []byte) {
	var p struct {
		ID jsontext.Value `json:"id"`
	}
	if params == nil || json.Unmarshal(params, &p, encoding) != nil || len(p.ID) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl := c.ids[idKey(p.ID)]; cl != nil && cl.cancel != nil {
		cl.cancelled = true
		cl.cancel()
	}
}

// reply queues an answer, or keeps it for the batch that it is a part of.
func (c *Conn) reply(ctx context.Context, key string, b *batch, place int, it *item) {
	if b != nil {
		c.mu.Lock()
		whole := b.add(place, it)
		c.mu.Unlock()
		if whole == nil {
			return
		}
		it = &item{kind: wholeItem, body: whole}
	}
	if err := c.out.put(ctx, key, it); err != nil {
		c.options.Log.Debug("answer dropped", zap.Error(err))
	}
}

// refuse answers a message whose id is not known.
func (c *Conn) refuse(ctx context.Context, e *Error) {
	c.options.Log.Debug("message refused", zap.Int64("code", e.Code))
	c.reply(ctx, "", nil, 0, fault(nil, e))
}

// A batch collects the answers to the members of one frame, in their order.
// Conn.mu guards it.
type batch struct {
	answers []Raw
	missing int
	room    int64 // bytes of answers it still takes
}

// newBatch numbers those of members that get an answer.
func newBatch(members []message, limit int64) *batch {
	b := &batch{room: limit}
	for i := range members {
		if m := &members[i]; m.answered() {
			m.place = b.missing
			b.missing++
		}
	}
	b.answers = make([]Raw, b.missing)
	return b
}

// add gives the whole answer when the last one has come.
func (b *batch) add(place int, it *item) Raw {
	b.room -= int64(len(it.body))
	if b.room < 0 {
		it = fault(it.id, errorf(CodeInternal, "answer to the batch would be too large, ask singly"))
	}
	b.answers[place] = it.append(nil)
	if b.missing--; b.missing > 0 {
		return nil
	}
	whole := Raw{'['}
	for i, a := range b.answers {
		if i > 0 {
			whole = append(whole, ',')
		}
		whole = append(whole, a...)
	}
	b.answers = nil
	return append(whole, ']')
}
