package lsp

import (
	"context"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-ls/agent-ls/lsp/rpc"
	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
)

func (s *Server) list(ctx context.Context, p wire.ListParams) (any, error) {
	q, err := query(p.Filters)
	if err != nil {
		return nil, err
	}
	by, ok := map[string]catalog.Sort{
		"": catalog.ByUpdated, "updated": catalog.ByUpdated, "created": catalog.ByCreated, "size": catalog.BySize, "title": catalog.ByTitle,
	}[p.Sort]
	if !ok {
		return nil, &session.InvalidError{Field: "sort", Value: p.Sort, Why: "want updated, created, size or title"}
	}
	q.Sort, q.Cursor = by, p.Cursor
	if p.Limit != nil {
		if q.Limit = *p.Limit; q.Limit == 0 {
			q.Limit = -1 // refused with the bounds
		}
	}
	if err := s.visit(ctx, q.CWD); err != nil {
		return nil, err
	}
	s.o.Catalog.Restore()
	if len(p.PartialResultToken) > 0 {
		return s.listPartial(ctx, p, q)
	}
	s.settle(ctx)
	page, err := s.o.Catalog.Snapshot().List(q)
	if err != nil {
		return nil, err
	}
	return s.listResult(page), nil
}

// firstLook is how long a list waits for the first scan where nothing is known
// yet: long enough for a store of usual size, so that a script that asks once
// gets an answer, and too short to be noticed.
const firstLook = 250 * time.Millisecond

// settle waits a moment for the first scan, if nothing is known yet.
func (s *Server) settle(ctx context.Context) {
	if s.scanned() || s.o.Catalog.Snapshot().Len() > 0 {
		return
	}
	limit := time.NewTimer(firstLook)
	defer limit.Stop()
	select {
	case <-s.o.Catalog.Scanned():
	case <-limit.C:
	case <-ctx.Done():
	}
}

// scanned reports whether the first scan has ended.
func (s *Server) scanned() bool {
	select {
	case <-s.o.Catalog.Scanned():
		return true
	default:
		return false
	}
}

func (s *Server) listResult(page catalog.Page) wire.ListResult {
	return wire.ListResult{Sessions: s.wireRows(page.Rows), NextCursor: page.Next, Total: page.Total}
}

func (s *Server) wireRows(rows []catalog.Row) []wire.Session {
	out := make([]wire.Session, 0, len(rows))
	for _, r := range rows {
		out = append(out, s.wire(r))
	}
	return out
}

// listPartial sends the rows by $/progress: those that are known at once, and
// when the first scan has ended those of the page that are new or changed. The
// answer carries no rows again, as the standard wants it.
func (s *Server) listPartial(ctx context.Context, p wire.ListParams, q catalog.Query) (any, error) {
	sent := map[session.ID]session.Revision{}
	send := func() (catalog.Page, error) {
		page, err := s.o.Catalog.Snapshot().List(q)
		if err != nil {
			return page, err
		}
		part := page
		part.Rows = nil
		for _, r := range page.Rows {
			if rev, ok := sent[r.ID]; !ok || rev != r.Revision {
				part.Rows = append(part.Rows, r)
				sent[r.ID] = r.Revision
			}
		}
		return page, s.conn.Notify("", "$/progress", wire.Progress{Token: p.PartialResultToken, Value: s.listResult(part)})
	}
	complete := s.scanned() // before the page is made
	page, err := send()
	if err == nil && !complete {
		end := s.begin(p.WorkDoneToken, "Looking for sessions")
		select {
		case <-s.o.Catalog.Scanned():
			page, err = send()
		case <-ctx.Done():
			err = ctx.Err()
		}
		end()
	}
	if err != nil {
		return nil, err
	}
	return wire.ListResult{Sessions: []wire.Session{}, NextCursor: page.Next, Total: page.Total}, nil
}

// begin tells the client that work is under way, if it gave a token; end that
// it is done.
func (s *Server) begin(token jsontext.Value, title string) (end func()) {
	if len(token) == 0 {
		return func() {}
	}
	tell := func(v wire.WorkDone) {
		// When the connection has ended nobody waits for it.
		_ = s.conn.Notify("", "$/progress", wire.Progress{Token: token, Value: v})
	}
	tell(wire.WorkDone{Kind: "begin", Title: title})
	return func() { tell(wire.WorkDone{Kind: "end"}) }
}

