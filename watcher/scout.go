package watcher

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// scout keeps the watches where they are wanted: on the directories of the
// stores, as deep as their formats reach, on those of followed files, and
// instead of a missing one on its nearest parent. All state belongs to its
// goroutine, which is the only one that waits for directories.
//
// The order is always: watch, then list, then tell. What was written before
// the watch was there is found by the list, what comes later by a hint.
type scout struct {
	n     Notifier
	fs    vfs.FS
	roots func() []catalog.StoreRoot
	notes func() string // directory of the overlay
	log   *zap.Logger
	found chan<- found

	targets map[string]target   // all that is wanted, by directory
	planted map[string]string   // directory of a target -> real path
	waiting map[string][]string // name in a watched directory, there or not -> targets at it or below it
	follows map[string]string   // followed file -> real path; "" while not known

	places map[string]place // watched directories, by real path
	byID   map[vfs.FileID]string
	former map[string]vfs.FileID // directories that were given up
	hurt   []vfs.FileID          // directories whose watch may have ended with them
	failed map[string]bool       // directories that cannot be watched, as was logged

	todo    []visit
	round   int  // number of the last going over everything
	walking bool // it is not done yet
}

// target is a wanted directory and what of it is wanted.
type target struct {
	dir   string
	reach []reach
}

// reach is how far below a directory one store goes. It is the same for all
// directories of that store.
type reach struct {
	real  string         // the root of the store, or a link in it, as a real path
	rel   string         // what the format calls that; "." is the root
	depth int            // how many levels below the root
	scope session.Scoped // nil: everything
}

// in reports whether a directory (a real path below r.real) is wanted, and
// what the format calls it.
func (r reach) in(dir string) (rel string, ok bool) {
	rest, ok := within(dir, r.real)
	if !ok {
		return "", false
	}
	rel = filepath.ToSlash(filepath.Join(r.rel, rest))
	if rel == "." {
		return rel, true
	}
	return rel, strings.Count(rel, "/") < r.depth && (r.scope == nil || r.scope.Enter(rel))
}

// visit is a directory to be entered.
type visit struct {
	dir   string
	reach []reach
	again bool // watch it although it is a place
	walk  bool // as part of going over everything
}

func newScout(h *Hub, n Notifier, tell chan<- found) *scout {
	return &scout{
		n: n, fs: h.o.FS, roots: h.sessions.Roots, notes: h.sessions.OverlayDir, log: h.o.Log, found: tell,
		targets: map[string]target{},
		planted: map[string]string{},
		waiting: map[string][]string{},
		follows: map[string]string{},
		places:  map[string]place{},
		byID:    map[vfs.FileID]string{},
		former:  map[string]vfs.FileID{},
		failed:  map[string]bool{},
	}
}

// run takes work until ctx ends. Between two directories of a long walk it
// takes what has come meanwhile, so that a followed file does not wait.
func (s *scout) run(ctx context.Context, work <-chan scoutWork) {
	for {
		s.heal()
		if len(s.todo) == 0 {
			if s.walking {
				s.sweep()
				s.walking = false
				s.tell(ctx, found{done: true})
			}
			select {
			case w := <-work:
				s.take(ctx, w)
			case <-ctx.Done():
				return
			}
			continue
		}
		select {
		case w := <-work:
			s.take(ctx, w)
		case <-ctx.Done():
			return
		default:
			v := s.todo[len(s.todo)-1]
			s.todo = s.todo[:len(s.todo)-1]
			s.visit(ctx, v)
		}
	}
}

func (s *scout) tell(ctx context.Context, f found) {
	select {
	case s.found <- f:
	case <-ctx.Done():
	}
}

func (s *scout) take(ctx context.Context, w scoutWork) {
	for _, path := range w.names {
		s.name(ctx, path)
	}
	for path, on := range w.follow {
		s.follow(ctx, path, on)
	}
	if w.reconcile {
		s.reconcile(ctx)
	}
}

// follow watches the directory of a file. It stays watched until everything is
// gone over, since the next to follow the file is often the same one.
func (s *scout) follow(ctx context.Context, path string, on bool) {
	if on {
		if _, ok := s.follows[path]; !ok {
			s.follows[path] = ""
		}
		s.want(target{dir: filepath.Dir(path)})
		s.plant(ctx, filepath.Dir(path), false)
		s.tell(ctx, found{dir: path, walk: true}) // it was looked at before this
		return
	}
	if real := s.follows[path]; real != "" {
		s.focus(real, false)
	}
	delete(s.follows, path)
}

