package main

import (
	"encoding/json"
	"strings"
	"time"
)

type listCmd struct {
	filters
	jsonFlag
	Query  string `arg:"" optional:"" help:"Words to look for in title, prompts, id, branch and tags."`
	Sort   string `enum:"updated,created,size,title" default:"updated" help:"Order: ${enum}."`
	Limit  int    `short:"n" default:"50" help:"Sessions on one page, 1 to 1000."`
	Cursor string `placeholder:"CURSOR" help:"Next page: nextCursor of the page before (see --json)."`
}

func (*listCmd) Help() string {
	return `Examples:
  agent-ls list                       sessions of this directory
  agent-ls list -a -n 10              the ten newest of all directories
  agent-ls list --scope repository    all worktrees of this repository
  agent-ls list login --sort size     those with "login" in them, largest first
  agent-ls list --json | jq -r '.sessions[].sessionId'`
}

// wireSession is what the command line shows of a session.
type wireSession struct {
	SessionID  string `json:"sessionId"`
	Agent      string `json:"agent"`
	NativeID   string `json:"nativeId"`
	CWD        string `json:"cwd"`
	CWDMissing bool   `json:"cwdMissing"`
	Title      string `json:"title"`
	Model      string `json:"model"`
	GitBranch  string `json:"gitBranch"`
	CreatedAt  string `json:"createdAt"`
	UpdatedAt  string `json:"updatedAt"`
	Status     string `json:"status"`
	Counts     *struct {
		Physical  int  `json:"physical"`
		Effective *int `json:"effective"`
	} `json:"counts"`
	Size     int64    `json:"size"`
	Tags     []string `json:"tags"`
	Archived bool     `json:"archived"`
	Revision string   `json:"revision"`
	Problems *int     `json:"problems"`
}

func (c *listCmd) Run(r *run) (err error) {
	l, err := r.connect(nil, c.workspaces(r)...)
	if err != nil {
		return err
	}
	defer func() { err = join(err, l.done(r.ctx)) }()
	p := c.params(r)
	p["query"], p["sort"], p["limit"] = c.Query, c.Sort, c.Limit
	if c.Cursor != "" {
		p["cursor"] = c.Cursor
	}
	var raw json.RawMessage
	if err := l.call(r.ctx, "session/list", p, &raw); err != nil {
		return err
	}
	if c.JSON {
		return r.printJSON(raw)
	}
	var res struct {
		Sessions   []wireSession `json:"sessions"`
		NextCursor string        `json:"nextCursor"`
		Total      int           `json:"total"`
	}
	if err := json.Unmarshal(raw, &res); err != nil {
		return err
	}
	r.table(res.Sessions)
	s := r.screenOf()
	switch {
	case res.Total == 0 && c.dir(r) != "":
		s.printf("no sessions in %s (try --scope subtree, or -a for all directories)\n", visible(c.dir(r), false))
	case res.Total == 0:
		s.printf("no sessions\n")
	case len(res.Sessions) < res.Total:
		s.printf("%s\n", s.paint(dim, plural(len(res.Sessions), "session")+" of "+itoa(res.Total)+"; more with -n or --cursor"))
	}
	return nil
}

// table prints sessions for people.
func (r *run) table(list []wireSession) {
	if len(list) == 0 {
		return
	}
	s := r.screenOf()
	now := systemClock{}.Now()
	rows := [][]string{{"ID", "AGE", "STATUS", "MESSAGES", "SIZE", "MODEL", "TITLE"}}
	for _, w := range list {
		at, _ := time.Parse(time.RFC3339, w.UpdatedAt) // unknown shows as "-"
		title := w.Title
		if title == "" {
			title = "(no title)"
		}
		rows = append(rows, []string{
			shortID(w), age(now, at), w.Status, counts(w), byteSize(w.Size), cut(visible(w.Model, false), 20), visible(title, false),
		})
	}
	s.columns(rows)
}

// shortID is enough to name a session: ids of 36 characters are cut to 8.
func shortID(w wireSession) string {
	if len(w.NativeID) == 36 && strings.Count(w.NativeID, "-") == 4 {
		return w.NativeID[:8]
	}
	return visible(w.NativeID, false)
}

// counts shows "effective/physical", or the one where they are equal.
func counts(w wireSession) string {
	switch {
	case w.Counts == nil:
		return "-"
	case w.Counts.Effective == nil || *w.Counts.Effective == w.Counts.Physical:
		return itoa(w.Counts.Physical)
	}
	return itoa(*w.Counts.Effective) + "/" + itoa(w.Counts.Physical)
}
