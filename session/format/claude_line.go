package format

import (
	"time"

	"github.com/agent-ls/agent-ls/session/jsonl"
)

// claudeLine is one line, taken apart but not decoded: values as written.
type claudeLine struct {
	typ, subtype                         string
	uuid, parent, session, stamp         []byte
	cwd, branch, entrypoint, version     []byte
	sidechain, team, meta, summary       bool
	apiError, explicit                   bool
	message, content, toolResult         []byte
	logical, compact, leaf               []byte
	customTitle, aiTitle, tag, old, last []byte
	forked, requestID                    []byte
	msg                                  claudeMessage
}

// claudeMessage is the message of a user or assistant line, taken apart.
type claudeMessage struct {
	role, id, model, stop, content, usage []byte
	calls                                 []claudeCall
	others                                int // blocks that are neither calls nor results
}

// claudeCall is a block that calls a tool, or gives a result.
type claudeCall struct {
	result bool
	id     []byte // of the call, as written
}

// parseClaude takes the object raw apart; ok is false if it is none. Each byte
// is looked at once.
func parseClaude(raw []byte) (l claudeLine, ok bool) {
	c := jsonl.NewCursor(raw)
	if !c.Object() {
		return l, false
	}
	for {
		k, more := c.Member()
		if !more {
			return l, c.Done()
		}
		if string(k) == "message" {
			from := c.Pos()
			l.msg.parse(&c)
			l.message = c.Since(from)
			continue
		}
		l.member(k, c.Value())
	}
}

// parse takes the next value apart. Of a member that is there twice the last
// one counts, as JavaScript reads it.
func (m *claudeMessage) parse(c *jsonl.Cursor) {
	*m = claudeMessage{calls: m.calls[:0]}
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
			from := c.Pos()
			m.blocks(c)
			m.content = c.Since(from)
			continue
		}
		v := c.Value()
		switch string(k) {
		case "role":
			m.role = v
		case "id":
			m.id = v
		case "model":
			m.model = v
		case "stop_reason":
			m.stop = v
		case "usage":
			m.usage = v
		}
	}
}

// blocks notes the calls and results of a content. A plain string is no block.
func (m *claudeMessage) blocks(c *jsonl.Cursor) {
	m.calls, m.others = m.calls[:0], 0
	if !c.Array() {
		c.Value()
		return
	}
	for c.Element() {
		if !c.Object() {
			c.Value()
			m.others++
			continue
		}
		var typ string
		var id, use []byte
		for {
			k, more := c.Member()
			if !more {
				break
			}
			v := c.Value()
			switch string(k) {
			case "type":
				typ = blockType(v)
			case "id":
				id = v
			case "tool_use_id":
				use = v
			}
		}
		switch typ {
		case "tool_use":
			m.calls = append(m.calls, claudeCall{id: id})
		case "tool_result":
			m.calls = append(m.calls, claudeCall{result: true, id: use})
		default:
			m.others++
		}
	}
}

func (l *claudeLine) member(k, v []byte) {
	switch string(k) {
	case "type":
		l.typ = claudeType(v)
	case "subtype":
		l.subtype = claudeType(v)
	case "uuid":
		l.uuid = v
	case "parentUuid":
		l.parent = v
	case "sessionId":
		l.session = v
	case "timestamp":
		l.stamp = v
	case "cwd":
		l.cwd = v
	case "gitBranch":
		l.branch = v
	case "entrypoint":
		l.entrypoint = v
	case "version":
		l.version = v
	case "isSidechain":
		l.sidechain = string(v) == "true"
	case "teamName":
		l.team = len(v) > 2 && v[0] == '"'
	case "isMeta":
		l.meta = string(v) == "true"
	case "isCompactSummary":
		l.summary = string(v) == "true"
	case "isApiErrorMessage":
		l.apiError = string(v) == "true"
	case "explicit":
		l.explicit = string(v) == "true"
	case "content":
		l.content = v
	case "toolUseResult":
		l.toolResult = v
	case "forkedFrom":
		l.forked = v
	case "requestId":
		l.requestID = v
	case "logicalParentUuid":
		l.logical = v
	case "compactMetadata":
		l.compact = v
	case "leafUuid":
		l.leaf = v
	case "customTitle":
		l.customTitle = v
	case "aiTitle":
		l.aiTitle = v
	case "tag":
		l.tag = v
	case "summary":
		l.old = v
	case "lastPrompt":
		l.last = v
	}
}

