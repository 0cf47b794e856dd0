package rpc

import (
	"context"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.lsp.dev/jsonrpc2"
	"go.uber.org/zap"
)

// stream is what jsonrpc2 sees of the connection. It never gives an error for
// a bad message, since jsonrpc2 ends the connection on one: it answers by
// itself and reads on. Read is called by one goroutine at a time.
type stream struct {
	c      *Conn
	in     *frames
	parser parser
	// members of the frame read last that were not yet given.
	members []message
	batch   *batch // where their answers go; nil if the frame is no batch
	// current is the request that Read gave last, for the handler that
	// jsonrpc2 then runs on the same goroutine.
	current *call
}

// Read gives the next request under our serial number, or an answer to a call
// of ours. At the end of input it waits until all requests are answered:
// jsonrpc2 drops answers after that.
func (s *stream) Read(ctx context.Context) (jsonrpc2.Message, int64, error) {
	for {
		if s.c.isStopped() {
			return nil, 0, s.c.endInput(ctx, nil)
		}
		if len(s.members) == 0 {
			if err := s.fill(ctx); err != nil {
				return nil, 0, s.c.endInput(ctx, err)
			}
			continue
		}
		m := s.members[0]
		s.members[0] = message{} // it may be large, and the next frame far away
		s.members = s.members[1:]
		if msg := s.take(ctx, &m); msg != nil {
			return msg, 0, nil // nobody counts these bytes
		}
	}
}

// fill reads one frame into members. It answers bad ones.
func (s *stream) fill(ctx context.Context) error {
	if !s.in.begun {
		if err := s.in.begin(); err != nil {
			return err
		}
		s.c.setFraming(s.in.framing)
	}
	frame, err := s.in.next()
	var skip *skipError
	var fault *Error
	switch {
	case errors.As(err, &skip):
		s.c.refuse(ctx, skip.answer)
		return s.in.skip(skip.n)
	case errors.As(err, &fault):
		s.c.refuse(ctx, fault)
		return nil
	case err != nil:
		return err
	}
	members, isBatch, fault := s.parser.parse(frame)
	if fault != nil {
		s.c.refuse(ctx, fault)
		return nil
	}
	s.members, s.batch = members, nil
	if isBatch {
		s.batch = newBatch(members, s.c.options.MaxMessage)
	}
	return nil
}

// take gives what jsonrpc2 should see of m, or nil if m was dealt with here.
func (s *stream) take(ctx context.Context, m *message) jsonrpc2.Message {
	switch {
	case m.isResponse:
		if r := response(m); r != nil {
			return r
		}
		s.c.options.Log.Debug("answer to no call of ours dropped")
		return nil
	case m.ignored():
		s.c.options.Log.Debug("notification ignored", zap.String("why", m.invalid.Message))
		return nil
	case m.invalid != nil:
		s.c.reply(ctx, "", s.batch, m.place, fault(m.id, m.invalid))
		return nil
	case m.method == "$/cancelRequest":
		s.c.cancelRequest(m.params)
		if m.id != nil {
			s.c.reply(ctx, "", s.batch, m.place, &item{kind: resultItem, id: m.id, body: Raw("null")})
		}
		return nil
	}
	cl := newCall(m, s.batch)
	if ok, refused := s.c.begin(cl); refused != nil {
		s.c.reply(ctx, "", s.batch, m.place, fault(m.id, refused))
		return nil
	} else if !ok {
		return nil // stopped meanwhile
	}
	s.current = cl
	// The method only: jsonrpc2 copies the rest when a request is to run
	// concurrently, and the handler has it from current.
	if cl.Notify {
		return jsonrpc2.NewNotification(m.method, nil)
	}
	return jsonrpc2.NewCall(jsonrpc2.NewNumberID(cl.serial), m.method, nil)
}

// response gives the answer to a call of ours, or nil if it cannot be one.
func response(m *message) *jsonrpc2.Response {
	n, err := strconv.ParseInt(string(m.id), 10, 64)
	if err != nil {
		return nil
	}
	id := jsonrpc2.NewNumberID(n)
	if m.fault == nil {
		return jsonrpc2.NewResponse(id, jsonrpc2.RawMessage(m.result), nil)
	}
	var e struct {
		Code    int64          `json:"code"`
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data"`
	}
	if err := json.Unmarshal(m.fault, &e, encoding); err != nil {
		return jsonrpc2.NewResponse(id, nil, errorf(CodeInternal, "answer with an error that is no error object"))
	}
	out := &Error{Code: e.Code, Message: e.Message}
	if e.Data != nil {
		out.Data = Raw(e.Data)
	}
	return jsonrpc2.NewResponse(id, nil, out)
}

// Write takes what jsonrpc2 sends. An answer only tells that a handler has
// ended: the true one, with the client's id, waits in the call. Nothing is
// written here, and no error is given after which jsonrpc2 would drop answers.
func (s *stream) Write(ctx context.Context, msg jsonrpc2.Message) (int64, error) {
	frame := jsonrpc2.AppendMessage(nil, msg)
	view, err := jsonrpc2.ScanMessageView(frame)
	if err != nil {
		return 0, err
	}
	// The context of a request is recycled with it.
	ctx = jsonrpc2.DetachContext(ctx)
	if view.Kind == jsonrpc2.MessageViewResponseResult || view.Kind == jsonrpc2.MessageViewResponseError {
		if n, ok := view.ID.Number(); ok {
			s.c.finish(ctx, n)
		}
		return int64(len(frame)), nil
	}
	if err := s.c.out.put(ctx, "", &item{kind: wholeItem, body: frame}); err != nil && ctx.Err() != nil {
		return 0, err
	}
	return int64(len(frame)), nil
}

// Close has nothing to close: Serve does that when all is written.
func (s *stream) Close() error { return nil }
