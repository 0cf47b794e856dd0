// Package journal appends whole lines to transcripts so that a crash, a full
// disk or a second writer leaves either the old bytes or the new ones.
//
// It does not know what the lines mean. Invariant: existing bytes are never
// rewritten; a failed append leaves the file as it was, or closed by a line
// feed so that the damage is one skippable line.
package journal

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// Durability says when an append returns.
type Durability uint8

// Durabilities. Both return after fdatasync.
const (
	// Sync writes at once, together with whatever waits.
	Sync Durability = iota
	// Batch waits for others, at most FlushAfter or until FlushBytes are
	// queued, a Sync append comes, or Flush or Close is called.
	Batch
)

// FlushAfter and FlushBytes bound a batch.
const (
	FlushAfter = 100 * time.Millisecond
	FlushBytes = 4 << 20
)

// LockWait is how long an append waits for the lock of another process.
const LockWait = 2 * time.Second

// Request is one append.
type Request struct {
	Lines      []byte           // complete lines, each ended by a line feed
	Expect     session.Revision // "" for any
	Durability Durability
	Create     bool        // the file may be missing and is then made, with its directory
	Perm       fs.FileMode // of a file that is made; 0 means 0600
}

// Receipt says where the lines went.
type Receipt struct {
	Offset   int64 // of the first byte of Lines
	Length   int   // of Lines
	Closed   bool  // a torn tail was closed by a line feed before them
	Created  bool
	Revision session.Revision // of the file after the write they were part of
}

// StorageError is a failed write, sync or lock; errors.Is reaches the errno.
type StorageError struct {
	Op, Path string
	Err      error
	// Unknown: the bytes are written but may not be durable; the journal
	// takes no more appends to this file.
	Unknown bool
}

func (e *StorageError) Error() string {
	s := e.Op + " " + e.Path + ": " + e.Err.Error()
	if e.Unknown {
		s += " (written, but perhaps not durable; this file takes no more appends)"
	}
	return s
}

func (e *StorageError) Unwrap() error { return e.Err }

// ErrClosed: the journal was closed.
var ErrClosed = errors.New("journal is closed")

// Journal appends to any number of transcripts. It is safe for concurrent
// use. It starts no goroutine: of the callers that wait for one file, one
// writes for all.
type Journal struct {
	fs    vfs.FS
	clock session.Clock

	mu     sync.Mutex // guards what follows, and is held for moments only
	files  map[string]*file
	closed bool
}

// New makes a Journal. Close it before the process ends.
func New(fsys vfs.FS, clock session.Clock) *Journal {
	return &Journal{fs: fsys, clock: clock, files: map[string]*file{}}
}

// LockPath is the lock file of the transcript at path: a hidden file beside
// it whose name is no session's in any store.
func LockPath(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".agent-ls.lock")
}

// file is what the journal knows of one transcript.
type file struct {
	path string

	queue   []*waiter // in order of arrival
	queued  int       // bytes
	writing bool      // somebody is the leader
	flush   chan struct{}

	failed error // after a failed sync: what every later append gets

	hold      vfs.Unlocker
	holds     int
	acquiring chan struct{} // closed when the Hold under way has ended
}

type waiter struct {
	Request
	done    chan struct{} // closed when receipt and err are set
	lead    chan struct{} // one token: you are the leader now
	receipt Receipt
	err     error
}