// claudeType decodes the word of a line without allocating for known ones.
func claudeType(v []byte) string {
	if len(v) < 2 || v[0] != '"' {
		return ""
	}
	switch in := v[1 : len(v)-1]; string(in) {
	case "user":
		return "user"
	case "assistant":
		return "assistant"
	case "attachment":
		return "attachment"
	case "system":
		return "system"
	case "progress":
		return "progress"
	case "file-history-snapshot":
		return "file-history-snapshot"
	case "file-history-delta":
		return "file-history-delta"
	case "queue-operation":
		return "queue-operation"
	case "last-prompt":
		return "last-prompt"
	case "custom-title":
		return "custom-title"
	case "agent-name":
		return "agent-name"
	case "ai-title":
		return "ai-title"
	case "tag":
		return "tag"
	case "summary":
		return "summary"
	case "mode":
		return "mode"
	case "permission-mode":
		return "permission-mode"
	case "atis-latch":
		return "atis-latch"
	case "tools-used":
		return "tools-used"
	case "cost-state":
		return "cost-state"
	case "api-request":
		return "api-request"
	case "api-request-shape":
		return "api-request-shape"
	case "api-request-blob":
		return "api-request-blob"
	case "compact_boundary":
		return "compact_boundary"
	case "local_command":
		return "local_command"
	case "turn_duration":
		return "turn_duration"
	}
	s, _ := jsonl.String(v)
	return s
}

// Words for lines that are not part of the tree.
var claudeBookkeeping = map[string]bool{
	"file-history-snapshot": true, "file-history-delta": true, "queue-operation": true, "last-prompt": true,
	"custom-title": true, "agent-name": true, "agent-color": true, "agent-setting": true, "ai-title": true,
	"tag": true, "summary": true, "pr-link": true, "worktree-state": true, "content-replacement": true,
	"mode": true, "permission-mode": true, "atis-latch": true, "tools-used": true, "cost-state": true,
	"api-request": true, "api-request-shape": true, "api-request-blob": true, "task-summary": true,
	"attribution-snapshot": true, "speculation-accept": true, "marble-origami-commit": true,
	"marble-origami-snapshot": true,
}

// claudeBlocks walks the content of a message. A plain string is no block.
func claudeBlocks(content []byte, visit func(typ string, block []byte) bool) {
	if len(content) == 0 || content[0] != '[' {
		return
	}
	jsonl.KnownElements(content, func(b []byte) bool {
		var typ string
		jsonl.KnownMembers(b, func(k, v []byte) bool {
			if string(k) == "type" {
				typ = blockType(v)
			}
			return true
		})
		return visit(typ, b)
	})
}

func blockType(v []byte) string {
	switch string(v) {
	case `"text"`:
		return "text"
	case `"thinking"`:
		return "thinking"
	case `"tool_use"`:
		return "tool_use"
	case `"tool_result"`:
		return "tool_result"
	case `"image"`:
		return "image"
	}
	s, _ := jsonl.String(v)
	return s
}

// field gives one string member of an object. It may be damaged, since side
// files are looked at this way too; then the answer is of no use, but safe.
func field(object []byte, name string) string {
	s := ""
	jsonl.KnownMembers(object, func(k, v []byte) bool {
		if string(k) != name {
			return true
		}
		s, _ = jsonl.String(v)
		return false
	})
	return s
}

// text decodes a string value; "" for anything else.
func text(v []byte) string {
	s, _ := jsonl.String(v)
	return s
}

// stamp decodes an RFC 3339 time. The form that JavaScript writes is read
// without the time package, which takes a tenth of the whole decoding else.
func stamp(v []byte) time.Time {
	if len(v) == 26 && v[0] == '"' && v[5] == '-' && v[8] == '-' && v[11] == 'T' && v[14] == ':' && v[17] == ':' && v[20] == '.' && v[24] == 'Z' {
		y, a := number(v[1:5])
		mo, b := number(v[6:8])
		d, c := number(v[9:11])
		h, e := number(v[12:14])
		mi, f := number(v[15:17])
		s, g := number(v[18:20])
		ms, i := number(v[21:24])
		if a && b && c && e && f && g && i && mo >= 1 && mo <= 12 && d >= 1 && d <= 28 && h < 24 && mi < 60 && s < 60 {
			return time.Date(y, time.Month(mo), d, h, mi, s, ms*1e6, time.UTC)
		}
	}
	t, err := time.Parse(time.RFC3339Nano, text(v))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

func number(v []byte) (int, bool) {
	n := 0
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}
