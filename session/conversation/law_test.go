package conversation

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/session"
)

// render gives what messages are made of, sharing nothing with them.
func render(list []session.Message) []string {
	out := []string{}
	for _, m := range list {
		out = append(out, fmt.Sprintf("%v %+v", m.Role, m.Blocks))
	}
	return out
}

// history is what hooks were told, applied.
type history []session.Message

func (h *history) hooks() Hooks {
	return Hooks{
		OnAppend:  func(m session.Message) error { *h = append(*h, m); return nil },
		OnReplace: func(_ string, list []session.Message) error { *h = slices.Clone(list); return nil },
	}
}

func drawMessage(t *rapid.T) session.Message {
	m := session.Message{Role: rapid.SampledFrom([]session.Role{session.User, session.Assistant, session.Tool}).Draw(t, "role")}
	for range rapid.IntRange(1, 3).Draw(t, "blocks") {
		m.Blocks = append(m.Blocks, rapid.SampledFrom([]session.Block{
			session.Text{Text: rapid.String().Draw(t, "text")},
			session.ToolUse{ID: "u", Name: "n", Input: []byte(`{"a":1}`), Locations: []session.Location{{Path: "p"}}},
			session.Unknown{Raw: []byte("2")},
			session.ToolResult{UseID: "u", Content: []session.Block{session.Text{Text: "r"}, session.Unknown{Raw: []byte("1")}}},
		}).Draw(t, "block"))
	}
	return m
}

// The conversation is what was added and not refused; the hooks were told
// the same; and nothing that a caller or a hook holds is part of it.
func TestConversation_law(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		refused := errors.New("refused")
		refuse := false
		start := rapid.SliceOfN(rapid.Custom(drawMessage), 0, 3).Draw(t, "start")
		want := render(start)
		told := render(start)
		c := NewFromMessages(start, Hooks{
			OnAppend: func(m session.Message) error {
				if refuse {
					return refused
				}
				told = append(told, render([]session.Message{m})...)
				scribble([]session.Message{m})
				return nil
			},
			OnReplace: func(_ string, list []session.Message) error {
				if refuse {
					return refused
				}
				told = render(list)
				scribble(list)
				return nil
			},
		})
		scribble(start)
		for range rapid.IntRange(0, 8).Draw(t, "steps") {
			refuse = rapid.IntRange(0, 3).Draw(t, "refuse") == 0
			list := rapid.SliceOfN(rapid.Custom(drawMessage), 1, 3).Draw(t, "list")
			next := render(list)
			var err error
			if rapid.IntRange(0, 4).Draw(t, "compact") == 0 {
				err = c.Compact("compact", list)
			} else {
				next = append(slices.Clone(want), next[0])
				err = c.Add(list[0])
			}
			scribble(list)
			if !refuse {
				want = next
			}
			if refuse != errors.Is(err, refused) {
				t.Fatal(refuse, err)
			}
			out := c.Messages()
			if diff := cmp.Diff(want, render(out)); diff != "" {
				t.Fatal(diff)
			}
			if diff := cmp.Diff(want, told); diff != "" {
				t.Fatalf("the hooks were told something else: %s", diff)
			}
			if c.Len() != len(want) {
				t.Fatal(c.Len())
			}
			scribble(out)
		}
	})
}

// scribble changes everything that can be reached.
func scribble(list []session.Message) {
	for i := range list {
		scribbleBlocks(list[i].Blocks)
		list[i].Role = session.System
	}
}

func scribbleBlocks(blocks []session.Block) {
	for i, b := range blocks {
		switch b := b.(type) {
		case session.ToolUse:
			b.Input[0], b.Locations[0].Path = 'x', "x"
		case session.ToolResult:
			scribbleBlocks(b.Content)
		case session.Unknown:
			b.Raw[0] = 'x'
		}
		blocks[i] = session.Text{Text: "scribble"}
	}
}

// Callers that append and compact at the same time: the hooks see one order,
// and it is that of the sequence.
func TestConversation_concurrentCompaction(t *testing.T) {
	var told history
	c := New(told.hooks())
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 40 {
				var err error
				if (i+j)%10 == 0 {
					list := c.Messages()
					err = c.Compact("compact", list[:min(3, len(list))])
				} else {
					err = c.AddUser(fmt.Sprint(i, " ", j))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff([]session.Message(told), c.Messages()); diff != "" {
		t.Error(diff)
	}
}

// A reader does not wait for a hook, and the next change waits for its turn.
func TestConversation_readDuringHook(t *testing.T) {
	inside, goOn := make(chan struct{}), make(chan struct{})
	first := true
	c := New(Hooks{OnAppend: func(session.Message) error {
		if first {
			first = false
			close(inside)
			<-goOn
		}
		return nil
	}})
	done := make(chan error, 2)
	go func() { done <- c.AddUser("one") }()
	<-inside
	if n := c.Len(); n != 0 {
		t.Errorf("%d messages before the hook has agreed", n)
	}
	go func() { done <- c.AddUser("two") }()
	close(goOn)
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"user one", "user two"}, texts(c.Messages())); diff != "" {
		t.Error(diff)
	}
}

// A hook that panics has refused, and the conversation can be used on.
func TestConversation_panic(t *testing.T) {
	panics := true
	c := New(Hooks{OnAppend: func(session.Message) error {
		if panics {
			panic("hook")
		}
		return nil
	}})
	func() {
		defer func() {
			if r := recover(); r != "hook" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = c.AddUser("lost") // panics
	}()
	panics = false
	if err := c.AddUser("kept"); err != nil || c.Len() != 1 {
		t.Fatal(err, c.Len())
	}
}
