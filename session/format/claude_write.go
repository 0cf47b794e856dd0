package format

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/chain"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

const (
	// claudeVersion is the version whose lines ours are modelled on.
	claudeVersion    = "2.1.332"
	claudeEntrypoint = "agent-ls"
	claudeNoPin      = "00000000-0000-0000-0000-000000000000"
	claudeTime       = "2006-01-02T15:04:05.000Z"
)

// claudeOut is a line of the conversation as the agent writes it.
type claudeOut struct {
	Parent     *string         `json:"parentUuid"`
	Sidechain  bool            `json:"isSidechain"`
	Message    json.RawMessage `json:"message"`
	Type       string          `json:"type"`
	UUID       string          `json:"uuid"`
	Timestamp  string          `json:"timestamp"`
	ToolResult json.RawMessage `json:"toolUseResult,omitempty"`
	Source     string          `json:"sourceToolAssistantUUID,omitempty"`
	UserType   string          `json:"userType"`
	Entrypoint string          `json:"entrypoint"`
	CWD        string          `json:"cwd"`
	SessionID  string          `json:"sessionId"`
	Version    string          `json:"version"`
	Branch     string          `json:"gitBranch,omitempty"`
}

type claudeOutUser struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

type claudeOutAssistant struct {
	ID         string  `json:"id"`
	Type       string  `json:"type"`
	Role       string  `json:"role"`
	Model      string  `json:"model"`
	Content    []any   `json:"content"`
	StopReason *string `json:"stop_reason"`
	StopSeq    *string `json:"stop_sequence"`
	Usage      any     `json:"usage"`
}

