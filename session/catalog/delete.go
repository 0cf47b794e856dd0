package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// DeleteOptions of Delete.
type DeleteOptions struct {
	Permanently bool // instead of moving it to the trash
	Force       bool // even while it runs
}

// Delete moves a session with its side files to the trash of the system, or
// removes it. trashed names where the transcript went. What does not lie in
// the session's store is never touched, and links are not followed. Errors:
// *session.NotFoundError; *session.LockedError for a session that runs or is
// held, unless o.Force; and those of the disk, after which a part may be gone.
func (c *Catalog) Delete(ctx context.Context, id session.ID, o DeleteOptions) (change Change, trashed string, err error) {
	r, _, ok := c.snap.Load().find(id)
	if !ok {
		return Change{}, "", &session.NotFoundError{What: "session", Name: id.String()}
	}
	own := c.belongings(r.Row)
	trashed, err = c.remove(r, own, o, func(Row) error { return nil })
	if err == nil {
		c.mu.Lock()
		change = c.publish(patch{gone: []goneLook{{path: r.Path, num: c.looks.Add(1)}}})
		c.mu.Unlock()
	}
	more, rerr := c.Refresh(context.WithoutCancel(ctx), own...)
	change.add(more)
	return change, trashed, errors.Join(err, rerr)
}

// remove deletes what belongs to a session, if ok says so of the session as
// it is now. It asks before it takes the lock, which can leave a lock file,
// and again under it.
func (c *Catalog) remove(r *row, own []string, o DeleteOptions, ok func(Row) error) (trashed string, err error) {
	check := func() error {
		now, there := c.fresh(r)
		switch {
		case !there:
			return &session.NotFoundError{What: "session", Name: r.ID.String()}
		case !o.Force && (now.Status == session.StatusRunning || now.WriterPID != 0 && now.WriterPID != c.o.PID):
			return &session.LockedError{Path: r.Path, PID: now.WriterPID, Since: now.WriterSince}
		}
		return ok(now)
	}
	if err := errors.Join(c.inside(r.Row), check()); err != nil {
		return "", err
	}
	release, err := c.seize(r.Path, o.Force)
	if err != nil {
		return "", err
	}
	if err := check(); err != nil {
		return "", errors.Join(err, release())
	}
	if c.o.Env.GOOS == "windows" { // where an open file cannot be removed
		if err := release(); err != nil {
			return "", err
		}
	}
	for _, p := range own {
		where := ""
		if o.Permanently || p == journal.LockPath(r.Path) {
			err = c.o.FS.RemoveAll(p)
		} else {
			where, err = c.trash(p)
		}
		if err != nil {
			break
		}
		trashed = cmp.Or(trashed, where)
	}
	return trashed, errors.Join(err, release())
}

// seize takes the lock of a transcript, so that no writer of ours comes in
// between. One that this process holds itself is left to it.
func (c *Catalog) seize(path string, force bool) (release func() error, err error) {
	nothing := func() error { return nil }
	// The lock is free or not: nobody is waited for.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	lock, err := c.o.FS.Lock(ctx, journal.LockPath(path))
	var held *vfs.LockHeldError
	switch {
	case err == nil:
		return lock.Unlock, nil
	case isMissing(err): // its directory is gone or still to come
		return nothing, nil
	case errors.As(err, &held):
		if force || held.PID == c.o.PID {
			return nothing, nil
		}
		return nil, &session.LockedError{Path: held.Path, PID: held.PID, Since: held.Since}
	}
	return nil, err
}

// fresh is the row as the transcript is now, without publishing it.
func (c *Catalog) fresh(r *row) (now Row, exists bool) {
	c.mu.Lock()
	root, rel, ok := c.rootOf(r.Path)
	pending := c.known[r.Path].pending
	c.mu.Unlock()
	if !ok {
		return r.Row, c.exists(r.Path)
	}
	t := target{root: root, rel: rel, path: r.Path, lazy: c.expected(root.Format, root.Root.Dir, r.Path)}
	l, o := c.look(t)
	switch {
	case o == gone:
		return r.Row, pending
	case o == changed && l.session != nil:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.fill(*l.session, l.holder).Row, true
	}
	return r.Row, true
}

// inside makes sure that a transcript lies in its store, and not behind a link.
func (c *Catalog) inside(r Row) error {
	dir := filepath.Dir(r.Path)
	real, err := c.o.FS.EvalSymlinks(dir)
	if isMissing(err) {
		return nil // there is nothing to delete
	}
	if err != nil {
		return err
	}
	if _, in := below(r.Root, real); !in || real != dir {
		return fmt.Errorf("transcript %q is outside of its store %q, behind a link; delete it there", r.Path, r.Root)
	}
	return nil
}

// belongings gives the files and directories of a session: the transcript
// first, then what its format says is its own, and our lock file.
func (c *Catalog) belongings(r Row) []string {
	f := c.formats[r.Agent]
	dir := filepath.Dir(r.Path)
	if l, ok := f.(session.Lazy); ok {
		if rel, in := below(r.Root, dir); in && rel != "" {
			if _, ok := l.Expected(rel); ok { // the directory is the session's own
				return []string{dir}
			}
		}
	}
	out := []string{r.Path}
	transcript, _ := below(r.Root, r.Path)
	own := func(rel string) bool {
		owner, ok := f.Owner(rel)
		return ok && owner == transcript
	}
	for _, p := range append([]string{strings.TrimSuffix(r.Path, filepath.Ext(r.Path))}, r.SideFiles...) {
		rel, in := below(r.Root, p)
		if !in || rel == "" || slices.Contains(out, p) {
			continue
		}
		if i, err := c.o.FS.Lstat(p); err == nil && (own(rel) || i.Mode.IsDir() && own(rel+"/x")) {
			out = append(out, p)
		}
	}
	return append(out, journal.LockPath(r.Path))
}

func (c *Catalog) exists(path string) bool {
	_, err := c.o.FS.Lstat(path)
	return err == nil
}

// sizeOf adds up the bytes of files and directories. Links are not followed.
func (c *Catalog) sizeOf(paths []string) (int64, error) {
	var total int64
	for _, path := range paths {
		i, err := c.o.FS.Lstat(path)
		switch {
		case isMissing(err):
			continue
		case err != nil:
			return total, err
		case !i.Mode.IsDir():
			total += i.Size
			continue
		}
		list, err := c.o.FS.ReadDir(path)
		if err != nil {
			return total, err
		}
		var below []string
		for _, e := range list {
			below = append(below, filepath.Join(path, e.Name()))
		}
		n, err := c.sizeOf(below)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}
