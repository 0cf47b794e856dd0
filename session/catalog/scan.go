package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// errNotDir: a part of a path is a file now.
var errNotDir = syscall.ENOTDIR

// scanBatch and scanEvery bound what is collected before rows are published
// during a scan.
const (
	scanBatch = 256
	scanEvery = 30 * time.Millisecond
)

// find is one transcript that a walk came upon.
type find struct {
	root   StoreRoot
	rel    string
	path   string
	info   vfs.Info
	exists bool // false: the directory waits for its transcript
	lock   bool // a lock file of ours lies beside it
}

// Scan looks at all stores and publishes what changed; progress (may be nil)
// gets every batch of rows as it is found. Transcripts that are as they were
// are not opened.
func (c *Catalog) Scan(ctx context.Context, progress func(Change)) (Change, error) {
	c.mu.Lock()
	roots := slices.Clone(c.roots)
	clear(c.cwds)
	first := c.reload()
	c.mu.Unlock()
	change, err := c.scan(ctx, roots, progress)
	first.add(change)
	if err == nil {
		c.once.Do(func() { close(c.scanned) })
	}
	return first, err
}

func (c *Catalog) scan(ctx context.Context, roots []StoreRoot, progress func(Change)) (Change, error) {
	var all Change
	var errs []error
	for _, r := range roots {
		ch, err := c.scanDir(ctx, r, "", progress)
		all.add(ch)
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// scanDir walks dir (below r) and brings the rows below it up to date.
func (c *Catalog) scanDir(ctx context.Context, r StoreRoot, dir string, progress func(Change)) (Change, error) {
	finds := make(chan find)
	made := make(chan *known)
	var work sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for f := range finds {
				if k := c.inspect(f, false); k != nil {
					select {
					case made <- k:
					case <-ctx.Done():
					}
				}
			}
		})
	}
	seen := map[string]bool{}
	var walkErr error
	go func() { // ends before this function returns: made is drained below
		walkErr = c.walk(ctx, r, dir, func(f find) error {
			seen[f.path] = true
			select {
			case finds <- f:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(finds)
		work.Wait()
		close(made)
	}()

	var all Change
	var batch []*known
	flush := func() {
		c.mu.Lock()
		ch := c.publish(batch, nil)
		c.mu.Unlock()
		batch = nil
		all.add(ch)
		if progress != nil && !ch.Empty() {
			progress(ch)
		}
	}
	due := time.NewTimer(scanEvery)
	defer due.Stop()
	for open := true; open; {
		select {
		case k, ok := <-made:
			if open = ok; ok {
				batch = append(batch, k)
			}
		case <-due.C:
			flush()
			due.Reset(scanEvery)
		}
		if len(batch) >= scanBatch {
			flush()
		}
	}
	flush()
	if walkErr != nil { // then what was not seen may still be there
		return all, walkErr
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var gone []string
	base := filepath.Join(r.Root.Dir, filepath.FromSlash(dir))
	for p, k := range c.known {
		if k.dir != r.Root.Dir || k.row.Agent != r.Format.Name() || seen[p] {
			continue
		}
		if _, in := below(base, p); in && c.vanished(k, p) {
			gone = append(gone, p)
		}
	}
	ch := c.publish(nil, gone)
	if progress != nil && !ch.Empty() {
		progress(ch)
	}
	all.add(ch)
	return all, nil
}

// vanished makes sure that a transcript is gone, and not only made after the
// walk had passed.
func (c *Catalog) vanished(k *known, path string) bool {
	if k.pending {
		return false
	}
	if _, err := c.o.FS.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotDir) {
		return false
	}
	f, rel, ok := c.expected(k.row.Agent, k.dir, path)
	return !ok || f == nil || rel == ""
}

// expected tells whether the directory of a missing transcript still waits for it.
func (c *Catalog) expected(agent, root, path string) (f session.Lazy, rel string, ok bool) {
	f, ok = c.formats[agent].(session.Lazy)
	if !ok {
		return nil, "", false
	}
	dir := filepath.Dir(path)
	info, err := c.o.FS.Stat(dir)
	if err != nil || !info.Mode.IsDir() {
		return nil, "", false
	}
	relDir, _ := below(root, dir)
	rel, ok = f.Expected(relDir)
	return f, rel, ok
}

// walk visits the transcripts below dir (slash path below r), no deeper than
// the format looks. A directory that cannot be read is passed over.
func (c *Catalog) walk(ctx context.Context, r StoreRoot, dir string, visit func(find) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s, ok := r.Format.(session.Scoped); ok && !s.Enter(cmp.Or(dir, ".")) {
		return nil
	}
	abs := filepath.Join(r.Root.Dir, filepath.FromSlash(dir))
	list, err := c.o.FS.ReadDir(abs)
	if err != nil {
		return nil //nolint:nilerr // a missing or unreadable directory has no sessions
	}
	locks := map[string]bool{}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") && strings.HasSuffix(e.Name(), ".agent-ls.lock") {
			locks[e.Name()] = true
		}
	}
	deeper := dir == "" || strings.Count(dir, "/")+1 < r.Format.Depth()
	found := false
	for _, e := range list {
		rel := path.Join(dir, e.Name())
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 && c.isDir(filepath.Join(abs, e.Name())) {
			if deeper {
				if err := c.walk(ctx, r, rel, visit); err != nil {
					return err
				}
			}
			continue
		}
		if _, ok := r.Format.Identify(rel); !ok {
			continue
		}
		found = true
		f := find{root: r, rel: rel, path: filepath.Join(abs, e.Name())}
		f.lock = locks[filepath.Base(journal.LockPath(f.path))]
		if f.info, err = c.o.FS.Stat(f.path); err != nil {
			continue // it vanished
		}
		f.exists = true
		if err := visit(f); err != nil {
			return err
		}
	}
	if lazy, ok := r.Format.(session.Lazy); ok && !found && dir != "" {
		if rel, ok := lazy.Expected(dir); ok {
			f := find{root: r, rel: rel, path: filepath.Join(r.Root.Dir, filepath.FromSlash(rel))}
			f.lock = locks[filepath.Base(journal.LockPath(f.path))]
			return visit(f)
		}
	}
	return nil
}

