package format

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/agent-ls/agent-ls/session"
)

// claudeFacts is what a row is made of. Lines are added in file order; the
// last word counts, but for what is named First.
type claudeFacts struct {
	FirstCWD   string    `json:",omitzero"`
	LastCWD    string    `json:",omitzero"`
	Created    time.Time `json:",omitzero"`
	Updated    time.Time `json:",omitzero"`
	Entrypoint string    `json:",omitzero"` // of the first line that has one
	ForkedFrom string    `json:",omitzero"` // session that the first line of the conversation was copied from
	Prompt     string    `json:",omitzero"` // first prompt
	Command    string    `json:",omitzero"` // first command without a prompt
	Title      string    `json:",omitzero"` // given by the user; an empty one takes it back
	AITitle    string    `json:",omitzero"`
	LastPrompt string    `json:",omitzero"`
	Summary    string    `json:",omitzero"`
	Tag        string    `json:",omitzero"`
	Branch     string    `json:",omitzero"`
	Model      string    `json:",omitzero"`
	Main       bool      `json:",omitzero"` // lines of the conversation
	Aside      bool      `json:",omitzero"` // lines of helpers
	Turns      bool      `json:",omitzero"` // somebody said something

	Stop string   `json:",omitzero"` // why the model stopped last
	Open []string `json:",omitzero"` // calls at the end without a result
	Said string   `json:",omitzero"` // who spoke last: user or assistant

	Whole bool `json:",omitzero"` // a helper's own transcript: its lines are the conversation

	// A line was found, whatever it said.
	HasTitle bool `json:",omitzero"`
	HasTag   bool `json:",omitzero"`
	HasAI    bool `json:",omitzero"`

	Problems int `json:",omitzero"`
}

// add takes in one line. It reports whether the line could be read.
func (c *claudeFacts) add(raw []byte) {
	l, ok := parseClaude(raw)
	if !ok || l.typ == "" {
		if !blank(raw) {
			c.Problems++
		}
		return
	}
	c.take(&l)
}

// take takes in one line that was taken apart.
func (c *claudeFacts) take(l *claudeLine) {
	if c.Whole {
		l.sidechain = false
	}
	c.state(l)
	switch l.typ {
	case "user", "assistant", "attachment", "system", "progress":
		c.conversation(l)
	case "custom-title", "ai-title", "tag":
		c.title(l)
	case "summary":
		c.Summary = text(l.old)
	case "last-prompt":
		if s := text(l.last); s != "" {
			c.LastPrompt = s
		}
	}
}

// title takes in a line that gives a title or a tag.
func (c *claudeFacts) title(l *claudeLine) {
	switch l.typ {
	case "custom-title":
		c.Title, c.HasTitle = text(l.customTitle), true
	case "ai-title":
		c.AITitle, c.HasAI = text(l.aiTitle), true
	case "tag":
		c.Tag, c.HasTag = text(l.tag), true
	}
}

// state takes in what any line can carry.
func (c *claudeFacts) state(l *claudeLine) {
	if t := stamp(l.stamp); !t.IsZero() {
		if c.Created.IsZero() {
			c.Created = t
		}
		c.Updated = t
	}
	if len(l.cwd) > 2 {
		cwd := text(l.cwd)
		if c.FirstCWD == "" {
			c.FirstCWD = cwd
		}
		c.LastCWD = cwd
	}
	if len(l.branch) > 2 {
		c.Branch = text(l.branch)
	}
	if c.Entrypoint == "" {
		c.Entrypoint = text(l.entrypoint)
	}
}

func (c *claudeFacts) conversation(l *claudeLine) {
	if l.sidechain || l.team {
		c.Aside = true
		return
	}
	if !c.Main && len(l.forked) > 0 {
		c.ForkedFrom = field(l.forked, "sessionId")
	}
	c.Main = true
	if l.typ != "user" && l.typ != "assistant" {
		return
	}
	c.Turns = true
	if c.Prompt == "" {
		p, command := l.prompt()
		c.Prompt = p
		if c.Command == "" {
			c.Command = command
		}
	}
	if l.typ == "assistant" {
		c.answer(l)
		return
	}
	if l.meta {
		return
	}
	c.Said = l.typ
	answered := false
	for _, call := range l.msg.calls {
		if call.result {
			answered = true
			id := text(call.id)
			c.Open = slices.DeleteFunc(c.Open, func(o string) bool { return o == id })
		}
	}
	if !answered {
		c.Open = nil // the user went on
	}
}

func (c *claudeFacts) answer(l *claudeLine) {
	if model := text(l.msg.model); model != "" && model != claudeSynthetic {
		c.Model = model
	}
	c.Said, c.Stop = l.typ, text(l.msg.stop)
	if l.apiError {
		c.Stop = "end_turn"
	}
	for _, call := range l.msg.calls {
		if !call.result && len(c.Open) < maxOpenCalls {
			c.Open = append(c.Open, text(call.id))
		}
	}
}

// maxOpenCalls bounds what a hostile transcript can make us remember.
const maxOpenCalls = 256

// row puts the facts into a session. side is the title of the side file.
func (c *claudeFacts) row(s *session.Session, side string) {
	s.CWD, s.CreatedAt, s.UpdatedAt = c.FirstCWD, c.Created, c.Updated
	s.Model, s.GitBranch, s.Tag = c.Model, c.Branch, c.Tag
	s.Programmatic = strings.HasPrefix(c.Entrypoint, "sdk")
	s.FirstPrompt = c.Prompt
	if s.FirstPrompt == "" {
		s.FirstPrompt = c.Command
	}
	if !injected(c.LastPrompt) {
		s.LastPrompt = firstLine(c.LastPrompt)
	}
	for _, t := range []struct {
		text string
		from session.TitleSource
	}{
		{c.Title, session.TitleUser},
		{side, session.TitleUser},
		{c.AITitle, session.TitleAgent},
		{s.LastPrompt, session.TitlePrompt},
		{c.Summary, session.TitleAgent},
		{s.FirstPrompt, session.TitlePrompt},
	} {
		if title := firstLine(t.text); title != "" {
			s.Title, s.TitleSource = title, t.from
			break
		}
	}
	s.Empty = !c.Turns
	if c.ForkedFrom != "" {
		s.Kind, s.Parent = session.Fork, session.ID{Agent: claudeName, Native: c.ForkedFrom}
	}
}

// status is what the log alone shows: a call that waits, or a turn that ended.
func (c *claudeFacts) status() session.Status {
	switch {
	case len(c.Open) > 0:
		return session.StatusRequiresAction
	case c.Said == "assistant" && (c.Stop == "end_turn" || c.Stop == "stop_sequence" || c.Stop == "max_tokens" || c.Stop == "refusal"):
		return session.StatusIdle
	}
	return session.StatusUnknown
}

// claudeCursor is how far a row was read.
type claudeCursor struct {
	Offset int64
	Facts  claudeFacts
}

func (c *claudeCursor) encode() []byte {
	b, err := json.Marshal(c)
	if err != nil {
		return nil // a cursor is a help only
	}
	return b
}
