package lsp

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/agent-ls/agent-ls/lsp/rpc"
	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
)

func itoa(n int) string { return strconv.Itoa(n) }

// RemindAfter is how old the last message must be for a reminder.
const RemindAfter = 6 * time.Hour

func (s *Server) resume(ctx context.Context, p wire.ResumeParams) (_ any, err error) {
	limit, err := maxBlock(p.MaxBlock)
	if err != nil {
		return nil, err
	}
	row, err := s.find(ctx, p.SessionID, "")
	if err != nil {
		return nil, err
	}
	o, err := s.o.Catalog.Load(ctx, row.ID, catalog.LoadOptions{Resume: p.Leaf == ""})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	r, err := o.Transcript.Resolve(p.Leaf)
	if err != nil {
		return nil, err
	}
	res := wire.ResumeResult{
		Session: s.wireLoaded(o, r), Report: report(o.Transcript, r, o.Cost, o.From), Revision: string(o.Revision),
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
		return nil, err
	}
	raw, err := withMessages(sum.json, res)
	if err != nil {
		return nil, err
	}
	if p.Subscribe != nil && !*p.Subscribe {
		return raw, nil
	}
	// What comes after these messages follows the answer.
	after := "0"
	if n := o.Transcript.Len(); n > 0 {
		e := o.Transcript.Entries()[n-1]
		after = e.ID
	}
	return rpc.Reply{Result: raw, Key: row.ID.String(), After: func() {
		if _, err := s.follow(s.base, row, after, limit); err != nil && s.base.Err() == nil {
			s.o.Log.Sugar().Warnw("session cannot be followed", "session", row.ID.String(), "error", err)
		}
	}}, nil
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
