package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/store"
)

type sessionText struct {
	SessionID string `json:"sessionId"`
	Title     string `json:"title"`
	Model     string `json:"model"`
	Counts    struct {
		Physical  int `json:"physical"`
		Effective int `json:"effective"`
	} `json:"counts"`
	Size int64 `json:"size"`
}

func (t sessionText) String() string {
	return fmt.Sprintf("%s  %q  %s  %d in the log, %d count, %s",
		t.SessionID, t.Title, t.Model, t.Counts.Physical, t.Counts.Effective, byteSize(t.Size))
}

func (s *demo) list(ctx context.Context, c *client, ws string) (string, error) {
	var res struct {
		Sessions []sessionText `json:"sessions"`
	}
	// The first page never waits for the first scan; ask until it is there.
	for len(res.Sessions) == 0 {
		if err := c.call(ctx, "session/list", map[string]any{"cwd": ws}, &res); err != nil {
			return "", err
		}
		if len(res.Sessions) == 0 {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
	}
	for _, t := range res.Sessions {
		s.line(cyan, "session/list", t.String())
	}
	return res.Sessions[0].SessionID, nil
}

func (s *demo) resume(ctx context.Context, c *client, id string) error {
	var res struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Writer *struct {
			PID int `json:"pid"`
		} `json:"writer"`
	}
	if err := c.call(ctx, "session/resume", map[string]any{"sessionId": id, "subscribe": true}, &res); err != nil {
		return err
	}
	for _, m := range res.Messages {
		s.line(cyan, "session/resume", m.Role+": "+string(m.Content))
	}
	if res.Writer != nil {
		s.line(cyan, "session/resume", fmt.Sprintf("held by process %d", res.Writer.PID))
	}
	return nil
}

// again reads the conversation after a reset, as an editor does.
func (s *demo) again(ctx context.Context, c *client, id string) error {
	s.mu.Lock()
	resets := s.resets
	s.mu.Unlock()
	if resets == 0 {
		return errors.New("the compaction was not noticed")
	}
	s.step("after the reset it reads the conversation again: the summary stands for what was before")
	var res struct {
		Entries []struct {
			Line    int    `json:"line"`
			Role    string `json:"role"`
			Content []struct{ Text string }
		} `json:"entries"`
	}
	if err := c.call(ctx, "session/read", map[string]any{"sessionId": id}, &res); err != nil {
		return err
	}
	for _, e := range res.Entries {
		s.line(cyan, "session/read", fmt.Sprintf("line %d %s: %s", e.Line, e.Role, e.Content[0].Text))
	}
	return nil
}

func (s *demo) append(ctx context.Context, c *client, id string) error {
	var res struct {
		Entries []struct {
			ID     string `json:"id"`
			Offset int64  `json:"offset"`
			Length int    `json:"length"`
		} `json:"entries"`
	}
	err := c.call(ctx, "session/append", map[string]any{
		"sessionId": id,
		"messages":  []any{map[string]any{"role": "user", "content": "From the editor: please add a test as well."}},
	}, &res)
	if err != nil {
		return err
	}
	for _, e := range res.Entries {
		s.line(cyan, "session/append", fmt.Sprintf("on disk: entry %s at byte %d, %d bytes", e.ID, e.Offset, e.Length))
	}
	return nil
}

func (s *demo) count(ctx context.Context, c *client, id string) error {
	for _, view := range []string{"physical", "effective"} {
		var res struct {
			Session sessionText       `json:"session"`
			Entries []json.RawMessage `json:"entries"`
		}
		if err := c.call(ctx, "session/read", map[string]any{"sessionId": id, "view": view}, &res); err != nil {
			return err
		}
		s.line(cyan, "session/read", fmt.Sprintf("%s: %d entries", view, len(res.Entries)))
	}
	return nil
}

// demoLast is what the agent says last.
const demoLast = "I have replaced the loop by a join."

// demoAgentCmd plays the agent of the demonstration in a process of its own,
// by the same package that Go agents embed.
type demoAgentCmd struct {
	Workspace string `arg:"" type:"existingdir"`
}

func (d *demoAgentCmd) Run(r *run) error {
	enc := json.NewEncoder(r.stdout)
	say := func(word, text string) error { return enc.Encode(map[string]string{"say": word, "text": text}) }

	c, err := store.NewContext(d.Workspace, store.Options{Clock: systemClock{}})
	if err != nil {
		return err
	}
	w, err := store.OpenWriter(r.ctx, c, "demo-model-1")
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // everything acknowledged is synced already
	conv := w.Conversation()

	if err := conv.AddUser("The list of orders is slow. Find out why."); err != nil {
		return err
	}
	if err := conv.AddAssistant("I will look at the queries first."); err != nil {
		return err
	}
	if err := say("ready", "session "+c.ID+" with two messages"); err != nil {
		return err
	}
	if word, err := bufio.NewReader(r.stdin).ReadString('\n'); err != nil || word != "go\n" {
		if err == io.EOF {
			return nil
		}
		return fmt.Errorf("the demonstration said %q: %w", word, err)
	}
	steps := []struct {
		text string
		do   func() error
	}{
		{"a tool call", func() error {
			return conv.AddAssistantToolCalls("", []session.ToolUse{{ID: "call-1", Name: "grep", Input: []byte(`{"pattern":"SELECT","path":"orders.go"}`)}})
		}},
		{"its result", func() error {
			return conv.AddToolResult(session.ToolResult{UseID: "call-1", Name: "grep", Content: []session.Block{session.Text{Text: "orders.go:47: SELECT * FROM items WHERE order_id = ?"}}})
		}},
		{"an answer", func() error {
			return conv.AddAssistant("One query for each order, in a loop: line 47. A join will do.")
		}},
		{"a compaction: the history becomes a summary", func() error {
			return conv.Compact("compact", []session.Message{
				text(session.User, "Summary: the list of orders runs one query per order (orders.go, line 47)."),
				text(session.Assistant, "Noted."),
			})
		}},
		{"an answer after the compaction", func() error { return conv.AddAssistant(demoLast) }},
	}
	for _, st := range steps {
		select {
		case <-time.After(400 * time.Millisecond): // so that a person can follow
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
		if err := say("", st.text); err != nil {
			return err
		}
		if err := st.do(); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil { // the editor may append now
		return err
	}
	if err := say("done", ""); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r.stdin) // ends when the demonstration does
	return err
}

func text(role session.Role, s string) session.Message {
	return session.Message{Role: role, Blocks: []session.Block{session.Text{Text: s}}}
}
