package lsp

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/agent-ls/agent-ls/lsp/rpc"
	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
)

// messagesAtOnce is how many messages one worker decodes and encodes at a time.
const messagesAtOnce = 64

// encoded are messages as JSON, and what was seen in them.
type encoded struct {
	json    []byte // elements with commas between them; of all, behind messagesHead
	last    time.Time
	spilled []string
	err     error
}

// encodeMessages reads the messages of a plan and encodes them, on all cores.
// A conversation of any length is never held decoded: what is in memory
// besides the result is a few batches.
func encodeMessages(ctx context.Context, p *session.Plan, limit int) (encoded, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	workers := runtime.GOMAXPROCS(0)
	queue := make(chan chan encoded, 2*workers) // in order; bounds what is under way
	var work sync.WaitGroup
	work.Go(func() {
		defer close(queue)
		for from := 0; from < p.Len(); from += messagesAtOnce {
			done := make(chan encoded, 1)
			select {
			case queue <- done:
			case <-ctx.Done():
				return
			}
			work.Go(func() { done <- encodeSome(ctx, p, from, min(p.Len(), from+messagesAtOnce), limit) })
		}
	})
	all := encoded{json: append(make([]byte, 0, p.Size()+len(messagesHead)), messagesHead...)}
	for done := range queue {
		part := <-done
		if all.err == nil {
			all.err = part.err
		}
		if all.err != nil {
			cancel()
			continue
		}
		if len(part.json) > 0 {
			if len(all.json) > len(messagesHead) {
				all.json = append(all.json, ',')
			}
			all.json = append(all.json, part.json...)
		}
		if part.last.After(all.last) {
			all.last = part.last
		}
		all.spilled = append(all.spilled, part.spilled...)
	}
	work.Wait()
	if all.err == nil {
		all.err = ctx.Err()
	}
	return all, all.err
}

func encodeSome(ctx context.Context, p *session.Plan, from, to, limit int) encoded {
	var out encoded
	var ahead session.Ahead
	for i := from; i < to; i++ {
		if out.err = ctx.Err(); out.err != nil {
			return out
		}
		m, err := p.Load(i, &ahead)
		if err != nil {
			out.err = err
			return out
		}
		if len(m.Blocks) == 0 {
			continue
		}
		raw, err := rpc.Encode(messageOut(m, limit))
		if err != nil {
			out.err = err
			return out
		}
		if len(out.json) > 0 {
			out.json = append(out.json, ',')
		}
		out.json = append(out.json, raw...)
		if m.Time.After(out.last) {
			out.last = m.Time
		}
		for _, b := range m.Blocks {
			if t, ok := b.(session.ToolResult); ok && t.Spilled != "" {
				out.spilled = append(out.spilled, t.Spilled)
			}
		}
	}
	return out
}

// messagesHead begins a result that has its messages first.
const messagesHead = `{"messages":[`

// withMessages puts the rest of a result behind its messages.
func withMessages(messages []byte, res wire.ResumeResult) (rpc.Raw, error) {
	res.Messages = nil
	rest, err := rpc.Encode(res)
	if err != nil {
		return nil, err
	}
	return append(append(messages, "],"...), rest[1:]...), nil
}
