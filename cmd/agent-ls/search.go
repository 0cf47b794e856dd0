package main

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf16"
)

type searchCmd struct {
	filters
	jsonFlag
	Query         string   `arg:"" help:"Text to look for."`
	Regex         bool     `short:"e" help:"The query is a regular expression (RE2 syntax)."`
	CaseSensitive bool     `short:"s" help:"Case matters."`
	Role          []string `placeholder:"ROLE" help:"Only what this role said (user, assistant, system, tool); may be repeated."`
	Since         string   `placeholder:"TIME" help:"Only entries from this time on (2026-08-28T14:20:30Z)."`
	Until         string   `placeholder:"TIME" help:"Only entries up to this time."`
	Limit         int      `short:"n" default:"50" help:"Hits on one page, 1 to 1000."`
	Cursor        string   `placeholder:"CURSOR" help:"Next page: nextCursor of the page before (see --json)."`
}

func (*searchCmd) Help() string {
	return `Looks for text in what was said, in the arguments of tool calls and in their results.
Sessions with the latest activity come first.

Examples:
  agent-ls search "race condition"          in the sessions of this directory
  agent-ls search -a -e 'panic: .*nil'      in all sessions, by a regular expression
  agent-ls search deploy --role user -n 5
  agent-ls search deploy --json | jq -r '.hits[].session.sessionId' | uniq`
}

type wireHit struct {
	Session wireSession `json:"session"`
	Line    int         `json:"line"`
	Role    string      `json:"role"`
	Time    string      `json:"timestamp"`
	Snippet string      `json:"snippet"`
	Ranges  []struct {
		Start int `json:"start"`
		End   int `json:"end"`
	} `json:"ranges"`
}

func (c *searchCmd) Run(r *run) (err error) {
	l, err := r.connect(nil, c.workspaces(r)...)
	if err != nil {
		return err
	}
	defer func() { err = join(err, l.done(r.ctx)) }()
	p := c.params(r)
	p["query"], p["limit"], p["caseSensitive"] = c.Query, c.Limit, c.CaseSensitive
	if c.Regex {
		p["mode"] = "regex"
	}
	if len(c.Role) > 0 {
		p["roles"] = c.Role
	}
	for name, v := range map[string]string{"since": c.Since, "until": c.Until, "cursor": c.Cursor} {
		if v != "" {
			p[name] = v
		}
	}
	var raw json.RawMessage
	if err := l.call(r.ctx, "session/search", p, &raw); err != nil {
		return err
	}
	if c.JSON {
		return r.printJSON(raw)
	}
	var res struct {
		Hits       []wireHit `json:"hits"`
		NextCursor string    `json:"nextCursor"`
		Searched   struct {
			Sessions int   `json:"sessions"`
			Bytes    int64 `json:"bytes"`
			Failed   int   `json:"failed"`
		} `json:"searched"`
	}
	if err := json.Unmarshal(raw, &res); err != nil {
		return err
	}
	s := r.screenOf()
	last := ""
	for _, h := range res.Hits {
		if h.Session.SessionID != last {
			if last != "" {
				s.printf("\n")
			}
			last = h.Session.SessionID
			at, _ := time.Parse(time.RFC3339, h.Session.UpdatedAt) // unknown shows as "-"
			s.printf("%s  %s  %s\n", s.paint(bold, shortID(h.Session)), age(systemClock{}.Now(), at), visible(h.Session.Title, false))
		}
		s.printf("  %s %s: %s\n", s.paint(dim, "line "+itoa(h.Line)), h.Role, h.painted(s))
	}
	if len(res.Hits) > 0 {
		s.printf("\n")
	}
	text := plural(len(res.Hits), "hit") + " in " + plural(res.Searched.Sessions, "session") + ", " + byteSize(res.Searched.Bytes)
	if res.NextCursor != "" {
		text += "; more with -n or --cursor"
	}
	if n := res.Searched.Failed; n > 0 {
		text += "; " + plural(n, "session") + " could not be read"
	}
	s.printf("%s\n", s.paint(dim, text))
	return nil
}

// painted is the snippet with its matches marked.
func (h *wireHit) painted(s *screen) string {
	units := utf16.Encode([]rune(h.Snippet))
	var b strings.Builder
	at := 0
	part := func(end int) string {
		end = min(max(end, at), len(units))
		text := visible(string(utf16.Decode(units[at:end])), false)
		at = end
		return text
	}
	for _, r := range h.Ranges {
		b.WriteString(part(r.Start))
		b.WriteString(s.paint(yellow, part(r.End)))
	}
	b.WriteString(part(len(units)))
	return b.String()
}
