package lsp

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/journal"
)

func (s *Server) fork(ctx context.Context, p wire.ForkParams) (any, error) {
	row, err := s.find(ctx, p.SessionID, "")
	if err != nil {
		return nil, err
	}
	encode := forkLines
	agent := row.Agent
	if p.Agent != "" && p.Agent != row.Agent {
		encode, agent = convertLines, p.Agent
	}
	target, ok := s.o.Catalog.Format(agent)
	if !ok {
		return nil, &session.NotFoundError{What: "agent", Name: agent}
	}
	return whole(func() (any, error) { return s.forkOnce(ctx, row, target, p, encode) })
}

// encodeFork makes the lines of a new session from one that was read.
type encodeFork func(target session.Format, o *catalog.Opened, made session.Session, at, title string, a session.Append) ([]byte, []string, error)

func (s *Server) forkOnce(ctx context.Context, row catalog.Row, target session.Format, p wire.ForkParams, encode encodeFork) (_ any, err error) {
	o, err := s.o.Catalog.Load(ctx, row.ID, catalog.LoadOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	if p.At != "" {
		if _, ok := o.Transcript.Index(p.At); !ok {
			return nil, &session.InvalidError{Field: "at", Value: p.At, Why: "no such entry"}
		}
	}
	title := p.Title
	if title == "" && row.Title != "" {
		title = row.Title + " (fork)"
	}
	plan := o.Row.Session
	if p.CWD != "" {
		plan.CWD = p.CWD
	}
	made, change, err := s.o.Catalog.New(ctx, target.Name(), plan, s.o.Random)
	s.publish(ctx, change)
	if err != nil {
		return nil, err
	}
	s.o.Hub.RootsChanged()
	fork, lost, n, err := s.fill(ctx, made, target, o, p.At, title, plan, encode)
	if err != nil {
		// What was begun is nobody's.
		change, _, derr := s.o.Catalog.Delete(context.WithoutCancel(ctx), made.ID, catalog.DeleteOptions{Permanently: true, Force: true})
		s.publish(ctx, change)
		if derr != nil {
			s.o.Log.Warn("unfinished fork stays", zap.Stringer("session", made.ID), zap.Error(derr))
		}
		return nil, err
	}
	return wire.ForkResult{Session: s.wire(fork), Report: wire.ForkReport{Entries: n, Lost: lost}}, nil
}

// fill writes the transcript of the new session made. n is the number of its entries.
func (s *Server) fill(ctx context.Context, made catalog.Row, target session.Format, o *catalog.Opened, at, title string, plan session.Session, encode encodeFork) (row catalog.Row, lost []string, n int, err error) {
	a := session.Append{Session: plan, Transcript: o.Transcript, Clock: s.o.Clock, Random: s.o.Random, FirstOfWriter: true}
	lines, lost, err := encode(target, o, made.Session, at, title, a)
	if err != nil {
		return row, nil, 0, err
	}
	if _, err := s.o.Journal.Append(ctx, made.Path, journal.Request{Lines: lines, Create: true}); err != nil {
		return row, nil, 0, err
	}
	change, err := s.o.Catalog.Refresh(ctx, made.Path)
	if err != nil {
		return row, nil, 0, err
	}
	s.publish(ctx, change)
	row, ok := s.o.Catalog.Snapshot().Get(made.ID)
	if !ok {
		return row, nil, 0, &session.NotFoundError{What: "session", Name: made.ID.String()}
	}
	if _, ok := target.(session.Namer); !ok && title != "" {
		if row, err = s.annotate(ctx, made.ID, func(n catalog.Note) catalog.Note { n.Title = title; return n }); err != nil {
			return row, nil, 0, err
		}
	}
	return row, lost, len(decodeLines(target, lines, 0)), nil
}

// forkLines copies entries within a store.
func forkLines(target session.Format, o *catalog.Opened, made session.Session, at, title string, a session.Append) ([]byte, []string, error) {
	f, ok := target.(session.Forker)
	if !ok {
		return nil, nil, &session.UnsupportedError{Op: "fork", Agent: target.Name(), Why: "its sessions cannot be forked", Instead: "give another agent to convert the conversation"}
	}
	lines, err := f.EncodeFork(nil, made.Native, at, title, a, func(e session.Entry) ([]byte, error) {
		return session.LoadRaw(o.Source, e)
	})
	return lines, nil, err
}
