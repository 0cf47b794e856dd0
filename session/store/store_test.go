package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session"
)

type clock struct{ t time.Time }

func (c *clock) Now() time.Time { return c.t }

func newClock() *clock { return &clock{time.Date(2026, 8, 28, 14, 20, 30, 0, time.Local)} }

// repeat gives the same bytes n times and others then, to make ids collide.
type repeat struct{ n int }

func (r *repeat) Read(p []byte) (int, error) {
	r.n--
	for i := range p {
		p[i] = 0xa1
		if r.n < 0 {
			p[i] = byte(-r.n)
		}
	}
	return len(p), nil
}

func TestNewContext(t *testing.T) {
	ws := t.TempDir()
	o := Options{Clock: newClock(), Random: &repeat{n: 5}}
	c, err := NewContext(ws, o)
	if err != nil {
		t.Fatal(err)
	}
	if c.ID != "20260828-142030-a1a1" || c.JSONLPath != filepath.Join(ws, ".PseudoClaude", "sessions", c.ID, "conversation.jsonl") {
		t.Fatalf("%+v", c)
	}
	if _, err := os.Stat(c.SpillDir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.JSONLPath); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("the transcript is there before its first message")
	}
	d, err := NewContext(ws, o) // collides four times
	if err != nil || d.ID == c.ID {
		t.Fatal(d, err)
	}
	if _, err := NewContext(ws, Options{Clock: newClock(), Random: &repeat{n: 1000}}); err == nil {
		t.Fatal("an id was found where all collide")
	}
	if _, err := OpenContext(ws, "20261328-142030-a1a1", o); !errors.Is(err, session.ErrInvalid) {
		t.Fatal(err)
	}
	if _, err := OpenContext(ws, "20260828-142030-ffff", o); !errors.Is(err, session.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(ws, ".PseudoClaude", "sessions", "20260828-142030-ffff")); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("opening made something")
	}
}

func TestWriteResume(t *testing.T) {
	ws, clk := t.TempDir(), newClock()
	o := Options{Clock: clk}
	ctx := context.Background()
	c, err := NewContext(ws, o)
	if err != nil {
		t.Fatal(err)
	}
	w, err := OpenWriter(ctx, c, "m1")
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	if _, err := OpenWriter(short, c, "m2"); !errors.Is(err, session.ErrLocked) {
		t.Fatalf("a second writer: %v", err)
	}
	conv := w.Conversation()
	steps := []error{
		conv.AddUser("q"),
		conv.AddAssistantToolCalls("", []session.ToolUse{{ID: "c", Name: "run", Input: []byte(`{"x":1}`)}}),
		conv.AddToolResult(session.ToolResult{UseID: "c", Name: "run", Content: []session.Block{session.Text{Text: "r"}}}),
		conv.Compact("compact", []session.Message{
			{Role: session.User, Blocks: []session.Block{session.Text{Text: "summary"}}},
			{Role: session.Assistant, Blocks: []session.Block{session.Text{Text: "noted"}}},
		}),
		conv.AddUser("go on"),
		conv.AddAssistantToolCalls("", []session.ToolUse{{ID: "d", Name: "run", Input: []byte(`{}`)}}),
		w.Close(),
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	// An encoding failure is an error, and the conversation stays as it was.
	clk.t = clk.t.Add(7 * time.Hour)
	r, err := Resume(ctx, ws, c.ID, "m2", o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range r.Messages {
		got = append(got, fmt.Sprint(m.Role, m.Blocks))
	}
	if diff := cmp.Diff([]string{"user [{summary}]", "assistant [{noted}]", "user [{go on}]"}, got); diff != "" {
		t.Error(diff)
	}
	if r.Report.Dangling == nil || r.Report.Dangling.Dropped != 1 || r.Reminder == "" {
		t.Errorf("%+v", r)
	}
	n := r.Writer.Conversation().Len()
	if err := r.Writer.Conversation().AddAssistantToolCalls("", []session.ToolUse{{ID: "e", Name: "x", Input: []byte(`{`)}}); !errors.Is(err, session.ErrInvalid) {
		t.Fatal(err)
	}
	if r.Writer.Conversation().Len() != n {
		t.Fatal("the conversation has what the log has not")
	}
	before, err := os.ReadFile(c.JSONLPath)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Writer.Conversation().AddAssistant("answer"); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(c.JSONLPath)
	if err != nil || !strings.HasPrefix(string(after), string(before)) || !strings.Contains(string(after[len(before):]), `"model":"m2"`) {
		t.Fatalf("%q", after[len(before):])
	}
	if strings.Contains(string(after), "Files and other state") {
		t.Error("the reminder was written")
	}
	if err := r.Writer.Close(); err != nil {
		t.Fatal(err)
	}
}
