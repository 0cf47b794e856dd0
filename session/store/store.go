// Package store is agent-ls as a library for Go agents: make a session,
// write every message durably, resume it later. It keeps sessions where and
// as PseudoClaude does, so that everything else here reads them.
//
// It joins a format, the journal and a conversation; it lists nothing (see
// session/catalog). Invariant: what Append or Replace has returned without an
// error is on disk. Go packages of this module carry no compatibility promise.
package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/conversation"
	"github.com/agent-ls/agent-ls/session/format"
	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/session/jsonl"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// Options are the same for all functions; the zero value is for production,
// but for Clock, which is needed.
type Options struct {
	Clock  session.Clock
	FS     vfs.FS    // nil: the system's
	Random io.Reader // nil: crypto/rand
	// SpillAbove is the size in bytes above which the text of a tool result is
	// moved out of the log into the session's tool-results directory. 0 means
	// DefaultSpill, a negative value never.
	SpillAbove int
	Limits     jsonl.Options
}

// DefaultSpill keeps lines small enough for readers with a line limit.
const DefaultSpill = 256 << 10

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.SpillAbove == 0 {
		o.SpillAbove = DefaultSpill
	}
	return o
}

// Context is where a session lies.
type Context struct {
	ID        string // YYYYMMDD-HHMMSS-xxxx
	Workspace string
	Dir       string // of the session
	JSONLPath string // of the transcript; made with the first message
	SpillDir  string // of spilled tool results

	o      Options
	format session.Format
}

// tries is how often a colliding id is made anew.
const tries = 10

// NewContext makes a session in workspace: its id and its directories at
// once, its transcript with the first message.
func NewContext(workspace string, o Options) (*Context, error) {
	o = o.withDefaults()
	f, root, err := find(workspace)
	if err != nil {
		return nil, err
	}
	creator, ok := f.(session.Creator)
	if !ok {
		return nil, errors.New("the format cannot make sessions")
	}
	if err := o.FS.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	for range tries {
		native, path, dirs, err := creator.Create(session.Root{Dir: root, FS: o.FS.DirFS(root)}, session.Session{CWD: workspace}, o.Clock, o.Random)
		if err == nil {
			err = makeDirs(o.FS, root, dirs)
		}
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return contextAt(f, workspace, native, filepath.Join(root, filepath.FromSlash(path)), o), nil
	}
	return nil, fmt.Errorf("no free session id in %q after %d tries", root, tries)
}

