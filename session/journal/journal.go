// Package journal appends whole lines to transcripts so that a crash, a full
// disk or a second writer leaves either the old bytes or the new ones.
//
// It does not know what the lines mean. Invariant: existing bytes are never
// rewritten; a failed append leaves the file as it was, or closed by a line
// feed so that the damage is one skippable line.
//
// An append goes through these steps, each of which a test makes fail (see
// testdata): take the lock file beside the transcript, open, compare the
// revision, look at the last byte, ONE write of everything that waits, look
// where it went, one fdatasync, and for a new file the sync of its directory.
package journal

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// Durability says when an append is written. It counts only after fdatasync
// in either case.
type Durability uint8

// Durabilities.
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

// Request is one append. Lines must not be changed until it has ended.
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

// Journal appends to any number of transcripts. It is safe for concurrent
// use. It starts no goroutine: of the callers that wait for one file, one
// writes for all.
type Journal struct {
	fs         vfs.FS
	clock      session.Clock
	lockWait   time.Duration
	flushAfter time.Duration

	mu     sync.Mutex // guards what follows, and is held for moments only
	files  map[string]*file
	idle   *file // the last one that nobody used any more
	closed bool
}

// New makes a Journal. Close it before the process ends.
func New(fsys vfs.FS, clock session.Clock) *Journal {
	return &Journal{fs: fsys, clock: clock, lockWait: LockWait, flushAfter: FlushAfter, files: map[string]*file{}}
}

// LockPath is the lock file of the transcript at path: a hidden file beside
// it whose name is no session's in any store.
func LockPath(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".agent-ls.lock")
}

// Pending is an append that has its place in the order of its file.
type Pending struct {
	Request
	j    *Journal
	f    *file
	at   time.Time       // when it was queued
	wake <-chan struct{} // closed when its batch must not wait longer

	lead chan struct{} // one token: look whether you can write for all
	done chan struct{} // closed when receipt and err are set

	// Guarded by Journal.mu:
	waiting  int  // callers inside run
	pressing bool // it does not want to wait for more
	taken    bool // it is no longer in the queue

	// Set before done is closed:
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
	p, err := j.Enqueue(path, r)
	if err != nil {
		return Receipt{}, err
	}
	return p.Wait(ctx)
}

// Enqueue is the first half of Append: it gives r its place behind everything
// queued earlier for path. It is written by whoever waits for it or for a
// later one, or by Flush or Close. So a caller can fix the order in one place
// and wait in another.
func (j *Journal) Enqueue(path string, r Request) (*Pending, error) {
	if len(r.Lines) == 0 || r.Lines[len(r.Lines)-1] != '\n' {
		return nil, &session.InvalidError{Field: "lines", Value: path, Why: "not complete lines"}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, ErrClosed
	}
	f := j.use(path)
	p := &Pending{
		Request: r, j: j, f: f, at: j.clock.Now(), wake: f.flush,
		lead: make(chan struct{}, 1), done: make(chan struct{}),
	}
	f.queue = append(f.queue, p)
	f.queued += len(r.Lines)
	if r.Durability == Sync {
		f.press(p)
	}
	if f.urgent() {
		f.wakeAll()
	}
	return p, nil
}

// Wait returns when the append has ended; see Append. When ctx ends before
// the write has begun, the request is taken back.
func (p *Pending) Wait(ctx context.Context) (Receipt, error) {
	if p.run(ctx) || !p.j.withdraw(p) {
		<-p.done // if it is being written, the outcome counts
		return p.receipt, p.err
	}
	return Receipt{}, ctx.Err()
}

// Flush writes everything that is queued and returns when it is durable, or
// when ctx ends. Its error is the first one of a request.
func (j *Journal) Flush(ctx context.Context) error {
	j.mu.Lock()
	var all []*Pending
	for _, f := range j.files {
		f.wakeAll()
		all = append(all, f.queue...)
	}
	j.mu.Unlock()
	var first error
	for _, p := range all {
		if !p.run(ctx) {
			return ctx.Err()
		}
		if first == nil && !errors.Is(p.err, errWithdrawn) {
			first = p.err
		}
	}
	return first
}

// Close is Flush, and then release of everything held. Later appends give
// ErrClosed. It is idempotent.
func (j *Journal) Close() error {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	err := j.Flush(context.Background())
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, f := range j.files {
		err = errors.Join(err, f.unlock())
	}
	return err
}
