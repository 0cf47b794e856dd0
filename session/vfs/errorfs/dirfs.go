package errorfs

import (
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"time"

	"github.com/agent-ls/agent-ls/session/vfs"
)

// DirFS implements vfs.FS.
func (m *Mem) DirFS(dir string) fs.FS { return memDir{m, dir} }

type memDir struct {
	m   *Mem
	dir string
}

func (d memDir) path(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return filepath.Join(d.dir, filepath.FromSlash(name)), nil
}

// Open implements fs.FS; files have ReadAt.
func (d memDir) Open(name string) (fs.File, error) {
	p, err := d.path("open", name)
	if err != nil {
		return nil, err
	}
	h, err := d.m.Open(p)
	if err != nil {
		return nil, err
	}
	return &openFile{File: h, dir: d, name: name}, nil
}

// ReadDir implements fs.ReadDirFS.
func (d memDir) ReadDir(name string) ([]fs.DirEntry, error) {
	p, err := d.path("readdir", name)
	if err != nil {
		return nil, err
	}
	return d.m.ReadDir(p)
}

// openFile is a vfs.File as an fs.ReadDirFile.
type openFile struct {
	vfs.File
	dir  memDir
	name string
	at   int64
	list []fs.DirEntry
	read bool
}

func (o *openFile) Read(p []byte) (int, error) {
	n, err := o.ReadAt(p, o.at)
	o.at += int64(n)
	if n > 0 {
		return n, nil
	}
	return n, err
}

func (o *openFile) Stat() (fs.FileInfo, error) {
	i, err := o.File.Stat()
	return memInfo{path.Base(o.name), i}, err
}

func (o *openFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if !o.read {
		list, err := o.dir.ReadDir(o.name)
		if err != nil {
			return nil, err
		}
		o.list, o.read = list, true
	}
	if n <= 0 {
		n = len(o.list)
	} else if len(o.list) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(o.list))
	out := o.list[:n]
	o.list = o.list[n:]
	return out, nil
}

// memInfo is vfs.Info as fs.FileInfo.
type memInfo struct {
	name string
	i    vfs.Info
}

func (m memInfo) Name() string       { return m.name }
func (m memInfo) Size() int64        { return m.i.Size }
func (m memInfo) Mode() fs.FileMode  { return m.i.Mode }
func (m memInfo) ModTime() time.Time { return m.i.ModTime }
func (m memInfo) IsDir() bool        { return m.i.Mode.IsDir() }
func (m memInfo) Sys() any           { return nil }