// Append writes r.Lines at the end of the file at path, in one write with
// those that wait for the same file, and syncs it.
//
// Errors: session.ErrInvalid for Lines that are not complete lines,
// session.ErrStale when r.Expect no longer holds, *session.LockedError
// (session.ErrLocked) when another process keeps the lock, fs.ErrNotExist,
// *StorageError when the disk failed, ErrClosed, and ctx.Err() when ctx ended
// while it waited for others; then nothing was written.
func (j *Journal) Append(ctx context.Context, path string, r Request) (Receipt, error) {
	if len(r.Lines) == 0 || r.Lines[len(r.Lines)-1] != '\n' {
		return Receipt{}, &session.InvalidError{Field: "lines", Value: path, Why: "not complete lines"}
	}
	w := &waiter{Request: r, done: make(chan struct{}), lead: make(chan struct{}, 1)}
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return Receipt{}, ErrClosed
	}
	f := j.file(path)
	f.queue = append(f.queue, w)
	f.queued += len(r.Lines)
	first := len(f.queue) == 1 && !f.writing
	if r.Durability == Sync || f.queued >= FlushBytes {
		f.wake()
	}
	flush := f.flush
	j.mu.Unlock()

	if r.Durability == Batch {
		// The first of a batch waits for more, and then writes for all; when
		// it goes away it passes the lead on.
		var due <-chan time.Time
		if first {
			t := time.NewTimer(FlushAfter)
			defer t.Stop()
			due = t.C
		}
		select {
		case <-due:
		case <-flush:
		case <-w.lead:
		case <-w.done:
		case <-ctx.Done():
		}
	}
	for {
		if ctx.Err() == nil && j.becomeLeader(f, w) {
			j.write(ctx, f)
		}
		select {
		case <-w.done:
			return w.receipt, w.err
		case <-w.lead:
		case <-ctx.Done():
			if j.withdraw(f, w) {
				return Receipt{}, ctx.Err()
			}
			<-w.done // it is being written: the outcome counts
			return w.receipt, w.err
		}
	}
}

// file gives the state of path; j.mu is held.
func (j *Journal) file(path string) *file {
	f := j.files[path]
	if f == nil {
		f = &file{path: path, flush: make(chan struct{})}
		j.files[path] = f
	}
	return f
}

// wake ends the wait of a batch; j.mu is held.
func (f *file) wake() {
	close(f.flush)
	f.flush = make(chan struct{})
}

// becomeLeader makes the caller the one who writes, if nobody is and its
// request still waits.
func (j *Journal) becomeLeader(f *file, w *waiter) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if f.writing {
		return false
	}
	for _, q := range f.queue {
		if q == w {
			f.writing = true
			return true
		}
	}
	return false
}

// withdraw takes a request out of the queue; false means that it is no longer there.
func (j *Journal) withdraw(f *file, w *waiter) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, q := range f.queue {
		if q == w {
			f.queue = append(f.queue[:i:i], f.queue[i+1:]...)
			f.queued -= len(w.Lines)
			j.pass(f)
			return true
		}
	}
	return false
}

// pass gives the lead to the next who waits, if nobody has it; j.mu is held.
func (j *Journal) pass(f *file) {
	if f.writing || len(f.queue) == 0 {
		return
	}
	select {
	case f.queue[0].lead <- struct{}{}:
	default:
	}
}

// write is the leader's work: everything that waits, in one write.
func (j *Journal) write(ctx context.Context, f *file) {
	j.mu.Lock()
	group := f.queue
	f.queue, f.queued = nil, 0
	failed, held := f.failed, f.hold != nil
	j.mu.Unlock()

	if failed == nil {
		failed = j.commit(ctx, f.path, group, held)
	}
	for _, w := range group {
		if w.err == nil && failed != nil {
			w.err = failed
		}
		close(w.done)
	}
	j.mu.Lock()
	f.writing = false
	var s *StorageError
	if errors.As(failed, &s) && s.Unknown {
		f.failed = failed
	}
	j.pass(f)
	j.forget(f)
	j.mu.Unlock()
}

// forget drops the state of a file that nobody uses; j.mu is held.
func (j *Journal) forget(f *file) {
	if len(f.queue) == 0 && !f.writing && f.failed == nil && f.hold == nil && f.acquiring == nil && j.files[f.path] == f {
		delete(j.files, f.path)
	}
}

