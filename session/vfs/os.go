package vfs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// OS is the file system of this machine.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) Open(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f}, nil
}

func (osFS) OpenAppend(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f}, nil
}

func (osFS) Create(path string, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f}, nil
}

func (osFS) Stat(path string) (Info, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return Info{}, err
	}
	return infoOf(path, fi), nil
}

func (osFS) Lstat(path string) (Info, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return Info{}, err
	}
	return infoOf(path, fi), nil
}

func (osFS) ReadDir(path string) ([]fs.DirEntry, error)   { return os.ReadDir(path) }
func (osFS) MkdirAll(path string, perm fs.FileMode) error { return os.MkdirAll(path, perm) }
func (osFS) Mkdir(path string, perm fs.FileMode) error    { return os.Mkdir(path, perm) }
func (osFS) Rename(from, to string) error                 { return os.Rename(from, to) }
func (osFS) Remove(path string) error                     { return os.Remove(path) }
func (osFS) RemoveAll(path string) error                  { return os.RemoveAll(path) }
func (osFS) EvalSymlinks(path string) (string, error)     { return filepath.EvalSymlinks(path) }
func (osFS) SyncDir(path string) error                    { return syncDir(path) }
func (osFS) DirFS(dir string) fs.FS                       { return os.DirFS(dir) }

// lockPause is the time between two tries for a lock that another process
// holds: short against a person, long against a system call.
const lockPause = 2 * time.Millisecond

func (osFS) Lock(ctx context.Context, path string) (Unlocker, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		ok, err := tryLock(f)
		if err != nil {
			return nil, errors.Join(&fs.PathError{Op: "lock", Path: path, Err: err}, f.Close())
		}
		if ok {
			break
		}
		timer := time.NewTimer(lockPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			pid, since := readHolder(f)
			return nil, errors.Join(&LockHeldError{Path: path, PID: pid, Since: since}, f.Close())
		}
	}
	// Who holds it is for people and for error messages; a lock that cannot
	// be labelled is a lock all the same, but must not name somebody else.
	if writeHolder(f) != nil {
		_ = f.Truncate(0)
	}
	return &osLock{f: f}, nil
}

func (osFS) Holder(path string) (pid int, since time.Time, held bool) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, time.Time{}, false
	}
	defer func() { _ = f.Close() }() // only read
	ok, err := tryShared(f)          // two who ask must not take each other for a holder
	if err != nil {
		return 0, time.Time{}, false
	}
	pid, since = readHolder(f)
	if ok {
		_ = unlock(f) // closing releases it as well
		return pid, since, false
	}
	return pid, since, true
}

type osLock struct{ f *os.File }

func (l *osLock) Unlock() error {
	if l.f == nil {
		return nil
	}
	err := unlock(l.f)
	// Nothing else would tell those who watch the directory that it is free.
	// The byte is the same whoever holds the lock by now.
	_, _ = l.f.WriteAt([]byte(labelStart), 0)
	err = errors.Join(err, l.f.Close())
	l.f = nil
	return err
}

// labelStart is the first byte of every label.
const labelStart = " "

// A lock file holds " pid unix-milliseconds\n" of the process that took the
// lock last. The file stays when the lock is released: making and removing
// it would be a second, racy lock.
func writeHolder(f *os.File) error {
	text := labelStart + strconv.Itoa(os.Getpid()) + " " + strconv.FormatInt(time.Now().UnixMilli(), 10) + "\n"
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(text)))
}

func readHolder(f *os.File) (pid int, since time.Time) {
	var b [64]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, time.Time{}
	}
	words := strings.Fields(string(b[:n]))
	if len(words) != 2 {
		return 0, time.Time{}
	}
	pid, err = strconv.Atoi(words[0])
	if err != nil || pid <= 0 {
		return 0, time.Time{}
	}
	ms, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil {
		return pid, time.Time{}
	}
	return pid, time.UnixMilli(ms)
}

type osFile struct{ f *os.File }

func (o *osFile) ReadAt(p []byte, off int64) (int, error) { return o.f.ReadAt(p, off) }
func (o *osFile) Close() error                            { return o.f.Close() }
func (o *osFile) Truncate(size int64) error               { return o.f.Truncate(size) }

func (o *osFile) Stat() (Info, error) {
	fi, err := o.f.Stat()
	if err != nil {
		return Info{}, err
	}
	return infoOf(o.f.Name(), fi), nil
}

func (o *osFile) Sync() error {
	if err := datasync(o.f); err != nil {
		return &fs.PathError{Op: "sync", Path: o.f.Name(), Err: err}
	}
	return nil
}

func (o *osFile) WriteOnce(p []byte) (int, error) {
	n, err := writeOnce(o.f, p)
	if err != nil {
		return n, &fs.PathError{Op: "write", Path: o.f.Name(), Err: err}
	}
	return n, nil
}
