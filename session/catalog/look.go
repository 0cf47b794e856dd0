package catalog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// errNotDir: a part of a path is a file now.
var errNotDir = syscall.ENOTDIR

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir) }

// target is a transcript to be looked at.
type target struct {
	root StoreRoot
	rel  string // below the root, slash-separated
	path string
	lock bool // a lock file of ours lies beside it
	// lazy: a directory waits for the transcript, which may be missing.
	lazy bool
	// force summarizes even a file that is as it was.
	force bool
}

// outcome of a look.
type outcome uint8

const (
	gone      outcome = iota // there is no such transcript
	unchanged                // it is as known
	changed                  // the look says how
)

// look looks at a transcript; one that is as it was is not opened.
func (c *Catalog) look(t target) (look, outcome) {
	l := look{path: t.path, known: known{
		agent: t.root.Format.Name(), dir: t.root.Root.Dir, look: c.looks.Add(1),
	}}
	info, err := c.o.FS.Stat(t.path)
	if isMissing(err) && !t.lazy || err == nil && !info.Mode.IsRegular() {
		return l, gone
	}
	if err == nil {
		l.known.stamp = stampOf(info)
	}
	c.mu.Lock()
	old, had := c.known[t.path]
	c.mu.Unlock()
	if t.lock {
		l.holder = c.holder(t.path)
	}
	if had && !t.force && !old.failed && old.stamp.same(l.known.stamp) {
		if old.row == nil || old.row.holder.pid == l.holder.pid {
			return l, unchanged
		}
		s := old.row.asStored()
		l.session, l.known.pending = &s, old.pending
		return l, changed
	}
	if err != nil && !isMissing(err) {
		c.unreadable(&l, t, old, err)
		return l, changed
	}
	return c.summarize(l, t, old, info)
}

// summarize makes the session of a look.
func (c *Catalog) summarize(l look, t target, old known, info vfs.Info) (look, outcome) {
	var prev session.Session
	if old.row != nil && old.stamp.sameFile(l.known.stamp) && old.stamp.size <= info.Size && c.unchangedTo(t.path, old) {
		prev = old.row.asStored()
	}
	s, err := t.root.Format.Summarize(t.root.Root, t.rel, prev)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return l, changed // no session, or none any more
	case errors.Is(err, fs.ErrNotExist):
		return l, gone
	case err != nil:
		c.unreadable(&l, t, old, err)
		return l, changed
	}
	s.Root, s.Path, s.Size, s.ModTime = t.root.Root.Dir, t.path, info.Size, info.ModTime.UTC()
	if l.known.stamp == (stamp{}) { // still to come
		s.ModTime = time.Time{}
	}
	if s.Revision, err = c.revision(t.path, info.Size); err != nil {
		c.unreadable(&l, t, old, err)
		return l, changed
	}
	if s.UpdatedAt.IsZero() {
		s.UpdatedAt = s.ModTime
	}
	c.placeOf(s.CWD)
	l.session = &s
	return l, changed
}

// unreadable makes the row of a transcript that cannot be read: a bad session
// never empties a list, it is shown with what is known of it.
func (c *Catalog) unreadable(l *look, t target, old known, err error) {
	if !old.failed {
		c.o.Report(fmt.Errorf("transcript %q: %w", t.path, err))
	}
	var s session.Session
	if old.row != nil {
		s = old.row.asStored()
	} else {
		native, _ := t.root.Format.Identify(t.rel)
		s.ID = session.ID{Agent: t.root.Format.Name(), Native: native}
		s.Physical, s.Effective = session.UnknownCount, session.UnknownCount
		s.Root, s.Path, s.Size = t.root.Root.Dir, t.path, l.known.stamp.size
		s.ModTime = time.Unix(0, l.known.stamp.mod).UTC()
		s.UpdatedAt = s.ModTime
	}
	s.Problems = max(1, s.Problems)
	l.session, l.known.failed = &s, true
}

// unchangedTo tells whether the bytes that the old row knew are still there.
func (c *Catalog) unchangedTo(path string, old known) bool {
	rev, err := c.revision(path, old.stamp.size)
	return err == nil && rev == old.row.Revision
}

// revision identifies the first size bytes of a file.
func (c *Catalog) revision(path string, size int64) (session.Revision, error) {
	if size == 0 {
		return journal.Revision(nothing{}, 0)
	}
	h, err := c.o.FS.Open(path)
	if err != nil {
		return "", err
	}
	rev, err := journal.Revision(h, size)
	return rev, errors.Join(err, h.Close())
}

// nothing is an empty file.
type nothing struct{}

func (nothing) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// appendTime is longer than an append of another process holds the lock. Who
// holds it longer has the session open.
const appendTime = 250 * time.Millisecond

// holder tells which other process has the session at path open through us.
func (c *Catalog) holder(path string) holder {
	pid, since, held := c.o.FS.Holder(journal.LockPath(path))
	if !held || pid == 0 || pid == c.o.PID || c.o.Alive != nil && !c.o.Alive(pid) {
		return holder{}
	}
	if age := c.o.Clock.Now().Sub(since); age >= 0 && age < appendTime {
		return holder{}
	}
	return holder{pid, since}
}

// lockSuffix ends the names of our lock files; see journal.LockPath.
const lockSuffix = ".agent-ls.lock"

// locked gives the name of the transcript that a lock file is for.
func locked(name string) (transcript string, ok bool) {
	rest, dot := strings.CutPrefix(name, ".")
	transcript, ok = strings.CutSuffix(rest, lockSuffix)
	return transcript, ok && dot
}

// expected tells whether the directory of a missing transcript waits for it.
func (c *Catalog) expected(f session.Format, root, path string) bool {
	lazy, ok := f.(session.Lazy)
	if !ok {
		return false
	}
	dir := filepath.Dir(path)
	rel, in := below(root, dir)
	if !in {
		return false
	}
	want, ok := lazy.Expected(rel)
	if !ok || filepath.Join(root, filepath.FromSlash(want)) != path {
		return false
	}
	info, err := c.o.FS.Stat(dir)
	return err == nil && info.Mode.IsDir()
}
