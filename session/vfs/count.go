package vfs

import (
	"io"
	"io/fs"
	"sync/atomic"
)

// Counters say how much was asked of a file system since it was wrapped by
// Count. They are safe for concurrent use.
type Counters struct {
	Opened atomic.Int64 // files opened for reading or writing
	Read   atomic.Int64 // bytes read from files
	Listed atomic.Int64 // directories listed
	Stats  atomic.Int64 // names looked at
	Writes atomic.Int64 // write calls
	Wrote  atomic.Int64 // bytes written
}

// Reset sets all counters to zero.
func (c *Counters) Reset() {
	for _, n := range []*atomic.Int64{&c.Opened, &c.Read, &c.Listed, &c.Stats, &c.Writes, &c.Wrote} {
		n.Store(0)
	}
}

// Count wraps a file system so that work can be counted: tests assert how
// much is read and opened, which does not depend on the speed of a machine.
// Lock files are not counted.
func Count(fsys FS) (FS, *Counters) {
	c := &Counters{}
	return countFS{fsys, c}, c
}

type countFS struct {
	FS
	c *Counters
}

func (f countFS) file(g File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	f.c.Opened.Add(1)
	return countFile{g, f.c}, nil
}

func (f countFS) Open(path string) (File, error)       { return f.file(f.FS.Open(path)) }
func (f countFS) OpenAppend(path string) (File, error) { return f.file(f.FS.OpenAppend(path)) }

func (f countFS) Create(path string, perm fs.FileMode) (File, error) {
	return f.file(f.FS.Create(path, perm))
}

func (f countFS) Stat(path string) (Info, error) {
	f.c.Stats.Add(1)
	return f.FS.Stat(path)
}

func (f countFS) Lstat(path string) (Info, error) {
	f.c.Stats.Add(1)
	return f.FS.Lstat(path)
}

func (f countFS) ReadDir(path string) ([]fs.DirEntry, error) {
	f.c.Listed.Add(1)
	return f.FS.ReadDir(path)
}

func (f countFS) DirFS(dir string) fs.FS { return countDir{f.FS.DirFS(dir), f.c} }

type countFile struct {
	File
	c *Counters
}

func (f countFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.c.Read.Add(int64(n))
	return n, err
}

func (f countFile) WriteOnce(p []byte) (int, error) {
	n, err := f.File.WriteOnce(p)
	f.c.Writes.Add(1)
	f.c.Wrote.Add(int64(n))
	return n, err
}

// countDir counts what formats do.
type countDir struct {
	fs fs.FS
	c  *Counters
}

func (d countDir) Open(name string) (fs.File, error) {
	f, err := d.fs.Open(name)
	if err != nil {
		return nil, err
	}
	d.c.Opened.Add(1)
	return countDirFile{f, d.c}, nil
}

func (d countDir) Stat(name string) (fs.FileInfo, error) {
	d.c.Stats.Add(1)
	return fs.Stat(d.fs, name)
}

func (d countDir) ReadDir(name string) ([]fs.DirEntry, error) {
	d.c.Listed.Add(1)
	return fs.ReadDir(d.fs, name)
}

func (d countDir) ReadFile(name string) ([]byte, error) {
	b, err := fs.ReadFile(d.fs, name)
	if err == nil {
		d.c.Opened.Add(1)
		d.c.Read.Add(int64(len(b)))
	}
	return b, err
}

type countDirFile struct {
	fs.File
	c *Counters
}

func (f countDirFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.c.Read.Add(int64(n))
	return n, err
}

// ReadAt works for the files of a DirFS, which have it.
func (f countDirFile) ReadAt(p []byte, off int64) (int, error) {
	r, ok := f.File.(io.ReaderAt)
	if !ok {
		return 0, &fs.PathError{Op: "read at", Path: "", Err: fs.ErrInvalid}
	}
	n, err := r.ReadAt(p, off)
	f.c.Read.Add(int64(n))
	return n, err
}