func makeDirs(fsys vfs.FS, root string, dirs []string) error {
	for _, d := range dirs {
		if err := fsys.Mkdir(filepath.Join(root, filepath.FromSlash(d)), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// OpenContext names the session id of workspace, which must exist. It makes nothing.
func OpenContext(workspace, id string, o Options) (*Context, error) {
	o = o.withDefaults()
	f, root, err := find(workspace)
	if err != nil {
		return nil, err
	}
	lazy, ok := f.(session.Lazy)
	if !ok {
		return nil, errors.New("the format has no session directories")
	}
	rel, ok := lazy.Expected(id)
	if !ok {
		return nil, &session.InvalidError{Field: "session id", Value: id, Why: "want YYYYMMDD-HHMMSS-xxxx"}
	}
	c := contextAt(f, workspace, id, filepath.Join(root, filepath.FromSlash(rel)), o)
	if _, err := o.FS.Stat(c.Dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &session.NotFoundError{What: "session", Name: id}
		}
		return nil, err
	}
	return c, nil
}

func contextAt(f session.Format, workspace, id, path string, o Options) *Context {
	dir := filepath.Dir(path)
	return &Context{
		ID: id, Workspace: workspace, Dir: dir, JSONLPath: path,
		SpillDir: filepath.Join(dir, format.PCToolResults), o: o, format: f,
	}
}

// find gives the format and the store directory of a workspace.
func find(workspace string) (session.Format, string, error) {
	if !filepath.IsAbs(workspace) {
		return nil, "", &session.InvalidError{Field: "workspace", Value: workspace, Why: "want an absolute path"}
	}
	for _, f := range format.All() {
		if f.Name() == "pseudoclaude" {
			return f, f.Roots(session.Env{Workspaces: []string{workspace}})[0], nil
		}
	}
	return nil, "", errors.New("the PseudoClaude format is not compiled in")
}

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
	tail  bool // the end of the log was looked at, and repaired
}

// OpenWriter opens the session for writing. model is recorded with the first
// message. A session that another writer holds gives session.ErrLocked when
// ctx ends, or after two seconds.
func OpenWriter(ctx context.Context, c *Context, model string) (*Writer, error) {
	return openWriter(ctx, c, model, nil)
}

func openWriter(ctx context.Context, c *Context, model string, messages []session.Message) (*Writer, error) {
	w := &Writer{c: c, journal: journal.New(c.o.FS, c.o.Clock), model: model}
	ctx, cancel := context.WithTimeout(ctx, journal.LockWait)
	defer cancel()
	release, err := w.journal.Hold(ctx, c.JSONLPath)
	if err != nil {
		return nil, err
	}
	w.release = release
	w.conv = conversation.NewFromMessages(messages, w.Hooks())
	return w, nil
}

// Conversation is the message sequence that this writer makes durable.
func (w *Writer) Conversation() *conversation.Conversation { return w.conv }

// Hooks makes a conversation of the caller's own durable.
func (w *Writer) Hooks() conversation.Hooks {
	return conversation.Hooks{OnAppend: w.Append, OnReplace: w.Replace}
}

// Append writes one message and syncs it.
func (w *Writer) Append(m session.Message) error {
	return w.write([]session.Message{m}, func(f session.Format, a session.Append) ([]byte, error) {
		app, ok := f.(session.Appender)
		if !ok {
			return nil, &session.UnsupportedError{Op: "append", Agent: f.Name(), Why: "the format cannot be written"}
		}
		return app.Encode(nil, a)
	})
}

// Replace writes that from here on the conversation is messages: all or
// nothing, also when the process or the machine dies meanwhile.
func (w *Writer) Replace(reason string, messages []session.Message) error {
	return w.write(messages, func(f session.Format, a session.Append) ([]byte, error) {
		r, ok := f.(session.Replacer)
		if !ok {
			return nil, &session.UnsupportedError{Op: "replace", Agent: f.Name(), Why: "the format cannot be replaced"}
		}
		return r.EncodeReplace(nil, reason, a)
	})
}

func (w *Writer) write(messages []session.Message, encode func(session.Format, session.Append) ([]byte, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	drafts, err := w.spill(messages)
	if err != nil {
		return err
	}
	a := session.Append{
		Session: session.Session{ID: session.ID{Agent: w.c.format.Name(), Native: w.c.ID}, Model: w.model, CWD: w.c.Workspace},
		Drafts:  drafts, Clock: w.c.o.Clock, Random: w.c.o.Random, FirstOfWriter: !w.wrote,
	}
	lines, err := encode(w.c.format, a)
	if err != nil {
		return err
	}
	if !w.tail { // once: nobody else writes while we hold the lock
		head, err := w.repair(a)
		if err != nil {
			return err
		}
		lines = append(head, lines...)
	}
	if _, err := w.journal.Append(context.Background(), w.c.JSONLPath, journal.Request{Lines: lines, Create: true}); err != nil {
		return err
	}
	w.wrote, w.tail = true, true
	return nil
}

// repair gives the lines that the log needs before the next append.
func (w *Writer) repair(a session.Append) ([]byte, error) {
	f, ok := w.c.format.(session.Repairer)
	if !ok {
		return nil, nil
	}
	l, err := w.c.load()
	if err != nil {
		return nil, err
	}
	defer l.close()
	a.Transcript, a.Drafts = l.transcript, nil
	if _, needed, err := f.Repair(nil, a); err != nil || !needed {
		return nil, err
	}
	if a.Drafts, err = l.messages(); err != nil {
		return nil, err
	}
	lines, _, err := f.Repair(nil, a)
	return lines, err
}

// Close lets go of the session. Idempotent.
func (w *Writer) Close() error { return errors.Join(w.release(), w.journal.Close()) }

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
		l.src = io.NewSectionReader(nil, 0, 0)
	case err != nil:
		return nil, err
	default:
		l.file = h
		info, err := h.Stat()
		if err != nil {
			return nil, errors.Join(err, h.Close())
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

// RemindAfter is how old the last message must be for a reminder.
const RemindAfter = 6 * time.Hour

// Resumed is a session that goes on.
type Resumed struct {
	Context  *Context
	Messages []session.Message // as a model API takes them; also in Writer.Conversation
	Writer   *Writer
	Report   Report
	// Reminder, if not empty, is for the model: the last message is old. It is
	// to be added in memory only and is never written to the log.
	Reminder string
}

// Report is what reading left out or repaired.
type Report struct {
	Problems []session.Problem
	Dangling *session.Dangling
	Cost     session.Cost
}

// Resume opens the session id of workspace: context, messages, writer and
// report in one call. Close the writer.
func Resume(ctx context.Context, workspace, id, model string, o Options) (*Resumed, error) {
	c, err := OpenContext(workspace, id, o)
	if err != nil {
		return nil, err
	}
	// The lock comes first, so that nobody writes between reading and writing.
	w, err := openWriter(ctx, c, model, nil)
	if err != nil {
		return nil, err
	}
	r, err := c.resume(w)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
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
