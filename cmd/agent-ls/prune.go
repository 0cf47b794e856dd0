package main

import "encoding/json"

type pruneCmd struct {
	jsonFlag
	OlderThan float64  `default:"30" placeholder:"DAYS" help:"Sessions older than this many days (default: 30)."`
	Basis     string   `enum:"activity,created" default:"activity" help:"Age by last activity or by creation: ${enum}."`
	CWD       string   `name:"cwd" type:"path" placeholder:"DIR" help:"Directory of the sessions (default: this one)."`
	All       bool     `short:"a" help:"Sessions of all directories."`
	Agent     []string `placeholder:"AGENT" help:"Only sessions of this agent; may be repeated."`
	Yes       bool     `short:"y" help:"Remove them (to the trash), instead of saying what would be removed."`
}

func (*pruneCmd) Help() string {
	return `Running sessions, sessions that a writer holds, and those read or resumed lately are kept, and named.

Examples:
  agent-ls prune                    what is older than 30 days here
  agent-ls prune -a --older-than 90 --yes`
}

func (c *pruneCmd) Run(r *run) (err error) {
	f := filters{CWD: c.CWD, All: c.All}
	l, err := r.connect(nil, f.workspaces(r)...)
	if err != nil {
		return err
	}
	defer func() { err = join(err, l.done(r.ctx)) }()
	p := map[string]any{"olderThanDays": c.OlderThan, "basis": c.Basis, "dryRun": !c.Yes}
	if dir := f.dir(r); dir != "" {
		p["cwd"] = dir
	}
	if len(c.Agent) > 0 {
		p["agents"] = c.Agent
	}
	var raw json.RawMessage
	if err := l.call(r.ctx, "session/prune", p, &raw); err != nil {
		return err
	}
	if c.JSON {
		return r.printJSON(raw)
	}
	var res struct {
		Sessions []wireSession `json:"sessions"`
		Bytes    int64         `json:"bytes"`
		Kept     []struct {
			SessionID string `json:"sessionId"`
			Why       string `json:"why"`
		} `json:"kept"`
	}
	if err := json.Unmarshal(raw, &res); err != nil {
		return err
	}
	s := r.screenOf()
	r.table(res.Sessions)
	for _, k := range res.Kept {
		s.printf("%s  kept: %s\n", visible(k.SessionID, false), visible(k.Why, false))
	}
	verb := "would be removed; --yes removes them"
	if c.Yes {
		verb = "moved to the trash"
	}
	s.printf("%s, %s, %s\n", plural(len(res.Sessions), "session"), byteSize(res.Bytes), verb)
	return nil
}
