package watcher

import (
	"sync/atomic"

	"github.com/agent-ls/agent-ls/session/vfs"
)

// countingFS counts what is asked of a file system.
type countingFS struct {
	vfs.FS
	bytes, reads, stats, opens, open atomic.Int64
}

func newCountingFS() *countingFS { return &countingFS{FS: vfs.OS()} }

func (f *countingFS) Stat(p string) (vfs.Info, error) {
	f.stats.Add(1)
	return f.FS.Stat(p)
}

func (f *countingFS) Open(p string) (vfs.File, error) {
	g, err := f.FS.Open(p)
	if err != nil {
		return nil, err
	}
	f.opens.Add(1)
	f.open.Add(1)
	return &countingFile{g, f}, nil
}

type countingFile struct {
	vfs.File
	fs *countingFS
}

func (f *countingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.fs.reads.Add(1)
	f.fs.bytes.Add(int64(n))
	return n, err
}

func (f *countingFile) Close() error {
	f.fs.open.Add(-1)
	return f.File.Close()
}
