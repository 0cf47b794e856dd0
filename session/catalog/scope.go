package catalog

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// place is a working directory of sessions.
type place struct {
	cwd     string
	key     string // cwd, so that equal directories have equal keys
	real    string // key of cwd with its links resolved
	missing bool
}

// places are the working directories of all rows. The first is that of rows
// without one. It only grows; an entry is replaced in a copy.
type places struct {
	list []place
	of   map[string]uint32 // by cwd; guarded by Catalog.mu
}

func newPlaces() places { return places{list: make([]place, 1), of: map[string]uint32{"": 0}} }

// index gives the entry of a directory, 0 for one that is not known.
func (p places) index(cwd string) uint32 { return p.of[cwd] }

func (p places) at(i uint32) place { return p.list[i] }

// put adds or replaces an entry.
func (p *places) put(n place) {
	i, ok := p.of[n.cwd]
	if !ok {
		p.of[n.cwd] = uint32(len(p.list))
		p.list = append(p.list, n)
		return
	}
	p.list = slices.Clone(p.list)
	p.list[i] = n
}

// examine looks at a directory on disk.
func (c *Catalog) examine(cwd string) place {
	p := place{cwd: cwd, key: pathKey(cwd)}
	p.real = p.key
	if !filepath.IsAbs(cwd) { // of another system, or hostile
		return p
	}
	p.real = pathKey(c.canonical(cwd))
	info, err := c.o.FS.Stat(cwd)
	switch {
	case err == nil:
		p.missing = !info.Mode.IsDir()
	default: // what cannot be told is not missing
		p.missing = errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir)
	}
	return p
}

// placeOf gives what is known of a directory, and looks at it where nothing is.
func (c *Catalog) placeOf(cwd string) place {
	if cwd == "" {
		return place{}
	}
	c.mu.Lock()
	i, ok := c.places.of[cwd]
	if ok {
		defer c.mu.Unlock()
		return c.places.list[i]
	}
	c.mu.Unlock()
	p := c.examine(cwd)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.places.of[cwd]; !ok {
		c.places.put(p)
	}
	return p
}

// pathKey makes equal what names one directory: the case of a drive letter
// and the kind of separator on Windows paths, trailing separators, dots.
func pathKey(path string) string {
	if len(path) >= 2 && path[1] == ':' && (path[0] >= 'a' && path[0] <= 'z' || path[0] >= 'A' && path[0] <= 'Z') {
		path = strings.ToLower(path[:1]) + strings.ReplaceAll(path[1:], `\`, "/")
		if len(path) == 2 {
			return path + "/"
		}
		return path[:2] + filepath.ToSlash(filepath.Clean("/"+path[2:]))
	}
	return filepath.ToSlash(filepath.Clean(path))
}

// scope is a set of working directories.
type scope struct {
	keys []string // of directories, as spelled and with links resolved
	deep bool     // what is below them belongs to it too
}

// scope makes the set that a query asks for.
func (c *Catalog) scope(cwd string, s Scope) scope {
	dirs := []string{cwd}
	if s == Repository {
		dirs = append(dirs, c.worktrees(cwd)...)
	}
	out := scope{deep: s != Exact}
	for _, d := range dirs {
		for _, k := range []string{pathKey(d), pathKey(c.canonical(d))} {
			if !slices.Contains(out.keys, k) {
				out.keys = append(out.keys, k)
			}
		}
	}
	return out
}

func (s scope) contains(p place) bool {
	if p.cwd == "" {
		return false
	}
	for _, k := range s.keys {
		if s.under(p.key, k) || s.under(p.real, k) {
			return true
		}
	}
	return false
}

// under compares by components: /h/data-analysis is not below /h/data.
func (s scope) under(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || s.deep && (rest[0] == '/' || strings.HasSuffix(dir, "/")))
}
