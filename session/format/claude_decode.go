package format

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/chain"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// Decode implements session.Format.
func (claude) Decode(dst []session.Entry, line jsonl.Line) []session.Entry {
	if !line.Flaw.Has(jsonl.TooLong) {
		// Nearly every line is one object; then this is the only pass that
		// validates it.
		if l, ok := parseClaude(line.Raw); ok {
			return append(dst, l.entry(objectPos(line), dst))
		}
	}
	return decodeLine(dst, line, claudeRecord, func(v []byte, pos session.Pos) session.Entry {
		l, ok := parseClaude(v)
		if !ok {
			return session.Entry{ID: strconv.FormatInt(pos.Offset, 10), Pos: pos, Bad: "not a JSON object"}
		}
		return l.entry(pos, nil)
	})
}

// claudeRecord tells a record from an object inside one.
func claudeRecord(v []byte) bool {
	l, ok := parseClaude(v)
	return ok && l.typ != "" && (len(l.session) > 0 || len(l.uuid) > 0 || claudeBookkeeping[l.typ])
}

// objectPos is where the only object of a line stands.
func objectPos(line jsonl.Line) session.Pos {
	end := len(bytes.TrimRight(line.Raw, " \t\r\n"))
	start := bytes.IndexByte(line.Raw, '{')
	return session.Pos{Line: line.Num, Offset: line.Offset + int64(line.Lead+start), Length: end - start}
}

// shared is text(v), as the same string as was where that is equal: most lines
// name the line before them, and the same session.
func shared(v []byte, was string) string {
	if n := len(was); n > 0 && len(v) == n+2 && string(v[1:n+1]) == was && v[0] == '"' && strings.IndexByte(was, '\\') < 0 {
		return was
	}
	return text(v)
}

// entry makes the envelope of a line. Those before it lend it their strings.
func (l *claudeLine) entry(pos session.Pos, before []session.Entry) session.Entry {
	var last session.Entry
	if len(before) > 0 {
		last = before[len(before)-1]
	}
	e := session.Entry{Pos: pos}
	if l.typ == "" {
		e.ID, e.Bad = strconv.FormatInt(pos.Offset, 10), "has no type"
		return e
	}
	e.Type, e.Time = l.typ, stamp(l.stamp)
	e.Session = shared(l.session, last.Session)
	e.Sidechain = l.sidechain
	id := text(l.uuid)
	if id == "" || claudeBookkeeping[l.typ] {
		e.ID = strconv.FormatInt(pos.Offset, 10)
		l.bookkeeping(&e)
		return e
	}
	e.ID, e.Parent = id, shared(l.parent, last.ID)
	l.node(&e, last.Group)
	return e
}

// bookkeeping decodes a line that is not part of the tree.
func (l *claudeLine) bookkeeping(e *session.Entry) {
	switch l.typ {
	case "user", "assistant", "attachment", "system", "progress":
		e.Bad = "a line of the conversation without an id"
		return
	case "last-prompt":
		e.Mark = chain.Pin{ID: text(l.leaf), Explicit: l.explicit}
	}
	if claudeBookkeeping[l.typ] {
		e.Kind = session.KindMeta
	}
}

// node decodes a line of the tree.
func (l *claudeLine) node(e *session.Entry, group string) {
	f := chain.Node
	if l.sidechain || l.team {
		f |= chain.Aside
	}
	e.Kind = session.KindMeta
	switch l.typ {
	case "user", "assistant":
		f |= l.turn(e, group)
	case "system":
		e.Role = session.System
		switch l.subtype {
		case "compact_boundary":
			e.Kind = session.KindCompaction
			e.Mark = l.boundary(f | chain.Shown)
			return
		case "local_command":
			// Sent to the model as the user's words.
			e.Kind, e.Role = session.KindMessage, session.User
			f |= chain.Shown | chain.Mixed
		}
	case "attachment":
	case "progress":
		f |= chain.Link
	default:
		// Not known yet: the chain runs through it.
		e.Kind = session.KindUnknown
		f |= chain.Link
	}
	e.Mark = f
}

// turn decodes what the user or the model said.
func (l *claudeLine) turn(e *session.Entry, group string) chain.Flags {
	f := chain.Turn | chain.Shown
	e.Kind, e.Role = session.KindMessage, session.User
	switch {
	case l.apiError:
		e.Kind = session.KindMeta // shown, but no model said it
	case l.summary:
		e.Kind = session.KindSummary
	}
	if l.meta {
		f |= chain.Meta
	}
	if l.typ == "assistant" {
		e.Role, e.Group = session.Assistant, shared(l.msg.id, group)
	}
	return f | l.msg.pair(e)
}

// pair notes the calls and results of a message in its entry, and tells
// whether it holds anything else. Only a model calls, and only others answer.
func (m *claudeMessage) pair(e *session.Entry) (mixed chain.Flags) {
	if m.others > 0 || len(m.content) == 0 || m.content[0] != '[' {
		mixed = chain.Mixed
	}
	model := e.Role == session.Assistant
	for _, call := range m.calls {
		switch {
		case call.result == model:
			mixed = chain.Mixed
		case model:
			e.ToolUses = append(e.ToolUses, text(call.id))
		default:
			e.Role = session.Tool
			e.ToolResults = append(e.ToolResults, text(call.id))
		}
	}
	return mixed
}

// boundary decodes a compact boundary and what was kept over it.
func (l *claudeLine) boundary(f chain.Flags) *chain.Boundary {
	b := &chain.Boundary{Flags: f, Logical: text(l.logical)}
	jsonl.Members(l.compact, func(k, v []byte) bool {
		switch string(k) {
		case "preservedSegment":
			if b.Kept == nil {
				b.Anchor, b.Head, b.Tail = field(v, "anchorUuid"), field(v, "headUuid"), field(v, "tailUuid")
			}
		case "preservedMessages":
			if b.Kept = stringList(v, "uuids"); len(b.Kept) > 0 {
				b.Anchor, b.Head, b.Tail = field(v, "anchorUuid"), "", ""
			}
		}
		return true
	})
	return b
}

// stringList gives a member of an object that is an array of strings.
func stringList(object []byte, name string) (out []string) {
	jsonl.Members(object, func(k, v []byte) bool {
		if string(k) != name {
			return true
		}
		jsonl.Elements(v, func(e []byte) bool {
			out = append(out, text(e))
			return true
		})
		return false
	})
	return out
}