// commit writes the lines of a group under the lock. Its error is everybody's;
// errors of single requests (a stale revision) are set in them.
func (j *Journal) commit(ctx context.Context, path string, group []*waiter, held bool) (err error) {
	if !held {
		lock, err := j.lock(context.WithoutCancel(ctx), path, group)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lock.Unlock()) }()
	}
	h, created, err := j.open(path, group)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	info, err := h.Stat()
	if err != nil {
		return &StorageError{Op: "stat", Path: path, Err: err}
	}
	closed, err := torn(h, info.Size)
	if err != nil {
		return &StorageError{Op: "read", Path: path, Err: err}
	}
	batch, err := gather(h, info.Size, group, closed)
	if err != nil || len(batch) == 0 {
		return err
	}
	at, err := appendOnce(h, path, info.Size, batch)
	if err != nil {
		return err
	}
	if err := h.Sync(); err != nil {
		// The kernel may mark the pages clean after reporting the error once:
		// a second sync would report success with the data gone.
		return &StorageError{Op: "sync", Path: path, Err: err, Unknown: true}
	}
	if created {
		if err := j.fs.SyncDir(filepath.Dir(path)); err != nil {
			return &StorageError{Op: "sync directory of", Path: path, Err: err, Unknown: true}
		}
	}
	end := at + int64(len(batch))
	rev, err := Revision(h, end)
	if err != nil {
		return &StorageError{Op: "read back", Path: path, Err: err, Unknown: true}
	}
	if closed {
		at++
	}
	for _, w := range group {
		if w.err != nil {
			continue
		}
		w.receipt = Receipt{Offset: at, Length: len(w.Lines), Closed: closed, Created: created, Revision: rev}
		at += int64(len(w.Lines))
		closed, created = false, false
	}
	return nil
}

// lock takes the lock of another process's writers.
func (j *Journal) lock(ctx context.Context, path string, group []*waiter) (vfs.Unlocker, error) {
	ctx, cancel := context.WithTimeout(ctx, LockWait)
	defer cancel()
	dir := filepath.Dir(path)
	lock, err := j.fs.Lock(ctx, LockPath(path))
	if errors.Is(err, fs.ErrNotExist) && anyCreate(group) {
		if err := j.fs.MkdirAll(dir, 0o700); err != nil {
			return nil, &StorageError{Op: "make directory of", Path: path, Err: err}
		}
		lock, err = j.fs.Lock(ctx, LockPath(path))
	}
	return lock, lockError(path, err)
}

func lockError(path string, err error) error {
	var held *vfs.LockHeldError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &held):
		return &session.LockedError{Path: held.Path, PID: held.PID, Since: held.Since}
	case errors.Is(err, fs.ErrNotExist):
		return err // the directory of the transcript is gone
	}
	return &StorageError{Op: "lock", Path: path, Err: err}
}

func anyCreate(group []*waiter) bool {
	for _, w := range group {
		if w.Create {
			return true
		}
	}
	return false
}

func (j *Journal) open(path string, group []*waiter) (h vfs.File, created bool, err error) {
	h, err = j.fs.OpenAppend(path)
	if errors.Is(err, fs.ErrNotExist) && anyCreate(group) {
		perm := group[0].Perm
		if perm == 0 {
			perm = 0o600
		}
		h, err = j.fs.Create(path, perm)
		if errors.Is(err, fs.ErrExist) { // its agent was faster
			h, err = j.fs.OpenAppend(path)
			return h, false, storage("open", path, err)
		}
		return h, err == nil, storage("create", path, err)
	}
	return h, false, storage("open", path, err)
}

func storage(op, path string, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &StorageError{Op: op, Path: path, Err: err}
}

