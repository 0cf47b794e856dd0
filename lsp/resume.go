package lsp

import (
	"context"
	"errors"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/lsp/rpc"
	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
)

func itoa(n int) string { return strconv.Itoa(n) }

// RemindAfter is how old the last message must be for a reminder.
const RemindAfter = 6 * time.Hour

func (s *Server) resume(ctx context.Context, p wire.ResumeParams) (any, error) {
	limit, err := maxBlock(p.MaxBlock)
	if err != nil {
		return nil, err
	}
	row, err := s.find(ctx, p.SessionID, "")
	if err != nil {
		return nil, err
	}
	// Whoever resumes wants to know who else is at work there.
	if row, err = s.fresh(ctx, row); err != nil {
		return nil, err
	}
	return whole(func() (any, error) { return s.resumeOnce(ctx, row, p, limit) })
}

func (s *Server) resumeOnce(ctx context.Context, row catalog.Row, p wire.ResumeParams, limit int) (_ any, err error) {
	o, err := s.o.Catalog.Load(ctx, row.ID, catalog.LoadOptions{Resume: p.Leaf == ""})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	r, err := resolve(o, p.Leaf)
	if err != nil {
		return nil, err
	}
	res := wire.ResumeResult{
		Session: s.wireLoaded(o, r), Report: report(o.Transcript, r, o.Cost, o.From), Revision: string(o.Revision),
	}
	if err := number(&res.Report, o); err != nil {
		return nil, err
	}
	sum, err := encodeMessages(ctx, session.NewPlan(o.Format, o.Source, o.Transcript, r), limit)
	if err != nil {
		return nil, err
	}
	res.Report.Spilled = sum.spilled
	res.Reminder = s.reminder(sum.last)
	res.Command = command(o)
	if row.WriterPID != 0 && row.WriterPID != s.o.PID {
		res.Writer = &wire.Writer{PID: row.WriterPID, Since: timeText(row.WriterSince)}
	}
	if _, change, err := s.o.Catalog.Annotate(ctx, row.ID, func(n catalog.Note) catalog.Note {
		n.Resumed = s.o.Clock.Now().UTC()
		return n
	}); err == nil {
		s.publish(ctx, change)
	} else if !isNotFound(err) {
		// The mark only keeps the session from being pruned.
		s.o.Log.Warn("resume was not noted", zap.Stringer("session", row.ID), zap.Error(err))
	}
	raw, err := withMessages(sum.json, res)
	if err != nil {
		return nil, err
	}
	if p.Subscribe != nil && !*p.Subscribe {
		return raw, nil
	}
	// What comes after these messages follows the answer.
	after := ""
	if n := o.Transcript.Len(); n > 0 {
		after = o.Transcript.Entries()[n-1].ID
	} else if o.From > 0 {
		after = strconv.FormatInt(o.From, 10)
	}
	return rpc.Reply{Result: raw, Key: row.ID.String(), After: func() {
		if _, err := s.follow(s.base, row, after, limit); err != nil && s.base.Err() == nil {
			s.o.Log.Sugar().Warnw("session cannot be followed", "session", row.ID.String(), "error", err)
		}
	}}, nil
}

// number sets the line numbers of a report right where the replay began
// behind the start of the file.
func number(r *wire.Report, o *catalog.Opened) error {
	if o.From == 0 || len(r.BadLines)+len(r.Findings) == 0 && r.TornTail == nil {
		return nil
	}
	before, err := o.LinesBefore()
	if err != nil {
		return err
	}
	for i := range r.BadLines {
		r.BadLines[i].Line += before
	}
	for i := range r.Findings {
		r.Findings[i].Line += before
	}
	if r.TornTail != nil {
		r.TornTail.Line += before
	}
	return nil
}

// reminder is for the caller to add in memory.
func (s *Server) reminder(last time.Time) *wire.Reminder {
	age := s.o.Clock.Now().Sub(last)
	if last.IsZero() || age <= RemindAfter {
		return nil
	}
	return &wire.Reminder{
		Text: "The last message of this conversation is " + ageText(age) +
			" old. Files and other state may have changed since; check them again before relying on what was said.",
		LastMessageAt: timeText(last),
	}
}

func ageText(d time.Duration) string {
	if d < 48*time.Hour {
		return itoa(int(d/time.Hour)) + " hours"
	}
	return itoa(int(d/(24*time.Hour))) + " days"
}

// command continues the session in its agent's own CLI.
func command(o *catalog.Opened) *wire.Command {
	f, ok := o.Format.(session.Resumer)
	if !ok {
		return nil
	}
	argv, cwd, env := f.Command(o.Row.Session)
	if len(argv) == 0 {
		return nil
	}
	return &wire.Command{Argv: argv, CWD: cwd, Env: env}
}
