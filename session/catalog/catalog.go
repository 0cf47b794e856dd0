// Package catalog knows which sessions exist: it scans the stores, keeps one
// row a session, and answers queries from immutable snapshots.
//
// It does not know the protocol, and it never watches: somebody tells it what
// to look at again. Invariant: no reader waits for a scan.
package catalog

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/jsonl"
	"github.com/agent-ls/agent-ls/session/overlay"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// Options of Open.
type Options struct {
	FS       vfs.FS
	Env      session.Env
	Formats  []session.Format
	StateDir string // of the overlay; "" keeps the overlay in memory only
	// CachePath is the file in which rows outlive the process; "" for none.
	// Version is that of the program: rows of another version are not used.
	CachePath, Version string
	Clock              session.Clock
	Alive              func(pid int) bool // whether a process runs; nil: not known
	PID                int                // of this process: its own locks are nobody else's
	Limits             jsonl.Options
	// Disabled agents are not scanned.
	Disabled map[string]bool
	// Report, if set, is told of what does not stop anything (a damaged file
	// of notes, a session that cannot be read, a cache that cannot be used).
	// It may be called from several goroutines.
	Report func(error)
}

// Catalog is safe for concurrent use.
type Catalog struct {
	o       Options
	formats map[string]session.Format
	agents  map[string]uint8 // a small number for each format
	epoch   int64            // of this process, for cursors
	snap    atomic.Pointer[Snapshot]
	looks   atomic.Uint64 // numbers given to looks at transcripts
	scanned chan struct{}
	once    sync.Once

	mu     sync.Mutex // guards what follows; no reader of snapshots takes it
	env    session.Env
	off    map[string]bool
	roots  []StoreRoot
	known  map[string]known        // by path of the transcript
	rivals map[session.ID][]string // paths, where several transcripts have one id
	notes  *overlay.Store
	places places
	live   map[liveKey]session.Live
	free   []uint32 // slots without a row, below slots
	slots  uint32

	cache    *cache           // nil for none
	unsaved  map[string]bool  // paths whose records in the cache are out of date
	restored map[rootKey]bool // roots whose rows were taken from the cache
}

// known is what the catalog remembers of one transcript.
type known struct {
	row   *row // nil where the file is no session
	agent string
	dir   string // the root
	stamp stamp
	look  uint64 // number of the look that found this; later ones win
	// pending: the transcript is still to come, and its absence says nothing.
	pending bool
	failed  bool  // it could not be read, and is to be tried again
	saved   int32 // length of its record in the cache when that was read
}

// stamp tells whether a file is as it was.
type stamp struct {
	id   vfs.FileID
	size int64
	mod  int64 // Unix nanoseconds
}

// sameFile and same compare with what is on disk now. The number of a device
// does not outlive a restart, so stamps from the cache have none.
func (s stamp) sameFile(now stamp) bool {
	return s.id.Ino == now.id.Ino && (s.id.Dev == now.id.Dev || s.id.Dev == 0)
}

func (s stamp) same(now stamp) bool {
	return s.sameFile(now) && s.size == now.size && s.mod == now.mod
}

func stampOf(i vfs.Info) stamp { return stamp{i.ID, i.Size, i.ModTime.UnixNano()} }

// liveKey names a session in the registers of live processes.
type liveKey struct{ agent, root, native string } // native in lower case

// Open makes a catalog; it reads no store.
func Open(o Options) (*Catalog, error) {
	if o.Report == nil {
		o.Report = func(error) {}
	}
	c := &Catalog{
		o: o, formats: map[string]session.Format{}, agents: map[string]uint8{}, scanned: make(chan struct{}),
		env: o.Env, off: o.Disabled, known: map[string]known{}, rivals: map[session.ID][]string{},
		notes: overlay.New(o.FS, o.StateDir), places: newPlaces(), live: map[liveKey]session.Live{},
	}
	if o.CachePath != "" {
		c.cache = &cache{fs: o.FS, path: o.CachePath, version: o.Version, report: o.Report, use: make(chan struct{}, 1)}
		c.unsaved, c.restored = map[string]bool{}, map[rootKey]bool{}
	}
	if o.Clock != nil {
		c.epoch = o.Clock.Now().UnixNano()
	}
	for i, f := range o.Formats {
		c.formats[f.Name()], c.agents[f.Name()] = f, uint8(i)
	}
	ctx, cancel := context.WithTimeout(context.Background(), noteWait)
	defer cancel()
	if _, err := c.notes.Load(ctx); err != nil {
		o.Report(err)
	}
	c.mu.Lock()
	c.findRoots()
	c.mu.Unlock()
	c.snap.Store(&Snapshot{catalog: c, places: c.places})
	return c, nil
}

