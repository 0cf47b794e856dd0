package format

import (
	"bytes"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// Body implements session.Format.
func (claude) Body(raw []byte) session.Body {
	l, ok := parseClaude(raw)
	if !ok {
		return session.Body{Blocks: []session.Block{session.Unknown{Raw: bytes.Clone(raw)}}}
	}
	switch l.typ {
	case "user", "assistant":
		return l.body()
	case "system":
		if s, ok := jsonl.String(l.content); ok {
			return session.Body{Blocks: []session.Block{session.Text{Text: s}}}
		}
	case "summary":
		if s, ok := jsonl.String(l.old); ok {
			return session.Body{Blocks: []session.Block{session.Text{Text: s}}}
		}
	}
	return session.Body{Blocks: []session.Block{session.Unknown{Raw: bytes.Clone(raw)}}}
}

func (l *claudeLine) body() session.Body {
	m := &l.msg
	var b session.Body
	if s, ok := jsonl.String(m.content); ok {
		b.Blocks = append(b.Blocks, session.Text{Text: s})
	} else if len(m.content) > 0 {
		b.Blocks = claudeContent(m.content, l.spilled())
	}
	if l.typ != "assistant" {
		return b
	}
	if b.Model = text(m.model); b.Model == claudeSynthetic {
		b.Model = ""
	}
	if len(m.usage) > 0 && m.usage[0] == '{' && b.Model != "" {
		b.Usage = claudeUsage(m.usage)
		if id := text(m.id); id != "" {
			// All lines of one call repeat its usage.
			b.Usage.Key = id + " " + text(l.requestID)
		}
	}
	return b
}

// claudeSynthetic is the model of what the agent itself said.
const claudeSynthetic = "<synthetic>"

// spilled gives the file to which the agent moved the result of a call.
func (l *claudeLine) spilled() string {
	if len(l.toolResult) == 0 || l.toolResult[0] != '{' || !bytes.Contains(l.toolResult, []byte(`"persistedOutputPath"`)) {
		return ""
	}
	p := field(l.toolResult, "persistedOutputPath")
	if !plausiblePath(p) {
		return ""
	}
	return p
}

func claudeContent(content []byte, spilled string) []session.Block {
	if content[0] != '[' {
		return []session.Block{session.Unknown{Raw: bytes.Clone(content)}}
	}
	var out []session.Block
	claudeBlocks(content, func(typ string, raw []byte) bool {
		out = append(out, claudeBlock(typ, raw, spilled))
		return true
	})
	return out
}

func claudeBlock(typ string, raw []byte, spilled string) session.Block {
	switch typ {
	case "text":
		return session.Text{Text: field(raw, "text")}
	case "thinking":
		if s := field(raw, "thinking"); s != "" {
			return session.Thinking{Text: s}
		}
		return session.Unknown{Raw: bytes.Clone(raw), Hidden: true}
	case "redacted_thinking":
		return session.Unknown{Raw: bytes.Clone(raw), Hidden: true}
	case "tool_use":
		return claudeToolUse(raw)
	case "tool_result":
		return claudeToolResult(raw, spilled)
	case "image":
		return claudeImage(raw)
	}
	return session.Unknown{Raw: bytes.Clone(raw)}
}

func claudeToolUse(raw []byte) session.Block {
	u := session.ToolUse{}
	jsonl.KnownMembers(raw, func(k, v []byte) bool {
		switch string(k) {
		case "id":
			u.ID = text(v)
		case "name":
			u.Name = text(v)
		case "input":
			u.Input = bytes.Clone(v)
		}
		return true
	})
	u.Kind, u.Locations = toolFacts(u.Name, u.Input)
	return u
}

func claudeToolResult(raw []byte, spilled string) session.Block {
	r := session.ToolResult{Spilled: spilled}
	jsonl.KnownMembers(raw, func(k, v []byte) bool {
		switch string(k) {
		case "tool_use_id":
			r.UseID = text(v)
		case "is_error":
			r.IsError = string(v) == "true"
		case "content":
			if s, ok := jsonl.String(v); ok {
				r.Content = append(r.Content, session.Text{Text: s})
			} else if len(v) > 0 && v[0] == '[' {
				// Results do not nest: a result inside one stays as it is.
				claudeBlocks(v, func(typ string, b []byte) bool {
					if typ == "tool_result" || typ == "tool_use" {
						typ = ""
					}
					r.Content = append(r.Content, claudeBlock(typ, b, ""))
					return true
				})
			} else if !jsonl.IsNull(v) {
				r.Content = append(r.Content, session.Unknown{Raw: bytes.Clone(v)})
			}
		}
		return true
	})
	return r
}

func claudeImage(raw []byte) session.Block {
	var im session.Image
	jsonl.KnownMembers(raw, func(k, v []byte) bool {
		if string(k) != "source" {
			return true
		}
		jsonl.KnownMembers(v, func(k, v []byte) bool {
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
		return false
	})
	if im.Data == "" && im.URI == "" {
		return session.Unknown{Raw: bytes.Clone(raw)}
	}
	return im
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