type claudeOutUsage struct {
	Input      int64 `json:"input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	Output     int64 `json:"output_tokens"`
}

// claudeWriter collects the lines of one append.
type claudeWriter struct {
	a      session.Append
	native string
	out    []byte
	parent string            // of the next line
	calls  map[string]string // call to the uuid of the line that makes it
	field  string            // of the draft being written, for errors
}

// Encode implements session.Appender.
func (f claude) Encode(dst []byte, a session.Append) ([]byte, error) {
	w, rewound, err := f.writer(a)
	if err != nil {
		return nil, err
	}
	if a.Transcript == nil && a.Session.TitleSource == session.TitleUser && a.Session.Title != "" {
		if err := w.line(claudeTitle{"custom-title", a.Session.Title, w.native}); err != nil {
			return nil, err
		}
	}
	for i, d := range a.Drafts {
		w.field = fmt.Sprintf("messages[%d]", i)
		if err := w.draft(d); err != nil {
			return nil, err
		}
		if rewound {
			// As the agent's own editor does after a rewind: the pin on the
			// branch left behind is taken off.
			if err := w.line(claudePin{"last-prompt", claudeNoPin, true, w.native}); err != nil {
				return nil, err
			}
			rewound = false
		}
	}
	return append(dst, w.out...), nil
}

type claudeTitle struct {
	Type      string `json:"type"`
	Title     string `json:"customTitle"`
	SessionID string `json:"sessionId"`
}

type claudeTag struct {
	Type      string `json:"type"`
	Tag       string `json:"tag"`
	SessionID string `json:"sessionId"`
}

type claudePin struct {
	Type      string `json:"type"`
	Leaf      string `json:"leafUuid"`
	Explicit  bool   `json:"explicit"`
	SessionID string `json:"sessionId"`
}

// writer finds where the first line hangs. rewound means that a pin may keep
// readers from following the new lines.
func (claude) writer(a session.Append) (w *claudeWriter, rewound bool, err error) {
	w = &claudeWriter{a: a, native: a.Session.Native, calls: map[string]string{}}
	if _, helper := claudeParent(w.native); helper {
		return nil, false, &session.UnsupportedError{
			Op: "append", Agent: claudeName, Why: "this is the transcript of a subagent",
			Instead: "append to the session that started it",
		}
	}
	if !isUUID(w.native) {
		return nil, false, &session.InvalidError{Field: "sessionId", Value: w.native, Why: "is no UUID"}
	}
	if a.Transcript == nil {
		if a.Parent != "" {
			return nil, false, &session.NotFoundError{What: "entry", Name: a.Parent}
		}
		return w, false, nil
	}
	r := a.Transcript.Current()
	if a.Parent != "" && a.Parent != r.Leaf && a.Parent != r.End {
		i, ok := a.Transcript.Index(a.Parent)
		if !ok {
			return nil, false, &session.NotFoundError{What: "entry", Name: a.Parent}
		}
		if f, _ := a.Transcript.Entries()[i].Mark.(chain.Flags); !f.Has(chain.Node | chain.Turn) {
			return nil, false, &session.InvalidError{Field: "parentId", Value: a.Parent, Why: "is no message of the conversation"}
		}
		if r, err = a.Transcript.Resolve(a.Parent); err != nil {
			return nil, false, err
		}
		rewound = true
	}
	w.parent = r.End
	for _, i := range r.Chain {
		e := &a.Transcript.Entries()[i]
		for _, id := range e.ToolUses {
			w.calls[id] = e.ID
		}
	}
	return w, rewound || pinnedExplicitly(a.Transcript), nil
}

// pinnedExplicitly reports whether the conversation was pinned to end with an
// entry, so that nothing below it is read.
func pinnedExplicitly(t *session.Transcript) bool {
	entries := t.Entries()
	for i := len(entries) - 1; i >= 0; i-- {
		if p, ok := entries[i].Mark.(chain.Pin); ok {
			return p.Explicit && p.ID != claudeNoPin
		}
	}
	return false
}

func (w *claudeWriter) invalid(value, why string) error {
	return &session.InvalidError{Field: w.field, Value: value, Why: why}
}

// draft writes one message: what the model says as one line a block, results
// as one line each, hanging on their calls.
func (w *claudeWriter) draft(d session.Draft) error {
	if len(d.Blocks) == 0 {
		return w.invalid("", "a message needs content")
	}
	switch d.Role {
	case session.Assistant:
		return w.assistant(d)
	case session.User, session.Tool:
		return w.user(d)
	}
	return w.invalid(d.Role.String(), "want the role user, assistant or tool")
}

func (w *claudeWriter) assistant(d session.Draft) error {
	id, err := w.random(12)
	if err != nil {
		return err
	}
	model := d.Model
	if model == "" {
		model = w.a.Session.Model
	}
	stop := "end_turn"
	for _, b := range d.Blocks {
		if _, ok := b.(session.ToolUse); ok {
			stop = "tool_use"
		}
	}
	usage := claudeOutUsage{}
	if d.Usage != nil {
		usage = claudeOutUsage{max(0, d.Usage.Input), max(0, d.Usage.CacheWrite), max(0, d.Usage.CacheRead), max(0, d.Usage.Output)}
	}
	for _, b := range d.Blocks {
		block, err := w.block(b, session.Assistant)
		if err != nil {
			return err
		}
		uuid, err := w.emit("assistant", d, claudeOutAssistant{
			ID: "msg_" + id, Type: "message", Role: "assistant", Model: model,
			Content: []any{block}, StopReason: &stop, Usage: usage,
		}, nil)
		if err != nil {
			return err
		}
		if u, ok := b.(session.ToolUse); ok {
			w.calls[u.ID] = uuid
		}
	}
	return nil
}

func (w *claudeWriter) user(d session.Draft) error {
	var said []any
	for _, b := range d.Blocks {
		block, err := w.block(b, session.User)
		if err != nil {
			return err
		}
		r, ok := b.(session.ToolResult)
		if !ok {
			said = append(said, block)
			continue
		}
		call, ok := w.calls[r.UseID]
		if !ok {
			return w.invalid(r.UseID, "answers no tool call of the conversation")
		}
		w.parent = call
		if _, err := w.emit("user", d, claudeOutUser{"user", []any{block}}, &r); err != nil {
			return err
		}
	}
	if len(said) == 0 {
		return nil
	}
	var content any = said
	if t, ok := d.Blocks[0].(session.Text); ok && len(d.Blocks) == 1 {
		content = t.Text
	}
	_, err := w.emit("user", d, claudeOutUser{"user", content}, nil)
	return err
}

// emit writes a line of the conversation and makes it the parent of the next.
func (w *claudeWriter) emit(typ string, d session.Draft, message any, result *session.ToolResult) (string, error) {
	uuid, err := newUUID(w.a.Random)
	if err != nil {
		return "", err
	}
	m, err := marshal(message)
	if err != nil {
		return "", w.invalid(typ, err.Error())
	}
	at := d.Time
	if at.IsZero() {
		at = w.a.Clock.Now()
	}
	l := claudeOut{
		Message: m, Type: typ, UUID: uuid, Timestamp: at.UTC().Format(claudeTime), UserType: "external",
		Entrypoint: claudeEntrypoint, CWD: w.a.Session.CWD, SessionID: w.native, Version: claudeVersion, Branch: w.a.Session.GitBranch,
	}
	if w.parent != "" {
		parent := w.parent
		l.Parent = &parent
	}
	if result != nil {
		l.Source, l.ToolResult = w.parent, json.RawMessage("{}")
		if result.IsError {
			if l.ToolResult, err = marshal("Error: " + plainText(result.Content)); err != nil {
				return "", err
			}
		}
	}
	w.parent = uuid
	return uuid, w.line(l)
}

// line writes any line.
func (w *claudeWriter) line(v any) error {
	b, err := marshal(v)
	if err != nil {
		return w.invalid("", err.Error())
	}
	w.out = append(append(w.out, b...), '\n')
	return nil
}

// block gives a block in the form of the log.
func (w *claudeWriter) block(b session.Block, role session.Role) (any, error) {
	switch b := b.(type) {
	case session.Text:
		return claudeOutText{"text", b.Text}, nil
	case session.Image:
		if role == session.User {
			return claudeOutImage(b), nil
		}
	case session.ToolUse:
		if role != session.Assistant {
			break
		}
		input := json.RawMessage(b.Input)
		if len(input) == 0 {
			input = json.RawMessage("{}")
		}
		if !jsonl.Valid(input) || bytes.TrimLeft(input, " \t\r\n")[0] != '{' {
			return nil, w.invalid("tool_use "+b.ID, "its input is no JSON object")
		}
		if b.ID == "" || b.Name == "" {
			return nil, w.invalid("tool_use "+b.ID, "a call needs an id and a name")
		}
		return claudeOutUse{"tool_use", b.ID, b.Name, input}, nil
	case session.ToolResult:
		if role == session.User {
			return w.result(b)
		}
	case session.Thinking:
		return nil, w.invalid("thinking", "the model takes its reasoning back only with its signature; leave it out")
	}
	return nil, w.invalid(blockName(b), "cannot be said by "+role.String()+" in this store")
}

type claudeOutText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type claudeOutUse struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type claudeOutResult struct {
	UseID   string `json:"tool_use_id"`
	Type    string `json:"type"`
	Content any    `json:"content"`
	IsError bool   `json:"is_error,omitempty"`
}

func (w *claudeWriter) result(r session.ToolResult) (any, error) {
	var parts []any
	for _, c := range r.Content {
		switch c := c.(type) {
		case session.Text:
			parts = append(parts, claudeOutText{"text", c.Text})
		case session.Image:
			parts = append(parts, claudeOutImage(c))
		default:
			return nil, w.invalid("tool_result "+r.UseID, "holds text and images only, not "+blockName(c))
		}
	}
	var content any = parts
	if len(parts) == 0 {
		content = ""
	}
	if len(parts) == 1 {
		if t, ok := r.Content[0].(session.Text); ok {
			content = t.Text
		}
	}
	return claudeOutResult{r.UseID, "tool_result", content, r.IsError}, nil
}

func claudeOutImage(im session.Image) any {
	source := map[string]string{"type": "base64", "media_type": im.MIMEType, "data": im.Data}
	if im.Data == "" {
		source = map[string]string{"type": "url", "url": im.URI}
	}
	return map[string]any{"type": "image", "source": source}
}

// plainText joins the texts of a result.
func plainText(blocks []session.Block) string {
	var texts []string
	for _, b := range blocks {
		if t, ok := b.(session.Text); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func (w *claudeWriter) random(n int) (string, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(w.a.Random, b)
	return hex.EncodeToString(b), err
}

// newUUID makes a random UUID (version 4).
func newUUID(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", err
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
}

// marshal encodes v on one line, without the escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// EncodeName implements session.Namer.
func (claude) EncodeName(dst []byte, title string, a session.Append) ([]byte, error) {
	title = strings.TrimSpace(title)
	if title == "" {
		return nil, &session.InvalidError{Field: "title", Value: title, Why: "is blank"}
	}
	w := &claudeWriter{a: a, native: a.Session.Native}
	if err := w.line(claudeTitle{"custom-title", title, w.native}); err != nil {
		return nil, err
	}
	return append(dst, w.out...), nil
}

// EncodeEnd implements session.Ender.
func (claude) EncodeEnd(dst []byte, a session.Append) ([]byte, error) {
	w := &claudeWriter{a: a, native: a.Session.Native}
	if s := a.Session; s.Title != "" && s.TitleSource == session.TitleUser {
		if err := w.line(claudeTitle{"custom-title", s.Title, w.native}); err != nil {
			return nil, err
		}
	}
	if a.Session.Tag != "" {
		if err := w.line(claudeTag{"tag", a.Session.Tag, w.native}); err != nil {
			return nil, err
		}
	}
	return append(dst, w.out...), nil
}

// Create implements session.Creator. The working directory should have its
// symbolic links resolved, as the agent does.
func (claude) Create(root session.Root, s session.Session, _ session.Clock, random io.Reader) (native, p string, dirs []string, err error) {
	if s.CWD == "" {
		return "", "", nil, &session.InvalidError{Field: "cwd", Value: "", Why: "the store is arranged by working directory"}
	}
	if native, err = newUUID(random); err != nil {
		return "", "", nil, err
	}
	dir := path.Join(claudeProjects, claudeExistingDir(root.FS, claudeProjectDir(s.CWD)))
	p = path.Join(dir, native+".jsonl")
	if _, err := fs.Stat(root.FS, p); err == nil {
		return "", "", nil, &fs.PathError{Op: "create", Path: p, Err: fs.ErrExist}
	}
	return native, p, []string{dir}, nil
}

// claudeExistingDir finds the directory of a long path that another build
// made with another hash.
func claudeExistingDir(store fs.FS, dir string) string {
	if len(dir) <= claudeDirMax {
		return dir
	}
	if _, err := fs.Stat(store, path.Join(claudeProjects, dir)); err == nil {
		return dir
	}
	all, err := fs.ReadDir(store, claudeProjects)
	if err != nil {
		return dir
	}
	found := ""
	for _, d := range all {
		if strings.HasPrefix(d.Name(), dir[:claudeDirMax]+"-") {
			if found != "" {
				return dir // several: none is surely ours
			}
			found = d.Name()
		}
	}
	if found == "" {
		return dir
	}
	return found
}