// Snapshot is the present state; it never blocks and never changes.
func (c *Catalog) Snapshot() *Snapshot { return c.snap.Load() }

// Scanned is closed when the first Scan has ended.
func (c *Catalog) Scanned() <-chan struct{} { return c.scanned }

// Format gives the format of an agent.
func (c *Catalog) Format(agent string) (session.Format, bool) {
	f, ok := c.formats[agent]
	return f, ok
}

// Formats gives all formats, sorted by name, and whether each is enabled.
func (c *Catalog) Formats() []session.Format {
	out := slices.Clone(c.o.Formats)
	slices.SortFunc(out, func(a, b session.Format) int { return cmp.Compare(a.Name(), b.Name()) })
	return out
}

// OverlayDir is the directory of the notes, to be watched as well.
func (c *Catalog) OverlayDir() string { return c.notes.Dir() }

// Change says how a snapshot differs from the one before it.
type Change struct {
	Added, Updated []Row
	Removed        []session.ID
}

// Empty reports whether nothing changed.
func (c Change) Empty() bool { return len(c.Added)+len(c.Updated)+len(c.Removed) == 0 }

// add puts a later change behind this one.
func (c *Change) add(d Change) {
	if c.Empty() {
		*c = d
		return
	}
	c.Added = append(c.Added, d.Added...)
	c.Updated = append(c.Updated, d.Updated...)
	c.Removed = append(c.Removed, d.Removed...)
}

// StoreRoot is one root of one format.
type StoreRoot struct {
	Format session.Format
	Root   session.Root
}

// Roots gives all roots, existing or not (the watcher wants both).
func (c *Catalog) Roots() []StoreRoot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.roots)
}

// findRoots asks the formats for their directories; c.mu is held. Links are
// resolved once, so that one store is not listed twice.
func (c *Catalog) findRoots() {
	c.roots = nil
	seen := map[string]bool{}
	for _, f := range c.Formats() {
		if c.off[f.Name()] {
			continue
		}
		for _, dir := range f.Roots(c.env) {
			dir = c.canonical(dir)
			if key := f.Name() + "\x00" + dir; !seen[key] {
				seen[key] = true
				c.roots = append(c.roots, StoreRoot{f, session.Root{Dir: dir, FS: c.o.FS.DirFS(dir), Alive: c.o.Alive}})
			}
		}
	}
}

// canonical resolves the links in a path as far as it exists.
func (c *Catalog) canonical(path string) string {
	path = filepath.Clean(path)
	if p, err := c.o.FS.EvalSymlinks(path); err == nil {
		return p
	}
	dir := filepath.Dir(path)
	if dir == path {
		return path
	}
	return filepath.Join(c.canonical(dir), filepath.Base(path))
}

// SetStores changes the configured roots and the agents that are switched
// off. It counts from the next Scan or Reroot on.
func (c *Catalog) SetStores(roots map[string][]string, disabled map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.env.Roots, c.off = roots, disabled
}

// Expect sets the workspaces without looking at them; the next Scan does.
func (c *Catalog) Expect(dirs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.env.Workspaces = slices.Clone(dirs)
	c.findRoots()
}

// SetWorkspaces replaces the open workspaces. Roots that are new are scanned
// before it returns; rows of roots that are gone are removed.
func (c *Catalog) SetWorkspaces(ctx context.Context, dirs []string) (Change, error) {
	c.mu.Lock()
	c.env.Workspaces = slices.Clone(dirs)
	c.mu.Unlock()
	return c.Reroot(ctx)
}

// Workspaces gives the open workspaces.
func (c *Catalog) Workspaces() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.env.Workspaces)
}

