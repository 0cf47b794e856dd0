package journal

import (
	"errors"
	"io/fs"

	"github.com/agent-ls/agent-ls/session"
)

// ErrClosed: the journal was closed.
var ErrClosed = errors.New("journal is closed")

// StorageError is a failed write, sync or lock; errors.Is reaches the errno.
type StorageError struct {
	Op, Path string
	Err      error
	// Unknown: the bytes are written but may not be durable; the journal
	// takes no more appends to this file.
	Unknown bool
}

func (e *StorageError) Error() string {
	s := e.Op + " " + e.Path + ": " + text(e.Err)
	if e.Unknown {
		s += " (written, but perhaps not durable; this file takes no more appends)"
	}
	return s
}

func (e *StorageError) Unwrap() error { return e.Err }

// text is what err says without naming the operation and the path again.
func text(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) && err.Error() == p.Error() {
		return p.Err.Error()
	}
	return err.Error()
}

// refusedError is why a file takes no more appends.
type refusedError struct{ cause *StorageError }

func (e *refusedError) Error() string {
	return "not written, since an earlier append could not be made durable (" + e.cause.Op + ": " + text(e.cause.Err) + ")"
}

// Unwrap reaches the errno, but not the cause itself, whose Unknown is not
// true of a later append.
func (e *refusedError) Unwrap() error { return e.cause.Err }

// StaleError names the revision that a transcript is at.
type StaleError struct{ Current session.Revision }

func (e *StaleError) Error() string {
	return "the transcript is at revision " + string(e.Current) + ", not at the expected one"
}

// Is makes errors.Is(err, session.ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == session.ErrStale }

var (
	// errShort is what a full disk looks like at first: part of the bytes and no error.
	errShort = errors.New("only a part was written, the disk is full or a limit was reached")
	// errWithdrawn: its caller took the request back.
	errWithdrawn = errors.New("the append was taken back")
	// errLost: another program rewrote or truncated the file meanwhile.
	errLost = errors.New("the bytes written are not in the file, another program has changed it meanwhile")
	// errMoved: another program put another file in its place.
	errMoved = errors.New("the file was replaced or removed while it was written to")
)
