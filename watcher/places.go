package watcher

import (
	"context"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/session/vfs"
)

// place is a watched directory. Without a reach it only stands in for a
// missing one, or is there for a followed file.
type place struct {
	id    vfs.FileID
	reach []reach
	round int
}

// watch makes v.dir a place. A place that is the same directory still is
// watched again only if v.again is set: the system may have dropped the watch
// when the directory was removed and another one got its name and even its
// number. A directory that has gone meanwhile gives an error for missing.
func (s *scout) watch(v visit) error {
	info, err := s.fs.Stat(v.dir)
	if err != nil {
		return err
	}
	p, ok := s.places[v.dir]
	if ok && p.id != info.ID {
		s.drop(v.dir)
		ok = false
	}
	if !ok || v.again {
		if err := s.n.Watch(v.dir); err != nil {
			if !missing(err) && !s.failed[v.dir] {
				s.failed[v.dir] = true
				s.log.Warn("directory cannot be watched", zap.String("dir", v.dir), zap.Error(err))
			}
			return err
		}
	}
	reach := v.reach
	if ok && p.round == s.round {
		reach = slices.Clone(p.reach)
		for _, r := range v.reach {
			if !slices.Contains(reach, r) {
				reach = append(reach, r)
			}
		}
	}
	s.places[v.dir] = place{info.ID, reach, s.round}
	s.byID[info.ID] = v.dir
	return nil
}

// visit enters a directory that may have gone.
func (s *scout) visit(ctx context.Context, v visit) {
	if err := s.enter(ctx, v); !missing(err) {
		return
	}
	if _, ok := s.places[v.dir]; ok {
		s.lost(ctx, v.dir)
	}
}

// enter watches a directory, and then lists it for those below and tells that
// it is watched. What lies below may have been exchanged together with it.
func (s *scout) enter(ctx context.Context, v visit) error {
	old, was := s.places[v.dir]
	if err := s.watch(v); err != nil {
		return err
	}
	p := s.places[v.dir]
	if was && !v.again && old.id == p.id && len(old.reach) == len(p.reach) {
		return nil // nothing that was not known
	}
	if len(p.reach) > 0 {
		entries, _ := s.fs.ReadDir(v.dir) // without them, its parent tells that it has gone
		for _, e := range entries {
			s.step(ctx, v, p, e.Name(), e.Type())
		}
	}
	if v.again && !v.walk {
		for d, below := range s.places {
			if filepath.Dir(d) == v.dir && d != v.dir {
				s.todo = append(s.todo, visit{d, below.reach, true, false})
			}
		}
	}
	s.tell(ctx, found{dir: v.dir, walk: v.walk})
	for _, next := range slices.Collect(maps.Keys(s.waiting)) {
		if filepath.Dir(next) != v.dir {
			continue
		}
		if _, ok := s.dir(next); ok {
			s.plantAll(ctx, next)
		}
	}
	return nil
}

// step looks at one name of a place: a directory of the store is to be entered
// too, and a link to one is a target of its own.
func (s *scout) step(ctx context.Context, v visit, p place, name string, mode fs.FileMode) {
	path := filepath.Join(v.dir, name)
	link := mode&fs.ModeSymlink != 0
	if !mode.IsDir() && !link {
		return
	}
	var wanted, linked []reach
	for _, r := range p.reach {
		if rel, ok := r.in(path); ok {
			wanted = append(wanted, r)
			linked = append(linked, reach{rel: rel, depth: r.depth, scope: r.scope})
		}
	}
	switch {
	case len(wanted) == 0:
	case !link:
		s.todo = append(s.todo, visit{path, wanted, v.again, v.walk})
	default:
		if _, ok := s.dir(path); ok {
			s.want(target{path, linked})
			s.plant(ctx, path, v.walk)
		}
	}
}

// name looks at a name that came or went: it may be a directory that is
// watched, one that is to be, or one that is waited for.
func (s *scout) name(ctx context.Context, path string) {
	if id, ok := s.former[path]; ok {
		s.hurt = append(s.hurt, id)
	}
	if p, ok := s.places[path]; ok {
		if info, err := s.fs.Stat(path); err == nil && info.ID == p.id {
			s.visit(ctx, visit{dir: path, reach: p.reach, again: true})
		} else {
			s.lost(ctx, path)
		}
	}
	if _, ok := s.waiting[path]; ok {
		s.plantAll(ctx, path)
	}
	dir := filepath.Dir(path)
	if p, ok := s.places[dir]; ok && len(p.reach) > 0 {
		if info, err := s.fs.Lstat(path); err == nil {
			before := len(s.todo)
			s.step(ctx, visit{dir: dir}, p, filepath.Base(path), info.Mode)
			fresh := slices.Clone(s.todo[before:]) // goes before a long walk
			s.todo = s.todo[:before]
			for _, v := range fresh {
				s.visit(ctx, v)
			}
		}
	}
	if _, ok := s.follows[path]; ok { // it may be a link now, or none any more
		s.refocus(ctx, dir)
	}
}

// heal watches again what is hurt. A directory that was moved is watched once
// by the system, under the first of its names: giving up that name, or its
// move, ends the watch under the second too.
func (s *scout) heal() {
	for _, id := range s.hurt {
		if id == (vfs.FileID{}) {
			continue // not known on this system
		}
		if dir, ok := s.byID[id]; ok {
			s.todo = append(s.todo, visit{dir: dir, reach: s.places[dir].reach, again: true})
		}
	}
	s.hurt = s.hurt[:0]
}

// lost gives up a place that has gone, and looks again for the targets in it.
func (s *scout) lost(ctx context.Context, dir string) {
	s.drop(dir)
	var again []string
	for d, real := range s.planted {
		if _, ok := within(real, dir); ok {
			again = append(again, d)
			delete(s.planted, d)
		}
	}
	for path, dirs := range s.waiting {
		if _, ok := within(path, dir); ok {
			again = append(again, dirs...)
			delete(s.waiting, path)
		}
	}
	for _, d := range again {
		s.plant(ctx, d, false)
	}
}

// drop ends the watching of dir and of what is below it.
func (s *scout) drop(dir string) {
	gone := []string{dir}
	if len(s.places[dir].reach) > 0 {
		for d := range s.places {
			if _, ok := within(d, dir); ok && d != dir {
				gone = append(gone, d)
			}
		}
	}
	for _, d := range gone {
		p := s.places[d]
		s.unwatch(d)
		s.former[d] = p.id
		s.hurt = append(s.hurt, p.id)
	}
}

func (s *scout) unwatch(dir string) {
	if p := s.places[dir]; s.byID[p.id] == dir {
		delete(s.byID, p.id)
	}
	s.n.Unwatch(dir)
	delete(s.places, dir)
}

// sweep gives up places that the last round did not come to.
func (s *scout) sweep() {
	for dir, p := range s.places {
		if p.round != s.round {
			s.unwatch(dir)
		}
	}
}
