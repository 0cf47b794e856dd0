package main

import (
	"encoding/json"
	"strings"
)

type resumeCmd struct {
	sessionArg
	jsonFlag
	Leaf    string `placeholder:"ENTRY" help:"Another branch: its last entry, or newest."`
	Command bool   `help:"Print only the command that continues the session, one argument a line."`
}

func (*resumeCmd) Help() string {
	return `Prints the conversation as its agent would load it: what a model API takes, every tool call with its results.
Nothing is made up; what was left out is reported.

Examples:
  agent-ls resume 20260828-142030-a1b2
  agent-ls resume a1b2 --json | jq '.messages'
  agent-ls resume a1b2 --command`
}

type wireMessage struct {
	Role      string      `json:"role"`
	Content   []wireBlock `json:"content"`
	Timestamp string      `json:"timestamp"`
}

func (c *resumeCmd) Run(r *run) (err error) {
	l, err := r.connect(nil, c.workspaces(r)...)
	if err != nil {
		return err
	}
	defer func() { err = join(err, l.done(r.ctx)) }()
	p := map[string]any{"sessionId": c.ID, "subscribe": false}
	if c.Leaf != "" {
		p["leaf"] = c.Leaf
	}
	var raw json.RawMessage
	if err := l.call(r.ctx, "session/resume", p, &raw); err != nil {
		return err
	}
	if c.JSON {
		return r.printJSON(raw)
	}
	var res struct {
		Session  wireSession   `json:"session"`
		Messages []wireMessage `json:"messages"`
		Report   wireReport    `json:"report"`
		Reminder *struct {
			Text string `json:"text"`
		} `json:"reminder"`
		Command *struct {
			Argv []string `json:"argv"`
			CWD  string   `json:"cwd"`
		} `json:"command"`
		Writer *struct {
			PID int `json:"pid"`
		} `json:"writer"`
	}
	if err := json.Unmarshal(raw, &res); err != nil {
		return err
	}
	s := r.screenOf()
	if c.Command {
		if res.Command == nil {
			return usagef("the agent of %s has no command to resume a session; use agent-ls append", c.ID)
		}
		for _, a := range res.Command.Argv {
			s.printf("%s\n", visible(a, false))
		}
		return nil
	}
	s.header(res.Session)
	s.report(res.Report)
	for _, m := range res.Messages {
		s.entry(wireEntry{Role: m.Role, Content: m.Content, Timestamp: m.Timestamp})
	}
	s.printf("\n")
	if res.Reminder != nil {
		s.printf("%s\n", s.paint(yellow, visible(res.Reminder.Text, false)))
	}
	if res.Writer != nil {
		s.printf("%s\n", s.paint(yellow, "process "+itoa(res.Writer.PID)+" holds the session"))
	}
	if cmd := res.Command; cmd != nil {
		s.printf("continue with: %s\n", s.paint(bold, shown(cmd.Argv)))
		if cmd.CWD != "" {
			s.printf("in directory:  %s\n", visible(cmd.CWD, false))
		}
	}
	return nil
}

// shown writes an argument vector so that a person can read where arguments
// begin and end. It is not meant to be run.
func shown(argv []string) string {
	var out []string
	for _, a := range argv {
		a = visible(a, false)
		if a == "" || strings.ContainsAny(a, " \t'\"\\$&|;<>()*?") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		out = append(out, a)
	}
	return strings.Join(out, " ")
}
