// Package conversation is the message sequence that an agent keeps in memory
// and shows to its model, with hooks that make every change durable.
//
// It does not know how or where messages are kept. Invariant: a change that a
// hook refused has not happened, and hooks run in the order of the sequence,
// one at a time; replaying them gives the sequence.
package conversation

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/agent-ls/agent-ls/session"
)

// ErrInHook: a hook tried to change the conversation that it is called for.
// It may read it, and then sees it without the change under way.
var ErrInHook = errors.New("a hook must not change its conversation")

// Hooks are called once for each change, synchronously, without the mutex
// being held, before the change counts. An error keeps it from happening and
// is given to the caller. Hooks get copies. Either may be nil.
//
// A change from inside a hook gives ErrInHook. A hook must not wait for
// another goroutine that changes the conversation: that one waits for the hook.
type Hooks struct {
	OnAppend  func(m session.Message) error
	OnReplace func(reason string, messages []session.Message) error
}

// Conversation is safe for concurrent use. Callers that change it at the same
// time take turns, in the order in which they came; readers never wait for a
// hook.
type Conversation struct {
	hooks Hooks
	turn  chan struct{} // held by the caller whose change is under way

	mu       sync.Mutex // guards what follows
	messages []session.Message
	hooking  uint64 // goroutine that runs a hook, 0 for none
}

// New gives an empty conversation.
func New(h Hooks) *Conversation { return NewFromMessages(nil, h) }

// NewFromMessages gives a conversation that begins with messages, for which
// no hook is called: they are on disk already.
func NewFromMessages(messages []session.Message, h Hooks) *Conversation {
	return &Conversation{hooks: h, turn: make(chan struct{}, 1), messages: copies(messages)}
}

// AddUser appends a message of the user.
func (c *Conversation) AddUser(text string) error {
	return c.Add(session.Message{Role: session.User, Blocks: []session.Block{session.Text{Text: text}}})
}

// AddAssistant appends an answer.
func (c *Conversation) AddAssistant(text string) error {
	return c.Add(session.Message{Role: session.Assistant, Blocks: []session.Block{session.Text{Text: text}}})
}

// AddAssistantToolCalls appends tool calls, with the text before them, if any.
func (c *Conversation) AddAssistantToolCalls(text string, calls []session.ToolUse) error {
	var b []session.Block
	if text != "" {
		b = append(b, session.Text{Text: text})
	}
	for _, u := range calls {
		b = append(b, u)
	}
	return c.Add(session.Message{Role: session.Assistant, Blocks: b})
}

// AddToolResult appends the result of a call.
func (c *Conversation) AddToolResult(r session.ToolResult) error {
	return c.Add(session.Message{Role: session.Tool, Blocks: []session.Block{r}})
}

// Add appends any message; the other Add methods are short for it. The error
// is that of OnAppend, or ErrInHook.
func (c *Conversation) Add(m session.Message) error {
	return c.change(
		func() error {
			if c.hooks.OnAppend == nil {
				return nil
			}
			return c.hooks.OnAppend(copyOf(m))
		},
		func() { c.messages = append(c.messages, copyOf(m)) },
	)
}

// Compact replaces the whole conversation, for example by a summary. reason
// is a word for the log. What others have added since the caller looked at
// Messages is gone with the rest. The error is that of OnReplace, or ErrInHook.
func (c *Conversation) Compact(reason string, messages []session.Message) error {
	return c.change(
		func() error {
			if c.hooks.OnReplace == nil {
				return nil
			}
			return c.hooks.OnReplace(reason, copies(messages))
		},
		func() { c.messages = copies(messages) },
	)
}

// change runs the hook and then the change, one caller after the other.
func (c *Conversation) change(hook func() error, apply func()) error {
	me := goroutine() // a microsecond, next to a hook that waits for a disk
	c.mu.Lock()
	inHook := me != 0 && c.hooking == me
	c.mu.Unlock()
	if inHook { // waiting for our own turn would never end
		return ErrInHook
	}
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.setHooking(me)
	err := func() error {
		defer c.setHooking(0)
		return hook()
	}()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	apply()
	return nil
}

func (c *Conversation) setHooking(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hooking = id
}

// goroutine gives the number of the calling goroutine. Go has no other way to
// tell a hook that calls back from another caller who may wait.
func goroutine() uint64 {
	var buf [64]byte
	b := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	n, err := strconv.ParseUint(string(b[:max(0, bytes.IndexByte(b, ' '))]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Messages gives a copy of the conversation, which shares nothing with it.
func (c *Conversation) Messages() []session.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return copies(c.messages)
}

// Len is the number of messages.
func (c *Conversation) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.messages)
}

func copies(list []session.Message) []session.Message {
	out := make([]session.Message, len(list))
	for i := range list {
		out[i] = copyOf(list[i])
	}
	return out
}

// copyOf shares nothing that can be changed.
func copyOf(m session.Message) session.Message {
	m.Blocks = copyBlocks(m.Blocks)
	m.Entries = slices.Clone(m.Entries)
	if m.Usage != nil {
		u := *m.Usage
		m.Usage = &u
	}
	return m
}

func copyBlocks(in []session.Block) []session.Block {
	out := slices.Clone(in)
	for i, b := range out {
		switch b := b.(type) {
		case session.ToolUse:
			b.Input, b.Locations = bytes.Clone(b.Input), slices.Clone(b.Locations)
			out[i] = b
		case session.ToolResult:
			b.Content = copyBlocks(b.Content)
			out[i] = b
		case session.Unknown:
			b.Raw = bytes.Clone(b.Raw)
			out[i] = b
		}
	}
	return out
}
