package lsp

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
)

// draftsOf makes drafts of the messages of a request.
func draftsOf(in []wire.MessageIn) ([]session.Draft, error) {
	if len(in) == 0 {
		return nil, &session.InvalidError{Field: "messages", Value: "[]", Why: "want at least one message"}
	}
	out := make([]session.Draft, 0, len(in))
	for i, m := range in {
		field := fmt.Sprintf("messages[%d]", i)
		role, ok := session.ParseRole(m.Role)
		if !ok || role == session.System {
			return nil, &session.InvalidError{Field: field + ".role", Value: m.Role, Why: "want user, assistant or tool"}
		}
		t, err := parseTime(field+".timestamp", m.Timestamp)
		if err != nil {
			return nil, err
		}
		blocks, err := contentOf(field+".content", m.Content)
		if err != nil {
			return nil, err
		}
		out = append(out, session.Draft{Role: role, Blocks: blocks, Model: m.Model, Usage: usageIn(m.Usage), Time: t})
	}
	return out, nil
}

func usageIn(u *wire.Usage) *session.Usage {
	if u == nil {
		return nil
	}
	known := func(n *int64) int64 {
		if n == nil {
			return -1
		}
		return *n
	}
	out := &session.Usage{Input: known(u.Input), Output: known(u.Output), CacheRead: known(u.CacheRead), CacheWrite: known(u.CacheWrite), Cost: -1}
	if u.Cost != nil {
		out.Cost = *u.Cost
	}
	return out
}

// contentOf decodes a string or blocks.
func contentOf(field string, raw []byte) ([]session.Block, error) {
	bad := func(why string) error { return &session.InvalidError{Field: field, Value: "", Why: why} }
	if len(raw) == 0 {
		return nil, bad("a message needs content: a string or blocks")
	}
	switch raw[0] {
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s, decoding); err != nil {
			return nil, bad("not a string")
		}
		if s == "" {
			return nil, bad("a message needs content")
		}
		return []session.Block{session.Text{Text: s}}, nil
	case '[':
		var list []wire.Block
		if err := json.Unmarshal(raw, &list, decoding); err != nil {
			return nil, bad("a block is of the wrong shape")
		}
		return blocksIn(field, list)
	}
	return nil, bad("want a string or blocks")
}

func blocksIn(field string, list []wire.Block) ([]session.Block, error) {
	var out []session.Block
	for i, b := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		if b.Cut != nil {
			return nil, &session.InvalidError{Field: at, Value: b.Type, Why: "a block that was cut cannot be written; read it whole first"}
		}
		switch b.Type {
		case "text":
			out = append(out, session.Text{Text: b.Text})
		case "thinking":
			out = append(out, session.Thinking{Text: b.Text})
		case "tool_use":
			if b.ID == "" || b.Name == "" {
				return nil, &session.InvalidError{Field: at, Value: b.Type, Why: "a tool call needs id and name"}
			}
			input := []byte(b.Input)
			if len(input) == 0 {
				input = []byte("{}")
			}
			out = append(out, session.ToolUse{ID: b.ID, Name: b.Name, Input: input})
		case "tool_result":
			if b.ToolUseID == "" {
				return nil, &session.InvalidError{Field: at, Value: b.Type, Why: "a tool result needs toolUseId"}
			}
			inner, err := blocksIn(at+".content", b.Content)
			if err != nil {
				return nil, err
			}
			out = append(out, session.ToolResult{UseID: b.ToolUseID, Name: b.Name, Content: inner, IsError: b.IsError, Spilled: b.Spilled})
		case "image":
			out = append(out, session.Image{MIMEType: b.MIMEType, URI: b.URI, Data: b.Data})
		default:
			return nil, &session.InvalidError{Field: at + ".type", Value: b.Type, Why: "want text, thinking, tool_use, tool_result or image"}
		}
	}
	return out, nil
}
