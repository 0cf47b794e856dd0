package main

import (
	"encoding/json"
	"fmt"
)

type watchCmd struct {
	filters
	jsonFlag
	ID   string `arg:"" optional:"" help:"Session to follow (default: the list of sessions)."`
	Last int    `short:"n" default:"10" help:"Begin with this many of the last entries of a session."`
}

func (*watchCmd) Help() string {
	return `Examples:
  agent-ls watch             sessions of this directory as they change
  agent-ls watch a1b2        new entries of one session, as they are written by any process
  agent-ls watch --json -a   one JSON-RPC notification a line`
}

func (c *watchCmd) Run(r *run) (err error) {
	events := make(chan message, 64)
	ws := c.workspaces(r)
	l, err := r.connect(func(method string, params []byte) {
		select {
		case events <- message{Method: method, Params: append(json.RawMessage(nil), params...)}:
		case <-r.ctx.Done():
		}
	}, ws...)
	if err != nil {
		return err
	}
	defer func() { err = join(err, l.done(r.ctx)) }()
	if c.ID != "" {
		err = c.follow(r, l)
	} else {
		err = l.call(r.ctx, "session/watch", c.params(r), nil)
	}
	if err != nil {
		return err
	}
	s := r.screenOf()
	for {
		select {
		case m := <-events:
			if c.JSON {
				err = r.printJSON(map[string]any{"method": m.Method, "params": m.Params})
			} else {
				err = s.event(m)
			}
			if err != nil {
				return err
			}
		case <-l.client.done:
			return l.client.err
		case <-r.ctx.Done():
			return nil // interrupted: that is how it ends
		}
	}
}

// follow subscribes behind the entry before the last few.
func (c *watchCmd) follow(r *run, l *local) error {
	var page struct {
		Entries []struct {
			ID string `json:"id"`
		} `json:"entries"`
		HasAfter bool `json:"hasAfter"`
	}
	p := map[string]any{"sessionId": c.ID, "view": "physical", "limit": 1000, "maxBlock": 1}
	var ids []string
	for {
		if err := l.call(r.ctx, "session/read", p, &page); err != nil {
			return err
		}
		for _, e := range page.Entries {
			ids = append(ids, e.ID)
		}
		if len(ids) > c.Last+1 {
			ids = ids[len(ids)-c.Last-1:]
		}
		if !page.HasAfter || len(page.Entries) == 0 {
			break
		}
		p["after"] = ids[len(ids)-1]
	}
	sub := map[string]any{"sessionId": c.ID}
	if len(ids) > c.Last {
		sub["after"] = ids[0]
	}
	return l.call(r.ctx, "session/subscribe", sub, nil)
}

// event prints a notification for people.
func (s *screen) event(m message) error {
	switch m.Method {
	case "session/update":
		var u struct {
			Entries []wireEntry `json:"entries"`
			Reset   string      `json:"reset"`
		}
		if err := json.Unmarshal(m.Params, &u); err != nil {
			return err
		}
		if u.Reset != "" {
			s.printf("\n%s\n", s.paint(yellow, "read again: "+visible(u.Reset, false)))
		}
		for _, e := range u.Entries {
			s.entry(e)
		}
	case "session/changed":
		var c struct {
			Added   []wireSession `json:"added"`
			Updated []wireSession `json:"updated"`
			Removed []string      `json:"removed"`
		}
		if err := json.Unmarshal(m.Params, &c); err != nil {
			return err
		}
		for _, w := range c.Added {
			s.changed(s.paint(green, "new    "), w)
		}
		for _, w := range c.Updated {
			s.changed(s.paint(cyan, "changed"), w)
		}
		for _, id := range c.Removed {
			s.printf("%s  %s\n", s.paint(red, "removed"), visible(id, false))
		}
	}
	return nil
}

func (s *screen) changed(word string, w wireSession) {
	line := fmt.Sprintf("%s  %s  %s messages  %s  %s", word, shortID(w), counts(w), w.Status, visible(w.Title, false))
	if s.width > 0 {
		line = cut(line, s.width+len(word)-7)
	}
	s.printf("%s\n", line)
}
