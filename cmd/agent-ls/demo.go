package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

type demoCmd struct {
	jsonFlag
	Keep bool `help:"Keep the temporary workspace and print where it is."`
}

func (*demoCmd) Help() string {
	return "Makes a temporary workspace, starts a second process that plays an agent and writes a PseudoClaude session there,\n" +
		"starts a server as an editor would, and shows every message that the editor receives.\n\nExamples:\n  agent-ls demo\n  agent-ls demo --json    one object a line: a step, or what happened and when"
}

// demoLimit bounds the whole demonstration.
const demoLimit = 20 * time.Second

func (d *demoCmd) Run(r *run) (err error) {
	ctx, cancel := context.WithTimeout(r.ctx, demoLimit)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "agent-ls-demo-")
	if err != nil {
		return err
	}
	if d.Keep {
		defer func() { _, _ = fmt.Fprintf(r.stderr, "kept %s\n", dir) }()
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	ws := filepath.Join(dir, "workspace")
	if err := os.Mkdir(ws, 0o700); err != nil {
		return err
	}
	s := &demo{screen: r.screenOf(), start: time.Now()}
	if d.JSON {
		s.json = r.printJSON
	}

	s.step("a temporary workspace")
	s.line(dim, "workspace", ws)

	s.step("a separate process plays an agent and begins a session")
	agent, err := s.startAgent(ctx, self, ws)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.stop()) }()
	if err := agent.until(ctx, "ready"); err != nil {
		return err
	}

	s.step("the editor starts agent-ls and lists the sessions of its workspace")
	server, err := s.startServer(ctx, self, dir, ws)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop(ctx)) }()
	id, err := s.list(ctx, server.client, ws)
	if err != nil {
		return err
	}

	s.step("it resumes the session: the conversation as the agent would load it")
	if err := s.resume(ctx, server.client, id); err != nil {
		return err
	}

	s.step("the agent goes on working; the editor receives each entry as it is written")
	if err := agent.tell("go"); err != nil {
		return err
	}
	if err := agent.until(ctx, "done"); err != nil {
		return err
	}
	if err := s.settle(ctx, demoLast); err != nil {
		return err
	}
	if err := s.again(ctx, server.client, id); err != nil {
		return err
	}

	s.step("the editor appends a message of its own, durably")
	if err := s.append(ctx, server.client, id); err != nil {
		return err
	}

	s.step("read again from disk: everything once, in order; the compacted part is kept in the log")
	if err := s.count(ctx, server.client, id); err != nil {
		return err
	}
	if d.JSON {
		return nil
	}
	s.screen.printf("\n%s in %.1f s; the workspace is removed.\n", s.screen.paint(green, "done"), time.Since(s.start).Seconds())
	return nil
}

// demo prints what happens, with the time since the start in front.
type demo struct {
	screen *screen
	start  time.Time
	json   func(any) error // set for --json: an object a line

	mu      sync.Mutex // guards what follows and the order of the output
	steps   int
	last    string // text received last through session/update
	resets  int
	arrived chan struct{}
}

func (s *demo) step(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps++
	if s.json != nil {
		_ = s.json(map[string]any{"step": s.steps, "text": text}) // a closed pipe ends the program elsewhere
		return
	}
	s.screen.printf("\n%s\n", s.screen.paint(bold, fmt.Sprintf("%d. %s", s.steps, text)))
}

func (s *demo) line(st style, what, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.print(st, what, text)
}

func (s *demo) print(st style, what, text string) {
	if s.json != nil {
		_ = s.json(map[string]any{"ms": time.Since(s.start).Milliseconds(), "what": what, "text": text}) // as above
		return
	}
	width := s.screen.width
	if width == 0 {
		width = 120
	}
	s.screen.printf("  %7.1f ms  %s %s\n", float64(time.Since(s.start).Microseconds())/1000,
		s.screen.paint(st, pad(what, 18)), cut(visible(text, false), width-33))
}

// child is a process of the demonstration that is spoken to by pipes.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  chan string
}

// spawn starts a process that is spoken to by pipes; its errors are shown.
func spawn(cmd *exec.Cmd) (stdin io.WriteCloser, stdout io.ReadCloser, err error) {
	cmd.Stderr = os.Stderr
	if stdin, err = cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	if stdout, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, err
	}
	return stdin, stdout, cmd.Start()
}

