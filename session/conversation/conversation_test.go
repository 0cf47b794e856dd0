package conversation

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session"
)

func texts(list []session.Message) []string {
	var out []string
	for _, m := range list {
		s := m.Role.String()
		for _, b := range m.Blocks {
			switch b := b.(type) {
			case session.Text:
				s += " " + b.Text
			case session.ToolUse:
				s += " call " + b.ID
			case session.ToolResult:
				s += " result " + b.UseID
			}
		}
		out = append(out, s)
	}
	return out
}

func TestConversation_orderAndHooks(t *testing.T) {
	var seen []string
	c := New(Hooks{
		OnAppend: func(m session.Message) error { seen = append(seen, texts([]session.Message{m})...); return nil },
		OnReplace: func(reason string, list []session.Message) error {
			seen = append(seen, fmt.Sprintf("replace %s %d", reason, len(list)))
			return nil
		},
	})
	steps := []error{
		c.AddUser("q"),
		c.AddAssistantToolCalls("look", []session.ToolUse{{ID: "1"}, {ID: "2"}}),
		c.AddToolResult(session.ToolResult{UseID: "2"}),
		c.AddToolResult(session.ToolResult{UseID: "1"}),
		c.AddAssistant("a"),
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	want := []string{"user q", "assistant look call 1 call 2", "tool result 2", "tool result 1", "assistant a"}
	if diff := cmp.Diff(want, texts(c.Messages())); diff != "" {
		t.Error(diff)
	}
	if err := c.Compact("compact", c.Messages()[:1]); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append(want, "replace compact 1"), seen); diff != "" {
		t.Error(diff)
	}
	if c.Len() != 1 {
		t.Error(c.Len())
	}
}

// What a hook refused has not happened, and the caller is told.
func TestConversation_refused(t *testing.T) {
	full := errors.New("disk full")
	refuse := false
	c := NewFromMessages([]session.Message{{Role: session.User, Blocks: []session.Block{session.Text{Text: "q"}}}}, Hooks{
		OnAppend: func(session.Message) error {
			if refuse {
				return full
			}
			return nil
		},
		OnReplace: func(string, []session.Message) error { return full },
	})
	refuse = true
	if err := c.AddAssistant("lost"); !errors.Is(err, full) {
		t.Fatal(err)
	}
	if err := c.Compact("compact", nil); !errors.Is(err, full) {
		t.Fatal(err)
	}
	refuse = false
	if err := c.AddAssistant("kept"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"user q", "assistant kept"}, texts(c.Messages())); diff != "" {
		t.Error(diff)
	}
}

// A hook may read; a change from inside is refused and does not deadlock.
func TestConversation_reentrant(t *testing.T) {
	var c *Conversation
	var inside error
	c = New(Hooks{OnAppend: func(session.Message) error {
		if n := len(c.Messages()); n != 0 {
			t.Errorf("the message counts before its hook has agreed: %d", n)
		}
		inside = c.AddUser("from inside")
		return nil
	}})
	if err := c.AddUser("q"); err != nil || !errors.Is(inside, ErrInHook) {
		t.Fatal(err, inside)
	}
	if c.Len() != 1 {
		t.Fatal(c.Len())
	}
}

func TestConversation_copies(t *testing.T) {
	in := []byte(`{"a":1}`)
	c := New(Hooks{OnAppend: func(m session.Message) error {
		m.Blocks[0] = session.Text{Text: "changed by the hook"}
		return nil
	}})
	if err := c.AddAssistantToolCalls("", []session.ToolUse{{ID: "1", Input: in}}); err != nil {
		t.Fatal(err)
	}
	in[2] = 'b'
	out := c.Messages()
	out[0].Blocks[0].(session.ToolUse).Input[2] = 'c'
	if got := string(c.Messages()[0].Blocks[0].(session.ToolUse).Input); got != `{"a":1}` {
		t.Errorf("%s", got)
	}
}

// Hooks run in the order of the sequence, also for concurrent callers.
func TestConversation_concurrent(t *testing.T) {
	var log []string
	c := New(Hooks{OnAppend: func(m session.Message) error { log = append(log, texts([]session.Message{m})...); return nil }})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				if err := c.AddUser(fmt.Sprint(i, " ", j)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(log, texts(c.Messages())); diff != "" || len(log) != 400 {
		t.Errorf("%d hooks: %s", len(log), diff)
	}
}
