package format

import (
	"bytes"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// Body implements session.Format.
func (claude) Body(raw []byte) session.Body {
	d := claudeBody{}
	c := jsonl.NewCursor(raw)
	if d.line(&c); !c.Done() {
		return unknownBody(raw)
	}
	return d.body(raw)
}

// Quote implements session.Quoter.
func (claude) Quote(raw []byte) session.Body {
	d := claudeBody{quote: true}
	c := jsonl.NewKnownCursor(raw)
	d.line(&c)
	return d.body(raw)
}

func unknownBody(raw []byte) session.Body {
	return session.Body{Blocks: []session.Block{session.Unknown{Raw: bytes.Clone(raw)}}}
}

// claudeBody decodes the content of a line, in one pass. With quote its texts
// stay as they are written.
type claudeBody struct {
	quote bool

	typ                    string
	blocks                 []session.Block
	content, old, request  []byte // of the line itself
	id, model, usage, tool []byte
}

// line takes the line apart.
func (d *claudeBody) line(c *jsonl.Cursor) {
	if !c.Object() {
		return
	}
	for {
		k, more := c.Member()
		if !more {
			return
		}
		if string(k) == "message" {
			d.said(c)
			continue
		}
		v := c.Value()
		switch string(k) {
		case "type":
			d.typ = claudeType(v)
		case "content":
			d.content = v
		case "summary":
			d.old = v
		case "requestId":
			d.request = v
		case "toolUseResult":
			d.tool = v
		}
	}
}

// said takes the message of the line apart.
func (d *claudeBody) said(c *jsonl.Cursor) {
	d.blocks, d.id, d.model, d.usage = nil, nil, nil, nil
	if !c.Object() {
		c.Value()
		return
	}
	for {
		k, more := c.Member()
		if !more {
			return
		}
		if string(k) == "content" {
			d.blocks = d.contents(c, false)
			continue
		}
		v := c.Value()
		switch string(k) {
		case "id":
			d.id = v
		case "model":
			d.model = v
		case "usage":
			d.usage = v
		}
	}
}

// body is what the line says. raw is all of it.
func (d *claudeBody) body(raw []byte) session.Body {
	switch d.typ {
	case "user", "assistant":
		return d.turn()
	case "system":
		if isString(d.content) {
			return session.Body{Blocks: []session.Block{d.text(d.content, false)}}
		}
	case "summary":
		if isString(d.old) {
			return session.Body{Blocks: []session.Block{d.text(d.old, false)}}
		}
	}
	return unknownBody(raw)
}

func (d *claudeBody) turn() session.Body {
	b := session.Body{Blocks: d.blocks}
	if p := d.spilled(); p != "" {
		for i := range b.Blocks {
			if r, ok := b.Blocks[i].(session.ToolResult); ok {
				r.Spilled = p
				b.Blocks[i] = r
			}
		}
	}
	if d.typ != "assistant" {
		return b
	}
	if b.Model = text(d.model); b.Model == claudeSynthetic {
		b.Model = ""
	}
	if len(d.usage) > 0 && d.usage[0] == '{' && b.Model != "" {
		b.Usage = claudeUsage(d.usage)
		if len(d.id) > 2 {
			// All lines of one call repeat its usage.
			b.Usage.Key = text(d.id) + " " + text(d.request)
		}
	}
	return b
}

// claudeSynthetic is the model of what the agent itself said.
const claudeSynthetic = "<synthetic>"

// spilled gives the file to which the agent moved the result of a call.
func (d *claudeBody) spilled() string {
	if len(d.tool) == 0 || d.tool[0] != '{' || !bytes.Contains(d.tool, []byte(`"persistedOutputPath"`)) {
		return ""
	}
	p := field(d.tool, "persistedOutputPath")
	if !plausiblePath(p) {
		return ""
	}
	return p
}

func isString(v []byte) bool { return len(v) > 1 && v[0] == '"' }

// text is a string value as a block.
func (d *claudeBody) text(v []byte, thinking bool) session.Block {
	switch {
	case d.quote && isString(v):
		return session.Quoted{JSON: v[1 : len(v)-1], Thinking: thinking}
	case thinking:
		return session.Thinking{Text: text(v)}
	}
	return session.Text{Text: text(v)}
}

// keep gives bytes of the line as a block may hold them.
func (d *claudeBody) keep(v []byte) []byte {
	if d.quote {
		return v
	}
	return bytes.Clone(v)
}

// contents decodes a content: a string, or blocks. Results do not nest: one
// inside of another stays as it is.
func (d *claudeBody) contents(c *jsonl.Cursor, nested bool) []session.Block {
	if !c.Array() {
		switch v := c.Value(); {
		case isString(v):
			return []session.Block{d.text(v, false)}
		case len(v) == 0, nested && jsonl.IsNull(v):
			return nil
		default:
			return []session.Block{session.Unknown{Raw: d.keep(v)}}
		}
	}
	var out []session.Block
	for c.Element() {
		var p claudeParts
		from := c.Pos()
		p.parse(c)
		if nested && (p.typ == "tool_result" || p.typ == "tool_use") {
			p.typ = ""
		}
		out = append(out, d.block(&p, c.Since(from)))
	}
	return out
}

// claudeParts is a block, taken apart.
type claudeParts struct {
	typ                                                       string
	id, use, name, input, text, thinking, content, isErr, src []byte
}

func (p *claudeParts) parse(c *jsonl.Cursor) {
	if !c.Object() {
		c.Value()
		return
	}
	for {
		k, more := c.Member()
		if !more {
			return
		}
		v := c.Value()
		switch string(k) {
		case "type":
			p.typ = blockType(v)
		case "id":
			p.id = v
		case "tool_use_id":
			p.use = v
		case "name":
			p.name = v
		case "input":
			p.input = v
		case "text":
			p.text = v
		case "thinking":
			p.thinking = v
		case "content":
			p.content = v
		case "is_error":
			p.isErr = v
		case "source":
			p.src = v
		}
	}
}

func (d *claudeBody) block(p *claudeParts, raw []byte) session.Block {
	switch p.typ {
	case "text":
		return d.text(p.text, false)
	case "thinking":
		if len(p.thinking) > 2 && isString(p.thinking) {
			return d.text(p.thinking, true)
		}
		return session.Unknown{Raw: d.keep(raw), Hidden: true}
	case "redacted_thinking":
		return session.Unknown{Raw: d.keep(raw), Hidden: true}
	case "tool_use":
		u := session.ToolUse{ID: text(p.id), Name: text(p.name), Input: d.keep(p.input)}
		u.Kind, u.Locations = toolFacts(u.Name, u.Input)
		return u
	case "tool_result":
		r := session.ToolResult{UseID: text(p.use), IsError: string(p.isErr) == "true"}
		if len(p.content) > 0 {
			c := jsonl.NewKnownCursor(p.content)
			r.Content = d.contents(&c, true)
		}
		return r
	case "image":
		if im, ok := claudeImage(p.src); ok {
			return im
		}
	}
	return session.Unknown{Raw: d.keep(raw)}
}

func claudeImage(source []byte) (im session.Image, ok bool) {
	jsonl.KnownMembers(source, func(k, v []byte) bool {
		switch string(k) {
		case "media_type":
			im.MIMEType = text(v)
		case "data":
			im.Data = text(v)
		case "url":
			im.URI = text(v)
		}
		return true
	})
	return im, im.Data != "" || im.URI != ""
}

func claudeUsage(raw []byte) *session.Usage {
	u := &session.Usage{Input: -1, Output: -1, CacheRead: -1, CacheWrite: -1, Cost: -1}
	jsonl.KnownMembers(raw, func(k, v []byte) bool {
		n, ok := jsonl.Int(v)
		if !ok {
			return true
		}
		switch string(k) {
		case "input_tokens":
			u.Input = n
		case "output_tokens":
			u.Output = n
		case "cache_read_input_tokens":
			u.CacheRead = n
		case "cache_creation_input_tokens":
			u.CacheWrite = n
		}
		return true
	})
	return u
}
