package journal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// commit writes the lines of a group under the lock. Its error is everybody's;
// errors of single requests (a stale revision) are set in them.
func (j *Journal) commit(ctx context.Context, f *file, group []*Pending) error {
	if err := j.lockFor(ctx, f, group); err != nil {
		return err
	}
	err := j.commitLocked(f.path, group)
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = f.release() // what is durable stays so when a lock cannot be given back
	return err
}

// lockFor takes the lock against the writers of other processes. Nothing is
// made in a directory without a transcript unless somebody wants to make one.
func (j *Journal) lockFor(ctx context.Context, f *file, group []*Pending) error {
	// The leader writes for others as well: its own deadline is not theirs.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.lockWait)
	defer cancel()
	if !anyCreate(group) {
		if _, err := j.fs.Stat(f.path); err != nil {
			return storage("find", f.path, err)
		}
	}
	err := j.acquire(ctx, f)
	if errors.Is(err, fs.ErrNotExist) && anyCreate(group) {
		if err := j.makeDir(filepath.Dir(f.path)); err != nil {
			return &StorageError{Op: "make directory of", Path: f.path, Err: err}
		}
		err = j.acquire(ctx, f)
	}
	return lockError(f.path, err)
}

func anyCreate(group []*Pending) bool {
	for _, p := range group {
		if p.Create {
			return true
		}
	}
	return false
}

// makeDir makes dir and what is missing above it, and the new names durable.
func (j *Journal) makeDir(dir string) error {
	if _, err := j.fs.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := j.makeDir(parent); err != nil {
		return err
	}
	if err := j.fs.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return j.fs.SyncDir(parent)
}

func (j *Journal) commitLocked(path string, group []*Pending) error {
	b, err := j.prepare(path, group)
	if err != nil || b == nil {
		return err
	}
	// After fdatasync a close has nothing left to say.
	defer func() { _ = b.h.Close() }()
	if err := b.write(); err != nil {
		return err
	}
	switch now, err := j.fs.Stat(path); {
	case errors.Is(err, fs.ErrNotExist) || err == nil && now.ID != b.id:
		// Whoever put another file in its place has not seen our bytes.
		return &StorageError{Op: "append to", Path: path, Err: errMoved}
	case err != nil:
		return &StorageError{Op: "stat", Path: path, Err: err, Unknown: true}
	}
	end := b.at + int64(len(b.data))
	rev, err := Revision(b.h, end)
	if err != nil {
		return &StorageError{Op: "read back", Path: path, Err: err, Unknown: true}
	}
	if err := b.h.Sync(); err != nil {
		// The kernel may mark the pages clean after reporting the error once:
		// a second sync would report success with the data gone.
		return &StorageError{Op: "sync", Path: path, Err: err, Unknown: true}
	}
	if b.size == 0 { // the name may be as new as the content
		if err := j.fs.SyncDir(filepath.Dir(path)); err != nil {
			return &StorageError{Op: "sync directory of", Path: path, Err: err, Unknown: true}
		}
	}
	b.acknowledge(group, rev)
	return nil
}

// batch is one write.
type batch struct {
	path    string
	h       vfs.File
	id      vfs.FileID
	size    int64 // of the file before
	created bool
	lead    int // 1 if data begins with the line feed that closes a torn tail
	data    []byte
	at      int64 // where data went
}

// prepare opens the file and gathers what is to be written; nil if nothing is.
func (j *Journal) prepare(path string, group []*Pending) (*batch, error) {
	h, err := j.fs.OpenAppend(path)
	if errors.Is(err, fs.ErrNotExist) && anyCreate(group) {
		return j.prepareNew(path, group)
	}
	if err != nil {
		return nil, storage("open", path, err)
	}
	b, err := gather(path, h, group)
	if err != nil || b == nil {
		_ = h.Close() // nothing was written
		return nil, err
	}
	return b, nil
}

// prepareNew makes the file, but only when there is something to write.
func (j *Journal) prepareNew(path string, group []*Pending) (*batch, error) {
	b := &batch{path: path, created: true}
	perm := fs.FileMode(0)
	err := b.collect(strings.NewReader(""), group, func(p *Pending) error {
		if len(b.data) == 0 && !p.Create {
			return &fs.PathError{Op: "append to", Path: path, Err: fs.ErrNotExist}
		}
		if len(b.data) == 0 {
			perm = p.Perm
		}
		return nil
	})
	if err != nil || len(b.data) == 0 {
		return nil, err
	}
	if perm == 0 {
		perm = 0o600
	}
	b.h, err = j.fs.Create(path, perm)
	if errors.Is(err, fs.ErrExist) { // its agent was faster, and it is a file like any other
		for _, p := range group {
			p.err = nil
		}
		return j.prepare(path, group)
	}
	if err != nil {
		return nil, storage("create", path, err)
	}
	info, err := b.h.Stat()
	if err != nil {
		_ = b.h.Close() // nothing was written
		return nil, &StorageError{Op: "stat", Path: path, Err: err}
	}
	b.id = info.ID
	return b, nil
}

