package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/journal"
)

// createTries is how often a colliding id is made anew.
const createTries = 10

// New makes a session of an agent in the directory cwd: its id, its
// directories where the agent makes them at once, and its row. The transcript
// appears with the first append. Errors: *session.NotFoundError for an
// unknown agent, *session.UnsupportedError, *session.InvalidError, and those
// of the disk.
func (c *Catalog) New(ctx context.Context, agent string, s session.Session, random io.Reader) (Row, Change, error) {
	f, ok := c.formats[agent]
	if !ok {
		return Row{}, Change{}, &session.NotFoundError{What: "agent", Name: agent}
	}
	creator, ok := f.(session.Creator)
	if !ok {
		return Row{}, Change{}, &session.UnsupportedError{Op: "new", Agent: agent, Why: "its sessions are made by the agent only"}
	}
	if !filepath.IsAbs(s.CWD) {
		return Row{}, Change{}, &session.InvalidError{Field: "cwd", Value: s.CWD, Why: "want an absolute path"}
	}
	root, change, err := c.rootFor(ctx, f, s.CWD)
	if err != nil {
		return Row{}, change, err
	}
	for range createTries {
		native, rel, dirs, err := creator.Create(root.Root, s, c.o.Clock, random)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return Row{}, change, err
		}
		file := filepath.Join(root.Root.Dir, filepath.FromSlash(rel))
		if c.exists(file) {
			continue
		}
		err = c.makeDirs(root.Root.Dir, native, dirs)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return Row{}, change, err
		}
		s.ID, s.Root, s.Path = session.ID{Agent: agent, Native: native}, root.Root.Dir, file
		row, more := c.pending(s)
		change.add(more)
		return row, change, nil
	}
	return Row{}, change, fmt.Errorf("no free session id in %q after %d tries", root.Root.Dir, createTries)
}

// makeDirs makes the directories of a session. One that bears its id must be
// new, since it reserves the id; others are shared with other sessions.
func (c *Catalog) makeDirs(root, native string, dirs []string) error {
	if len(dirs) == 0 {
		return nil
	}
	if err := c.o.FS.MkdirAll(root, 0o700); err != nil {
		return err
	}
	for _, d := range dirs {
		mk := c.o.FS.MkdirAll
		if path.Base(d) == native {
			mk = c.o.FS.Mkdir
		}
		dir := filepath.Join(root, filepath.FromSlash(d))
		if err := mk(dir, 0o700); err != nil {
			return err
		}
		if err := c.o.FS.SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// rootFor gives the store directory for new sessions in cwd, which becomes a
// workspace.
func (c *Catalog) rootFor(ctx context.Context, f session.Format, cwd string) (StoreRoot, Change, error) {
	change, _, err := c.AddWorkspace(ctx, cwd)
	if err != nil {
		return StoreRoot{}, change, err
	}
	c.mu.Lock()
	env := c.env
	c.mu.Unlock()
	env.Workspaces = []string{cwd}
	dirs := f.Roots(env)
	if len(dirs) == 0 {
		return StoreRoot{}, change, &session.UnsupportedError{Op: "new", Agent: f.Name(), Why: "it has no store directory here"}
	}
	dir := c.canonical(dirs[0])
	for _, r := range c.Roots() {
		if r.Root.Dir == dir && r.Format.Name() == f.Name() {
			return r, change, nil
		}
	}
	return StoreRoot{}, change, &session.UnsupportedError{Op: "new", Agent: f.Name(), Why: "its store is switched off"}
}

// pending publishes the row of a session whose transcript is still to come.
func (c *Catalog) pending(s session.Session) (Row, Change) {
	now := c.o.Clock.Now().UTC()
	s.Empty, s.CreatedAt, s.UpdatedAt, s.Kind = true, now, now, session.Main
	s.Revision, _ = journal.Revision(nothing{}, 0) // reading nothing cannot fail
	c.placeOf(s.CWD)
	c.mu.Lock()
	defer c.mu.Unlock()
	change := c.publish(patch{looks: []look{{
		path: s.Path, session: &s,
		known: known{agent: s.Agent, dir: s.Root, look: c.looks.Add(1), pending: true},
	}}})
	r, _ := c.snap.Load().Get(s.ID)
	return r, change
}
