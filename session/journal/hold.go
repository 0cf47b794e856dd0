package journal

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// Hold keeps the lock of path until release is called (a session under way),
// so that writers of other processes are refused with session.ErrLocked.
// Appends of this Journal go on. It waits for the lock until ctx ends.
// release is idempotent.
func (j *Journal) Hold(ctx context.Context, path string) (release func() error, err error) {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil, ErrClosed
	}
	f := j.use(path)
	j.mu.Unlock()
	if err := j.acquire(ctx, f); err != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.drop(f, 1)
		return nil, lockError(path, err)
	}
	return sync.OnceValue(func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
		err := f.release()
		j.drop(f, 1)
		return err
	}), nil
}

// acquire takes the lock of f, or shares it with those in this process that
// have it. Its error is the file system's.
func (j *Journal) acquire(ctx context.Context, f *file) error {
	path := LockPath(f.path)
	j.mu.Lock()
	for f.lock == nil && f.acquiring != nil {
		other := f.acquiring
		j.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			if pid, since, held := j.fs.Holder(path); held {
				return &vfs.LockHeldError{Path: path, PID: pid, Since: since}
			}
			return ctx.Err()
		}
		j.mu.Lock()
	}
	if f.lock != nil {
		f.holders++
		j.mu.Unlock()
		return nil
	}
	f.acquiring = make(chan struct{})
	j.mu.Unlock()

	lock, err := j.fs.Lock(ctx, path)
	j.mu.Lock()
	defer j.mu.Unlock()
	close(f.acquiring)
	f.acquiring = nil
	if err != nil {
		return err
	}
	f.lock, f.holders = lock, 1
	return nil
}

// release ends one holder's use of the lock; Journal.mu is held.
func (f *file) release() error {
	f.holders--
	if f.holders > 0 {
		return nil
	}
	return f.unlock()
}

// unlock gives the lock back; Journal.mu is held.
func (f *file) unlock() error {
	if f.lock == nil {
		return nil
	}
	err := f.lock.Unlock()
	f.lock = nil
	return err
}

func lockError(path string, err error) error {
	var held *vfs.LockHeldError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &held):
		return &session.LockedError{Path: held.Path, PID: held.PID, Since: held.Since}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err // the directory of the transcript is gone, or the caller went
	}
	return &StorageError{Op: "lock", Path: path, Err: err}
}
