package catalog

import (
	"path/filepath"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

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

// scope makes the test of a working directory.
func (c *Catalog) scope(cwd string, s Scope) func(*row) bool {
	dirs := []string{cwd}
	if s == Repository {
		dirs = append(dirs, c.worktrees(cwd)...)
	}
	var keys []string
	seen := map[string]bool{}
	for _, d := range dirs {
		for _, k := range []string{pathKey(d), pathKey(c.canonical(d))} {
			if !seen[k] {
				seen[k] = true
				keys = append(keys, k)
			}
		}
	}
	if s == Exact {
		return func(r *row) bool { return seen[r.cwdKey] }
	}
	return func(r *row) bool {
		for _, k := range keys {
			if rest, ok := strings.CutPrefix(r.cwdKey, k); ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(k, "/")) {
				return true
			}
		}
		return false
	}
}

// worktrees gives the top directories of all worktrees of the git repository
// that dir is in, found from git's files without running it: .git is a
// directory in the main worktree and a file "gitdir: ..." in the others;
// <common>/worktrees/<name>/gitdir names the .git file of each.
func (c *Catalog) worktrees(dir string) []string {
	for dir = c.canonical(dir); ; dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git")
		info, err := c.o.FS.Stat(git)
		if err != nil {
			if dir == filepath.Dir(dir) {
				return nil
			}
			continue
		}
		common := git
		out := []string{dir}
		if !info.Mode.IsDir() {
			text, ok := strings.CutPrefix(c.small(git), "gitdir:")
			if !ok {
				return out
			}
			private := absFrom(dir, strings.TrimSpace(text))
			common = private
			if rel := strings.TrimSpace(c.small(filepath.Join(private, "commondir"))); rel != "" {
				common = absFrom(private, rel)
			}
		}
		if filepath.Base(common) == ".git" {
			out = append(out, filepath.Dir(common))
		}
		list, err := c.o.FS.ReadDir(filepath.Join(common, "worktrees"))
		if err != nil {
			return out
		}
		for _, e := range list {
			own := filepath.Join(common, "worktrees", e.Name())
			if p := strings.TrimSpace(c.small(filepath.Join(own, "gitdir"))); p != "" {
				out = append(out, filepath.Dir(absFrom(own, p)))
			}
		}
		return out
	}
}

func absFrom(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// small reads a file of at most 4 KiB; "" where it cannot.
func (c *Catalog) small(path string) string {
	f, err := c.o.FS.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // only read
	var b [4096]byte
	n, _ := f.ReadAt(b[:], 0) // the end of the file is expected
	return string(b[:n])
}
