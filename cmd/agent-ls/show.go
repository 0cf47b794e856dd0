package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

type showCmd struct {
	sessionArg
	jsonFlag
	View     string `enum:"effective,physical" default:"effective" help:"The conversation as it counts, or every line of the log: ${enum}."`
	Leaf     string `placeholder:"ENTRY" help:"Another branch: its last entry, or newest."`
	After    string `placeholder:"ENTRY" help:"Begin behind this entry."`
	Limit    int    `short:"n" placeholder:"N" help:"At most this many entries (default: all)."`
	MaxBlock int    `default:"4000" placeholder:"BYTES" help:"Cut longer texts (with --json: 262144 unless given)."`
	Raw      bool   `help:"Print the lines of the log as they are, control characters made visible."`
}

func (*showCmd) Help() string {
	return `Examples:
  agent-ls show 20260828-142030-a1b2
  agent-ls show a1b2c3d4 --view physical    with the lines that no longer count, and why
  agent-ls show a1b2c3d4 --json | jq -r '.entries[].content[]?.text // empty'`
}

type wireBlock struct {
	Type     string               `json:"type"`
	Text     string               `json:"text"`
	Name     string               `json:"name"`
	Input    json.RawMessage      `json:"input"`
	Content  []wireBlock          `json:"content"`
	IsError  bool                 `json:"isError"`
	Spilled  string               `json:"spilled"`
	MIMEType string               `json:"mimeType"`
	Cut      *struct{ Bytes int } `json:"cut"`
}

type wireEntry struct {
	ID        string      `json:"id"`
	Line      int         `json:"line"`
	Offset    int64       `json:"offset"`
	Timestamp string      `json:"timestamp"`
	Role      string      `json:"role"`
	Kind      string      `json:"kind"`
	Type      string      `json:"type"`
	Content   []wireBlock `json:"content"`
	Effective bool        `json:"effective"`
	Excluded  string      `json:"excluded"`
	Raw       string      `json:"raw"`
}

// readPage is how many entries are asked for at a time.
const readPage = 200

