package lsp

import (
	"context"

	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/search"
)

func (s *Server) search(ctx context.Context, p wire.SearchParams) (any, error) {
	m, err := matcher(p)
	if err != nil {
		return nil, err
	}
	f := p.Filters
	f.Query = "" // not for titles
	rows, err := query(f)
	if err != nil {
		return nil, err
	}
	o := search.Options{Rows: rows, Cursor: p.Cursor}
	if p.Limit != nil {
		if o.Limit = *p.Limit; o.Limit == 0 {
			o.Limit = -1 // refused with the bounds
		}
	}
	if err := s.visit(ctx, rows.CWD); err != nil {
		return nil, err
	}
	end := s.begin(p.WorkDoneToken, "Searching sessions")
	defer end()
	select { // what is not found yet cannot be searched
	case <-s.o.Catalog.Scanned():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	partial := len(p.PartialResultToken) > 0
	if partial {
		o.Found = func(hits []search.SessionHit) error {
			return s.conn.Notify("", "$/progress", wire.Progress{Token: p.PartialResultToken, Value: wire.SearchResult{Hits: s.wireHits(hits)}})
		}
	}
	res, err := search.Sessions(ctx, s.o.Catalog, m, o)
	if err != nil {
		return nil, err
	}
	for _, err := range res.Failed {
		s.o.Log.Warn("a session was not searched", zap.Error(err))
	}
	out := wire.SearchResult{
		Hits: []wire.Hit{}, NextCursor: res.Next,
		Searched: &wire.Searched{Sessions: res.Sessions, Bytes: res.Bytes, Failed: len(res.Failed)},
	}
	if !partial { // the answer carries no hits again, as the standard wants it
		out.Hits = s.wireHits(res.Hits)
	}
	return out, nil
}

// matcher makes what is looked for of the params.
func matcher(p wire.SearchParams) (*search.Matcher, error) {
	q := search.Query{Text: p.Query, CaseSensitive: p.CaseSensitive}
	switch p.Mode {
	case "", "text":
	case "regex":
		q.Regexp = true
	default:
		return nil, &session.InvalidError{Field: "mode", Value: p.Mode, Why: "want text or regex"}
	}
	for _, word := range p.Roles {
		r, ok := session.ParseRole(word)
		if !ok {
			return nil, &session.InvalidError{Field: "roles", Value: word, Why: "want user, assistant, system or tool"}
		}
		q.Roles = append(q.Roles, r)
	}
	var err error
	if q.Since, err = parseTime("since", p.Since); err != nil {
		return nil, err
	}
	if q.Until, err = parseTime("until", p.Until); err != nil {
		return nil, err
	}
	return search.Compile(q)
}

func (s *Server) wireHits(hits []search.SessionHit) []wire.Hit {
	out := make([]wire.Hit, 0, len(hits))
	for _, h := range hits {
		w := wire.Hit{
			Session: s.wire(h.Session), EntryID: h.EntryID, Line: h.Pos.Line, Offset: h.Pos.Offset,
			Role: h.Role.String(), Timestamp: timeText(h.Time), Snippet: h.Snippet, Ranges: []wire.Range{},
		}
		for _, r := range h.Ranges {
			w.Ranges = append(w.Ranges, wire.Range{Start: r.Start, End: r.End})
		}
		out = append(out, w)
	}
	return out
}
