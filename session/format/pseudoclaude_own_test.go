package format

import (
	"bufio"
	"encoding/json"
	"strings"
)

// ownLoader reads a log as PseudoClaude itself does (10 MiB lines, bad lines
// skipped, a replace clears, the last message with unanswered calls is cut
// with all behind it), written anew from the description of that program. It
// gives the conversation as conversation does.
func ownLoader(log string) []string {
	type call struct {
		ID, Name  string
		Arguments json.RawMessage
	}
	type result struct {
		CallID, Name, Content string
		IsError               bool
	}
	type event struct {
		Type       string  `json:"type"`
		Role       string  `json:"role"`
		Content    string  `json:"content"`
		ToolCalls  []call  `json:"tool_calls"`
		ToolResult *result `json:"tool_result"`
		TS         int64   `json:"ts"`
	}
	sc := bufio.NewScanner(strings.NewReader(log))
	sc.Buffer(nil, 10<<20)
	var events []event
	for sc.Scan() {
		var e event
		if json.Unmarshal(sc.Bytes(), &e) != nil {
			continue
		}
		switch {
		case e.Type == "replace":
			events = nil
		case (e.Type == "message" || e.Type == "") && e.Role != "":
			events = append(events, e)
		}
	}
	for i := len(events) - 1; i >= 0; i-- {
		if len(events[i].ToolCalls) == 0 {
			continue
		}
		open := map[string]bool{}
		for _, c := range events[i].ToolCalls {
			open[c.ID] = true
		}
		for _, e := range events[i+1:] {
			if e.ToolResult != nil {
				delete(open, e.ToolResult.CallID)
			}
		}
		if len(open) > 0 {
			events = events[:i]
		}
		break
	}
	var out []string
	for _, e := range events {
		role := e.Role
		if e.ToolResult != nil {
			role = "tool"
		}
		s := role + ":"
		if e.Content != "" {
			s += " " + e.Content
		}
		for _, c := range e.ToolCalls {
			s += " call " + c.ID + " " + c.Name + string(c.Arguments)
		}
		if e.ToolResult != nil {
			s += " result " + e.ToolResult.CallID
			if e.ToolResult.Content != "" {
				s += " " + e.ToolResult.Content
			}
		}
		out = append(out, s)
	}
	return out
}
