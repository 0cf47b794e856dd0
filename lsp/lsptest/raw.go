package lsptest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/agent-ls/agent-ls/lsp"
	"github.com/agent-ls/agent-ls/lsp/rpc"
)

// Script is a client that writes and reads lines of JSON as they are: a shell
// script with two pipes, which also chooses the ids.
type Script struct {
	t      testing.TB
	in     io.WriteCloser
	lines  chan Message
	served chan struct{} // closed when the server has ended
	failed error         // of the server, once served is closed
}

// Message is one line from the server.
type Message struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int64
		Message string
		Data    map[string]any
	}
}

// NewScript connects one to a server. The input is closed when the test ends.
func NewScript(t testing.TB, s *lsp.Server) *Script {
	t.Helper()
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	c := &Script{t: t, in: in, lines: make(chan Message, 1), served: make(chan struct{})}
	go func() {
		defer close(c.served)
		if err := s.Serve(context.Background(), rpc.NewConn(toServer, fromServer, rpc.Options{})); err != nil {
			c.failed = err
		}
	}()
	over := make(chan struct{})
	go func() {
		defer close(c.lines)
		r := bufio.NewReader(out)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			var m Message
			if err := json.Unmarshal(line, &m); err != nil {
				t.Errorf("the server wrote %q: %v", line, err)
			}
			select {
			case c.lines <- m:
			case <-over: // nobody looks any more
			}
		}
	}()
	t.Cleanup(func() {
		close(over)
		_ = in.Close() // never fails
		select {
		case <-c.served:
		case <-time.After(Patience):
			t.Error("the server does not end")
		}
	})
	return c
}

// Send writes one line.
func (c *Script) Send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// Answer gives the next answer, whatever its id, and passes over notifications.
func (c *Script) Answer() Message {
	c.t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	for {
		select {
		case m, ok := <-c.lines:
			if !ok {
				c.t.Fatal("the server has ended")
			}
			if m.Method == "" {
				return m
			}
		case <-deadline.C:
			c.t.Fatal("no answer came")
		}
	}
}

// End closes the server's input, gives the answers that still come, and waits
// until the server has ended.
func (c *Script) End() []Message {
	c.t.Helper()
	if err := c.in.Close(); err != nil {
		c.t.Fatal(err)
	}
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	var out []Message
	for {
		select {
		case m, ok := <-c.lines:
			if !ok {
				select {
				case <-c.served:
				case <-deadline.C:
					c.t.Fatal("the server does not end")
				}
				if c.failed != nil {
					c.t.Error(c.failed)
				}
				return out
			}
			if m.Method == "" {
				out = append(out, m)
			}
		case <-deadline.C:
			c.t.Fatal("the server does not end")
		}
	}
}