func (c *Catalog) isDir(path string) bool {
	i, err := c.o.FS.Stat(path)
	return err == nil && i.Mode.IsDir()
}

// inspect makes the row of a transcript; nil where nothing has changed, or
// where the file is no session. force summarizes even an unchanged file.
func (c *Catalog) inspect(f find, force bool) *known {
	c.mu.Lock()
	old := c.known[f.path]
	c.mu.Unlock()
	pid, since, held := 0, time.Time{}, false
	if f.lock {
		pid, since, held = c.o.FS.Holder(journal.LockPath(f.path))
		held = held && pid != c.o.PID
	}
	same := old != nil && !force && old.id == f.info.ID && old.size == f.info.Size && old.mod.Equal(f.info.ModTime)
	if same && held == (old.row.lockPID != 0) && (!held || pid == old.row.lockPID) {
		return nil
	}
	k := &known{dir: f.root.Root.Dir, id: f.info.ID, size: f.info.Size, mod: f.info.ModTime}
	var s session.Session
	if same {
		s = old.row.own
	} else {
		var prev session.Session
		if old != nil && old.id == f.info.ID && old.size <= f.info.Size && c.unchangedTo(f.path, old) {
			prev = old.row.own
		}
		var err error
		s, err = f.root.Format.Summarize(f.root.Root, f.rel, prev)
		switch {
		case errors.Is(err, session.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			// A bad session never empties the list: it is shown with what is known.
			c.o.Report(fmt.Errorf("transcript %q: %w", f.path, err))
			native, _ := f.root.Format.Identify(f.rel)
			s.ID = session.ID{Agent: f.root.Format.Name(), Native: native}
			s.Physical, s.Effective, s.Problems = session.UnknownCount, session.UnknownCount, 1
		}
		s.Root, s.Path, s.Size, s.ModTime = f.root.Root.Dir, f.path, f.info.Size, f.info.ModTime
		s.Revision = c.revision(f)
		if s.UpdatedAt.IsZero() {
			s.UpdatedAt = f.info.ModTime.UTC()
		}
	}
	k.row = &row{own: s, lockPID: 0}
	if held {
		k.row.lockPID, k.row.lockSince = pid, since
	}
	return k
}

// unchangedTo tells whether the bytes that the old row knew are still there.
func (c *Catalog) unchangedTo(path string, old *known) bool {
	h, err := c.o.FS.Open(path)
	if err != nil {
		return false
	}
	defer h.Close() //nolint:errcheck // only read
	rev, err := journal.Revision(h, old.size)
	return err == nil && rev == old.row.own.Revision
}

func (c *Catalog) revision(f find) session.Revision {
	if !f.exists {
		rev, _ := journal.Revision(nothing{}, 0) // reading nothing cannot fail
		return rev
	}
	h, err := c.o.FS.Open(f.path)
	if err != nil {
		return ""
	}
	defer h.Close() //nolint:errcheck // only read
	rev, err := journal.Revision(h, f.info.Size)
	if err != nil {
		return ""
	}
	return rev
}

// Refresh looks at some paths (transcripts, side files, directories, files of
// notes) again.
func (c *Catalog) Refresh(ctx context.Context, paths ...string) (Change, error) {
	var all Change
	var errs []error
	done := map[string]bool{}
	for _, p := range paths {
		if dir := c.notes.Dir(); dir != "" {
			if _, in := below(dir, p); in {
				c.mu.Lock()
				all.add(c.reload())
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
	force := false
	if base := path.Base(rel); strings.HasPrefix(base, ".") && strings.HasSuffix(base, ".agent-ls.lock") {
		// A lock was taken or released: look at its transcript.
		rel = path.Join(path.Dir(rel), strings.TrimSuffix(strings.TrimPrefix(base, "."), ".agent-ls.lock"))
	} else if owner, ok := r.Format.Owner(rel); ok {
		rel, force = owner, true
	}
	if _, ok := r.Format.Identify(rel); !ok {
		if rel == "" || strings.Count(rel, "/") < r.Format.Depth() {
			return c.scanDir(ctx, r, rel, nil)
		}
		return Change{}, nil
	}
	if done[rel] {
		return Change{}, nil
	}
	done[rel] = true
	return c.refreshOne(r, rel, force)
}

func (c *Catalog) refreshOne(r StoreRoot, rel string, force bool) (Change, error) {
	f := find{root: r, rel: rel, path: filepath.Join(r.Root.Dir, filepath.FromSlash(rel))}
	if _, err := c.o.FS.Lstat(journal.LockPath(f.path)); err == nil {
		f.lock = true
	}
	info, err := c.o.FS.Stat(f.path)
	switch {
	case err == nil:
		f.info, f.exists = info, true
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir):
		if _, _, ok := c.expected(r.Format.Name(), r.Root.Dir, f.path); !ok {
			c.mu.Lock()
			defer c.mu.Unlock()
			if k, ok := c.known[f.path]; !ok || k.pending {
				return Change{}, nil
			}
			return c.publish(nil, []string{f.path}), nil
		}
	default:
		return Change{}, err
	}
	k := c.inspect(f, force)
	if k == nil {
		return Change{}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.publish([]*known{k}, nil), nil
}
