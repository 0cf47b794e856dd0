package format

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/chain"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// pcOut is a line as PseudoClaude writes it: these keys, in this order, with
// encoding/json's escaping. Ours come last, so that they disturb nobody.
type pcOut struct {
	Type       string     `json:"type,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	Role       string     `json:"role,omitempty"`
	Content    string     `json:"content,omitempty"`
	ToolCalls  []pcOutUse `json:"tool_calls,omitempty"`
	ToolResult *pcOutRes  `json:"tool_result,omitempty"`
	TS         int64      `json:"ts"`
	Model      string     `json:"model,omitempty"`
	Group      string     `json:"agent_ls_group,omitempty"`
	Count      int        `json:"agent_ls_count,omitempty"`
}

// The tool structs have no tags there, so their keys are capitalised.
type pcOutUse struct {
	ID        string
	Name      string
	Arguments json.RawMessage
}

type pcOutRes struct {
	CallID  string
	Name    string
	Content string
	IsError bool
}

// Encode implements session.Appender. A parent other than the current leaf is
// a rewind: a linear log has no branches, so it becomes a replace with the
// conversation up to that entry, and the drafts.
func (f pseudoClaude) Encode(dst []byte, a session.Append) ([]byte, error) {
	if a.Parent != "" && a.Transcript != nil && a.Parent != a.Transcript.Current().Leaf {
		return nil, &session.UnsupportedError{
			Op: "append with a parent", Agent: pcName, Why: "its log is linear",
			Instead: "replace the conversation by its messages up to that entry",
		}
	}
	lines, err := pcLines(a)
	if err != nil {
		return nil, err
	}
	return pcEncode(dst, lines)
}

// EncodeReplace implements session.Replacer.
func (f pseudoClaude) EncodeReplace(dst []byte, reason string, a session.Append) ([]byte, error) {
	if reason == "" {
		return nil, &session.InvalidError{Field: "reason", Value: reason, Why: "a replace needs one, such as compact or snapshot"}
	}
	lines, err := pcLines(a)
	if err != nil {
		return nil, err
	}
	mark := pcOut{Type: "replace", Reason: reason, TS: a.Clock.Now().Unix()}
	if len(lines) > 0 {
		var id [6]byte
		if _, err := io.ReadFull(a.Random, id[:]); err != nil {
			return nil, err
		}
		mark.Group, mark.Count = hex.EncodeToString(id[:]), len(lines)
		for i := range lines {
			lines[i].Group = mark.Group
		}
	}
	return pcEncode(dst, append([]pcOut{mark}, lines...))
}

func pcEncode(dst []byte, lines []pcOut) ([]byte, error) {
	for i := range lines {
		b, err := json.Marshal(&lines[i])
		if err != nil {
			return nil, &session.InvalidError{Field: fmt.Sprintf("messages[%d]", i), Value: lines[i].Role, Why: err.Error()}
		}
		dst = append(append(dst, b...), '\n')
	}
	return dst, nil
}

// pcLines turns drafts into lines. A message with results becomes one line
// for each of them, since a line holds one.
func pcLines(a session.Append) ([]pcOut, error) {
	var out []pcOut
	model := a.FirstOfWriter
	for i, d := range a.Drafts {
		field := func(name string) string { return fmt.Sprintf("messages[%d].%s", i, name) }
		t := d.Time
		if t.IsZero() {
			t = a.Clock.Now()
		}
		line := pcOut{Type: "message", Role: d.Role.String(), TS: t.Unix()}
		switch d.Role {
		case session.User, session.Assistant:
		case session.Tool:
			line.Role = session.User.String()
		default:
			return nil, &session.InvalidError{Field: field("role"), Value: d.Role.String(), Why: "want user, assistant or tool"}
		}
		var results []*pcOutRes
		var texts []string
		for _, b := range d.Blocks {
			switch b := b.(type) {
			case session.Text:
				texts = append(texts, b.Text)
			case session.ToolUse:
				if d.Role != session.Assistant {
					return nil, &session.InvalidError{Field: field("content"), Value: "tool_use", Why: "only an assistant calls tools"}
				}
				args := b.Input
				if len(args) == 0 {
					args = []byte("null")
				}
				if !jsonl.Valid(args) {
					return nil, &session.InvalidError{Field: field("content"), Value: "tool_use " + b.ID, Why: "its input is not valid JSON"}
				}
				line.ToolCalls = append(line.ToolCalls, pcOutUse{ID: b.ID, Name: b.Name, Arguments: args})
			case session.ToolResult:
				if d.Role == session.Assistant {
					return nil, &session.InvalidError{Field: field("content"), Value: "tool_result", Why: "an assistant gives no tool results"}
				}
				text, err := pcText(b.Content)
				if err != nil {
					return nil, &session.InvalidError{Field: field("content"), Value: "tool_result " + b.UseID, Why: err.Error()}
				}
				results = append(results, &pcOutRes{CallID: b.UseID, Name: b.Name, Content: text, IsError: b.IsError})
			default:
				return nil, &session.InvalidError{Field: field("content"), Value: blockName(b), Why: "this store holds text, tool calls and tool results only"}
			}
		}
		line.Content = strings.Join(texts, "\n\n")
		if line.Content == "" && len(line.ToolCalls) == 0 && len(results) == 0 {
			return nil, &session.InvalidError{Field: field("content"), Value: "", Why: "a message needs content"}
		}
		lines := []pcOut{line}
		if len(results) > 0 {
			lines = nil
			for _, r := range results {
				l := line
				l.Content, l.ToolResult = "", r
				lines = append(lines, l)
			}
			if line.Content != "" {
				lines = append(lines, line)
			}
		}
		if model {
			lines[0].Model = pcModel(a, d)
			model = lines[0].Model == ""
		}
		out = append(out, lines...)
	}
	return out, nil
}

func pcModel(a session.Append, d session.Draft) string {
	if d.Model != "" {
		return d.Model
	}
	return a.Session.Model
}

func pcText(blocks []session.Block) (string, error) {
	var texts []string
	for _, b := range blocks {
		t, ok := b.(session.Text)
		if !ok {
			return "", errors.New("this store holds only text in a tool result, not " + blockName(b))
		}
		texts = append(texts, t.Text)
	}
	return strings.Join(texts, "\n\n"), nil
}

// blockName gives the wire word for a block's type.
func blockName(b session.Block) string {
	switch b.(type) {
	case session.Text:
		return "text"
	case session.Thinking:
		return "thinking"
	case session.ToolUse:
		return "tool_use"
	case session.ToolResult:
		return "tool_result"
	case session.Image:
		return "image"
	}
	return "unknown"
}

// Create implements session.Creator.
func (pseudoClaude) Create(root session.Root, _ session.Session, clock session.Clock, random io.Reader) (native, path string, dirs []string, err error) {
	var b [2]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", "", nil, err
	}
	native = clock.Now().Local().Format(pcIDTime) + "-" + hex.EncodeToString(b[:])
	if _, err := fs.Stat(root.FS, native); err == nil {
		return "", "", nil, &fs.PathError{Op: "create", Path: native, Err: fs.ErrExist}
	}
	return native, native + "/" + pcTranscript, []string{native, native + "/" + PCToolResults}, nil
}

// Repair implements session.Repairer: when the log ends in a replace that
// never became whole, PseudoClaude's own reader takes the part for the
// conversation. A fresh, whole replace with the conversation that counts puts
// both readers right without touching the bytes that are there.
func (f pseudoClaude) Repair(dst []byte, a session.Append) (lines []byte, needed bool, err error) {
	if a.Transcript == nil || !pcIncomplete(a.Transcript.Entries()) {
		return dst, false, nil
	}
	out, err := f.EncodeReplace(dst, "snapshot", a)
	return out, true, err
}

// pcIncomplete reports whether the last replace of the log is a counted one
// whose messages are not all there.
func pcIncomplete(entries []session.Entry) bool {
	last := -1
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Kind == session.KindReplace {
			last = i
			break
		}
	}
	if last < 0 {
		return false
	}
	m, _ := entries[last].Mark.(chain.ReplaceMark)
	if m.Group == "" {
		return false
	}
	n := 0
	for i := last + 1; i < len(entries) && n < m.Count; i++ {
		if entries[i].Kind != session.KindMessage {
			continue
		}
		if g, ok := entries[i].Mark.(chain.GroupMember); !ok || g.Group != m.Group {
			return true
		}
		n++
	}
	return n < m.Count
}

// EncodeFork implements session.Forker: the effective messages up to at, each
// as it was but for our own marks. The store has no place for a title.
func (f pseudoClaude) EncodeFork(dst []byte, _, at, _ string, a session.Append, load func(session.Entry) ([]byte, error)) ([]byte, error) {
	r, err := a.Transcript.Resolve(at)
	if err != nil {
		return nil, err
	}
	var lines []pcOut
	for _, i := range r.Chain {
		raw, err := load(a.Transcript.Entries()[i])
		if err != nil {
			return nil, err
		}
		l, bad := pcParse(raw)
		if bad != "" {
			return nil, fmt.Errorf("entry %s: %s", a.Transcript.Entries()[i].ID, bad)
		}
		out := pcOut{Type: "message", Role: l.role, TS: l.ts, Model: l.model}
		out.Content, _ = jsonl.String(l.content)
		for _, c := range l.calls {
			args := c.args
			if len(args) == 0 {
				args = []byte("null")
			}
			out.ToolCalls = append(out.ToolCalls, pcOutUse{ID: c.id, Name: c.name, Arguments: args})
		}
		if l.result != nil {
			out.ToolResult = &pcOutRes{CallID: l.result.callID, Name: l.result.name, IsError: l.result.isError}
			out.ToolResult.Content, _ = jsonl.String(l.result.content)
		}
		lines = append(lines, out)
	}
	if len(lines) == 0 {
		return nil, &session.InvalidError{Field: "at", Value: at, Why: "no message comes before it"}
	}
	return pcEncode(dst, lines)
}
