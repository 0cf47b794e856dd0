package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// client is the editor's side of a connection: newline-delimited JSON-RPC.
// The subcommands talk to a server in the same process through it, so that
// the command line and every editor get the same answers; demo talks to a
// server in another process.
type client struct {
	w  io.WriteCloser
	wm sync.Mutex // one message at a time

	mu      sync.Mutex // guards what follows
	next    int
	waiting map[int]chan reply
	err     error

	notify func(method string, params []byte) // called on the reading goroutine, in order
	done   chan struct{}
}

type reply struct {
	result json.RawMessage
	err    error
}

// rpcError is an error answer of the server.
type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *rpcError) Error() string { return e.Message }

// newClient reads answers from r and writes requests to w. notify gets every
// notification in the order of arrival; it must not call the client.
func newClient(r io.Reader, w io.WriteCloser, notify func(string, []byte)) *client {
	c := &client{w: w, waiting: map[int]chan reply{}, notify: notify, done: make(chan struct{})}
	go c.read(r)
	return c
}

type message struct {
	ID     *int            `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

func (c *client) read(r io.Reader) {
	defer close(c.done)
	br := bufio.NewReaderSize(r, 64<<10)
	err := func() error {
		for {
			line, err := br.ReadBytes('\n')
			if err != nil {
				return err
			}
			var m message
			if err := json.Unmarshal(line, &m); err != nil {
				return fmt.Errorf("answer of the server: %w", err)
			}
			switch {
			case m.Method != "" && m.ID == nil:
				if c.notify != nil {
					c.notify(m.Method, m.Params)
				}
			case m.Method != "":
				// A request of the server (registerCapability and the like):
				// the command line offers nothing, and says so.
				_ = c.send(map[string]any{"jsonrpc": "2.0", "id": *m.ID, "error": map[string]any{"code": -32601, "message": "method not found"}})
			case m.ID != nil:
				c.mu.Lock()
				ch := c.waiting[*m.ID]
				delete(c.waiting, *m.ID)
				c.mu.Unlock()
				if ch == nil {
					continue
				}
				if m.Error != nil {
					ch <- reply{err: m.Error}
				} else {
					ch <- reply{result: m.Result}
				}
			}
		}
	}()
	if errors.Is(err, io.EOF) {
		err = errors.New("the server closed the connection")
	}
	c.mu.Lock()
	c.err = err
	for id, ch := range c.waiting {
		delete(c.waiting, id)
		ch <- reply{err: err}
	}
	c.mu.Unlock()
}

func (c *client) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.wm.Lock()
	defer c.wm.Unlock()
	_, err = c.w.Write(append(b, '\n'))
	return err
}

// call sends a request and decodes its result into result (may be nil, or a
// *json.RawMessage for the bytes as sent).
func (c *client) call(ctx context.Context, method string, params, result any) error {
	ch := make(chan reply, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	c.next++
	id := c.next
	c.waiting[id] = ch
	c.mu.Unlock()
	if err := c.send(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
		return err
	}
	select {
	case r := <-ch:
		if r.err != nil {
			return r.err
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(r.result, result)
	case <-ctx.Done():
		_ = c.send(map[string]any{"jsonrpc": "2.0", "method": "$/cancelRequest", "params": map[string]any{"id": id}})
		return ctx.Err()
	}
}

// tell sends a notification.
func (c *client) tell(method string, params any) error {
	return c.send(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
}

// close ends the session as the protocol asks and waits for the server's end.
func (c *client) close(ctx context.Context) error {
	err := c.call(ctx, "shutdown", nil, nil)
	if err == nil {
		err = c.tell("exit", nil)
	}
	if cerr := c.w.Close(); err == nil {
		err = cerr
	}
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	return err
}
