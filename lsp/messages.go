package lsp

import (
	"bytes"
	"context"
	"runtime"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/agent-ls/agent-ls/lsp/rpc"
	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/jsonl"
	"github.com/agent-ls/agent-ls/session/parallel"
)

// messagesAtOnce is how many messages one worker decodes and encodes at a time.
const messagesAtOnce = 256

// encoded are messages as JSON, and what was seen in them.
type encoded struct {
	json    []byte // elements with commas between them; of all, behind messagesHead
	last    time.Time
	spilled []string
	err     error

	ids   []byte        // scratch
	ahead session.Ahead // of what is read
}

// reset makes e ready for other messages.
func (e *encoded) reset() {
	*e = encoded{json: e.json[:0], spilled: e.spilled[:0], ids: e.ids[:0], ahead: e.ahead}
}

// batch is some messages of a plan, on their way to be encoded.
type batch struct {
	from, to int
	out      encoded
}

// encodeMessages reads the messages of a plan and encodes them, on all cores.
// A conversation of any length is never held decoded: what is in memory
// besides the result is a few batches.
func encodeMessages(ctx context.Context, p *session.Plan, limit int) (encoded, error) {
	workers := runtime.GOMAXPROCS(0)
	done := make(chan *batch, 4*workers) // to be used again
	batches := func(yield func(*batch) bool) {
		for from := 0; from < p.Len(); from += messagesAtOnce {
			b := &batch{}
			select {
			case b = <-done:
			default:
			}
			b.from, b.to = from, min(p.Len(), from+messagesAtOnce)
			if !yield(b) {
				return
			}
		}
	}
	var all encoded
	for b := range parallel.InOrder(batches, workers, func(b *batch) { b.encode(ctx, p, limit) }) {
		if b.out.err != nil {
			return all, b.out.err
		}
		if all.json == nil {
			// The first messages tell how much JSON the others will take.
			all.json = append(make([]byte, 0, len(messagesHead)+b.estimate(p)), messagesHead...)
		}
		all.add(&b.out)
		select {
		case done <- b:
		default:
		}
	}
	if all.json == nil {
		all.json = []byte(messagesHead)
	}
	return all, ctx.Err()
}

// add puts the messages of a batch behind those before it.
func (e *encoded) add(part *encoded) {
	if len(part.json) > 0 {
		if len(e.json) > len(messagesHead) {
			e.json = append(e.json, ',')
		}
		e.json = append(e.json, part.json...)
	}
	if part.last.After(e.last) {
		e.last = part.last
	}
	e.spilled = append(e.spilled, part.spilled...)
}

// estimate is about what all messages of p take as JSON, judged by b.
func (b *batch) estimate(p *session.Plan) int {
	logged := p.Size(b.from, b.to)
	if logged == 0 {
		return 0
	}
	all := p.Size(0, p.Len())
	return min(all, int(1.1*float64(len(b.out.json))/float64(logged)*float64(all))) + 64<<10
}

// encode encodes the messages of b.
func (b *batch) encode(ctx context.Context, p *session.Plan, limit int) {
	out := &b.out
	out.reset()
	for i := b.from; i < b.to; i++ {
		if out.err = ctx.Err(); out.err != nil {
			return
		}
		if out.err = out.message(p, i, limit); out.err != nil {
			return
		}
	}
}

// message appends the JSON of wire.Message, unless it is empty. Most of a
// conversation is text, which is handed on as it stands in the log; encoding
// it anew took most of the time of a resume.
func (e *encoded) message(p *session.Plan, i, limit int) error {
	before := len(e.json)
	if before > 0 {
		e.json = append(e.json, ',')
	}
	e.json = append(e.json, `{"role":"`...)
	e.json = append(append(e.json, p.Role(i).String()...), `","content":[`...)
	empty := len(e.json)
	ids := append(e.ids[:0], `],"entryIds":[`...)
	bare := len(ids)
	var model string
	var used *session.Usage
	var last time.Time
	var failed error
	err := p.Walk(i, &e.ahead, func(entry *session.Entry, b session.Body) {
		for _, block := range b.Blocks {
			if len(e.json) > empty {
				e.json = append(e.json, ',')
			}
			var err error
			if e.json, err = appendBlock(e.json, block, limit); err != nil {
				failed = err
			}
			if r, ok := block.(session.ToolResult); ok && r.Spilled != "" {
				e.spilled = append(e.spilled, r.Spilled)
			}
		}
		if len(ids) > bare {
			ids = append(ids, ',')
		}
		ids = rpc.AppendString(ids, entry.ID)
		last = entry.Time
		if b.Model != "" {
			model = b.Model
		}
		if b.Usage != nil {
			used = b.Usage
		}
	})
	e.ids = ids
	if err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	if len(e.json) == empty {
		e.json = e.json[:before]
		return nil
	}
	e.json = append(append(e.json, ids...), ']')
	e.json = appendMember(e.json, "model", model)
	if used != nil {
		e.json = appendUsage(e.json, used)
	}
	if !last.IsZero() {
		e.json = append(e.json, `,"timestamp":"`...)
		e.json = append(last.UTC().AppendFormat(e.json, timeLayout), '"')
	}
	e.json = append(e.json, '}')
	if last.After(e.last) {
		e.last = last
	}
	return nil
}

