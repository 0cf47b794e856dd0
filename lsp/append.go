package lsp

import (
	"bytes"
	"context"
	"errors"
	"io/fs"

	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/lsp/rpc"
	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// staleTries is how often an append without an expected revision is encoded
// anew because the transcript has grown meanwhile.
const staleTries = 20

func (s *Server) append(ctx context.Context, p wire.AppendParams) (any, error) {
	d, ok := map[string]journal.Durability{"": journal.Sync, "sync": journal.Sync, "batch": journal.Batch}[p.Durability]
	if !ok {
		return nil, &session.InvalidError{Field: "durability", Value: p.Durability, Why: "want sync or batch"}
	}
	drafts, err := draftsOf(p.Messages)
	if err != nil {
		return nil, err
	}
	row, err := s.writable(ctx, p.SessionID, p.Force)
	if err != nil {
		return nil, err
	}
	return s.write(ctx, row, write{
		drafts: drafts, parent: p.ParentID, expect: session.Revision(p.ExpectedRevision), durability: d,
		encode: func(f session.Appender, a session.Append) ([]byte, error) { return f.Encode(nil, a) },
	})
}

func (s *Server) replace(ctx context.Context, p wire.ReplaceParams) (any, error) {
	drafts, err := draftsOf(p.Messages)
	if err != nil {
		return nil, err
	}
	row, err := s.writable(ctx, p.SessionID, p.Force)
	if err != nil {
		return nil, err
	}
	return s.write(ctx, row, write{
		drafts: drafts, expect: session.Revision(p.ExpectedRevision), replace: true,
		encode: func(f session.Appender, a session.Append) ([]byte, error) {
			r, ok := f.(session.Replacer)
			if !ok {
				return nil, &session.UnsupportedError{
					Op: "replace", Agent: f.Name(), Why: "its log is a tree, in which nothing is replaced",
					Instead: "append with the parentId from which to go on",
				}
			}
			return r.EncodeReplace(nil, p.Reason, a)
		},
	})
}

// writable finds a session that can be written to.
func (s *Server) writable(ctx context.Context, name string, force bool) (catalog.Row, error) {
	row, err := s.find(ctx, name, "")
	if err != nil {
		return row, err
	}
	if _, ok := s.formatOf(row.ID).(session.Appender); !ok {
		return row, &session.UnsupportedError{Op: "append", Agent: row.Agent, Why: "agent-ls does not write the sessions of this agent"}
	}
	if row.WriterPID != 0 && row.WriterPID != s.o.PID && !force {
		return row, &session.LockedError{Path: row.Path, PID: row.WriterPID, Since: row.WriterSince}
	}
	return row, nil
}

// write is one append or replace.
type write struct {
	drafts     []session.Draft
	parent     string
	expect     session.Revision
	durability journal.Durability
	replace    bool
	encode     func(session.Appender, session.Append) ([]byte, error)
}

// write encodes, appends, and answers after the update of its own bytes.
func (s *Server) write(ctx context.Context, row catalog.Row, w write) (any, error) {
	var (
		receipt journal.Receipt
		lines   []byte
		err     error
	)
	for try := 0; ; try++ {
		lines, receipt, err = s.writeOnce(ctx, row, w, try == 0)
		if err == nil {
			break
		}
		if try == 0 && errors.Is(err, fs.ErrClosed) {
			continue // the live transcript moved on while it was read
		}
		if w.expect != "" || !errors.Is(err, session.ErrStale) || try >= staleTries {
			return nil, err
		}
	}
	s.mu.Lock()
	s.wrote[row.ID] = true
	s.mu.Unlock()
	s.refresh(ctx, row)
	if err := s.o.Hub.Settle(ctx, row.ID, receipt.Offset+int64(receipt.Length)); err != nil && ctx.Err() != nil {
		// It is on disk; only the order of the answer was waited for.
		s.o.Log.Debug("answered before the update")
	}
	res := wire.AppendResult{Entries: []wire.Appended{}, Revision: string(receipt.Revision)}
	for _, e := range decodeLines(s.formatOf(row.ID), lines, receipt.Offset) {
		if e.Bad == "" {
			res.Entries = append(res.Entries, wire.Appended{ID: e.ID, Offset: e.Pos.Offset, Length: e.Pos.Length})
		}
	}
	return rpc.Reply{Result: res, Key: row.ID.String()}, nil
}

// refresh renews the row of a session that was written to. The bytes are on
// disk by then, so that neither an error nor the end of ctx is one of the write.
func (s *Server) refresh(ctx context.Context, row catalog.Row) {
	ctx = context.WithoutCancel(ctx)
	change, err := s.o.Catalog.Refresh(ctx, row.Path)
	if err != nil {
		s.o.Log.Warn("row was not renewed", zap.Stringer("session", row.ID), zap.Error(err))
	}
	s.publish(ctx, change)
}

// present is the transcript to write behind. Where somebody follows the
// session it is the live one, so that an append costs its own bytes and not
// those of the log. If that is behind the file, the journal finds it stale.
func (s *Server) present(ctx context.Context, row catalog.Row, w write, live bool) (*catalog.Opened, error) {
	if u, ok := s.o.Hub.Current(row.ID); ok && live && !u.Removed && u.Offset == u.Size && u.Size > 0 &&
		(w.expect == "" || w.expect == u.Revision) {
		row.Revision, row.Size = u.Revision, u.Size
		return &catalog.Opened{
			Row: row, Format: s.formatOf(row.ID), Transcript: u.Transcript, Revision: u.Revision, Size: u.Size, Source: u.Source,
		}, nil
	}
	return s.o.Catalog.Load(ctx, row.ID, catalog.LoadOptions{})
}

func (s *Server) writeOnce(ctx context.Context, row catalog.Row, w write, live bool) (lines []byte, receipt journal.Receipt, err error) {
	o, err := s.present(ctx, row, w, live)
	if err != nil {
		return nil, receipt, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	if w.expect != "" && w.expect != o.Revision {
		return nil, receipt, &journal.StaleError{Current: o.Revision}
	}
	f, ok := o.Format.(session.Appender)
	if !ok {
		return nil, receipt, &session.UnsupportedError{Op: "append", Agent: row.Agent, Why: "agent-ls does not write the sessions of this agent"}
	}
	s.mu.Lock()
	first := !s.wrote[row.ID]
	s.mu.Unlock()
	a := session.Append{
		Session: o.Row.Session, Transcript: o.Transcript, Parent: w.parent, Drafts: w.drafts,
		Clock: s.o.Clock, Random: s.o.Random, FirstOfWriter: first,
	}
	if w.parent != "" {
		if _, ok := o.Transcript.Index(w.parent); !ok {
			return nil, receipt, &session.InvalidError{Field: "parentId", Value: w.parent, Why: "no such entry"}
		}
	}
	var head []byte
	if !w.replace {
		if head, err = repairLines(o, a); err != nil {
			return nil, receipt, err
		}
	}
	body, err := w.encode(f, a)
	if errors.Is(err, session.ErrUnsupported) && w.parent != "" {
		body, err = rewind(o, a)
	}
	if err != nil {
		return nil, receipt, err
	}
	lines = append(head, body...)
	receipt, err = s.o.Journal.Append(ctx, row.Path, journal.Request{
		Lines: lines, Expect: o.Revision, Durability: w.durability, Create: true,
	})
	if err != nil {
		return nil, receipt, err
	}
	// What a repair put in front is not the caller's.
	receipt.Offset += int64(len(head))
	receipt.Length -= len(head)
	return body, receipt, nil
}

// rewind is an append with an earlier parent in a store without branches: it
// replaces the conversation by the part up to the parent, and the drafts.
func rewind(o *catalog.Opened, a session.Append) ([]byte, error) {
	f, ok := o.Format.(session.Replacer)
	if !ok {
		return nil, &session.UnsupportedError{Op: "append with a parentId", Agent: o.Format.Name(), Why: "its log is linear and cannot be replaced"}
	}
	r, err := o.Transcript.Resolve(a.Parent)
	if err != nil {
		return nil, err
	}
	before, err := conversation(o, r)
	if err != nil {
		return nil, err
	}
	a.Drafts = append(before, a.Drafts...)
	return f.EncodeReplace(nil, "snapshot", a)
}

// repairLines are put in front of an append where the log needs them.
func repairLines(o *catalog.Opened, a session.Append) ([]byte, error) {
	f, ok := o.Format.(session.Repairer)
	if !ok {
		return nil, nil
	}
	a.Drafts = nil
	_, needed, err := f.Repair(nil, a)
	if err != nil || !needed {
		return nil, err
	}
	if a.Drafts, err = conversation(o, o.Transcript.Current()); err != nil {
		return nil, err
	}
	lines, _, err := f.Repair(nil, a)
	return lines, err
}

// conversation gives the effective messages as drafts.
func conversation(o *catalog.Opened, r *session.Resolution) ([]session.Draft, error) {
	var out []session.Draft
	for m, err := range session.Messages(o.Format, o.Source, o.Transcript, r) {
		if err != nil {
			return nil, err
		}
		m.Entries = nil
		out = append(out, m)
	}
	return out, nil
}

// decodeLines reads back what was written, to know its ids and places.
func decodeLines(f session.Format, lines []byte, offset int64) []session.Entry {
	var out []session.Entry
	r := jsonl.NewReader(bytes.NewReader(lines), 0, 1, jsonl.Options{MaxLine: int64(len(lines)) + 1})
	for l := range r.Lines() {
		l.Offset += offset
		out = f.Decode(out, l)
	}
	return out
}
