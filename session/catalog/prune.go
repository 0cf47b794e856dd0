package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/journal"
)

// PruneOptions of Prune.
type PruneOptions struct {
	OlderThan time.Duration // strictly older
	ByCreated bool          // by creation instead of last activity
	CWD       string        // only sessions of this directory
	Agents    []string
	DryRun    bool
	Keep      func(Row) string // a reason to keep it, or ""
}

// Pruned is what Prune removed or would remove.
type Pruned struct {
	Sessions []Row
	Bytes    int64 // of transcripts and side files
	Kept     []Kept
	Change   Change
}

// Kept names a session that is old enough and was kept all the same.
type Kept struct {
	ID  session.ID
	Why string
}

// Prune removes old sessions with their side files to the trash. Sessions
// that run, are held, wait for an answer, or were read or resumed through us
// within the time are kept, and told of.
func (c *Catalog) Prune(ctx context.Context, o PruneOptions) (Pruned, error) {
	now := c.o.Clock.Now()
	snap := c.snap.Load()
	m := snap.matcher(Query{CWD: o.CWD, Agents: o.Agents, Archived: IncludeArchived, IncludeEmpty: true})
	var out Pruned
	var errs []error
	for _, r := range snap.matching(m) {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		age := r.UpdatedAt
		if o.ByCreated {
			age = r.CreatedAt
		}
		if age.IsZero() || now.Sub(age) <= o.OlderThan {
			continue
		}
		if why := c.keep(r, now, o); why != "" {
			out.Kept = append(out.Kept, Kept{r.ID, why})
			continue
		}
		bytes, err := c.sizeOf(r.Row)
		if err == nil && !o.DryRun {
			var ch Change
			ch, _, err = c.Delete(ctx, r.ID, false)
			out.Change.add(ch)
		}
		if err != nil {
			out.Kept = append(out.Kept, Kept{r.ID, err.Error()})
			errs = append(errs, err)
			continue
		}
		out.Sessions = append(out.Sessions, r.Row)
		out.Bytes += bytes
	}
	return out, errors.Join(errs...)
}

// keep gives the reason why an old session stays.
func (c *Catalog) keep(r *row, now time.Time, o PruneOptions) string {
	_, _, held := c.o.FS.Holder(journal.LockPath(r.Path))
	switch {
	case held:
		return "a writer holds it"
	case r.Status == session.StatusRunning:
		return "it is running"
	case now.Sub(r.Note.Resumed) <= o.OlderThan:
		return "it was resumed recently"
	case now.Sub(r.Note.ReadAt) <= o.OlderThan:
		return "it was read recently"
	}
	if o.Keep != nil {
		return o.Keep(r.Row)
	}
	return ""
}

// belongings gives the files and directories of a session: the transcript,
// our lock file, and what the format says belongs to it.
func (c *Catalog) belongings(r Row) []string {
	if l, ok := c.formats[r.Agent].(session.Lazy); ok {
		// The directory is the session's own.
		dir := filepath.Dir(r.Path)
		if rel, in := below(r.Root, dir); in {
			if _, ok := l.Expected(rel); ok {
				return []string{dir}
			}
		}
	}
	out := []string{r.Path}
	if lock := journal.LockPath(r.Path); c.exists(lock) {
		out = append(out, lock)
	}
	if side := strings.TrimSuffix(r.Path, filepath.Ext(r.Path)); side != r.Path && c.exists(side) {
		rel, in := below(r.Root, filepath.Join(side, "x"))
		if _, owned := c.formats[r.Agent].Owner(rel); in && owned {
			out = append(out, side)
		}
	}
	return out
}

func (c *Catalog) exists(path string) bool {
	_, err := c.o.FS.Lstat(path)
	return err == nil
}

// sizeOf adds up the bytes of a session's files. Links are not followed.
func (c *Catalog) sizeOf(r Row) (int64, error) {
	var total int64
	var add func(path string) error
	add = func(path string) error {
		i, err := c.o.FS.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if !i.Mode.IsDir() {
			total += i.Size
			return nil
		}
		list, err := c.o.FS.ReadDir(path)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := add(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
		return nil
	}
	for _, p := range c.belongings(r) {
		if err := add(p); err != nil {
			return total, err
		}
	}
	return total, nil
}

// ErrRunning: a session that is being written is not deleted.
var ErrRunning = errors.New("session is running")

// Delete moves a session with its side files to the trash of the system, or
// removes it. trashed names where the transcript went. What lies outside the
// session's store is never touched, and links are not followed.
func (c *Catalog) Delete(ctx context.Context, id session.ID, permanently bool) (change Change, trashed string, err error) {
	r, _, ok := c.snap.Load().find(id)
	if !ok {
		return Change{}, "", &session.NotFoundError{What: "session", Name: id.String()}
	}
	for _, p := range c.belongings(r.Row) {
		if _, in := below(r.Root, p); !in || p == r.Root {
			return Change{}, "", fmt.Errorf("%q is outside of its store %q", p, r.Root)
		}
		var where string
		if permanently {
			err = c.o.FS.RemoveAll(p)
		} else {
			where, err = c.trash(p)
		}
		if err != nil {
			return Change{}, trashed, err
		}
		if trashed == "" {
			trashed = where
		}
	}
	change, err = c.Refresh(ctx, r.Path)
	return change, trashed, err
}
