package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/agent-ls/agent-ls/session/vfs"
)

// trash moves path to the home trash of the freedesktop.org trash
// specification 1.0: the file to files/, what it was to info/<name>.trashinfo
// (made first and exclusively, so that it reserves the name). A path on
// another file system cannot be moved there; the error then says how to
// remove it. On macOS it goes to ~/.Trash, which has no info files.
func (c *Catalog) trash(path string) (string, error) {
	env := c.o.Env
	switch env.GOOS {
	case "windows":
		return "", errors.New("moving to the recycle bin is not supported on this system; delete permanently")
	case "darwin":
		return c.trashInto(path, filepath.Join(env.Home, ".Trash"), "")
	}
	base := ""
	if env.Getenv != nil {
		base = env.Getenv("XDG_DATA_HOME")
	}
	if !filepath.IsAbs(base) {
		base = filepath.Join(env.Home, ".local", "share")
	}
	base = filepath.Join(base, "Trash")
	return c.trashInto(path, filepath.Join(base, "files"), filepath.Join(base, "info"))
}

func (c *Catalog) trashInto(path, files, info string) (string, error) {
	if c.o.Env.Home == "" {
		return "", errors.New("there is no home directory for the trash; delete permanently")
	}
	for _, d := range []string{files, info} {
		if d == "" {
			continue
		}
		if err := c.o.FS.MkdirAll(d, 0o700); err != nil {
			return "", err
		}
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
			err := c.writeTrashInfo(note, path)
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
			return "", fmt.Errorf("%w (move to the trash; delete permanently instead)", err)
		}
		return target, nil
	}
}

func (c *Catalog) writeTrashInfo(note, path string) (err error) {
	f, err := c.o.FS.Create(note, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text := "[Trash Info]\nPath=" + (&url.URL{Path: path}).EscapedPath() +
		"\nDeletionDate=" + c.o.Clock.Now().Local().Format("2006-01-02T15:04:05") + "\n"
	return writeAll(f, []byte(text))
}

func writeAll(f vfs.File, b []byte) error {
	n, err := f.WriteOnce(b)
	if err == nil && n < len(b) {
		return fmt.Errorf("only %d of %d bytes were written", n, len(b))
	}
	return err
}
