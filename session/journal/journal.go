// Package journal appends whole lines to transcripts so that a crash, a full
// disk or a second writer leaves either the old bytes or the new ones.
//
// It does not know what the lines mean. Invariant: existing bytes are never
// rewritten; a failed append leaves the file as it was, or closed by a line
// feed so that the damage is one skippable line.
package journal

import (
	"context"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// Durability says when an append returns.
type Durability uint8

// Durabilities.
const (
	// Sync: after fdatasync.
	Sync Durability = iota
	// Batch: after the write of the batch it is part of, at most FlushAfter
	// later; the caller waits for that. Close and Flush write what is queued.
	Batch
)

// FlushAfter and FlushBytes bound a batch.
const (
	FlushAfter = 100 * time.Millisecond
	FlushBytes = 4 << 20
)

// Request is one append.
type Request struct {
	Lines      []byte           // complete lines, each ended by a line feed
	Expect     session.Revision // "" for any
	Durability Durability
	Create     bool // the file may be missing and is then made
	Perm       uint32
}

// Receipt says where the lines went.
type Receipt struct {
	Offset   int64 // of the first byte of Lines
	Length   int   // of Lines
	Closed   bool  // a torn tail was closed by a line feed before them
	Revision session.Revision
	Created  bool
}

// StorageError is a failed write, sync or lock; errors.Is reaches the errno.
type StorageError struct {
	Op, Path string
	Err      error
	// Unknown: the bytes are written but may not be durable; the journal
	// takes no more appends to this file.
	Unknown bool
}

func (e *StorageError) Error() string { return e.Op + " " + e.Path + ": " + e.Err.Error() }
func (e *StorageError) Unwrap() error { return e.Err }

// Journal appends to any number of transcripts. It is safe for concurrent use.
type Journal struct{ fs vfs.FS }

// New makes a Journal. Close it before the process ends.
func New(fs vfs.FS, clock session.Clock) *Journal { return &Journal{fs: fs} }

// Append writes r.Lines at the end of the file at path.
//
// Errors: session.ErrStale when r.Expect no longer holds, *session.LockedError
// (session.ErrLocked) when another process holds the writer lock until ctx
// ends, *StorageError when the disk failed; ctx.Err() when ctx ended while waiting.
func (j *Journal) Append(ctx context.Context, path string, r Request) (Receipt, error) {
	panic("not yet")
}

// Hold keeps the writer lock of path until release is called (a session under
// way), so that a second writer is refused with session.ErrLocked. Appends of
// this Journal go on.
func (j *Journal) Hold(ctx context.Context, path string) (release func() error, err error) {
	panic("not yet")
}

// Flush writes and syncs everything queued.
func (j *Journal) Flush(ctx context.Context) error { panic("not yet") }

// Close is Flush and then release of everything held.
func (j *Journal) Close() error { panic("not yet") }

// Revision of a transcript from its identity and size; equal for every part
// of the program.
func Revision(info vfs.Info) session.Revision { panic("not yet") }
