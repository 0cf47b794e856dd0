package format

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/chain"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// Extra keys of ours, unknown to PseudoClaude and ignored by it: a replace
// mark names its group and the number of messages in it, and each of them
// names the group.
const (
	pcGroupKey = "agent_ls_group"
	pcCountKey = "agent_ls_count"
)

// pcLine is one line, decoded as PseudoClaude's own reader does: keys in any
// case, the last of equal keys wins, null means absent, a value of the wrong
// type spoils the line.
type pcLine struct {
	typ, reason, role, model string
	content                  []byte // JSON string, or nil
	calls                    []pcCall
	result                   *pcResult
	ts                       int64
	group                    string
	count                    int64
}

type pcCall struct {
	id, name string
	args     []byte
}

type pcResult struct {
	callID, name string
	content      []byte // JSON string, or nil
	isError      bool
}

// pcParse decodes raw; bad says what is wrong with it, "" if nothing.
func pcParse(raw []byte) (l pcLine, bad string) {
	if trimmed := bytes.TrimSpace(raw); jsonl.IsNull(trimmed) {
		return l, ""
	}
	ok := jsonl.Members(raw, func(key, v []byte) bool {
		if jsonl.IsNull(v) {
			return true
		}
		good := true
		switch k := foldKey(key); k {
		case "type":
			l.typ, good = jsonl.String(v)
		case "reason":
			l.reason, good = jsonl.String(v)
		case "role":
			l.role, good = jsonl.String(v)
		case "model":
			l.model, good = jsonl.String(v)
		case "content":
			l.content, good = v, v[0] == '"'
		case "ts":
			l.ts, good = jsonl.Int(v)
		case "tool_calls":
			l.calls = nil
			var inner string
			if !jsonl.Elements(v, func(e []byte) bool { inner = l.addCall(e); return inner == "" }) || inner != "" {
				good = false
			}
		case "tool_result":
			if l.result == nil {
				l.result = &pcResult{}
			}
			good = l.result.parse(v)
		case pcGroupKey:
			l.group, good = jsonl.String(v)
		case pcCountKey:
			l.count, good = jsonl.Int(v)
		}
		if !good && bad == "" {
			bad = "member " + strconv.Quote(foldKey(key)) + " is of the wrong type"
		}
		return true
	})
	if !ok {
		return pcLine{}, "not a JSON object"
	}
	return l, bad
}

func (l *pcLine) addCall(v []byte) (bad string) {
	var c pcCall
	if jsonl.IsNull(v) {
		l.calls = append(l.calls, c)
		return ""
	}
	good := true
	ok := jsonl.Members(v, func(key, v []byte) bool {
		switch foldKey(key) {
		case "id":
			c.id, good = stringOr(c.id, v, good)
		case "name":
			c.name, good = stringOr(c.name, v, good)
		case "arguments":
			c.args = v
		}
		return true
	})
	if !ok || !good {
		return "tool call"
	}
	l.calls = append(l.calls, c)
	return ""
}

func (r *pcResult) parse(v []byte) bool {
	good := true
	ok := jsonl.Members(v, func(key, v []byte) bool {
		switch foldKey(key) {
		case "callid":
			r.callID, good = stringOr(r.callID, v, good)
		case "name":
			r.name, good = stringOr(r.name, v, good)
		case "content":
			if !jsonl.IsNull(v) {
				r.content, good = v, good && v[0] == '"'
			}
		case "iserror":
			if !jsonl.IsNull(v) {
				var is bool
				r.isError, is = jsonl.Bool(v)
				good = good && is
			}
		}
		return true
	})
	return ok && good
}

// stringOr decodes a string; null leaves what was there.
func stringOr(old string, v []byte, good bool) (string, bool) {
	if jsonl.IsNull(v) {
		return old, good
	}
	s, ok := jsonl.String(v)
	return s, good && ok
}

// foldKey gives a key as Go's decoder compares it: without regard to case.
// Keys of this store are ASCII; others are returned as they are.
func foldKey(key []byte) string {
	for _, c := range key {
		if c >= 'A' && c <= 'Z' || c == '\\' || c >= 0x80 {
			s := string(key)
			if strings.IndexByte(s, '\\') >= 0 {
				s = string(jsonl.AppendString(nil, key))
			}
			// Two letters outside ASCII fold into it: the Kelvin sign and the long s.
			s = strings.NewReplacer("\u212a", "k", "\u017f", "s").Replace(s)
			return strings.ToLower(s)
		}
	}
	return string(key)
}