// reconcile begins to go over everything: places that are not what they were
// are given up, all targets are looked for again, and what is not wanted any
// more goes at the end (sweep).
func (s *scout) reconcile(ctx context.Context) {
	s.round++
	s.walking = true
	s.todo = s.todo[:0]
	for dir, p := range s.places {
		if info, err := s.fs.Stat(dir); err != nil || info.ID != p.id {
			s.drop(dir)
		}
	}
	clear(s.waiting)
	clear(s.targets)
	clear(s.planted)
	clear(s.failed)
	clear(s.former)
	for _, r := range s.roots() {
		scope, _ := r.Format.(session.Scoped)
		s.want(target{filepath.Clean(r.Root.Dir), []reach{{rel: ".", depth: r.Format.Depth(), scope: scope}}})
	}
	if dir := s.notes(); dir != "" {
		s.want(target{dir: filepath.Clean(dir)})
	}
	for path := range s.follows {
		s.want(target{dir: filepath.Dir(path)})
	}
	for _, dir := range slices.Collect(maps.Keys(s.targets)) {
		s.plant(ctx, dir, true)
	}
}

// want adds a target, or more to one.
func (s *scout) want(t target) {
	for _, r := range s.targets[t.dir].reach {
		if !slices.Contains(t.reach, r) {
			t.reach = append(t.reach, r)
		}
	}
	s.targets[t.dir] = t
}

// plant watches a target, or the nearest parent that is there, and waits in
// that for the next name. What goes while it looks makes it look again; what
// cannot be watched is left to the next going over everything.
//
// The parent of a target is watched in any case: the system does not tell of
// the removal of a directory while a file that was in it is open.
func (s *scout) plant(ctx context.Context, dir string, walk bool) {
	t := s.targets[dir]
	for ctx.Err() == nil {
		parent, name := parentOf(dir), filepath.Base(dir)
		above, ok := s.dir(parent)
		for !ok && parent != "" {
			parent, name = parentOf(parent), filepath.Base(parent)
			above, ok = s.dir(parent)
		}
		if ok {
			err := s.watch(visit{dir: above, again: walk})
			switch next := filepath.Join(above, name); {
			case missing(err):
				continue
			case err == nil && !slices.Contains(s.waiting[next], dir):
				s.waiting[next] = append(s.waiting[next], dir)
			}
		}
		real, there := s.dir(dir)
		if !there {
			delete(s.planted, dir)
			// It may have come as far as the next name before the watch was
			// there; and what was read in the missing directory before it
			// went has gone without a hint.
			if _, come := s.dir(filepath.Join(parent, name)); come && ok {
				continue
			}
			s.tell(ctx, found{dir: dir, walk: walk})
			return
		}
		if s.planted[dir] != real {
			s.planted[dir] = real
			s.tellAliases(ctx)
		}
		v := visit{dir: real, again: walk, walk: walk}
		for _, r := range t.reach {
			r.real = real
			v.reach = append(v.reach, r)
		}
		if err := s.enter(ctx, v); missing(err) {
			continue
		}
		s.refocus(ctx, dir)
		return
	}
}

// plantAll looks again for the targets that wait for a name.
func (s *scout) plantAll(ctx context.Context, name string) {
	dirs := s.waiting[name]
	delete(s.waiting, name)
	for _, dir := range dirs {
		s.plant(ctx, dir, false)
	}
}

// dir gives the real path of a directory that is there.
func (s *scout) dir(path string) (string, bool) {
	info, err := s.fs.Stat(path)
	if err != nil || !info.Mode.IsDir() {
		return "", false
	}
	real, err := s.fs.EvalSymlinks(path)
	return real, err == nil
}

// refocus finds out where the followed files of a target really are, and tells
// a notifier that wants to know.
func (s *scout) refocus(ctx context.Context, dir string) {
	for path, was := range s.follows {
		if filepath.Dir(path) != dir {
			continue
		}
		now := filepath.Join(s.planted[dir], filepath.Base(path))
		if real, err := s.fs.EvalSymlinks(path); err == nil {
			now = real
		}
		if now == was {
			continue
		}
		s.follows[path] = now
		if was != "" {
			s.focus(was, false)
		}
		s.focus(now, true)
		if filepath.Dir(now) != s.planted[dir] { // the file itself is a link
			s.tellAliases(ctx)
			s.want(target{dir: filepath.Dir(now)})
			s.plant(ctx, filepath.Dir(now), false)
		}
	}
}

func (s *scout) focus(path string, on bool) {
	if f, ok := s.n.(Focuser); ok {
		f.Focus(path, on)
	}
}

// tellAliases tells the router of all that lies elsewhere than it is called.
func (s *scout) tellAliases(ctx context.Context) {
	all := []alias{}
	for dir, real := range s.planted {
		if dir != real {
			all = append(all, alias{real, dir})
		}
	}
	for path, real := range s.follows {
		if real != "" && filepath.Dir(real) != s.planted[filepath.Dir(path)] {
			all = append(all, alias{real, path})
		}
	}
	s.tell(ctx, found{aliases: all})
}
