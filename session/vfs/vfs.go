// Package vfs is the dozen file operations that agent-ls uses, so that tests
// can make each of them fail (see errorfs).
//
// It does not know what is in the files. Invariant: a write is one system
// call; nothing here loops after a short write, as os.File does.
package vfs

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// FS is a file system. Paths are absolute, in the system's own form.
// All methods are safe for concurrent use and return *fs.PathError.
type FS interface {
	// Open opens a file for reading.
	Open(path string) (File, error)
	// OpenAppend opens a file for reading and appending (O_APPEND), without making it.
	OpenAppend(path string) (File, error)
	// Create makes a file that must not exist (O_EXCL, O_APPEND), readable
	// and writable by the owner only unless perm says otherwise.
	Create(path string, perm fs.FileMode) (File, error)
	Stat(path string) (Info, error)  // follows links
	Lstat(path string) (Info, error) // does not
	// ReadDir gives the entries of a directory sorted by name.
	ReadDir(path string) ([]fs.DirEntry, error)
	MkdirAll(path string, perm fs.FileMode) error
	Mkdir(path string, perm fs.FileMode) error // fs.ErrExist if it is there
	Rename(from, to string) error
	Remove(path string) error
	RemoveAll(path string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(path string) error
	// Lock takes the exclusive lock of the lock file at path, making the file
	// if needed and writing the pid into it; the file stays afterwards. It
	// waits until ctx ends and then gives *LockHeldError. Two locks taken
	// through one FS exclude each other as those of two processes do.
	Lock(ctx context.Context, path string) (Unlocker, error)
	// Holder tells who wrote the lock file last and whether the lock is held now.
	Holder(path string) (pid int, since time.Time, held bool)
	// EvalSymlinks resolves a path.
	EvalSymlinks(path string) (string, error)
	// DirFS is the directory as an io/fs.FS whose files have ReadAt.
	DirFS(dir string) fs.FS
}

// Unlocker releases a lock. It is idempotent.
type Unlocker interface{ Unlock() error }

// File is an open file.
type File interface {
	io.ReaderAt
	io.Closer
	// WriteOnce appends p by exactly one write(2) (repeated only on EINTR
	// before anything was written). n < len(p) with a nil error is a short write.
	WriteOnce(p []byte) (n int, err error)
	Stat() (Info, error)
	// Sync makes the content durable (fdatasync where there is one).
	Sync() error
	Truncate(size int64) error
}

// Info is what the project needs of stat.
type Info struct {
	Size    int64
	ModTime time.Time
	Mode    fs.FileMode
	ID      FileID
}

// FileID identifies a file on this machine while it exists.
type FileID struct{ Dev, Ino uint64 }

// LockHeldError: a lock was not to be had before the context ended.
type LockHeldError struct {
	Path  string
	PID   int
	Since time.Time
}

func (e *LockHeldError) Error() string { return "lock " + e.Path + " is held" }