// visit makes a directory that a request names a workspace.
func (s *Server) visit(ctx context.Context, cwd string) error {
	if cwd == "" {
		return nil
	}
	change, added, err := s.o.Catalog.AddWorkspace(ctx, cwd)
	if added {
		s.o.Hub.RootsChanged()
	}
	s.publish(ctx, change)
	return err
}

// query makes a query of filters.
func query(f wire.Filters) (catalog.Query, error) {
	q := catalog.Query{
		CWD: f.CWD, Agents: f.Agents, Text: f.Query, IncludeSubagents: f.IncludeSubagents,
		IncludeEmpty: f.IncludeEmpty, Exclude: f.Exclude,
		ExcludeProgrammatic: f.IncludeProgrammatic != nil && !*f.IncludeProgrammatic,
	}
	if q.CWD != "" && !filepath.IsAbs(q.CWD) {
		return q, &session.InvalidError{Field: "cwd", Value: q.CWD, Why: "want an absolute path"}
	}
	var ok bool
	if q.Scope, ok = map[string]catalog.Scope{
		"": catalog.Exact, "exact": catalog.Exact, "subtree": catalog.Subtree, "repository": catalog.Repository,
	}[f.Scope]; !ok {
		return q, &session.InvalidError{Field: "scope", Value: f.Scope, Why: "want exact, subtree or repository"}
	}
	if q.Archived, ok = map[string]catalog.Archived{
		"": catalog.ExcludeArchived, "exclude": catalog.ExcludeArchived, "include": catalog.IncludeArchived, "only": catalog.OnlyArchived,
	}[f.Archived]; !ok {
		return q, &session.InvalidError{Field: "archived", Value: f.Archived, Why: "want exclude, include or only"}
	}
	for _, word := range f.Status {
		st, ok := map[string]session.Status{
			"running": session.StatusRunning, "idle": session.StatusIdle,
			"requires_action": session.StatusRequiresAction, "unknown": session.StatusUnknown,
		}[word]
		if !ok {
			return q, &session.InvalidError{Field: "status", Value: word, Why: "want running, idle, requires_action or unknown"}
		}
		q.Status = append(q.Status, st)
	}
	return q, nil
}

// watch is what session/watch has asked for.
type watch struct{ stop context.CancelFunc }

func (s *Server) watch(ctx context.Context, p wire.Filters) (any, error) {
	q, err := query(p)
	if err != nil {
		return nil, err
	}
	if err := s.visit(ctx, q.CWD); err != nil {
		return nil, err
	}
	wctx, stop := context.WithCancel(s.base)
	s.mu.Lock()
	if s.watches != nil {
		s.watches.stop()
	}
	s.watches = &watch{stop: stop}
	s.mu.Unlock()
	changes := s.o.Hub.Changes(wctx)
	s.tasks.Go(func() {
		defer stop()
		for c := range changes {
			if wctx.Err() != nil {
				continue // the rest is read so that the Hub is not kept
			}
			if m, ok := s.changed(c, q); ok {
				if err := s.conn.Notify("", "session/changed", m); err != nil {
					stop()
				}
				s.pause(wctx)
			}
		}
	})
	return struct{}{}, nil
}

// pause waits as long as the client wants changes to fold beyond what they do
// in the Hub.
func (s *Server) pause(ctx context.Context) {
	s.mu.Lock()
	d := s.settings.debounce
	s.mu.Unlock()
	if d == 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// changed makes the message of a change as far as q selects it. A session
// that is no longer selected is removed for this watcher.
func (s *Server) changed(c catalog.Change, q catalog.Query) (wire.Changed, bool) {
	m := wire.Changed{Added: []wire.Session{}, Updated: []wire.Session{}, Removed: []string{}}
	match := s.o.Catalog.Snapshot().Matcher(q)
	for _, r := range c.Added {
		if match(r) {
			m.Added = append(m.Added, s.wire(r))
		}
	}
	for _, r := range c.Updated {
		if match(r) {
			m.Updated = append(m.Updated, s.wire(r))
		} else {
			m.Removed = append(m.Removed, r.ID.String())
		}
	}
	for _, id := range c.Removed {
		m.Removed = append(m.Removed, id.String())
	}
	return m, len(m.Added)+len(m.Updated)+len(m.Removed) > 0
}

func (s *Server) unwatch(context.Context, *rpc.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches != nil {
		s.watches.stop()
		s.watches = nil
	}
	return struct{}{}, nil
}
