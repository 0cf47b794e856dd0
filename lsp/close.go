package lsp

import (
	"bytes"
	"context"
	"maps"

	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/journal"
)

// tailBytes is how much of the end of a transcript readers of the tail look at.
const tailBytes = 64 << 10

// close ends the sessions that this process has written to: an agent that
// looks for the title of a session at the end of its log finds it there.
func (s *Server) close(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, flushLimit)
	defer stop()
	s.mu.Lock()
	wrote := maps.Clone(s.wrote)
	s.mu.Unlock()
	for id := range wrote {
		f, ok := s.formatOf(id).(session.Ender)
		if !ok {
			continue
		}
		if err := s.end(ctx, id, f); err != nil && !isNotFound(err) {
			s.o.Log.Warn("the end of a session was not written", zap.Stringer("session", id), zap.Error(err))
		}
	}
}

// end appends what the format wants last, where it is not there already.
func (s *Server) end(ctx context.Context, id session.ID, f session.Ender) error {
	if err := s.o.Journal.Flush(ctx); err != nil {
		return err
	}
	row, err := s.lookup(id.String(), "")
	if err != nil {
		return err
	}
	if row, err = s.fresh(ctx, row); err != nil {
		return err
	}
	if row.WriterPID != 0 && row.WriterPID != s.o.PID {
		return nil // its writer does the same
	}
	lines, err := f.EncodeEnd(nil, session.Append{Session: row.Session, Clock: s.o.Clock, Random: s.o.Random})
	if err != nil || len(lines) == 0 {
		return err
	}
	tail, err := s.o.Catalog.Tail(ctx, id, tailBytes)
	if err != nil {
		return err
	}
	var missing []byte
	for line := range bytes.Lines(lines) {
		if !bytes.Contains(tail, line) {
			missing = append(missing, line...)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = s.o.Journal.Append(ctx, row.Path, journal.Request{Lines: missing, Durability: journal.Sync})
	return err
}