// appendUsage appends the member of a message that wire.Usage is.
func appendUsage(dst []byte, u *session.Usage) []byte {
	dst = append(dst, `,"usage":{`...)
	empty := len(dst)
	name := func(name string) {
		if len(dst) > empty {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), name...), `":`...)
	}
	count := func(member string, n int64) {
		if n >= 0 {
			name(member)
			dst = strconv.AppendInt(dst, n, 10)
		}
	}
	count("input", u.Input)
	count("output", u.Output)
	count("cacheRead", u.CacheRead)
	count("cacheWrite", u.CacheWrite)
	if u.Cost > 0 {
		name("cost")
		dst = strconv.AppendFloat(dst, u.Cost, 'g', -1, 64)
	}
	return append(dst, '}')
}

// appendMember appends a member of an object that has others, unless it is empty.
func appendMember(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return rpc.AppendString(dst, value)
}

// clean reports whether JSON can be handed on as it is to any decoder.
func clean(raw []byte) bool {
	return jsonl.Valid(raw) && utf8.Valid(raw) && !bytes.Contains(raw, []byte(`\u`))
}

// appendBlock appends the JSON of block(b, limit).
func appendBlock(dst []byte, b session.Block, limit int) ([]byte, error) {
	before := len(dst)
	switch b := b.(type) {
	case session.Quoted:
		if b.Thinking {
			dst = append(dst, `{"type":"thinking"`...)
		} else {
			dst = append(dst, `{"type":"text"`...)
		}
		if len(b.JSON) == 0 {
			return append(dst, '}'), nil
		}
		dst = append(dst, `,"text":"`...)
		text := len(dst)
		dst = jsonl.AppendLiteral(dst, b.JSON)
		if len(dst)-text <= limit { // then the decoded text is no longer either
			return append(dst, `"}`...), nil
		}
	case session.ToolUse:
		if !clean(b.Input) || len(b.Input) > limit {
			break
		}
		dst = append(dst, `{"type":"tool_use"`...)
		dst = appendMember(dst, "id", b.ID)
		dst = appendMember(dst, "name", b.Name)
		if len(b.Input) > 2 { // not empty
			dst = append(append(dst, `,"input":`...), b.Input...)
		} else if len(b.Input) > 0 {
			break
		}
		dst = appendMember(dst, "kind", b.Kind.String())
		for k, l := range b.Locations {
			if k == 0 {
				dst = append(dst, `,"locations":[`...)
			} else {
				dst = append(dst, ',')
			}
			dst = append(dst, `{"path":`...)
			dst = rpc.AppendString(dst, l.Path)
			if l.Line != 0 {
				dst = strconv.AppendInt(append(dst, `,"line":`...), int64(l.Line), 10)
			}
			dst = append(dst, '}')
		}
		if len(b.Locations) > 0 {
			dst = append(dst, ']')
		}
		return append(dst, '}'), nil
	case session.ToolResult:
		dst = append(dst, `{"type":"tool_result"`...)
		dst = appendMember(dst, "toolUseId", b.UseID)
		dst = appendMember(dst, "name", b.Name)
		for k, inner := range b.Content {
			if k == 0 {
				dst = append(dst, `,"content":[`...)
			} else {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = appendBlock(dst, inner, limit); err != nil {
				return dst, err
			}
		}
		if len(b.Content) > 0 {
			dst = append(dst, ']')
		}
		if b.IsError {
			dst = append(dst, `,"isError":true`...)
		}
		return append(appendMember(dst, "spilled", b.Spilled), '}'), nil
	}
	raw, err := rpc.Encode(block(b, limit))
	return append(dst[:before], raw...), err
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
