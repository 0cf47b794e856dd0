package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/agent-ls/agent-ls/session/journal"
)

type newCmd struct {
	jsonFlag
	Agent string `default:"pseudoclaude" help:"Agent in whose store the session is made."`
	CWD   string `name:"cwd" type:"path" placeholder:"DIR" help:"Working directory of the session (default: this directory)."`
	Model string `kong:"-"` // for record, which goes on in the same process
	Title string `help:"Title of the session."`
}

func (*newCmd) Help() string {
	return `The transcript appears with the first message.

Example:
  id=$(agent-ls new --title 'a plan')
  agent-ls append "$id" --text hello`
}

func (c *newCmd) Run(r *run) (err error) {
	cwd := cmp.Or(c.CWD, r.cwd)
	l, err := r.connect(nil, cwd)
	if err != nil {
		return err
	}
	defer func() { err = join(err, l.done(r.ctx)) }()
	raw, id, err := c.make(r, l, cwd)
	if err != nil {
		return err
	}
	if c.JSON {
		return r.printJSON(raw)
	}
	r.screenOf().printf("%s\n", id)
	return nil
}

func (c *newCmd) make(r *run, l *local, cwd string) (raw json.RawMessage, id string, err error) {
	p := map[string]any{"agent": c.Agent, "cwd": cwd}
	if c.Model != "" {
		p["model"] = c.Model
	}
	if c.Title != "" {
		p["title"] = c.Title
	}
	if err := l.call(r.ctx, "session/new", p, &raw); err != nil {
		return nil, "", err
	}
	var res struct {
		Session wireSession `json:"session"`
	}
	err = json.Unmarshal(raw, &res)
	return raw, res.Session.SessionID, err
}

type appendCmd struct {
	sessionArg
	jsonFlag
	Text   string `short:"t" xor:"what" help:"Text of the message."`
	Role   string `enum:"user,assistant,tool" default:"user" help:"Who speaks in --text: ${enum}."`
	File   string `short:"f" xor:"what" placeholder:"FILE" help:"Messages as JSON: one object or an array of them; - is stdin."`
	Model  string `help:"Model of the message."`
	Parent string `placeholder:"ENTRY" help:"Go on from an earlier entry instead of the last one."`
	Expect string `placeholder:"REVISION" help:"Refuse if the transcript is no longer at this revision."`
	Force  bool   `help:"Append although a live process owns the session."`
}

func (*appendCmd) Help() string {
	return `Returns when the messages are on disk, with their ids and places.

Examples:
  agent-ls append a1b2 --text "please add a test"
  echo '{"role":"assistant","content":"done"}' | agent-ls append a1b2 -f -`
}

func (c *appendCmd) Run(r *run) (err error) {
	messages, err := c.messages(r)
	if err != nil {
		return err
	}
	l, err := r.connect(nil, c.workspaces(r)...)
	if err != nil {
		return err
	}
	defer func() { err = join(err, l.done(r.ctx)) }()
	p := map[string]any{"sessionId": c.ID, "messages": messages}
	for name, v := range map[string]string{"parentId": c.Parent, "expectedRevision": c.Expect} {
		if v != "" {
			p[name] = v
		}
	}
	if c.Force {
		p["force"] = true
	}
	var raw json.RawMessage
	if err := l.call(r.ctx, "session/append", p, &raw); err != nil {
		return err
	}
	if c.JSON {
		return r.printJSON(raw)
	}
	var res appended
	if err := json.Unmarshal(raw, &res); err != nil {
		return err
	}
	for _, e := range res.Entries {
		r.screenOf().printf("%s  at byte %d, %d bytes\n", e.ID, e.Offset, e.Length)
	}
	return nil
}

type appended struct {
	Entries []struct {
		ID     string `json:"id"`
		Offset int64  `json:"offset"`
		Length int    `json:"length"`
	} `json:"entries"`
	Revision string `json:"revision"`
}

// messages gives the messages of the flags, as JSON.
func (c *appendCmd) messages(r *run) ([]json.RawMessage, error) {
	switch {
	case c.Text != "":
		m := map[string]string{"role": c.Role, "content": c.Text}
		if c.Model != "" {
			m["model"] = c.Model
		}
		b, err := json.Marshal(m)
		return []json.RawMessage{b}, err
	case c.File != "":
		in, err := r.input(c.File)
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(in)
		if err = errors.Join(err, in.Close()); err != nil {
			return nil, err
		}
		var many []json.RawMessage
		if json.Unmarshal(b, &many) == nil {
			return many, nil
		}
		if !json.Valid(b) {
			return nil, usagef("%s: want one JSON object, or an array of them (for one object a line see agent-ls record)", c.File)
		}
		return []json.RawMessage{b}, nil
	}
	return nil, usagef("give the message with --text or --file")
}

