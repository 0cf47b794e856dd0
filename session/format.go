package session

import (
	"io"
	"io/fs"

	"github.com/agent-ls/agent-ls/session/jsonl"
)

// Env is what a format may know of the process, handed in by cmd.
type Env struct {
	Home       string
	GOOS       string
	Getenv     func(string) string
	Workspaces []string            // absolute directories open in the editor, or the cwd
	Roots      map[string][]string // configured roots by agent; replaces the default
}

// Root is one store directory on disk and the same directory as a file system.
type Root struct {
	Dir string // absolute, slash or native separators as the system has it
	FS  fs.FS  // rooted at Dir
	// Alive reports whether a process runs; nil means that it cannot be known.
	// Handed in so that formats stay free of the system.
	Alive func(pid int) bool
}

// Format is our knowledge of one agent's store: a value without state. It
// starts no goroutine, keeps no handle and sees the disk only through a Root.
// All methods are safe for concurrent use.
type Format interface {
	// Name is the agent part of a session id, lower case.
	Name() string
	// Roots gives the directories in which this agent keeps sessions for env,
	// whether or not they exist, in order of preference.
	Roots(env Env) []string
	// Identify tells from a path below a root (slash-separated) whether it is
	// a transcript, and its native id. It looks at the name only.
	Identify(path string) (native string, ok bool)
	// Owner gives the transcript that a side file belongs to (both paths
	// below the root), so that a change of the side file refreshes its row.
	// ok is false for files that are no side file. A transcript is not its own owner.
	Owner(path string) (transcript string, ok bool)
	// Depth is how many directories below the root transcripts or their side
	// files can lie; the watcher goes no deeper.
	Depth() int
	// Summarize makes the row of the transcript at path by reading as little
	// as possible. prev is the row made last time for the same file (same
	// identity, grown since), or the zero Session. An error means that the
	// file could not be read; a file that is no session at all gives
	// ErrNotFound. The caller fills Root, Path, Size, ModTime, Revision and
	// CWDMissing.
	Summarize(root Root, path string, prev Session) (Session, error)
	// Decode appends the entries of one line to dst: none, one or (glued
	// objects) several. It never fails: bytes that are no event give an entry
	// of KindUnknown with Bad set. It validates the whole line, and keeps
	// nothing of line.Raw.
	Decode(dst []Entry, line jsonl.Line) []Entry
	// Body decodes the content of an entry from its own bytes. It never fails:
	// what it does not understand becomes Unknown blocks. It keeps nothing of
	// raw.
	Body(raw []byte) Body
	// Replay gives a new Replayer for one transcript. name is the native id of
	// the session (lines of other sessions are reported).
	Replay(native string) Replayer
}

// Quoter is a Format whose log holds texts as JSON strings, so that they can
// be handed on without being decoded.
type Quoter interface {
	Format
	// Quote is Body for an entry that is not Bad, except that texts may be
	// given as Quoted blocks, and that blocks share the bytes of raw.
	Quote(raw []byte) Body
}

// Appender is a Format whose store can be written.
type Appender interface {
	Format
	// Encode appends complete lines (each one JSON value and a line feed) for
	// the drafts to dst, hanging them on parent ("" means the current leaf).
	// It is pure: time and randomness come from a. On an error nothing counts.
	Encode(dst []byte, a Append) ([]byte, error)
}

// Append is what Encode needs to know.
type Append struct {
	Session       Session
	Transcript    *Transcript // as on disk now; nil for a new session
	Parent        string      // entry id to hang the first draft on; "" is the leaf
	Drafts        []Draft
	Clock         Clock
	Random        io.Reader
	FirstOfWriter bool // true on the first append of this process to the session
}

// Replacer is a Format whose store can replace the whole conversation.
type Replacer interface {
	Format
	// EncodeReplace is Encode for "from here on the conversation is these
	// drafts". The lines count for our reader only when all of them are there.
	EncodeReplace(dst []byte, reason string, a Append) ([]byte, error)
}

// Repairer is a Format whose logs can need lines appended before the agent's
// own reader sees in them what ours does.
type Repairer interface {
	Format
	// Repair appends such lines to dst; a.Drafts is the effective conversation.
	// needed is false when there is nothing to repair. It is pure.
	Repair(dst []byte, a Append) (lines []byte, needed bool, err error)
}

