package lsp

import (
	"errors"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

const timeLayout = "2006-01-02T15:04:05.000Z"

// timeText is RFC 3339 in UTC with milliseconds; "" for the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

func parseTime(field, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, &session.InvalidError{Field: field, Value: s, Why: "want RFC 3339, such as 2026-08-28T14:20:30.000Z"}
	}
	return t, nil
}

// uriOf is the file: URI of an absolute path.
func uriOf(path string) string {
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") { // a drive
		p = "/" + p
	}
	return (&url.URL{Scheme: "file", Path: p}).String()
}

// pathOf is the inverse of uriOf; editors write drives in several ways.
func pathOf(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return "", errors.New("not a URI")
	}
	if u.Scheme != "file" {
		return "", errors.New("want a file: URI")
	}
	p := u.Path
	if runtime.GOOS == "windows" && len(p) >= 3 && p[0] == '/' && p[2] == ':' {
		p = strings.ToUpper(p[1:2]) + p[2:]
	}
	p = filepath.FromSlash(p)
	if !filepath.IsAbs(p) {
		return "", errors.New("want an absolute path")
	}
	return filepath.Clean(p), nil
}

// wireSession makes the message of a row; pid is this process.
func wireSession(r catalog.Row, f session.Format, pid int) wire.Session {
	s := wire.Session{
		SessionID: r.ID.String(), Agent: r.Agent, NativeID: r.Native, URI: uriOf(r.Path),
		CWD: r.CWD, CWDMissing: r.CWDMissing,
		Title: r.Title, TitleSource: r.TitleSource.String(),
		FirstPrompt: r.FirstPrompt, LastPrompt: r.LastPrompt, Model: r.Model, GitBranch: r.GitBranch,
		CreatedAt: timeText(r.CreatedAt), UpdatedAt: timeText(r.UpdatedAt),
		Status: r.Status.String(), Size: r.Size, Kind: r.Kind.String(),
		ParentToolUseID: r.ParentTool, Archived: r.Archived, Unread: r.Unread,
		Programmatic: r.Programmatic, Empty: r.Empty, Revision: string(r.Revision),
	}
	if r.Physical != session.UnknownCount {
		s.Counts = &wire.Counts{Physical: r.Physical}
		if r.Effective != session.UnknownCount {
			s.Counts.Effective = &r.Effective
		}
	}
	if r.Problems != session.UnknownCount {
		s.Problems = &r.Problems
	}
	if !r.Parent.IsZero() {
		s.ParentSessionID = r.Parent.String()
	}
	if r.Tag != "" {
		s.Tags = append(s.Tags, r.Tag)
	}
	s.Tags = append(s.Tags, r.Note.Tags...)
	s.Can, s.WhyNot = abilities(r, f, pid)
	return s
}

// abilities tells what can be done with a session, and why not.
func abilities(r catalog.Row, f session.Format, pid int) (wire.Can, map[string]string) {
	no := map[string]string{}
	can := wire.Can{Append: true, Fork: true, Rename: true, Delete: true, Resume: true}
	held := r.WriterPID != 0 && r.WriterPID != pid
	if _, ok := f.(session.Appender); !ok {
		can.Append, no["append"] = false, "agent-ls does not write the sessions of this agent"
	} else if held {
		can.Append, no["append"] = false, "another process holds the session"
	}
	if _, ok := f.(session.Forker); !ok {
		can.Fork, no["fork"] = false, "sessions of this agent cannot be forked"
	}
	if held {
		can.Delete, no["delete"] = false, "another process holds the session"
	}
	if r.Empty {
		can.Resume, no["resume"] = false, "the session has no messages"
	}
	if len(no) == 0 {
		no = nil
	}
	return can, no
}

// blocks makes content blocks, none with more than limit bytes of text.
func blocks(in []session.Block, limit int) []wire.Block {
	out := make([]wire.Block, 0, len(in))
	for _, b := range in {
		out = append(out, block(b, limit))
	}
	return out
}

