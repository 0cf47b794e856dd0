// Package session holds the nouns: what a session, an entry, a block, a
// transcript and a view are, what a format has to offer, and the errors that
// every layer above tests for.
//
// It knows meaning, but neither time (times come from entries), nor the disk
// (bytes come through io.ReaderAt and fs.FS), nor the protocol (no type here
// has JSON tags; lsp/convert.go makes wire messages).
//
// Invariant: a value of this package is not changed after it was handed out.
package session

import (
	"errors"
	"strings"
	"time"
)

// Errors that the layers above test for with errors.Is.
var (
	// ErrNotFound: no session, entry or block of that name.
	ErrNotFound = errors.New("not found")
	// ErrAmbiguous: a name fits several sessions; see AmbiguousError.
	ErrAmbiguous = errors.New("ambiguous")
	// ErrUnsupported: the store does not take this operation; see UnsupportedError.
	ErrUnsupported = errors.New("unsupported")
	// ErrStale: the transcript is no longer at the expected revision.
	ErrStale = errors.New("transcript changed")
	// ErrLocked: another writer holds the session; see LockedError.
	ErrLocked = errors.New("session is held by another writer")
	// ErrInvalid: a value handed in cannot be used; see InvalidError.
	ErrInvalid = errors.New("invalid")
)

// AmbiguousError names the sessions that a short name fits.
type AmbiguousError struct {
	Name       string
	Candidates []string
}

func (e *AmbiguousError) Error() string {
	return "session name " + quote(e.Name) + " fits " + strings.Join(e.Candidates, ", ")
}

// Is makes errors.Is(err, ErrAmbiguous) true.
func (e *AmbiguousError) Is(target error) bool { return target == ErrAmbiguous }

// UnsupportedError says why a store does not take an operation and what to do instead.
type UnsupportedError struct {
	Op, Agent, Why, Instead string
}

func (e *UnsupportedError) Error() string {
	s := e.Op + " is not supported for " + e.Agent + ": " + e.Why
	if e.Instead != "" {
		s += "; " + e.Instead
	}
	return s
}

// Is makes errors.Is(err, ErrUnsupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// LockedError names the process that holds a session; PID is 0 when unknown.
type LockedError struct {
	Path  string
	PID   int
	Since time.Time
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return "session is held by another writer (lock " + quote(e.Path) + ")"
	}
	return "session is held by process " + itoa(e.PID) + " (lock " + quote(e.Path) + ")"
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// InvalidError names the field, the value and what is wrong with it.
type InvalidError struct {
	Field, Value, Why string
}

func (e *InvalidError) Error() string {
	return e.Field + " " + quote(e.Value) + ": " + e.Why
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// ID names a session: the kind of store and the agent's own id.
type ID struct{ Agent, Native string }

// String gives "agent:native", the form used on the wire.
func (id ID) String() string { return id.Agent + ":" + id.Native }

// IsZero reports whether id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// ParseID splits "agent:native". ok is false where there is no colon.
func ParseID(s string) (id ID, ok bool) {
	agent, native, ok := strings.Cut(s, ":")
	if !ok || agent == "" || native == "" {
		return ID{}, false
	}
	return ID{agent, native}, true
}

// TitleSource says where a title came from.
type TitleSource uint8

// Sources of a title, weakest first.
const (
	TitleNone TitleSource = iota
	TitlePrompt
	TitleAgent
	TitleUser
)

// String gives the wire word.
func (s TitleSource) String() string {
	return [...]string{"none", "prompt", "agent", "user"}[s]
}

// Status is what a session is doing now, as far as its store shows.
type Status uint8

// States of a session.
const (
	StatusUnknown Status = iota
	StatusRunning
	StatusIdle
	StatusRequiresAction
)

// String gives the wire word.
func (s Status) String() string {
	return [...]string{"unknown", "running", "idle", "requires_action"}[s]
}

// SessionKind tells main conversations from helpers and forks.
type SessionKind uint8

// Kinds of session.
const (
	Main SessionKind = iota
	Subagent
	Fork
)

// String gives the wire word.
func (k SessionKind) String() string { return [...]string{"main", "subagent", "fork"}[k] }

// UnknownCount is the value of a count that was not determined.
const UnknownCount = -1

// Session is one row of the catalog: a conversation with identity and what is
// known about it without reading all of it. Zero values mean "not known".
type Session struct {
	ID
	Root         string // directory of the store (absolute)
	Path         string // transcript (absolute)
	CWD          string // absolute working directory of the conversation
	CWDMissing   bool   // CWD no longer exists (set by the catalog)
	Title        string
	TitleSource  TitleSource
	FirstPrompt  string
	LastPrompt   string
	Model        string
	GitBranch    string
	Tag          string // the store's own tag, where it has one
	CreatedAt    time.Time
	UpdatedAt    time.Time // of the last entry with a time; mtime where entries have none
	ModTime      time.Time // of the file
	Status       Status
	Physical     int // message entries in the log; UnknownCount when not determined
	Effective    int // messages after replay; UnknownCount when not determined
	Size         int64
	Kind         SessionKind
	Parent       ID     // of a subagent or fork
	ParentTool   string // tool use id in the parent that started this subagent
	Archived     bool   // by the store's own mark (the overlay's is separate)
	Programmatic bool   // started by an SDK or a script, not by a person
	Empty        bool   // no message
	WriterPID    int    // live process that owns the session, where the store tells
	WriterSince  time.Time
	Revision     Revision
	Problems     int      // findings; UnknownCount when not determined
	SideFiles    []string // absolute paths of further files that belong to it
	// Cursor is the format's own note of how far it has read, for the next
	// Summarize of the same file after it has grown. Opaque to all others.
	Cursor []byte
}

// Revision identifies the bytes of a transcript: it changes if and only if
// they change. It is compared, never ordered.
type Revision string

func quote(s string) string {
	const max = 120
	if len(s) > max {
		s = s[:max] + "..."
	}
	return strconvQuote(s)
}