// Lazy is a Format whose agent makes a session's directory before its
// transcript.
type Lazy interface {
	Format
	// Expected gives the transcript that will come into dir (both below the
	// root); ok is false for directories that are no session's.
	Expected(dir string) (transcript string, ok bool)
}

// Creator is a Format in which new sessions can be made.
type Creator interface {
	Format
	// Create gives a new native id and the path (below root) of its transcript
	// without touching the disk. fs.ErrExist (also when the caller's Mkdir
	// finds it) means: ask again, up to ten times.
	// dirs are directories (below root) to make at once.
	Create(root Root, s Session, clock Clock, random io.Reader) (native, path string, dirs []string, err error)
}

// Namer is a Format whose store has an entry for a title given by the user.
type Namer interface {
	Format
	EncodeName(dst []byte, title string, a Append) ([]byte, error)
}

// Ender is a Format whose agent repeats what a list shows at the end of a
// transcript, where readers of the tail look for it.
type Ender interface {
	Format
	// EncodeEnd appends those lines to dst: what a writer appends last.
	EncodeEnd(dst []byte, a Append) ([]byte, error)
}

// Forker is a Format whose store can fork a session into a new file.
type Forker interface {
	Format
	// EncodeFork appends the lines of a new transcript of session native to
	// dst: the entries of t up to and including at ("" is the leaf).
	// load reads the bytes of one entry.
	EncodeFork(dst []byte, native, at, title string, a Append, load func(Entry) ([]byte, error)) ([]byte, error)
}

// Resumer is a Format whose agent's own CLI can continue a session.
type Resumer interface {
	Format
	// Command is an argument vector, the directory to run it in, and
	// environment variables to set, never a shell string.
	Command(s Session) (argv []string, cwd string, env map[string]string)
}

// Tailed is a Format that can resume a long transcript from its end.
type Tailed interface {
	Format
	// Tail finds, reading backward, the offset of a line from which a replay
	// gives the same Resumed as a replay from the start. ok is false when
	// that cannot be proven; then the whole file is read.
	Tail(src io.ReaderAt, size int64) (off int64, ok bool)
}

// Scoped is a Format whose root holds other things besides sessions.
type Scoped interface {
	Format
	// Enter reports whether the directory dir (below the root, slash-separated,
	// "." for the root itself) can hold transcripts or side files, at any depth.
	// Scans and watchers leave other directories out.
	Enter(dir string) bool
}

// Registry is a Format whose agent keeps a register of its live processes
// inside the store. The catalog puts it over the rows, so that the end of a
// process shows without a change of the transcript; Summarize leaves it out.
type Registry interface {
	Format
	// Registers reports whether the file at path (below the root) is part of
	// the register.
	Registers(path string) bool
	// Live gives the processes of the register that run, as far as root.Alive
	// tells. Entries that cannot be read are left out.
	Live(root Root) []Live
}

// Live is a process that has a session open.
type Live struct {
	Native string // id of the session; its case does not matter
	PID    int
	Since  Time   // zero where it is not recorded
	Status Status // StatusUnknown where the register does not tell
}

// Over puts what is live over what the log of the session tells.
func (l Live) Over(s *Session) {
	s.WriterPID, s.WriterSince = l.PID, l.Since
	if l.Status != StatusUnknown {
		s.Status = l.Status
	}
}

// Replayer folds entries, in file order, into a transcript. It is not safe
// for concurrent use; the transcripts it gives are.
type Replayer interface {
	// Add takes the next entry and says what it did to the effective
	// conversation.
	Add(e Entry) Effect
	// Transcript is the state after the entries added so far. It is cheap:
	// nothing is computed before it is asked for.
	Transcript() *Transcript
}

// Bulk is a Replayer that takes many entries at less cost when nobody asks for
// the effect of each.
type Bulk interface {
	Replayer
	// AddAll takes the next entries, which stay the caller's. About more are
	// to come.
	AddAll(entries []Entry, more int)
}

// Effect is what one more entry did to the effective conversation.
type Effect uint8

// Effects, weakest first; the effect of several entries is their maximum.
const (
	// Recorded: the effective conversation is as before.
	Recorded Effect = iota
	// Extended: the effective conversation grew at its end.
	Extended
	// Rebuilt: it changed otherwise; a reader must read it again.
	Rebuilt
)

// Clock tells the time; cmd hands in the real one, tests a fixed one.
type Clock interface{ Now() Time }
