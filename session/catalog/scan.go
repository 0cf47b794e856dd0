package catalog

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-ls/agent-ls/session"
)

// scanBatch and scanEvery bound what is collected before rows are published
// during a scan.
const (
	scanBatch = 256
	scanEvery = 30 * time.Millisecond
)

// Scan looks at all stores and publishes what changed; progress (may be nil)
// gets every batch of rows as it is found. Transcripts that are as they were
// are not opened. The error is that of ctx; what cannot be read is reported
// and passed over.
func (c *Catalog) Scan(ctx context.Context, progress func(Change)) (Change, error) {
	var all Change
	tell := func(ch Change) {
		all.add(ch)
		if progress != nil && !ch.Empty() {
			progress(ch)
		}
	}
	c.mu.Lock()
	c.findRoots()
	roots := slices.Clone(c.roots)
	ch := c.reload(ctx)
	ch.add(c.dropRoots())
	c.mu.Unlock()
	tell(ch)
	c.Restore()
	tell(c.visitPlaces(ctx))
	_, err := c.scan(ctx, roots, tell)
	if err == nil {
		c.once.Do(func() { close(c.scanned) })
	}
	c.Flush()
	for _, k := range c.snap.Load().chunks { // so that no query has to
		if ctx.Err() != nil {
			break
		}
		k.indexed()
	}
	return all, err
}

// scan brings the rows of some roots up to date.
func (c *Catalog) scan(ctx context.Context, roots []StoreRoot, tell func(Change)) (Change, error) {
	var all Change
	for _, r := range roots {
		one := func(ch Change) {
			all.add(ch)
			if tell != nil {
				tell(ch)
			}
		}
		one(c.register(r))
		if err := c.scanDir(ctx, r, "", one); err != nil {
			return all, err
		}
	}
	return all, ctx.Err()
}

