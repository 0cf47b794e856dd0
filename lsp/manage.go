package lsp

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
)

func (s *Server) create(ctx context.Context, p wire.NewParams) (any, error) {
	if p.Agent == "" {
		return nil, &session.InvalidError{Field: "agent", Value: p.Agent, Why: "name the agent whose store is to hold the session"}
	}
	row, change, err := s.o.Catalog.New(ctx, p.Agent, session.Session{CWD: p.CWD, Model: p.Model}, s.o.Random)
	if err != nil {
		return nil, err
	}
	s.o.Hub.RootsChanged()
	s.publish(ctx, change)
	if p.Title != "" {
		if row, err = s.annotate(ctx, row.ID, func(n catalog.Note) catalog.Note { n.Title = p.Title; return n }); err != nil {
			return nil, err
		}
	}
	return wire.SessionResult{Session: s.wire(row)}, nil
}

// annotate changes what the user said about a session, and tells the watchers.
func (s *Server) annotate(ctx context.Context, id session.ID, edit func(catalog.Note) catalog.Note) (catalog.Row, error) {
	row, change, err := s.o.Catalog.Annotate(ctx, id, edit)
	if err != nil {
		return row, err
	}
	s.publish(ctx, change)
	return row, nil
}

// note is the tail of the methods that only annotate.
func (s *Server) note(ctx context.Context, name string, edit func(catalog.Note) catalog.Note) (any, error) {
	row, err := s.find(ctx, name, "")
	if err != nil {
		return nil, err
	}
	if row, err = s.annotate(ctx, row.ID, edit); err != nil {
		return nil, err
	}
	return wire.SessionResult{Session: s.wire(row)}, nil
}

func (s *Server) rename(ctx context.Context, p wire.RenameParams) (any, error) {
	if p.Title == nil {
		return nil, &session.InvalidError{Field: "title", Why: "want a title; an empty one takes the name away"}
	}
	title := strings.Join(strings.Fields(*p.Title), " ")
	row, err := s.find(ctx, p.SessionID, "")
	if err != nil {
		return nil, err
	}
	f, ok := s.formatOf(row.ID).(session.Namer)
	if !ok || row.Empty {
		return s.note(ctx, row.ID.String(), func(n catalog.Note) catalog.Note { n.Title = title; return n })
	}
	if row.Title == title && row.TitleSource == session.TitleUser {
		return wire.SessionResult{Session: s.wire(row)}, nil // idempotent
	}
	if row, err = s.writable(ctx, p.SessionID, false); err != nil {
		return nil, err
	}
	_, err = s.write(ctx, row, write{encode: func(_ session.Appender, a session.Append) ([]byte, error) {
		return f.EncodeName(nil, title, a)
	}})
	if err != nil {
		return nil, err
	}
	row, _ = s.o.Catalog.Snapshot().Get(row.ID)
	return wire.SessionResult{Session: s.wire(row)}, nil
}

func (s *Server) tag(ctx context.Context, p wire.TagParams) (any, error) {
	if p.Tags == nil {
		return nil, &session.InvalidError{Field: "tags", Why: "want the tags, which replace those there were"}
	}
	var tags []string
	for _, t := range p.Tags {
		if t = strings.TrimSpace(t); t != "" && !slices.Contains(tags, t) {
			tags = append(tags, t)
		}
	}
	return s.note(ctx, p.SessionID, func(n catalog.Note) catalog.Note { n.Tags = tags; return n })
}

func (s *Server) archive(ctx context.Context, p wire.SessionParams) (any, error) {
	return s.setArchived(ctx, p, true)
}

func (s *Server) unarchive(ctx context.Context, p wire.SessionParams) (any, error) {
	return s.setArchived(ctx, p, false)
}

func (s *Server) setArchived(ctx context.Context, p wire.SessionParams, on bool) (any, error) {
	return s.note(ctx, p.SessionID, func(n catalog.Note) catalog.Note { n.Archived = &on; return n })
}

func (s *Server) markRead(ctx context.Context, p wire.MarkReadParams) (any, error) {
	return s.note(ctx, p.SessionID, func(n catalog.Note) catalog.Note {
		n.ReadTo, n.ReadAt = p.Entry, s.o.Clock.Now().UTC()
		return n
	})
}

func (s *Server) delete(ctx context.Context, p wire.DeleteParams) (any, error) {
	row, err := s.find(ctx, p.SessionID, "")
	if err != nil {
		return nil, err
	}
	change, trashed, err := s.o.Catalog.Delete(ctx, row.ID, catalog.DeleteOptions{Permanently: p.Permanently, Force: p.Force})
	s.publish(ctx, change)
	if err != nil {
		return nil, err
	}
	var res wire.DeleteResult
	if trashed != "" {
		res.Trashed = uriOf(trashed)
	}
	return res, nil
}

func (s *Server) prune(ctx context.Context, p wire.PruneParams) (any, error) {
	days, created, err := pruneRule("", p.OlderThanDays, p.Basis)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if p.Basis == "" {
		created = s.settings.pruneCreated
	}
	if days == nil {
		days = s.settings.pruneDays
	}
	s.mu.Unlock()
	age := 30.0
	if days != nil {
		age = *days
	}
	if err := s.visit(ctx, p.CWD); err != nil {
		return nil, err
	}
	select {
	case <-s.o.Catalog.Scanned():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out, err := s.o.Catalog.Prune(ctx, catalog.PruneOptions{
		OlderThan: time.Duration(age * float64(24*time.Hour)), ByCreated: created, CWD: p.CWD, Agents: p.Agents,
		DryRun: p.DryRun == nil || *p.DryRun,
		Keep: func(r catalog.Row) string {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.subs[r.ID] != nil {
				return "it is open here"
			}
			return ""
		},
	})
	s.publish(ctx, out.Change)
	if err != nil && len(out.Sessions) == 0 && len(out.Kept) == 0 {
		return nil, err
	}
	res := wire.PruneResult{Sessions: s.wireRows(out.Sessions), Bytes: out.Bytes, Kept: []wire.Kept{}}
	for _, k := range out.Kept {
		res.Kept = append(res.Kept, wire.Kept{SessionID: k.ID.String(), Why: k.Why})
	}
	return res, nil
}

// pruneRule checks what is too old; prefix is that of the fields.
func pruneRule(prefix string, days *float64, basis string) (_ *float64, created bool, err error) {
	if days != nil && !(*days >= 0 && *days <= 36500) {
		return nil, false, &session.InvalidError{Field: prefix + "olderThanDays", Value: strconv.FormatFloat(*days, 'g', -1, 64), Why: "want 0 to 36500"}
	}
	created, ok := map[string]bool{"": false, "activity": false, "created": true}[basis]
	if !ok {
		return nil, false, &session.InvalidError{Field: prefix + "basis", Value: basis, Why: "want activity or created"}
	}
	return days, created, nil
}
