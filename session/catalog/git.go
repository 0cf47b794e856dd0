package catalog

import (
	"path/filepath"
	"strings"
)

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
		switch {
		case info.Mode.IsDir():
			if !c.exists(filepath.Join(git, "HEAD")) {
				continue // not a repository, whatever its name
			}
		case info.Mode.IsRegular():
			text, ok := strings.CutPrefix(c.small(git), "gitdir:")
			if !ok {
				return out
			}
			private := absFrom(dir, strings.TrimSpace(text))
			common = private
			if rel := strings.TrimSpace(c.small(filepath.Join(private, "commondir"))); rel != "" {
				common = absFrom(private, rel)
			}
		default:
			return out
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
