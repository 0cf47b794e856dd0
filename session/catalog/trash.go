package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Trash as the freedesktop.org trash specification 1.0 has it: a trash is a
// directory with files/, which holds what was trashed, and info/, which holds
// a <name>.trashinfo for each. The info file is made first and exclusively,
// so that it reserves the name. What lies on the file system of the home
// trash goes there; other file systems have a trash at their top. On macOS
// the trash is ~/.Trash, which has no info files.

// errNoTrash is wrapped with the reason.
var errNoTrash = errors.New("it cannot be moved to the trash; delete it permanently instead")

// trash moves path to the trash and says where it is now; "" where there is
// no such file.
func (c *Catalog) trash(path string) (string, error) {
	if _, err := c.o.FS.Lstat(path); isMissing(err) {
		return "", nil
	}
	env := c.o.Env
	if env.GOOS == "windows" {
		return "", fmt.Errorf("%w: the recycle bin is not supported", errNoTrash)
	}
	var tried error
	if env.Home != "" {
		if env.GOOS == "darwin" {
			return c.trashInto(path, filepath.Join(env.Home, ".Trash"), "")
		}
		where, err := c.trashHome(path)
		if err == nil {
			return where, nil
		}
		tried = err
	}
	where, err := c.trashTop(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoTrash, errors.Join(tried, err))
	}
	return where, nil
}

// trashHome uses the trash in the home directory.
func (c *Catalog) trashHome(path string) (string, error) {
	base := ""
	if c.o.Env.Getenv != nil {
		base = c.o.Env.Getenv("XDG_DATA_HOME")
	}
	if !filepath.IsAbs(base) {
		base = filepath.Join(c.o.Env.Home, ".local", "share")
	}
	return c.trashInto(path, filepath.Join(base, "Trash"), path)
}

// trashTop uses the trash at the top of the file system of path: .Trash/$uid
// where an administrator has made .Trash, else .Trash-$uid.
func (c *Catalog) trashTop(path string) (string, error) {
	top, err := c.topOf(path)
	if err != nil {
		return "", err
	}
	rel, ok := below(top, path)
	if !ok {
		return "", fmt.Errorf("%q is not below %q", path, top)
	}
	uid := strconv.Itoa(os.Getuid())
	var errs []error
	// A shared one counts only if nobody can exchange what is in it.
	shared := filepath.Join(top, ".Trash")
	if i, err := c.o.FS.Lstat(shared); err == nil && i.Mode.IsDir() && i.Mode&fs.ModeSticky != 0 {
		where, err := c.trashInto(path, filepath.Join(shared, uid), rel)
		if err == nil {
			return where, nil
		}
		errs = append(errs, err)
	}
	own := filepath.Join(top, ".Trash-"+uid)
	if i, err := c.o.FS.Lstat(own); err == nil && !i.Mode.IsDir() {
		return "", errors.Join(append(errs, fmt.Errorf("%q is no directory", own))...)
	}
	where, err := c.trashInto(path, own, rel)
	if err != nil {
		return "", errors.Join(append(errs, err)...)
	}
	return where, nil
}

// topOf gives the highest directory on the file system of path.
func (c *Catalog) topOf(path string) (string, error) {
	info, err := c.o.FS.Lstat(path)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(path)
	for {
		up, err := c.o.FS.Stat(filepath.Dir(dir))
		if err != nil {
			return "", err
		}
		if up.ID.Dev != info.ID.Dev || filepath.Dir(dir) == dir {
			return dir, nil
		}
		dir = filepath.Dir(dir)
	}
}

// trashInto moves path into one trash. original is what its info says where
// it was; "" makes no info, and no files/ either.
func (c *Catalog) trashInto(path, trash, original string) (string, error) {
	files, info := trash, ""
	if original != "" {
		files, info = filepath.Join(trash, "files"), filepath.Join(trash, "info")
	}
	for _, d := range []string{trash, files, info} {
		if d == "" {
			continue
		}
		if err := c.o.FS.MkdirAll(d, 0o700); err != nil {
			return "", err
		}
	}
	from, err := c.o.FS.Lstat(path)
	if err != nil {
		return "", err
	}
	if to, err := c.o.FS.Stat(files); err != nil || to.ID.Dev != from.ID.Dev {
		return "", errors.Join(err, &os.LinkError{Op: "rename", Old: path, New: files, Err: syscall.EXDEV})
	}
	ext := filepath.Ext(path)
	stem := strings.TrimSuffix(filepath.Base(path), ext)
	for n := 1; ; n++ {
		name := stem + ext
		if n > 1 {
			name = fmt.Sprintf("%s.%d%s", stem, n, ext)
		}
		target := filepath.Join(files, name)
		if c.exists(target) {
			continue
		}
		note := ""
		if info != "" {
			note = filepath.Join(info, name+".trashinfo")
			err := c.writeTrashInfo(note, original)
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			if err != nil {
				return "", err
			}
		}
		if err := c.o.FS.Rename(path, target); err != nil {
			if note != "" {
				err = errors.Join(err, c.o.FS.Remove(note))
			}
			return "", err
		}
		return target, nil
	}
}

func (c *Catalog) writeTrashInfo(note, original string) error {
	f, err := c.o.FS.Create(note, 0o600)
	if err != nil {
		return err
	}
	text := []byte("[Trash Info]\nPath=" + (&url.URL{Path: original}).EscapedPath() +
		"\nDeletionDate=" + c.o.Clock.Now().Local().Format("2006-01-02T15:04:05") + "\n")
	n, err := f.WriteOnce(text)
	if err == nil && n < len(text) {
		err = fmt.Errorf("write %q: only %d of %d bytes", note, n, len(text))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, c.o.FS.Remove(note))
	}
	return nil
}
