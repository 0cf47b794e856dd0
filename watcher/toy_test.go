package watcher

import (
	"bytes"
	"context"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/jsonl"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// toy is a store as small as one can be: a transcript is DIR/log (one
// directory a session) or NAME.log at most two directories deep; a line is a
// word, and an entry. After the lines "!compact", "!replace" and "!branch" the
// conversation begins anew.
type toy struct{}

func (toy) Name() string                   { return "toy" }
func (toy) Roots(env session.Env) []string { return env.Roots["toy"] }
func (toy) Owner(string) (string, bool)    { return "", false }
func (toy) Depth() int                     { return 2 }
func (toy) Replay(string) session.Replayer { return &toyReplay{} }

func (toy) Body(raw []byte) session.Body {
	return session.Body{Blocks: []session.Block{session.Text{Text: string(raw)}}}
}

func (toy) Identify(p string) (string, bool) {
	dir, base := path.Split(p)
	dir = strings.TrimSuffix(dir, "/")
	if base == "log" && dir != "" && !strings.Contains(dir, "/") {
		return dir, true
	}
	name, ok := strings.CutSuffix(base, ".log")
	return name, ok && name != "" && strings.Count(dir, "/") < 2
}

func (toy) Summarize(root session.Root, p string, _ session.Session) (session.Session, error) {
	if _, err := fs.Stat(root.FS, p); err != nil {
		return session.Session{}, err
	}
	native, _ := toy{}.Identify(p)
	return session.Session{ID: session.ID{Agent: "toy", Native: native}}, nil
}

func (toy) Decode(dst []session.Entry, l jsonl.Line) []session.Entry {
	e := session.Entry{
		ID:   strconv.FormatInt(l.Offset, 10),
		Pos:  session.Pos{Line: l.Num, Offset: l.Offset + int64(l.Lead), Length: len(l.Raw)},
		Kind: session.KindMessage,
		Role: session.User,
	}
	switch {
	case bytes.Equal(l.Raw, []byte("!compact")):
		e.Kind = session.KindCompaction
	case bytes.Equal(l.Raw, []byte("!replace")):
		e.Kind = session.KindReplace
	case bytes.Equal(l.Raw, []byte("!branch")):
		e.Mark = "branch"
	case len(l.Raw) == 0:
		return dst
	}
	return append(dst, e)
}

// toyReplay has the simplest of conversations: all messages behind the last
// mark.
type toyReplay struct{ entries []session.Entry }

func toyMark(e session.Entry) bool { return e.Kind != session.KindMessage || e.Mark != nil }

func (r *toyReplay) Add(e session.Entry) session.Effect {
	r.entries = append(r.entries, e)
	if toyMark(e) {
		return session.Rebuilt
	}
	return session.Extended
}

func (r *toyReplay) Transcript() *session.Transcript {
	return session.NewTranscript(r.entries, nil, func(entries []session.Entry, _ string) session.Resolution {
		var res session.Resolution
		for i, e := range entries {
			if toyMark(e) {
				res.Chain = nil
			} else {
				res.Chain = append(res.Chain, i)
			}
		}
		return res
	})
}

// toyCatalog stands in for the catalog where a test wants to see, or to hold
// up, what the Hub asks of it. Every file that may be a transcript is a row.
type toyCatalog struct {
	fs        vfs.FS
	scans     atomic.Int32
	refreshes atomic.Int32
	slow      chan struct{} // not nil: Refresh waits until it is closed

	mu    sync.Mutex
	roots []string
	rows  map[string]bool // by path
}

func newToyCatalog(fs vfs.FS, roots ...string) *toyCatalog {
	return &toyCatalog{roots: roots, rows: map[string]bool{}, fs: fs}
}

func (c *toyCatalog) lookup(id session.ID) (session.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.rows {
		if s, ok := c.row(p); ok && s.ID == id {
			return s, nil
		}
	}
	return session.Session{}, &session.NotFoundError{What: "session", Name: id.String()}
}

func (c *toyCatalog) row(p string) (session.Session, bool) {
	for _, root := range c.roots {
		if rel, ok := within(p, root); ok && rel != "" {
			native, ok := toy{}.Identify(filepath.ToSlash(rel[1:]))
			return session.Session{ID: session.ID{Agent: "toy", Native: native}, Root: root, Path: p}, ok
		}
	}
	return session.Session{}, false
}

func (c *toyCatalog) Format(agent string) (session.Format, bool) { return toy{}, agent == "toy" }

func (c *toyCatalog) Roots() []catalog.StoreRoot {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []catalog.StoreRoot
	for _, r := range c.roots {
		out = append(out, catalog.StoreRoot{Format: toy{}, Root: session.Root{Dir: r}})
	}
	return out
}

func (c *toyCatalog) OverlayDir() string { return "" }

func (c *toyCatalog) setRoots(roots ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roots = roots
}

func (c *toyCatalog) Scan(ctx context.Context, _ func(catalog.Change)) (catalog.Change, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	all = append(all, c.roots...)
	for p := range c.rows {
		all = append(all, p)
	}
	ch := c.update(all)
	c.scans.Add(1)
	return ch, nil
}

func (c *toyCatalog) Refresh(ctx context.Context, paths ...string) (catalog.Change, error) {
	c.refreshes.Add(1)
	if c.slow != nil {
		select {
		case <-c.slow:
		case <-ctx.Done():
			return catalog.Change{}, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.update(paths), nil
}

func (c *toyCatalog) update(paths []string) catalog.Change {
	var ch catalog.Change
	seen := map[string]bool{}
	for _, p := range paths {
		c.walk(p, &ch, seen)
		for old := range c.rows { // what was below it
			if _, ok := within(old, p); ok {
				c.walk(old, &ch, seen)
			}
		}
	}
	return ch
}

func (c *toyCatalog) walk(p string, ch *catalog.Change, seen map[string]bool) {
	if seen[p] {
		return
	}
	seen[p] = true
	info, err := c.fs.Stat(p)
	s, ok := c.row(p)
	switch {
	case err == nil && info.Mode.IsDir():
		entries, _ := c.fs.ReadDir(p)
		for _, e := range entries {
			c.walk(filepath.Join(p, e.Name()), ch, seen)
		}
	case err != nil && c.rows[p], err == nil && !ok && c.rows[p]:
		delete(c.rows, p)
		ch.Removed = append(ch.Removed, s.ID)
	case err != nil || !ok:
	case c.rows[p]:
		s.Size = info.Size
		ch.Updated = append(ch.Updated, catalog.Row{Session: s})
	default:
		s.Size = info.Size
		c.rows[p] = true
		ch.Added = append(ch.Added, catalog.Row{Session: s})
	}
}
