package catalog

import (
	"context"
	"errors"
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
	// Permanently removes instead of moving to the trash.
	Permanently bool
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
// that run, are held, or were read or resumed through us within the time are
// kept and told of, as are those that could not be removed. A session is as
// active as the subagents that belong to it, which go with it. The error is
// that of ctx.
func (c *Catalog) Prune(ctx context.Context, o PruneOptions) (Pruned, error) {
	snap := c.snap.Load()
	helpers := snap.helpers()
	m := snap.matcher(Query{CWD: o.CWD, Agents: o.Agents, Archived: IncludeArchived, IncludeEmpty: true})
	p := pruning{c, o, c.o.Clock.Now()}
	var out Pruned
	var touched []string
	for _, r := range snap.matching(m) {
		if err := ctx.Err(); err != nil {
			break
		}
		if !p.old(r.Row) || !o.ByCreated && !p.isOld(helpers[r.ID]) {
			continue
		}
		bytes, why := p.remove(r, &touched)
		switch {
		case why == "":
			out.Sessions = append(out.Sessions, r.Row)
			out.Bytes += bytes
		case why != notOld:
			out.Kept = append(out.Kept, Kept{r.ID, why})
		}
	}
	var err error
	if len(touched) > 0 {
		out.Change, err = c.Refresh(context.WithoutCancel(ctx), touched...)
	}
	return out, errors.Join(ctx.Err(), err)
}

// helpers gives the last activity of the subagents of each session.
func (s *Snapshot) helpers() map[session.ID]time.Time {
	out := map[session.ID]time.Time{}
	for _, c := range s.chunks {
		for _, r := range c.rows {
			if r != nil && r.Kind == session.Subagent && r.UpdatedAt.After(out[r.Parent]) {
				out[r.Parent] = r.UpdatedAt
			}
		}
	}
	return out
}

// pruning is one run of Prune.
type pruning struct {
	c   *Catalog
	o   PruneOptions
	now time.Time
}

// isOld tells that t is before the time that is kept; an unknown time tells
// nothing.
func (p pruning) isOld(t time.Time) bool { return t.IsZero() || p.now.Sub(t) > p.o.OlderThan }

func (p pruning) old(r Row) bool {
	t := r.UpdatedAt
	if p.o.ByCreated {
		t = r.CreatedAt
	}
	return !t.IsZero() && p.isOld(t)
}

// notOld is the reason for a session that was written since it was listed.
const notOld = "it is not old any more"

// remove deletes a session, or says why not. A dry run looks as closely.
func (p pruning) remove(r *row, touched *[]string) (bytes int64, why string) {
	own := p.c.belongings(r.Row)
	bytes, err := p.c.sizeOf(own)
	if err != nil {
		return 0, err.Error()
	}
	if p.o.DryRun {
		now, _ := p.c.fresh(r)
		if err := p.c.inside(r.Row); err != nil {
			return bytes, err.Error()
		}
		if _, _, held := p.c.o.FS.Holder(journal.LockPath(r.Path)); held {
			return bytes, "a writer holds it"
		}
		return bytes, p.keep(now)
	}
	keep := &kept{}
	_, err = p.c.remove(r, own, DeleteOptions{Permanently: p.o.Permanently}, func(now Row) error {
		if keep.why = p.keep(now); keep.why != "" {
			return keep
		}
		return nil
	})
	switch {
	case err == nil:
		*touched = append(append(*touched, own...), r.Path)
		return bytes, ""
	case errors.Is(err, keep):
		return bytes, keep.why
	case errors.Is(err, session.ErrNotFound):
		*touched = append(*touched, r.Path)
		return bytes, notOld
	case errors.Is(err, session.ErrLocked):
		return bytes, "a writer holds it"
	}
	*touched = append(append(*touched, own...), r.Path)
	return bytes, err.Error()
}

// kept stops a removal.
type kept struct{ why string }

func (k *kept) Error() string { return k.why }

// keep gives the reason why a session stays.
func (p pruning) keep(r Row) string {
	switch {
	case !p.old(r):
		return notOld
	case r.Status == session.StatusRunning:
		return "it is running"
	case r.WriterPID != 0:
		return "a process has it open"
	case !r.Note.Resumed.IsZero() && !p.isOld(r.Note.Resumed):
		return "it was resumed recently"
	case !r.Note.ReadAt.IsZero() && !p.isOld(r.Note.ReadAt):
		return "it was read recently"
	case p.o.Keep != nil:
		return p.o.Keep(r)
	}
	return ""
}
