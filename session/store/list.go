package store

import (
	"context"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
)

// ListOptions of List.
type ListOptions struct {
	Exclude      []string // ids, such as that of the session under way
	IncludeEmpty bool     // sessions without a message as well
}

// List gives the sessions of a workspace, those with the latest activity
// first. It makes nothing on disk.
func List(ctx context.Context, workspace string, o Options, l ListOptions) ([]session.Session, error) {
	c, err := scan(ctx, workspace, o.withDefaults())
	if err != nil {
		return nil, err
	}
	var out []session.Session
	q := catalog.Query{Exclude: l.Exclude, IncludeEmpty: l.IncludeEmpty, Archived: catalog.IncludeArchived, Limit: catalog.MaxLimit}
	for {
		p, err := c.Snapshot().List(q)
		if err != nil {
			return nil, err
		}
		for _, r := range p.Rows {
			out = append(out, r.Session)
		}
		if q.Cursor = p.Next; q.Cursor == "" {
			return out, nil
		}
	}
}

// PruneOptions of Prune.
type PruneOptions struct {
	OlderThan time.Duration // strictly older; 0 means DefaultAge
	ByCreated bool          // by creation instead of last activity
	DryRun    bool          // say what would be removed
}

// DefaultAge is after how long without activity a session is pruned.
const DefaultAge = 30 * 24 * time.Hour

// Prune moves old sessions of a workspace to the trash. Sessions that a
// writer holds are kept, and those that were resumed within the time.
func Prune(ctx context.Context, workspace string, o Options, p PruneOptions) (catalog.Pruned, error) {
	c, err := scan(ctx, workspace, o.withDefaults())
	if err != nil {
		return catalog.Pruned{}, err
	}
	if p.OlderThan == 0 {
		p.OlderThan = DefaultAge
	}
	return c.Prune(ctx, catalog.PruneOptions{OlderThan: p.OlderThan, ByCreated: p.ByCreated, DryRun: p.DryRun})
}

func scan(ctx context.Context, workspace string, o Options) (*catalog.Catalog, error) {
	c, err := openCatalog(workspace, o)
	if err != nil {
		return nil, err
	}
	_, err = c.Scan(ctx, nil)
	return c, err
}

func openCatalog(workspace string, o Options) (*catalog.Catalog, error) {
	f, _, err := find(workspace)
	if err != nil {
		return nil, err
	}
	env := o.Env
	env.Workspaces, env.Roots = []string{workspace}, nil
	return catalog.Open(catalog.Options{
		FS: o.FS, Env: env, Formats: []session.Format{f}, StateDir: o.StateDir, Clock: o.Clock, Limits: o.Limits,
	})
}

// noteResumed notes that the session goes on, for Prune.
func (c *Context) noteResumed(ctx context.Context) error {
	if c.o.StateDir == "" {
		return nil
	}
	cat, err := openCatalog(c.Workspace, c.o)
	if err != nil {
		return err
	}
	if _, err := cat.Refresh(ctx, c.JSONLPath); err != nil {
		return err
	}
	_, _, err = cat.Annotate(ctx, session.ID{Agent: agent, Native: c.ID}, func(n catalog.Note) catalog.Note {
		n.Resumed = c.o.Clock.Now().UTC()
		return n
	})
	return err
}