// pcRecord tells records from inner objects when a damaged line is salvaged.
func pcRecord(v []byte) bool {
	ts, kind := false, false
	jsonl.Members(v, func(key, _ []byte) bool {
		switch foldKey(key) {
		case "ts":
			ts = true
		case "type", "role":
			kind = true
		}
		return true
	})
	return ts && kind
}

func (f pseudoClaude) Decode(dst []session.Entry, line jsonl.Line) []session.Entry {
	return decodeLine(dst, line, pcRecord, f.entry)
}

// entry makes the envelope of one value.
func (pseudoClaude) entry(raw []byte, pos session.Pos) session.Entry {
	e := session.Entry{ID: strconv.FormatInt(pos.Offset, 10), Pos: pos}
	l, bad := pcParse(raw)
	if bad != "" {
		e.Bad = bad
		return e
	}
	e.Type = l.typ
	if l.ts > 0 && l.ts < math.MaxInt32*1000 { // beyond the year 60000 nothing can be written as a time
		e.Time = time.Unix(l.ts, 0).UTC()
	}
	switch {
	case l.typ == "replace":
		e.Kind = session.KindReplace
		e.Mark = chain.ReplaceMark{Group: l.group, Count: int(l.count)}
	case l.typ == "message" || l.typ == "":
		e.Type = "message"
		if l.role == "" {
			e.Kind = session.KindMeta // PseudoClaude ignores it as well
			return e
		}
		e.Kind = session.KindMessage
		e.Role, _ = session.ParseRole(l.role)
		if l.result != nil {
			e.Role = session.Tool
			e.ToolResults = []string{l.result.callID}
		}
		for _, c := range l.calls {
			e.ToolUses = append(e.ToolUses, c.id)
		}
		if l.group != "" {
			e.Mark = chain.GroupMember{Group: l.group}
		}
	}
	return e
}

func (pseudoClaude) Body(raw []byte) session.Body {
	l, bad := pcParse(raw)
	if bad != "" {
		return session.Body{Blocks: []session.Block{session.Unknown{Raw: bytes.Clone(raw)}}}
	}
	b := session.Body{Model: l.model}
	if s, ok := jsonl.String(l.content); ok && s != "" {
		b.Blocks = append(b.Blocks, session.Text{Text: s})
	}
	for _, c := range l.calls {
		u := session.ToolUse{ID: c.id, Name: c.name, Input: bytes.Clone(c.args)}
		u.Kind, u.Locations = toolFacts(c.name, c.args)
		b.Blocks = append(b.Blocks, u)
	}
	if r := l.result; r != nil {
		s, _ := jsonl.String(r.content)
		res := session.ToolResult{UseID: r.callID, Name: r.name, IsError: r.isError, Spilled: pcSpilled(s)}
		if s != "" {
			res.Content = []session.Block{session.Text{Text: s}}
		}
		b.Blocks = append(b.Blocks, res)
	}
	return b
}

// tally counts one line into the cursor. Only the first lines with a title
// and with a model, and the last user line, are decoded further.
func (f pseudoClaude) tally(c *pcCursor, entries []session.Entry, line jsonl.Line, src io.ReaderAt) ([]session.Entry, error) {
	entries = f.Decode(entries, line)
	m := &c.Summary
	for i := range entries {
		e := &entries[i]
		if e.Bad != "" {
			m.Problems++
		}
		c.Effective.Add(e)
		if e.Kind != session.KindMessage {
			continue
		}
		m.Physical++
		if !e.Time.IsZero() {
			m.Updated = e.Time
		}
		if e.Role != session.User && m.Model != "" {
			continue
		}
		raw := line.Raw
		if off := e.Pos.Offset - line.Offset - int64(line.Lead); off >= 0 && off+int64(e.Pos.Length) <= int64(len(raw)) {
			raw = raw[off : off+int64(e.Pos.Length)]
		}
		l, bad := pcParse(raw)
		if bad != "" {
			return nil, fmt.Errorf("line %d was decoded in two ways", line.Num)
		}
		if m.Model == "" {
			m.Model = l.model
		}
		if e.Role != session.User {
			continue
		}
		text, _ := jsonl.String(l.content)
		words := strings.Join(strings.Fields(text), " ")
		if words == "" || injected(text) {
			continue
		}
		if m.Title == "" {
			m.Title, m.Prompt = cutRunes(words, pcTitleRunes, "..."), cutRunes(words, promptRunes, "…")
		}
		m.Last = cutRunes(words, promptRunes, "…")
	}
	return entries, nil
}

func pcMarshal(c pcCursor) []byte {
	b, err := json.Marshal(c)
	if err != nil {
		return nil // then the next Summarize begins from the start
	}
	return b
}

func pcUnmarshal(b []byte, c *pcCursor) error { return json.Unmarshal(b, c) }