type recordCmd struct {
	ID    string `arg:"" optional:"" help:"Session to go on with (default: a new one)."`
	Agent string `default:"pseudoclaude" help:"Agent in whose store a new session is made."`
	CWD   string `name:"cwd" type:"path" placeholder:"DIR" help:"Working directory of the session (default: this directory)."`
	Model string `help:"Model of a new session."`
	JSON  bool   `help:"The acknowledgements are JSON in any case."`
	Batch bool   `help:"Collect messages for up to 100 ms and write them together; each is still acknowledged when it is on disk."`
}

func (*recordCmd) Help() string {
	return `Reads messages from stdin, one JSON object a line: {"role":"user","content":"..."}; content is a string or content blocks.
Each is acknowledged on stdout, in order, when it is on disk: {"sessionId","entryId","offset","length"}.
A line that is no message is answered with {"error"} and the next one is read; the exit code is then 1.
A line {"replace":"compact","messages":[...]} replaces the conversation, all or nothing.

Examples:
  my-agent --messages-as-json | agent-ls record --model my-model
  agent-ls record a1b2 < more.jsonl`
}

// maxRecordLine bounds a line of record: as much as a transcript line.
const maxRecordLine = 64 << 20

func (c *recordCmd) Run(r *run) (err error) {
	cwd := cmp.Or(c.CWD, r.cwd)
	l, err := r.connect(nil, cwd)
	if err != nil {
		return err
	}
	defer func() { err = join(err, l.done(r.ctx)) }()
	id := c.ID
	if id == "" {
		n := newCmd{Agent: c.Agent, Model: c.Model}
		if _, id, err = n.make(r, l, cwd); err != nil {
			return err
		}
	}
	release, err := l.hold(r, id)
	if err != nil {
		return err
	}
	defer func() { err = join(err, release()) }()
	failed := 0
	in := bufio.NewReaderSize(r.stdin, 64<<10)
	for n := 1; ; n++ {
		line, err := readLine(in)
		if len(line) > 0 {
			if ferr := c.record(r, l, id, line, n, &failed); ferr != nil {
				return ferr
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("stdin line %d: %w", n, err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s of stdin could not be recorded", plural(failed, "line"))
	}
	return nil
}

// readLine gives a line without its end.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > maxRecordLine {
			return nil, fmt.Errorf("longer than %d bytes", maxRecordLine)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
				line = line[:len(line)-1]
			}
			return line, err
		}
	}
}

// record appends one message and acknowledges it. Its error ends the command.
func (c *recordCmd) record(r *run, l *local, id string, line []byte, n int, failed *int) error {
	refuse := func(why string) error {
		*failed++
		return r.printJSON(map[string]any{"sessionId": id, "line": n, "error": why})
	}
	var probe struct {
		Replace  string            `json:"replace"`
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(line, &probe); err != nil {
		return refuse("not a JSON object")
	}
	method, p := "session/append", map[string]any{"sessionId": id, "messages": []json.RawMessage{line}}
	if c.Batch {
		p["durability"] = "batch"
	}
	if probe.Replace != "" {
		method, p = "session/replace", map[string]any{"sessionId": id, "reason": probe.Replace, "messages": probe.Messages}
	}
	var res appended
	err := l.call(r.ctx, method, p, &res)
	var rerr *rpcError
	if errors.As(err, &rerr) && rerr.Code == -32602 {
		return refuse(rerr.Message)
	}
	if err != nil {
		return err
	}
	for _, e := range res.Entries {
		ack := map[string]any{"sessionId": id, "entryId": e.ID, "offset": e.Offset, "length": e.Length}
		if err := r.printJSON(ack); err != nil {
			return err
		}
	}
	return nil
}

// hold keeps other writers away from a session while it is recorded. Who
// holds it already is named in the error.
func (l *local) hold(r *run, id string) (func() error, error) {
	row, err := l.catalog.Snapshot().Lookup(id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.ctx, journal.LockWait)
	defer cancel()
	return l.journal.Hold(ctx, row.Path)
}