func (s *demo) startAgent(ctx context.Context, self, ws string) (*child, error) {
	cmd := exec.CommandContext(ctx, self, "demo-agent", ws)
	stdin, stdout, err := spawn(cmd)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, stdin: stdin, said: make(chan string, 16)}
	go func() {
		defer close(c.said)
		dec := json.NewDecoder(stdout)
		for {
			var m struct{ Say, Text string }
			if dec.Decode(&m) != nil {
				return
			}
			if m.Text != "" {
				s.line(yellow, "agent writes", m.Text)
			}
			if m.Say != "" {
				c.said <- m.Say
			}
		}
	}()
	s.line(dim, "agent process", fmt.Sprintf("pid %d", cmd.Process.Pid))
	return c, nil
}

func (c *child) tell(word string) error {
	_, err := fmt.Fprintln(c.stdin, word)
	return err
}

func (c *child) until(ctx context.Context, word string) error {
	for {
		select {
		case w, ok := <-c.said:
			if !ok {
				return errors.New("the agent process ended early")
			}
			if w == word {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *child) stop() error {
	_ = c.stdin.Close() // tells the agent to end
	for range c.said {  // the pipe has to be read to its end before Wait
	}
	return c.cmd.Wait()
}

// editor is the server's process and the connection to it.
type editor struct {
	cmd    *exec.Cmd
	client *client
}

func (s *demo) startServer(ctx context.Context, self, dir, ws string) (*editor, error) {
	cmd := exec.CommandContext(ctx, self, "serve", "--stdio")
	// The demonstration shows its own session only, and leaves no marks.
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+filepath.Join(dir, "state"),
		"XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "CLAUDE_CONFIG_DIR="+filepath.Join(dir, "claude"))
	stdin, stdout, err := spawn(cmd)
	if err != nil {
		return nil, err
	}
	s.arrived = make(chan struct{}, 1)
	e := &editor{cmd: cmd, client: newClient(stdout, stdin, s.received)}
	var init struct {
		ServerInfo struct{ Name, Version string } `json:"serverInfo"`
	}
	err = e.client.call(ctx, "initialize", map[string]any{
		"processId":        os.Getpid(),
		"capabilities":     map[string]any{},
		"workspaceFolders": []any{map[string]any{"uri": fileURI(ws), "name": "workspace"}},
	}, &init)
	if err != nil {
		return nil, err
	}
	s.line(cyan, "initialize", init.ServerInfo.Name+" "+init.ServerInfo.Version)
	return e, e.client.tell("initialized", map[string]any{})
}

func (e *editor) stop(ctx context.Context) error {
	return errors.Join(e.client.close(ctx), e.cmd.Wait())
}

// updateText is what the demonstration shows of a session/update.
type updateText struct {
	Reset   string `json:"reset"`
	Entries []struct {
		Line    int
		Role    string
		Kind    string
		Content []struct {
			Type, Text, Name string
			Input            json.RawMessage
			Content          json.RawMessage
		}
	} `json:"entries"`
}

func (s *demo) received(method string, params []byte) {
	if method != "session/update" {
		return
	}
	var u updateText
	if err := json.Unmarshal(params, &u); err != nil {
		s.line(red, method, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.Reset != "" {
		s.resets++
		s.print(green, "session/update", "reset ("+u.Reset+"): the conversation is another one, read it again")
	}
	for _, e := range u.Entries {
		var parts []string
		for _, b := range e.Content {
			switch b.Type {
			case "text":
				parts = append(parts, b.Text)
				s.last = b.Text
			case "tool_use":
				parts = append(parts, fmt.Sprintf("calls %s %s", b.Name, b.Input))
			case "tool_result":
				parts = append(parts, fmt.Sprintf("result %s", b.Content))
			default:
				parts = append(parts, b.Type)
			}
		}
		who := e.Role
		if who == "" {
			who = e.Kind
		}
		s.print(green, "session/update", fmt.Sprintf("line %d %s: %s", e.Line, who, strings.Join(parts, " ")))
	}
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// settle waits until the editor has received an entry with this text.
func (s *demo) settle(ctx context.Context, text string) error {
	for {
		s.mu.Lock()
		have := s.last
		s.mu.Unlock()
		if have == text {
			return nil
		}
		select {
		case <-s.arrived:
		case <-ctx.Done():
			return fmt.Errorf("the editor did not receive the last entry: %w", ctx.Err())
		}
	}
}