func storage(op, path string, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &StorageError{Op: op, Path: path, Err: err}
}

func gather(path string, h vfs.File, group []*Pending) (*batch, error) {
	info, err := h.Stat()
	if err != nil {
		return nil, &StorageError{Op: "stat", Path: path, Err: err}
	}
	b := &batch{path: path, h: h, id: info.ID, size: info.Size}
	torn, err := tornAt(h, info.Size)
	if err != nil {
		return nil, &StorageError{Op: "read", Path: path, Err: err}
	}
	if torn {
		b.lead, b.data = 1, append(b.data, '\n')
	}
	if err := b.collect(h, group, nil); err != nil || len(b.data) == b.lead {
		return nil, err
	}
	return b, nil
}

// tornAt reports whether the file does not end in a line feed.
func tornAt(src io.ReaderAt, size int64) (bool, error) {
	if size == 0 {
		return false, nil
	}
	var last [1]byte
	if n, err := src.ReadAt(last[:], size-1); n < 1 {
		return false, err
	}
	return last[0] != '\n', nil
}

// collect adds the lines of the requests that may be written, in order. A
// request that expects a revision is stale behind any other of its group.
func (b *batch) collect(src io.ReaderAt, group []*Pending, check func(*Pending) error) error {
	var now session.Revision
	total := b.lead
	for _, p := range group {
		total += len(p.Lines)
	}
	data := make([]byte, 0, total)
	b.data = append(data, b.data...)
	for _, p := range group {
		if p.Expect != "" {
			if now == "" {
				var err error
				if now, err = Revision(src, b.size); err != nil {
					return &StorageError{Op: "read", Path: b.path, Err: err}
				}
			}
			if len(b.data) > b.lead || p.Expect != now {
				p.err = &StaleError{Current: now}
				continue
			}
		}
		if check != nil {
			if p.err = check(p); p.err != nil {
				continue
			}
		}
		b.data = append(b.data, p.Lines...)
	}
	return nil
}

// write writes by one system call, and looks where the bytes went.
func (b *batch) write() error {
	n, err := b.h.WriteOnce(b.data)
	if err == nil && n < len(b.data) {
		err = errShort
	}
	if err != nil {
		return &StorageError{Op: "write", Path: b.path, Err: errors.Join(err, b.undo(n))}
	}
	info, err := b.h.Stat()
	if err != nil {
		return &StorageError{Op: "stat", Path: b.path, Err: err, Unknown: true}
	}
	b.at = b.size
	if info.Size == b.size+int64(len(b.data)) {
		return nil
	}
	return b.locate(info.Size)
}

// undo puts the file back as it was before a write of which n bytes went in,
// unless somebody else has written behind them or it cannot be cut: then the
// part gets a line feed, so that it stays one bad line.
func (b *batch) undo(n int) error {
	if n == 0 {
		return nil
	}
	info, err := b.h.Stat()
	if err == nil && info.Size == b.size+int64(n) {
		if err = b.h.Truncate(b.size); err == nil {
			return nil
		}
	}
	if torn, readErr := tornAt(b.h, info.Size); readErr == nil && !torn {
		return err
	}
	_, closeErr := b.h.WriteOnce([]byte{'\n'})
	return errors.Join(err, closeErr)
}

// locate finds the bytes in a file that another program, which knows nothing
// of our lock, has changed meanwhile: O_APPEND put them behind what it wrote.
func (b *batch) locate(size int64) error {
	from := max(0, b.size-1)
	region := make([]byte, max(0, size-from))
	if n, err := b.h.ReadAt(region, from); n < len(region) {
		return &StorageError{Op: "read back", Path: b.path, Err: errors.Join(errLost, err)}
	}
	before := min(b.size, 1)
	i := int64(bytes.Index(region[min(before, int64(len(region))):], b.data))
	if i < 0 {
		return &StorageError{Op: "read back", Path: b.path, Err: errLost}
	}
	b.at = b.size + i
	if b.lead == 1 && i > 0 && region[before+i-1] == '\n' {
		// It finished its line itself; ours is an empty line more.
		b.at, b.lead, b.data = b.at+1, 0, b.data[1:]
	}
	return nil
}

// acknowledge gives everybody the place of their lines.
func (b *batch) acknowledge(group []*Pending, rev session.Revision) {
	at, closed, created := b.at+int64(b.lead), b.lead == 1, b.created
	for _, p := range group {
		var stale *StaleError
		switch {
		case errors.As(p.err, &stale):
			stale.Current = rev
		case p.err == nil:
			p.receipt = Receipt{Offset: at, Length: len(p.Lines), Closed: closed, Created: created, Revision: rev}
			at += int64(len(p.Lines))
			closed, created = false, false
		}
	}
}
