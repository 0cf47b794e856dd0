package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/store"
)

// clock is a clock for examples; an agent uses the real one.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func exampleOptions() (store.Options, *clock) {
	c := &clock{time.Date(2026, 8, 28, 14, 20, 30, 0, time.Local)}
	return store.Options{Clock: c, Random: bytes.NewReader([]byte{0xa1, 0xb2, 1, 2, 3, 4, 5, 6})}, c
}

func text(role session.Role, s string) session.Message {
	return session.Message{Role: role, Blocks: []session.Block{session.Text{Text: s}}}
}

// An agent keeps its conversation in memory and every change of it on disk:
// when AddUser returns, the message is durable.
func Example() {
	workspace, err := os.MkdirTemp("", "workspace")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(workspace)
	options, clock := exampleOptions()

	ctx := context.Background()
	sc, err := store.NewContext(workspace, options)
	if err != nil {
		panic(err)
	}
	w, err := store.OpenWriter(ctx, sc, "my-model")
	if err != nil {
		panic(err)
	}
	conv := w.Conversation()
	err = errors.Join(
		conv.AddUser("how many tests are there?"),
		conv.AddAssistantToolCalls("", []session.ToolUse{{ID: "c1", Name: "run", Input: []byte(`{"cmd":"make count"}`)}}),
		conv.AddToolResult(session.ToolResult{UseID: "c1", Name: "run", Content: []session.Block{session.Text{Text: "42"}}}),
		conv.AddAssistant("There are 42."),
		w.Close(),
	)
	if err != nil {
		panic(err)
	}

	// Later, perhaps in another process: what was said, and a writer to go on.
	clock.now = clock.now.Add(7 * time.Hour)
	r, err := store.Resume(ctx, workspace, sc.ID, "my-model", options)
	if err != nil {
		panic(err)
	}
	defer r.Writer.Close()
	fmt.Println(r.Context.ID)
	for _, m := range r.Messages {
		switch b := m.Blocks[0].(type) {
		case session.Text:
			fmt.Printf("%v: %s\n", m.Role, b.Text)
		case session.ToolUse:
			fmt.Printf("%v calls %s %s\n", m.Role, b.Name, b.Input)
		case session.ToolResult:
			fmt.Printf("%v: %s\n", m.Role, b.Content[0].(session.Text).Text)
		}
	}
	fmt.Println("reminder:", r.Reminder != "")
	// Output:
	// 20260828-142030-a1b2
	// user: how many tests are there?
	// assistant calls run {"cmd":"make count"}
	// tool: 42
	// assistant: There are 42.
	// reminder: true
}

// A compaction replaces the conversation. The log keeps what was before; the
// effective conversation is the new one, or, if the process dies in the
// middle, the old one.
func ExampleWriter_Replace() {
	workspace, err := os.MkdirTemp("", "workspace")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(workspace)
	options, _ := exampleOptions()
	sc, err := store.NewContext(workspace, options)
	if err != nil {
		panic(err)
	}
	w, err := store.OpenWriter(context.Background(), sc, "my-model")
	if err != nil {
		panic(err)
	}
	conv := w.Conversation()
	for i := range 10 {
		if err := conv.AddUser(fmt.Sprint("message ", i)); err != nil {
			panic(err)
		}
	}
	// Compact calls Writer.Replace through the hook.
	err = errors.Join(
		conv.Compact("compact", []session.Message{
			text(session.User, "Summary of what was said: ten messages."),
			text(session.Assistant, "Noted."),
		}),
		w.Close(),
	)
	if err != nil {
		panic(err)
	}
	list, err := store.List(context.Background(), workspace, options, store.ListOptions{})
	if err != nil {
		panic(err)
	}
	for _, s := range list {
		fmt.Printf("%s: %d messages in the log, %d in the conversation\n", s.Title, s.Physical, s.Effective)
	}
	// Output:
	// message 0: 12 messages in the log, 2 in the conversation
}

// Two writers on one session would spoil it: the second one is told who has it.
func ExampleOpenWriter_locked() {
	workspace, err := os.MkdirTemp("", "workspace")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(workspace)
	options, _ := exampleOptions()
	sc, err := store.NewContext(workspace, options)
	if err != nil {
		panic(err)
	}
	w, err := store.OpenWriter(context.Background(), sc, "")
	if err != nil {
		panic(err)
	}
	defer w.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = store.OpenWriter(ctx, sc, "")
	var locked *session.LockedError
	fmt.Println(errors.As(err, &locked) && locked.PID == os.Getpid())
	// Output:
	// true
}
