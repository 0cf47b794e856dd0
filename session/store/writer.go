package store

import (
	"context"
	"errors"
	"sync"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/conversation"
	"github.com/agent-ls/agent-ls/session/journal"
)

// Writer appends to one session and keeps other writers away from it. It is
// safe for concurrent use.
type Writer struct {
	c       *Context
	journal *journal.Journal
	release func() error
	model   string
	conv    *conversation.Conversation

	mu    sync.Mutex // guards what follows; writes are in its order
	wrote bool
	sound bool // the end of the log is as this writer left it
}

// OpenWriter opens the session for writing; Close it. model is recorded with
// the first message. A session that another writer holds gives
// *session.LockedError (session.ErrLocked), which names its process, when ctx
// ends, or after journal.LockWait.
func OpenWriter(ctx context.Context, c *Context, model string) (*Writer, error) {
	w := &Writer{c: c, journal: journal.New(c.o.FS, c.o.Clock), model: model}
	ctx, cancel := context.WithTimeout(ctx, journal.LockWait)
	defer cancel()
	release, err := w.journal.Hold(ctx, c.JSONLPath)
	if err != nil {
		return nil, err
	}
	w.release = release
	w.conv = conversation.New(w.Hooks())
	return w, nil
}

// Conversation is the message sequence that this writer makes durable: empty
// after OpenWriter, that of the session after Resume.
func (w *Writer) Conversation() *conversation.Conversation { return w.conv }

// Hooks makes a conversation of the caller's own durable.
func (w *Writer) Hooks() conversation.Hooks {
	return conversation.Hooks{OnAppend: w.Append, OnReplace: w.Replace}
}

// Append writes one message and syncs it. After an error it is not part of
// the log, but for a *journal.StorageError with Unknown set: then nobody can
// say, and the writer takes no more. Errors: *session.InvalidError for what
// the store cannot hold (images, JSON that is none), *journal.StorageError,
// journal.ErrClosed.
func (w *Writer) Append(m session.Message) error {
	return w.write([]session.Message{m}, func(a session.Append) ([]byte, error) {
		return w.c.format.Encode(nil, a)
	})
}

// Replace writes that from here on the conversation is messages, for a reason
// such as "compact": all or nothing, also when the process or the machine
// dies meanwhile. Errors are those of Append.
func (w *Writer) Replace(reason string, messages []session.Message) error {
	return w.write(messages, func(a session.Append) ([]byte, error) {
		return w.c.format.EncodeReplace(nil, reason, a)
	})
}

func (w *Writer) write(messages []session.Message, encode func(session.Append) ([]byte, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	drafts, err := w.spill(messages)
	if err != nil {
		return err
	}
	a := session.Append{
		Session: session.Session{ID: session.ID{Agent: agent, Native: w.c.ID}, Model: w.model, CWD: w.c.Workspace},
		Clock:   w.c.o.Clock, Random: w.c.o.Random, FirstOfWriter: !w.wrote,
	}
	var head []byte
	if !w.sound { // once: nobody else writes while we hold the lock
		if head, err = w.repair(a); err != nil {
			return err
		}
		a.FirstOfWriter = a.FirstOfWriter && len(head) == 0
	}
	a.Drafts = drafts
	lines, err := encode(a)
	if err != nil {
		return err
	}
	w.sound = false // a write that fails may leave a part
	_, err = w.journal.Append(context.Background(), w.c.JSONLPath, journal.Request{Lines: append(head, lines...), Create: true})
	if err != nil {
		return err
	}
	w.wrote, w.sound = true, true
	return nil
}

// repair gives the lines that the log needs before the next append, so that
// PseudoClaude's own reader sees in it what ours does.
func (w *Writer) repair(a session.Append) ([]byte, error) {
	l, err := w.c.load()
	if err != nil {
		return nil, err
	}
	defer l.close()
	a.Transcript = l.transcript
	if _, needed, err := w.c.format.Repair(nil, a); err != nil || !needed {
		return nil, err
	}
	if a.Drafts, err = l.messages(); err != nil {
		return nil, err
	}
	lines, _, err := w.c.format.Repair(nil, a)
	return lines, err
}

// Close lets go of the session. It is idempotent.
func (w *Writer) Close() error { return errors.Join(w.release(), w.journal.Close()) }
