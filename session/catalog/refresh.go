package catalog

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"strings"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/journal"
)

// Refresh looks at some paths (transcripts, side files, lock files, registers
// of processes, directories, files of notes) again.
func (c *Catalog) Refresh(ctx context.Context, paths ...string) (Change, error) {
	var all Change
	var errs []error
	done := map[string]bool{}
	for _, p := range paths {
		if dir := c.notes.Dir(); dir != "" {
			if _, in := below(dir, p); in {
				c.mu.Lock()
				all.add(c.reload(ctx))
				c.mu.Unlock()
				continue
			}
		}
		ch, err := c.refresh(ctx, p, done)
		all.add(ch)
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

func (c *Catalog) refresh(ctx context.Context, p string, done map[string]bool) (Change, error) {
	c.mu.Lock()
	r, rel, ok := c.rootOf(p)
	var above []StoreRoot // p may be a directory above roots, made or removed
	if !ok {
		for _, r := range c.roots {
			if _, in := below(p, r.Root.Dir); in {
				above = append(above, r)
			}
		}
	}
	c.mu.Unlock()
	if !ok {
		return c.scan(ctx, above, nil)
	}
	once := func(what string) bool {
		key := r.Format.Name() + "\x00" + r.Root.Dir + "\x00" + what
		defer func() { done[key] = true }()
		return !done[key]
	}
	if f, ok := r.Format.(session.Registry); ok && f.Registers(rel) {
		if !once(path.Dir(rel)) {
			return Change{}, nil
		}
		return c.register(r), nil
	}
	force := false
	if name, ok := locked(path.Base(rel)); ok {
		rel = path.Join(path.Dir(rel), name) // a lock was taken or released
	} else if owner, ok := r.Format.Owner(rel); ok {
		rel, force = owner, true
	}
	if !once(rel) {
		return Change{}, nil
	}
	if _, ok := r.Format.Identify(rel); ok {
		return c.refreshOne(r, rel, force), nil
	}
	var all Change
	if rel == "" {
		all.add(c.register(r))
	}
	if rel == "" || strings.Count(rel, "/") < r.Format.Depth() {
		err := c.scanDir(ctx, r, rel, all.add)
		return all, err
	}
	return all, nil
}

func (c *Catalog) refreshOne(r StoreRoot, rel string, force bool) Change {
	t := target{root: r, rel: rel, path: filepath.Join(r.Root.Dir, filepath.FromSlash(rel)), force: force}
	t.lock = c.exists(journal.LockPath(t.path))
	t.lazy = c.expected(r.Format, r.Root.Dir, t.path)
	l, o := c.look(t)
	_, lazy := r.Format.(session.Lazy)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case o == changed:
		return c.publish(patch{looks: []look{l}})
	case o == gone && (lazy || !c.known[t.path].pending):
		return c.publish(patch{gone: []goneLook{{path: t.path, num: l.known.look}}})
	}
	return Change{}
}