func block(b session.Block, limit int) wire.Block {
	switch b := b.(type) {
	case session.Text:
		w := wire.Block{Type: "text"}
		w.Text, w.Cut = cutText(b.Text, limit)
		return w
	case session.Quoted:
		s := string(jsonl.AppendString(nil, b.JSON))
		if b.Thinking {
			return block(session.Thinking{Text: s}, limit)
		}
		return block(session.Text{Text: s}, limit)
	case session.Thinking:
		w := wire.Block{Type: "thinking"}
		w.Text, w.Cut = cutText(b.Text, limit)
		return w
	case session.ToolUse:
		w := wire.Block{Type: "tool_use", ID: b.ID, Name: b.Name, Kind: b.Kind.String()}
		for _, l := range b.Locations {
			w.Locations = append(w.Locations, wire.Location{Path: l.Path, Line: l.Line})
		}
		w.Input, w.Cut = cutInput(b.Input, limit)
		return w
	case session.ToolResult:
		w := wire.Block{Type: "tool_result", ToolUseID: b.UseID, Name: b.Name, IsError: b.IsError, Spilled: b.Spilled}
		w.Content = blocks(b.Content, limit)
		return w
	case session.Image:
		w := wire.Block{Type: "image", MIMEType: b.MIMEType, URI: b.URI}
		w.Data, w.Cut = cutText(b.Data, limit)
		return w
	case session.Unknown:
		if b.Hidden { // encrypted reasoning is not for people
			return wire.Block{Type: "unknown", Cut: &wire.Cut{Bytes: len(b.Raw)}}
		}
		w := wire.Block{Type: "unknown"}
		w.Raw, w.Cut = cutText(string(b.Raw), limit)
		return w
	}
	return wire.Block{Type: "unknown"}
}

// cutText shortens a text at a character boundary.
func cutText(s string, limit int) (string, *wire.Cut) {
	if len(s) <= limit {
		return s, nil
	}
	n := limit
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n], &wire.Cut{Bytes: len(s)}
}

// cutInput gives the arguments of a call as JSON; where they are too long, the
// start of their text as a JSON string.
func cutInput(raw []byte, limit int) (jsontext.Value, *wire.Cut) {
	if len(raw) == 0 {
		return nil, nil
	}
	if len(raw) <= limit {
		return jsontext.Value(raw), nil
	}
	text, cut := cutText(string(raw), limit)
	quoted, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
	if err != nil {
		return nil, cut
	}
	return jsontext.Value(quoted), cut
}

func usage(u *session.Usage) *wire.Usage {
	if u == nil {
		return nil
	}
	known := func(n int64) *int64 {
		if n < 0 {
			return nil
		}
		return &n
	}
	w := &wire.Usage{Input: known(u.Input), Output: known(u.Output), CacheRead: known(u.CacheRead), CacheWrite: known(u.CacheWrite)}
	if u.Cost >= 0 && u.Cost != 0 {
		w.Cost = &u.Cost
	}
	return w
}

// envelope makes an entry without its content.
func envelope(e *session.Entry, why session.Reason) wire.Entry {
	return wire.Entry{
		ID: e.ID, ParentID: e.Parent, Line: e.Pos.Line, Offset: e.Pos.Offset, Length: e.Pos.Length,
		Timestamp: timeText(e.Time), Role: e.Role.String(), Kind: e.Kind.String(), Type: e.Type,
		Sidechain: e.Sidechain, Effective: why == session.Effective, Excluded: why.String(),
	}
}

func badLine(p session.Problem) wire.BadLine {
	return wire.BadLine{Line: p.Pos.Line, Offset: p.Pos.Offset, Length: p.Pos.Length, Reason: p.Text}
}

func finding(p session.Problem) wire.Finding {
	f := wire.Finding{
		Code: string(p.Code), Severity: p.Severity.String(), Line: p.Pos.Line,
		Offset: p.Pos.Offset, Length: p.Pos.Length, EntryID: p.EntryID, Message: p.Text,
	}
	switch p.Code {
	case session.TornTail:
		f.Action = actionClose
	case session.PartialReplace:
		f.Action = actionReplace
	}
	return f
}

// report makes the report of a read.
func report(t *session.Transcript, r *session.Resolution, cost session.Cost, from int64) wire.Report {
	out := wire.Report{
		BadLines: []wire.BadLine{}, MissingParent: r.Report.MissingParents, Cycle: r.Report.Cycle,
		DuplicateIDs: r.Report.DuplicateIDs, CopiedFromParent: r.Report.Copied,
		Cost: &wire.Cost{Bytes: cost.Bytes, Lines: cost.Lines, LongestLine: cost.LongestLine, Skipped: cost.Skipped, From: from},
	}
	if d := r.Dangling; d != nil {
		out.Dangling = &wire.Dangling{EntryID: d.EntryID, ToolUseIDs: d.ToolUseIDs, Dropped: d.Dropped}
	}
	for _, p := range t.Problems() {
		switch p.Code {
		case session.BadJSON, session.TooLongLine:
			out.BadLines = append(out.BadLines, badLine(p))
		case session.TornTail:
			b := badLine(p)
			out.TornTail = &b
		default:
			if p.Severity > session.Hint {
				out.Findings = append(out.Findings, finding(p))
			}
		}
	}
	for _, p := range r.Problems {
		out.Findings = append(out.Findings, finding(p))
	}
	return out
}