// AddWorkspace adds one workspace, if it is not known yet. added tells
// whether there are new roots to watch.
func (c *Catalog) AddWorkspace(ctx context.Context, dir string) (change Change, added bool, err error) {
	c.mu.Lock()
	if slices.Contains(c.env.Workspaces, dir) {
		c.mu.Unlock()
		return Change{}, false, nil
	}
	c.env.Workspaces = append(slices.Clone(c.env.Workspaces), dir)
	n := len(c.roots)
	c.mu.Unlock()
	change, err = c.Reroot(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	return change, len(c.roots) != n, err
}

// Reroot finds the roots again, scans new ones and drops the rows of old ones.
func (c *Catalog) Reroot(ctx context.Context) (Change, error) {
	c.mu.Lock()
	old := c.roots
	c.findRoots()
	has := func(list []StoreRoot, r StoreRoot) bool {
		return slices.ContainsFunc(list, func(o StoreRoot) bool {
			return o.Root.Dir == r.Root.Dir && o.Format.Name() == r.Format.Name()
		})
	}
	var fresh []StoreRoot
	for _, r := range c.roots {
		if !has(old, r) {
			fresh = append(fresh, r)
		}
	}
	change := c.dropRoots()
	c.mu.Unlock()
	c.Restore()
	more, err := c.scan(ctx, fresh, nil)
	change.add(more)
	return change, err
}

// dropRoots removes the rows of roots that are there no more; c.mu is held.
func (c *Catalog) dropRoots() Change {
	have := map[rootKey]bool{}
	for _, r := range c.roots {
		have[rootKey{r.Format.Name(), r.Root.Dir}] = true
	}
	var p patch
	num := c.looks.Add(1)
	for path, k := range c.known {
		if !have[rootKey{k.agent, k.dir}] {
			p.gone = append(p.gone, goneLook{path, num, true})
			delete(c.restored, rootKey{k.agent, k.dir}) // it may come back
		}
	}
	return c.publish(p)
}

// Resolve tells which session a path belongs to, as transcript or as side file.
func (c *Catalog) Resolve(path string) (id session.ID, transcript, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, rel, ok := c.rootOf(path)
	if !ok {
		return session.ID{}, false, false
	}
	if native, ok := r.Format.Identify(rel); ok {
		return session.ID{Agent: r.Format.Name(), Native: native}, true, true
	}
	if owner, ok := r.Format.Owner(rel); ok {
		if native, ok := r.Format.Identify(owner); ok {
			return session.ID{Agent: r.Format.Name(), Native: native}, false, true
		}
	}
	return session.ID{}, false, false
}

// rootOf gives the innermost root above path; c.mu is held.
func (c *Catalog) rootOf(path string) (root StoreRoot, rel string, ok bool) {
	for _, r := range c.roots {
		if rest, in := below(r.Root.Dir, path); in && (!ok || len(r.Root.Dir) > len(root.Root.Dir)) {
			root, rel, ok = r, rest, true
		}
	}
	return root, rel, ok
}

// below gives path relative to dir, slash-separated; "" for dir itself.
func below(dir, path string) (rel string, ok bool) {
	if path == dir {
		return "", true
	}
	if !strings.HasSuffix(dir, string(filepath.Separator)) {
		dir += string(filepath.Separator)
	}
	rest, ok := strings.CutPrefix(path, dir)
	return filepath.ToSlash(rest), ok
}

// noteWait is how long notes wait for another process that writes them.
const noteWait = 2 * time.Second

// Annotate changes what the user said about a session and publishes the new
// row. edit gets the present note and returns the new one; it may be called
// again with what another process wrote. Errors: *session.NotFoundError,
// *session.LockedError when another process keeps the notes locked, and those
// of the disk.
func (c *Catalog) Annotate(ctx context.Context, id session.ID, edit func(Note) Note) (Row, Change, error) {
	ctx, cancel := context.WithTimeout(ctx, noteWait)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	old, _, ok := c.snap.Load().find(id)
	if !ok {
		return Row{}, Change{}, &session.NotFoundError{What: "session", Name: id.String()}
	}
	if _, err := c.notes.Edit(ctx, id, edit); err != nil {
		return Row{}, Change{}, err
	}
	change := c.publish(patch{again: []string{old.Path}})
	r, _ := c.snap.Load().Get(id)
	return r, change, nil
}

// Note is what the user said about a session.
type Note = overlay.Note

// reload reads notes that another process wrote; c.mu is held.
func (c *Catalog) reload(ctx context.Context) Change {
	ctx, cancel := context.WithTimeout(ctx, noteWait)
	defer cancel()
	ids, err := c.notes.Load(ctx)
	if err != nil {
		c.o.Report(err)
	}
	var p patch
	snap := c.snap.Load()
	for _, id := range ids {
		if r, _, ok := snap.find(id); ok {
			p.again = append(p.again, r.Path)
		}
	}
	return c.publish(p)
}