// torn reports whether the file does not end in a line feed.
func torn(h vfs.File, size int64) (bool, error) {
	if size == 0 {
		return false, nil
	}
	var last [1]byte
	if _, err := h.ReadAt(last[:], size-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}

// gather checks the expectations in order and gives the bytes of those that hold.
func gather(h vfs.File, size int64, group []*waiter, closed bool) ([]byte, error) {
	var batch []byte
	if closed {
		batch = append(batch, '\n')
	}
	var now session.Revision
	n := 0
	for _, w := range group {
		if w.Expect != "" {
			if now == "" && n == 0 {
				rev, err := Revision(h, size)
				if err != nil {
					return nil, err
				}
				now = rev
			}
			if n > 0 || w.Expect != now {
				w.err = &StaleError{Current: now}
				continue
			}
		}
		batch = append(batch, w.Lines...)
		n++
	}
	if n == 0 {
		return nil, nil
	}
	return batch, nil
}

// StaleError names the revision that a transcript is at. Current is "" when
// another append was under way.
type StaleError struct{ Current session.Revision }

func (e *StaleError) Error() string {
	return "the transcript is at revision " + string(e.Current) + ", not at the expected one"
}

// Is makes errors.Is(err, session.ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == session.ErrStale }

// appendOnce writes batch by one system call and gives its offset. When the
// write comes out short, the file is put back as it was, unless somebody
// else has written meanwhile: then the part is closed by a line feed.
func appendOnce(h vfs.File, path string, size int64, batch []byte) (int64, error) {
	n, werr := h.WriteOnce(batch)
	if werr == nil && n < len(batch) {
		werr = errShort
	}
	info, err := h.Stat()
	if werr != nil {
		if n > 0 {
			if err == nil && info.Size == size+int64(n) {
				err = h.Truncate(size)
			} else {
				_, err = h.WriteOnce([]byte{'\n'})
			}
		}
		return 0, &StorageError{Op: "write", Path: path, Err: errors.Join(werr, err)}
	}
	if err != nil {
		return 0, &StorageError{Op: "stat", Path: path, Err: err, Unknown: true}
	}
	if info.Size == size+int64(len(batch)) {
		return size, nil
	}
	// Another program, which knows nothing of our lock, appended as well.
	return locate(h, path, size, info.Size, batch)
}

// errShort is what a full disk looks like at first: part of the bytes and no error.
var errShort = errors.New("only a part was written, the disk is full or a limit was reached")

// locate finds batch in [from, to).
func locate(h vfs.File, path string, from, to int64, batch []byte) (int64, error) {
	region := make([]byte, max(0, to-from))
	if n, err := h.ReadAt(region, from); n < len(region) {
		return 0, &StorageError{Op: "read back", Path: path, Err: err, Unknown: true}
	}
	i := bytes.Index(region, batch)
	if i < 0 {
		return 0, &StorageError{Op: "read back", Path: path, Err: errors.New("the bytes written are not in the file"), Unknown: true}
	}
	return from + int64(i), nil
}

// Hold keeps the lock of path until release is called (a session under way),
// so that writers of other processes are refused with session.ErrLocked.
// Appends of this Journal go on. It waits for the lock until ctx ends.
func (j *Journal) Hold(ctx context.Context, path string) (release func() error, err error) {
	j.mu.Lock()
	f := j.file(path)
	for f.acquiring != nil {
		other := f.acquiring
		j.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		j.mu.Lock()
		f = j.file(path)
	}
	if f.hold != nil {
		f.holds++
		j.mu.Unlock()
		return j.releaser(f), nil
	}
	f.acquiring = make(chan struct{})
	j.mu.Unlock()

	lock, err := j.fs.Lock(ctx, LockPath(path))
	j.mu.Lock()
	defer j.mu.Unlock()
	close(f.acquiring)
	f.acquiring = nil
	if err != nil {
		j.forget(f)
		return nil, lockError(path, err)
	}
	f.hold, f.holds = lock, 1
	return j.releaser(f), nil
}

func (j *Journal) releaser(f *file) func() error {
	return sync.OnceValue(func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
		f.holds--
		if f.holds > 0 || f.hold == nil {
			return nil
		}
		err := f.hold.Unlock()
		f.hold = nil
		j.forget(f)
		return err
	})
}

// Flush ends the wait of all batches and returns when they are written, or
// when ctx ends.
func (j *Journal) Flush(ctx context.Context) error {
	j.mu.Lock()
	var wait []*waiter
	for _, f := range j.files {
		f.wake()
		wait = append(wait, f.queue...)
	}
	j.mu.Unlock()
	var errs []error
	for _, w := range wait {
		select {
		case <-w.done:
			errs = append(errs, w.err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

// Close is Flush, and then release of everything held. Later appends give
// ErrClosed. It is idempotent.
func (j *Journal) Close() error {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	errs := []error{j.Flush(context.Background())}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, f := range j.files {
		if f.hold != nil {
			errs = append(errs, f.hold.Unlock())
			f.hold, f.holds = nil, 0
		}
	}
	return errors.Join(errs...)
}
