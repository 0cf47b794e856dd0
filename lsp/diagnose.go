package lsp

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/journal"
)

// Safe repairs: both only append.
const (
	actionClose   = "close-torn-tail"
	actionReplace = "restate-conversation"
)

// maxFindings bounds what one answer lists.
const maxFindings = 1000

func (s *Server) diagnose(ctx context.Context, p wire.SessionParams) (_ any, err error) {
	row, err := s.find(ctx, p.SessionID, "")
	if err != nil {
		return nil, err
	}
	o, err := s.o.Catalog.Load(ctx, row.ID, catalog.LoadOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	return diagnosis(o), nil
}

// diagnosis lists all findings by their place, and the repairs that are safe.
func diagnosis(o *catalog.Opened) wire.DiagnoseResult {
	all := slices.Concat(o.Transcript.Problems(), o.Transcript.Current().Problems)
	slices.SortStableFunc(all, func(a, b session.Problem) int { return cmp.Compare(a.Pos.Offset, b.Pos.Offset) })
	res := wire.DiagnoseResult{Findings: []wire.Finding{}, Actions: []string{}}
	for _, p := range all {
		f := finding(p)
		if f.Action != "" && !slices.Contains(res.Actions, f.Action) {
			res.Actions = append(res.Actions, f.Action)
		}
		if len(res.Findings) < maxFindings {
			res.Findings = append(res.Findings, f)
		}
	}
	return res
}

func (s *Server) repair(ctx context.Context, p wire.RepairParams) (_ any, err error) {
	row, err := s.writable(ctx, p.SessionID, false)
	if err != nil {
		return nil, err
	}
	o, err := s.o.Catalog.Load(ctx, row.ID, catalog.LoadOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	res := diagnosis(o)
	if p.DryRun == nil || *p.DryRun || len(res.Actions) == 0 {
		return res, nil
	}
	a := session.Append{Session: row.Session, Transcript: o.Transcript, Clock: s.o.Clock, Random: s.o.Random, FirstOfWriter: true}
	lines, err := repairLines(o, a)
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		// Only the torn tail: a line feed closes it, and a blank line is none.
		lines = []byte{'\n'}
	}
	if _, err := s.o.Journal.Append(ctx, row.Path, journal.Request{Lines: lines, Expect: o.Revision}); err != nil {
		return nil, err
	}
	s.refresh(ctx, row)
	return res, nil
}
