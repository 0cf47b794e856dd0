package search

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"iter"
	"runtime"
	"strconv"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/parallel"
)

// Options of Sessions.
type Options struct {
	// Rows selects the sessions; its order and page are not used.
	Rows   catalog.Query
	Limit  int    // hits, 1 to MaxLimit; 0 means DefaultLimit
	Cursor string // Next of the page before
	// Found, if set, is called with the hits of each session as they are
	// found, in order, on the goroutine of the caller.
	Found func([]SessionHit) error
}

// Limits of Options.Limit.
const (
	DefaultLimit = 50
	MaxLimit     = 1000
)

// SessionHit is a hit and where it was found.
type SessionHit struct {
	Session catalog.Row
	Hit
	after place // where to go on
}

// Result is one page of hits.
type Result struct {
	Hits     []SessionHit
	Next     string // cursor of the next page, which may be empty; "" at the end
	Sessions int    // that were looked into, for this page
	Bytes    int64  // read for this page
	Failed   []error
}

// cursor is the last hit of a page.
type cursor struct {
	Query   string // fingerprint
	ID      session.ID
	Updated time.Time // of the session then
	Place   place     // behind the hit
}

// part is one session to look into, and what was found.
type part struct {
	row   catalog.Row
	from  place
	hits  []SessionHit
	bytes int64
	err   error
}

// Sessions looks for m in all sessions that are selected, those with the
// latest activity first, each in the order of its log. All cores take part,
// and what is under way is bounded. A session that cannot be read is in
// Failed. The error is a *session.InvalidError of the options, one of Found,
// or that of ctx.
func Sessions(ctx context.Context, c *catalog.Catalog, m *Matcher, o Options) (Result, error) {
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	if o.Limit < 1 || o.Limit > MaxLimit {
		return Result{}, &session.InvalidError{Field: "limit", Value: strconv.Itoa(o.Limit), Why: "want 1 to 1000"}
	}
	print := fingerprint(m, o.Rows)
	from := cursor{Query: print}
	if o.Cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(o.Cursor)
		if err != nil || json.Unmarshal(b, &from) != nil || from.Query != print || from.Place.Offset < 0 || from.Place.Line < 0 {
			return Result{}, &session.InvalidError{Field: "cursor", Value: o.Cursor, Why: "it is not a cursor of this query; start without one"}
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var res Result
	parts, failed := parts(c, o.Rows, from)
	for p := range parallel.InOrder(parts, runtime.GOMAXPROCS(0), func(p *part) { p.look(ctx, c, m, o.Limit) }) {
		if err := ctx.Err(); err != nil {
			return res, err
		}
		res.Sessions++
		res.Bytes += p.bytes
		if p.err != nil {
			res.Failed = append(res.Failed, p.err)
		}
		hits := p.hits[:min(len(p.hits), o.Limit-len(res.Hits))]
		if len(hits) == 0 {
			continue
		}
		res.Hits = append(res.Hits, hits...)
		if o.Found != nil {
			if err := o.Found(hits); err != nil {
				return res, err
			}
		}
		if len(res.Hits) == o.Limit {
			last := hits[len(hits)-1]
			b, err := json.Marshal(cursor{Query: print, ID: p.row.ID, Updated: p.row.UpdatedAt, Place: last.after})
			if err != nil {
				return res, err
			}
			res.Next = base64.RawURLEncoding.EncodeToString(b)
			cancel() // what others look into already is not needed
			break
		}
	}
	if *failed != nil {
		return res, *failed
	}
	if res.Next != "" {
		return res, nil
	}
	return res, ctx.Err()
}

// parts gives the sessions to look into. A session that the last page ended
// in comes first, wherever it is by now.
func parts(c *catalog.Catalog, q catalog.Query, from cursor) (seq iter.Seq[*part], failed *error) {
	failed = new(error)
	return func(yield func(*part) bool) {
		s := c.Snapshot()
		if !from.ID.IsZero() {
			if row, err := s.Lookup(from.ID.String()); err == nil && !yield(&part{row: row, from: from.Place}) {
				return
			}
		}
		q.Sort, q.Cursor, q.Limit = catalog.ByUpdated, "", catalog.MaxLimit
		for {
			page, err := s.List(q)
			if err != nil {
				*failed = err
				return
			}
			for _, row := range page.Rows {
				if !from.ID.IsZero() && (row.ID == from.ID || !behind(row, from)) {
					continue
				}
				if !yield(&part{row: row}) {
					return
				}
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				return
			}
		}
	}, failed
}

// behind reports whether a row comes after the one of a cursor.
func behind(r catalog.Row, c cursor) bool {
	// The catalog orders by microseconds.
	return cmp.Or(cmp.Compare(c.Updated.UnixMicro(), r.UpdatedAt.UnixMicro()), cmp.Compare(r.Agent, c.ID.Agent), cmp.Compare(r.Native, c.ID.Native)) > 0
}

// look looks into one session, for at most limit hits.
func (p *part) look(ctx context.Context, c *catalog.Catalog, m *Matcher, limit int) {
	if ctx.Err() != nil {
		return
	}
	o, err := c.Open(ctx, p.row.ID)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, session.ErrNotFound) {
			p.err = fmt.Errorf("session %s: %w", p.row.ID, err)
		}
		return // deleted meanwhile
	}
	p.bytes, err = m.transcript(ctx, o.Format, o.Source, p.from, func(h Hit, after place) bool {
		p.hits = append(p.hits, SessionHit{Session: p.row, Hit: h, after: after})
		return len(p.hits) < limit
	})
	if err = errors.Join(err, o.Close()); err != nil && ctx.Err() == nil {
		p.err = fmt.Errorf("session %s: %w", p.row.ID, err)
	}
}

// fingerprint tells queries apart, without their page.
func fingerprint(m *Matcher, q catalog.Query) string {
	q.Limit, q.Cursor = 0, ""
	b, err := json.Marshal(struct {
		Query Query
		Rows  catalog.Query
	}{m.query, q})
	if err != nil {
		return "" // cannot be: no field fails to encode
	}
	h := fnv.New64a()
	_, _ = h.Write(b) // a hash cannot fail
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
