package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/conversation"
)

// RemindAfter is how old the last message must be for a reminder.
const RemindAfter = 6 * time.Hour

// Resumed is a session that goes on.
type Resumed struct {
	Context *Context
	// Messages are the effective conversation, as a model API takes it: every
	// tool call has its results, and nothing is made up. They are in
	// Writer.Conversation as well. Spilled results are stubs; see Context.Output.
	Messages []session.Message
	Writer   *Writer
	Report   Report
	// Reminder, if not empty, is for the model: the last message is old. It is
	// to be added in memory only and is never written to the log.
	Reminder string
}

// Report is what reading left out, cut back, or cost.
type Report struct {
	Physical  int // messages in the log
	Effective int // of them, those that count
	Problems  []session.Problem
	Dangling  *session.Dangling // calls without results, at which the conversation was cut
	Cost      session.Cost
	// NoteErr: it could not be noted in Options.StateDir that the session was
	// resumed. The session can go on.
	NoteErr error
}

// Resume opens the session id of workspace: context, messages, writer and
// report in one call. Close the writer. Nothing is written to the log before
// the first message. Errors are those of OpenContext and OpenWriter, and of the disk;
// damage is in the report.
func Resume(ctx context.Context, workspace, id, model string, o Options) (*Resumed, error) {
	c, err := OpenContext(workspace, id, o)
	if err != nil {
		return nil, err
	}
	// The lock comes first, so that nobody writes between reading and writing.
	w, err := OpenWriter(ctx, c, model)
	if err != nil {
		return nil, err
	}
	r, err := c.resume(w)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	r.Report.NoteErr = c.noteResumed(ctx)
	return r, nil
}

func (c *Context) resume(w *Writer) (*Resumed, error) {
	l, err := c.load()
	if err != nil {
		return nil, err
	}
	defer l.close()
	res := l.transcript.Current()
	out := &Resumed{Context: c, Writer: w, Report: Report{
		Problems: append(append([]session.Problem(nil), l.transcript.Problems()...), res.Problems...),
		Dangling: res.Dangling, Cost: l.cost,
	}}
	out.Report.Physical, out.Report.Effective = l.transcript.Counts()
	if out.Messages, err = l.messages(); err != nil {
		return nil, err
	}
	w.conv = conversation.NewFromMessages(out.Messages, w.Hooks())
	var last time.Time
	for _, m := range out.Messages {
		if m.Time.After(last) {
			last = m.Time
		}
	}
	if age := c.o.Clock.Now().Sub(last); !last.IsZero() && age > RemindAfter {
		out.Reminder = fmt.Sprintf("The last message of this conversation is from %s. Files and other state may have changed since; check them again before relying on what was said.", last.UTC().Format(time.RFC3339))
	}
	return out, nil
}

// loaded is a transcript and its file.
type loaded struct {
	c          *Context
	transcript *session.Transcript
	src        io.ReaderAt
	cost       session.Cost
	file       io.Closer
}

func (c *Context) load() (*loaded, error) {
	l := &loaded{c: c}
	h, err := c.o.FS.Open(c.JSONLPath)
	switch {
	case errors.Is(err, fs.ErrNotExist): // no message yet
		l.src = strings.NewReader("")
	case err != nil:
		return nil, err
	default:
		l.file = h
		info, err := h.Stat()
		if err != nil {
			l.close()
			return nil, err
		}
		l.src = io.NewSectionReader(h, 0, info.Size)
	}
	l.transcript, l.cost, err = session.Read(c.format, c.ID, l.src, session.ReadOptions{Options: c.o.Limits})
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *loaded) close() {
	if l.file != nil {
		_ = l.file.Close() // only read
	}
}

func (l *loaded) messages() ([]session.Message, error) {
	var out []session.Message
	for m, err := range session.Messages(l.c.format, l.src, l.transcript, l.transcript.Current()) {
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}
