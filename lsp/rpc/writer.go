package rpc

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"
)

// gather is how much is put together into one write.
const gather = 64 << 10

// A writer is the only one that touches the output.
type writer struct {
	q       *queue
	w       io.Writer
	framing Framing
	buf     []byte // framed messages not yet written
	head    []byte
	counted int // bytes to give back after the write
}

// run writes until the queue is closed and empty, or the output is broken.
func (w *writer) run() error {
	for {
		key, it, closed := w.q.next()
		if it == nil {
			if err := w.flush(); err != nil || closed {
				return err
			}
			<-w.q.wake
			continue
		}
		if it.kind != lazyItem {
			w.counted += it.size()
			if err := w.write(it); err != nil {
				return err
			}
			continue
		}
		params, ok, more := w.make(it)
		if ok {
			if err := w.write(&item{kind: notifyItem, method: it.method, body: params}); err != nil {
				return err
			}
		}
		w.q.made(key, more)
	}
}

// make asks a lazy item for its params.
func (w *writer) make(it *item) (params Raw, ok, more bool) {
	defer func() {
		if r := recover(); r != nil {
			w.q.log.Error("making a notification panicked", zap.String("method", it.method), panicked(r), zap.StackSkip("stack", 1))
			params, ok, more = nil, false, false
		}
	}()
	v := it.make()
	if v == nil {
		return nil, false, false
	}
	if m, is := v.(More); is {
		v, more = m.Params, true
	}
	params, err := Encode(v)
	if err != nil {
		w.q.log.Error("notification cannot be encoded", zap.String("method", it.method), zap.Error(err))
		return nil, false, more
	}
	return params, true, more
}

// write frames one message into buf, or writes it if it is large.
func (w *writer) write(it *item) error {
	body := []byte(it.body)
	if !utf8.Valid(body) { // a Raw from a transcript; clients stop at such bytes
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	if w.framing == NDJSON && bytes.IndexByte(body, '\n') >= 0 {
		v := jsontext.Value(bytes.Clone(body))
		if err := v.Compact(); err != nil {
			return fmt.Errorf("compact message: %w", err)
		}
		body = v
	}
	w.head = it.appendHead(w.head[:0])
	tail := it.tail()
	if w.framing != NDJSON {
		w.buf = append(w.buf, "Content-Length: "...)
		w.buf = appendInt(w.buf, int64(len(w.head)+len(body)+len(tail)))
		w.buf = append(w.buf, "\r\n\r\n"...)
	}
	w.buf = append(w.buf, w.head...)
	if len(body) > gather {
		// Not copied, and not kept.
		if err := w.put(w.buf); err != nil {
			return err
		}
		w.buf = w.buf[:0]
		if err := w.put(body); err != nil {
			return err
		}
	} else {
		w.buf = append(w.buf, body...)
	}
	w.buf = append(w.buf, tail...)
	if w.framing == NDJSON {
		w.buf = append(w.buf, '\n')
	}
	if len(w.buf) >= gather {
		return w.flush()
	}
	return nil
}

func (w *writer) flush() error {
	if len(w.buf) > 0 {
		if err := w.put(w.buf); err != nil {
			return err
		}
		w.buf = w.buf[:0]
	}
	if w.counted > 0 {
		w.q.written(w.counted)
		w.counted = 0
	}
	return nil
}

func (w *writer) put(b []byte) error {
	n, err := w.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}