func (c *showCmd) Run(r *run) (err error) {
	l, err := r.connect(nil, c.workspaces(r)...)
	if err != nil {
		return err
	}
	defer func() { err = join(err, l.done(r.ctx)) }()
	p := map[string]any{"sessionId": c.ID, "view": c.View, "raw": c.Raw}
	if c.Leaf != "" {
		p["leaf"] = c.Leaf
	}
	if !c.JSON {
		p["maxBlock"] = c.MaxBlock
	}
	if c.JSON {
		return c.json(r, l, p)
	}
	s := r.screenOf()
	first := true
	err = c.pages(r, l, p, func(raw json.RawMessage) error {
		var page struct {
			Session wireSession `json:"session"`
			Entries []wireEntry `json:"entries"`
			Report  wireReport  `json:"report"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return err
		}
		if first {
			first = false
			s.header(page.Session)
			s.report(page.Report)
		}
		for _, e := range page.Entries {
			s.entry(e)
		}
		return nil
	})
	return err
}

// json prints one answer: all pages joined.
func (c *showCmd) json(r *run, l *local, p map[string]any) error {
	var whole map[string]json.RawMessage
	var entries []json.RawMessage
	err := c.pages(r, l, p, func(raw json.RawMessage) error {
		var page struct {
			Entries []json.RawMessage `json:"entries"`
		}
		if whole == nil {
			if err := json.Unmarshal(raw, &whole); err != nil {
				return err
			}
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return err
		}
		entries = append(entries, page.Entries...)
		var last map[string]json.RawMessage
		if err := json.Unmarshal(raw, &last); err != nil {
			return err
		}
		whole["hasAfter"] = last["hasAfter"]
		return nil
	})
	if err != nil {
		return err
	}
	joined, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	if entries == nil {
		joined = []byte("[]")
	}
	whole["entries"] = joined
	return r.printJSON(whole)
}

// pages asks for page after page until all, or Limit entries, were given.
func (c *showCmd) pages(r *run, l *local, p map[string]any, each func(json.RawMessage) error) error {
	after, left := c.After, c.Limit
	for {
		n := readPage
		if c.Limit > 0 {
			n = min(n, left)
		}
		p["limit"] = n
		if after != "" {
			p["after"] = after
		}
		var raw json.RawMessage
		if err := l.call(r.ctx, "session/read", p, &raw); err != nil {
			return err
		}
		if err := each(raw); err != nil {
			return err
		}
		var page struct {
			Entries  []struct{ ID string } `json:"entries"`
			HasAfter bool                  `json:"hasAfter"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return err
		}
		left -= len(page.Entries)
		if !page.HasAfter || len(page.Entries) == 0 || c.Limit > 0 && left <= 0 {
			return nil
		}
		after = page.Entries[len(page.Entries)-1].ID
	}
}

// wireReport is what the command line shows of a report.
type wireReport struct {
	BadLines []struct {
		Line   int    `json:"line"`
		Offset int64  `json:"offset"`
		Length int    `json:"length"`
		Reason string `json:"reason"`
	} `json:"badLines"`
	TornTail *struct {
		Line   int    `json:"line"`
		Reason string `json:"reason"`
	} `json:"tornTail"`
	Dangling *struct {
		EntryID    string   `json:"entryId"`
		ToolUseIDs []string `json:"toolUseIds"`
		Dropped    int      `json:"dropped"`
	} `json:"dangling"`
	Findings []struct {
		Code    string `json:"code"`
		Line    int    `json:"line"`
		Message string `json:"message"`
	} `json:"findings"`
	Cost *struct {
		Bytes       int64 `json:"bytes"`
		Lines       int   `json:"lines"`
		LongestLine int64 `json:"longestLine"`
		Skipped     int64 `json:"skipped"`
	} `json:"cost"`
}

// costlyLine is how long a line must be for its cost to be told.
const costlyLine = 8 << 20

func (s *screen) header(w wireSession) {
	title := w.Title
	if title == "" {
		title = "(no title)"
	}
	s.printf("%s\n", s.paint(bold, visible(title, false)))
	s.printf("%s\n", s.paint(dim, strings.Join(nonEmpty(
		w.SessionID, visible(w.CWD, false), visible(w.Model, false), visible(w.GitBranch, false), w.Status,
		counts(w)+" messages", byteSize(w.Size),
	), " · ")))
}

func nonEmpty(list ...string) []string {
	var out []string
	for _, s := range list {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// report says what was damaged or repaired.
func (s *screen) report(r wireReport) {
	say := func(format string, args ...any) {
		s.printf("%s\n", s.paint(yellow, "! "+visible(fmt.Sprintf(format, args...), false)))
	}
	for _, b := range r.BadLines {
		say("line %d (byte %d, %d bytes): %s", b.Line, b.Offset, b.Length, b.Reason)
	}
	if r.TornTail != nil {
		say("line %d: %s", r.TornTail.Line, r.TornTail.Reason)
	}
	if d := r.Dangling; d != nil {
		say("tool calls without results in entry %s: %s left out", d.EntryID, plural(d.Dropped, "entry"))
	}
	for _, f := range r.Findings {
		say("line %d: %s (%s)", f.Line, f.Message, f.Code)
	}
	if c := r.Cost; c != nil && c.LongestLine >= costlyLine {
		say("read %s in %s; the longest line has %s, %s were not decoded", byteSize(c.Bytes), plural(c.Lines, "line"), byteSize(c.LongestLine), byteSize(c.Skipped))
	}
}

func (s *screen) entry(e wireEntry) {
	st, who := cyan, e.Role
	switch {
	case who == "user":
		st = green
	case who == "tool":
		st = blue
	case who == "":
		st, who = dim, e.Kind
		if e.Type != "" && e.Type != e.Kind {
			who += " " + visible(e.Type, false)
		}
	}
	head := s.paint(st, who) + s.paint(dim, fmt.Sprintf("  line %d", e.Line))
	if t, err := time.Parse(time.RFC3339, e.Timestamp); err == nil {
		head += s.paint(dim, "  "+t.Local().Format("2006-01-02 15:04:05"))
	}
	if e.Excluded != "" {
		head += s.paint(yellow, "  does not count: "+e.Excluded)
	}
	s.printf("\n%s\n", head)
	if e.Raw != "" {
		s.printf("%s\n", visible(e.Raw, false))
		return
	}
	for _, b := range e.Content {
		s.block(b, "")
	}
}

func (s *screen) block(b wireBlock, indent string) {
	put := func(text string) {
		for line := range strings.Lines(visible(text, true)) {
			s.printf("%s%s\n", indent, strings.TrimRight(line, "\n"))
		}
	}
	switch b.Type {
	case "text":
		put(b.Text)
	case "thinking":
		put("(thinking) " + b.Text)
	case "tool_use":
		put("→ " + b.Name + " " + string(b.Input))
	case "tool_result":
		mark := "← "
		if b.IsError {
			mark = "← error: "
		}
		if b.Spilled != "" {
			mark += "(whole output in " + visible(b.Spilled, false) + ") "
		}
		s.printf("%s%s\n", indent, mark)
		for _, c := range b.Content {
			s.block(c, indent+"  ")
		}
	case "image":
		put("(image " + b.MIMEType + ")")
	default:
		put("(" + b.Type + ")")
	}
	if b.Cut != nil {
		s.printf("%s%s\n", indent, s.paint(dim, fmt.Sprintf("… %s in all", byteSize(int64(b.Cut.Bytes)))))
	}
}