// visitPlaces looks at all working directories again.
func (c *Catalog) visitPlaces(ctx context.Context) Change {
	c.mu.Lock()
	list := c.places.list
	c.mu.Unlock()
	var other []place
	for _, old := range list[1:] {
		if ctx.Err() != nil {
			return Change{}
		}
		if now := c.examine(old.cwd); now != old {
			other = append(other, now)
		}
	}
	if len(other) == 0 {
		return Change{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	differs := map[string]bool{}
	for _, p := range other {
		c.places.put(p)
		differs[p.cwd] = true
	}
	var p patch
	for path, k := range c.known {
		if k.row != nil && differs[k.row.CWD] {
			p.again = append(p.again, path)
		}
	}
	return c.publish(p)
}

// register reads the register of live processes of a root.
func (c *Catalog) register(r StoreRoot) Change {
	f, ok := r.Format.(session.Registry)
	if !ok {
		return Change{}
	}
	now := map[liveKey]session.Live{}
	for _, l := range f.Live(r.Root) {
		k := liveKey{f.Name(), r.Root.Dir, strings.ToLower(l.Native)}
		if old, ok := now[k]; !ok || l.Since.After(old.Since) {
			now[k] = l
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	differs := map[string]bool{}
	for k, l := range c.live {
		if k.agent == f.Name() && k.root == r.Root.Dir && now[k] != l {
			differs[k.native] = true
			delete(c.live, k)
		}
	}
	for k, l := range now {
		if c.live[k] != l {
			differs[k.native] = true
			c.live[k] = l
		}
	}
	if len(differs) == 0 {
		return Change{}
	}
	var p patch
	for path, k := range c.known {
		if k.row != nil && k.agent == f.Name() && k.dir == r.Root.Dir && differs[strings.ToLower(k.row.Native)] {
			p.again = append(p.again, path)
		}
	}
	return c.publish(p)
}

// scanDir walks dir (below r) and brings the rows below it up to date.
func (c *Catalog) scanDir(ctx context.Context, r StoreRoot, dir string, tell func(Change)) error {
	start := c.looks.Load()
	w := &walk{c: c, ctx: ctx, root: r, found: make(chan []found), hands: make(chan struct{}, runtime.GOMAXPROCS(0)-1)}
	w.scoped, _ = r.Format.(session.Scoped)
	w.work.Go(func() { w.dir(dir) })
	go func() { // ends before this function returns: found is drained below
		w.work.Wait()
		close(w.found)
	}()

	seen := map[string]bool{}
	var p patch
	flush := func() {
		c.mu.Lock()
		ch := c.publish(p)
		c.mu.Unlock()
		p = patch{}
		tell(ch)
	}
	due := time.NewTimer(scanEvery)
	defer due.Stop()
	for open := true; open; {
		var some []found
		select {
		case some, open = <-w.found:
		case <-due.C:
			flush()
			due.Reset(scanEvery)
		}
		for _, f := range some {
			seen[f.path] = true
			if f.outcome == changed {
				p.looks = append(p.looks, f.look)
			}
		}
		if len(p.looks) >= scanBatch {
			flush()
		}
	}
	flush()
	if err := ctx.Err(); err != nil { // then what was not seen may still be there
		return err
	}
	c.mu.Lock()
	base := filepath.Join(r.Root.Dir, filepath.FromSlash(dir))
	lost := map[string]known{}
	for path, k := range c.known {
		if k.dir == r.Root.Dir && k.agent == r.Format.Name() && k.look <= start && !seen[path] {
			if _, in := below(base, path); in {
				lost[path] = k
			}
		}
	}
	c.mu.Unlock()
	for path, k := range lost {
		if num := c.looks.Add(1); c.vanished(r, path, k) {
			p.gone = append(p.gone, goneLook{path: path, num: num})
		}
	}
	flush()
	return nil
}

// vanished makes sure that a transcript is gone, and not only made after the
// walk had passed, or out of reach.
func (c *Catalog) vanished(r StoreRoot, path string, k known) bool {
	info, err := c.o.FS.Stat(path)
	if err == nil {
		return !info.Mode.IsRegular()
	}
	if !isMissing(err) {
		return false
	}
	_, lazy := r.Format.(session.Lazy)
	if k.pending && !lazy {
		return false // nothing of it is on disk before the first append
	}
	return !c.expected(r.Format, r.Root.Dir, path)
}

// walk is one walk over the directories of a root. Its work is done by the
// goroutine it starts on and by as many more as there are hands.
type walk struct {
	c      *Catalog
	ctx    context.Context //nolint:containedctx // lives for one walk
	root   StoreRoot
	scoped session.Scoped // nil where everything is to be entered
	found  chan []found
	hands  chan struct{}
	work   sync.WaitGroup
}

type found struct {
	look
	outcome outcome
}

// do runs f on another goroutine if there is a free hand, else on this one.
func (w *walk) do(f func()) {
	select {
	case w.hands <- struct{}{}:
		w.work.Go(func() {
			defer func() { <-w.hands }()
			f()
		})
	default:
		f()
	}
}

// walkPart is how many transcripts of a directory one hand takes.
const walkPart = 64

// dir visits dir (slash path below the root), no deeper than the format
// looks. A directory that cannot be read is passed over.
func (w *walk) dir(dir string) {
	if w.ctx.Err() != nil || w.scoped != nil && !w.scoped.Enter(cmp.Or(dir, ".")) {
		return
	}
	abs := filepath.Join(w.root.Root.Dir, filepath.FromSlash(dir))
	list, err := w.c.o.FS.ReadDir(abs)
	if err != nil {
		if !isMissing(err) {
			w.c.o.Report(fmt.Errorf("sessions in %q: %w", abs, err))
		}
		return
	}
	names := map[string]bool{}
	for _, e := range list {
		if t, ok := locked(e.Name()); ok {
			names[t] = true
		}
	}
	deeper := dir == "" || strings.Count(dir, "/")+1 < w.root.Format.Depth()
	var targets []target
	for _, e := range list {
		rel := path.Join(dir, e.Name())
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 && w.linked(abs, e.Name()) {
			if deeper {
				w.do(func() { w.dir(rel) })
			}
			continue
		}
		if _, ok := w.root.Format.Identify(rel); ok && (e.Type().IsRegular() || e.Type()&fs.ModeSymlink != 0) {
			targets = append(targets, target{root: w.root, rel: rel, path: filepath.Join(abs, e.Name()), lock: names[e.Name()]})
		}
	}
	if lazy, ok := w.root.Format.(session.Lazy); ok && len(targets) == 0 && dir != "" {
		if rel, ok := lazy.Expected(dir); ok {
			p := filepath.Join(w.root.Root.Dir, filepath.FromSlash(rel))
			targets = append(targets, target{root: w.root, rel: rel, path: p, lock: names[filepath.Base(p)], lazy: true})
		}
	}
	for part := range slices.Chunk(targets, walkPart) {
		w.do(func() { w.part(part) })
	}
}

// part looks at some transcripts.
func (w *walk) part(targets []target) {
	out := make([]found, 0, len(targets))
	for _, t := range targets {
		if w.ctx.Err() != nil {
			break
		}
		if l, o := w.c.look(t); o != gone {
			out = append(out, found{l, o})
		}
	}
	w.found <- out // the other side reads until the walk has ended
}

// linked tells whether a link leads to a directory that the walk does not
// come to otherwise: neither one inside the root, nor one that it is in.
func (w *walk) linked(dir, name string) bool {
	at := filepath.Join(dir, name)
	info, err := w.c.o.FS.Stat(at)
	if err != nil || !info.Mode.IsDir() {
		return false
	}
	to, err := w.c.o.FS.EvalSymlinks(at)
	if err != nil {
		return false
	}
	if rel, in := below(w.root.Root.Dir, to); in && (w.scoped == nil || w.scoped.Enter(cmp.Or(rel, "."))) {
		return false
	}
	here, err := w.c.o.FS.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	_, loop := below(to, here)
	return !loop
}
