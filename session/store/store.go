// Package store is agent-ls as a library for Go agents: make a session, write
// every message durably, list, resume and prune. It keeps sessions where and
// as PseudoClaude does, so that everything else here reads them, and so does
// PseudoClaude itself.
//
// It joins a format, the journal, a conversation and the catalog, and knows
// nothing that they do not know. Invariant: what Append or Replace has
// returned without an error is on disk; reading and listing write nothing. Go
// packages of this module carry no compatibility promise.
package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/format"
	"github.com/agent-ls/agent-ls/session/jsonl"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// Options are the same for all functions; the zero value is for production,
// but for Clock, which is needed.
type Options struct {
	Clock  session.Clock
	FS     vfs.FS    // nil: the system's
	Random io.Reader // nil: crypto/rand
	// SpillAbove is the size in bytes above which the text of a tool result is
	// moved out of the log into the session's tool-results directory. 0 means
	// DefaultSpill, a negative value never.
	SpillAbove int
	Limits     jsonl.Options
	// StateDir is where agent-ls keeps its notes about sessions. With it,
	// Prune also keeps what was resumed and not written to. "" means no notes.
	StateDir string
	// Env is needed by Prune only: Home and GOOS say where the trash is.
	Env session.Env
}

// DefaultSpill keeps lines far below the 10 MiB at which other readers of
// this format stop.
const DefaultSpill = 256 << 10

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.SpillAbove == 0 {
		o.SpillAbove = DefaultSpill
	}
	return o
}

// Context is where a session lies.
type Context struct {
	ID        string // YYYYMMDD-HHMMSS-xxxx: local time and two random bytes
	Workspace string
	Dir       string // of the session
	JSONLPath string // of the transcript; made with the first message
	SpillDir  string // of spilled tool results

	o      Options
	format storeFormat
}

// storeFormat is what the format of this store can do.
type storeFormat interface {
	session.Appender
	session.Replacer
	session.Repairer
	session.Creator
	session.Lazy
}

// tries is how often a colliding id is made anew.
const tries = 10

// NewContext makes a session in workspace, an absolute path: its id and its
// directories (mode 0700) at once, its transcript (0600) with the first
// message.
func NewContext(workspace string, o Options) (*Context, error) {
	o = o.withDefaults()
	f, root, err := find(workspace)
	if err != nil {
		return nil, err
	}
	if err := makeRoot(o.FS, workspace, root); err != nil {
		return nil, err
	}
	for range tries {
		native, path, dirs, err := f.Create(session.Root{Dir: root, FS: o.FS.DirFS(root)}, session.Session{CWD: workspace}, o.Clock, o.Random)
		if err == nil {
			err = makeDirs(o.FS, root, dirs)
		}
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return contextAt(f, workspace, native, filepath.Join(root, filepath.FromSlash(path)), o), nil
	}
	return nil, fmt.Errorf("no free session id in %q after %d tries", root, tries)
}

// makeRoot makes the store of a workspace, and its name durable.
func makeRoot(fsys vfs.FS, workspace, root string) error {
	if _, err := fsys.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := fsys.MkdirAll(root, 0o700); err != nil {
		return err
	}
	for dir := root; dir != workspace; {
		dir = filepath.Dir(dir)
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// makeDirs makes the directories of a session, and their names durable. The
// first one must be new, since it reserves the id.
func makeDirs(fsys vfs.FS, root string, dirs []string) error {
	for _, d := range dirs {
		dir := filepath.Join(root, filepath.FromSlash(d))
		if err := fsys.Mkdir(dir, 0o700); err != nil {
			return err
		}
		if err := fsys.SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// OpenContext names the session id of workspace. It makes nothing. Errors:
// *session.InvalidError for what is no id, *session.NotFoundError.
func OpenContext(workspace, id string, o Options) (*Context, error) {
	o = o.withDefaults()
	f, root, err := find(workspace)
	if err != nil {
		return nil, err
	}
	rel, ok := f.Expected(id)
	if !ok {
		return nil, &session.InvalidError{Field: "session id", Value: id, Why: "want YYYYMMDD-HHMMSS-xxxx"}
	}
	c := contextAt(f, workspace, id, filepath.Join(root, filepath.FromSlash(rel)), o)
	if _, err := o.FS.Stat(c.Dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &session.NotFoundError{What: "session", Name: id}
		}
		return nil, err
	}
	return c, nil
}

func contextAt(f storeFormat, workspace, id, path string, o Options) *Context {
	dir := filepath.Dir(path)
	return &Context{
		ID: id, Workspace: workspace, Dir: dir, JSONLPath: path,
		SpillDir: filepath.Join(dir, format.PCToolResults), o: o, format: f,
	}
}

// agent is the format in which sessions are kept.
const agent = "pseudoclaude"

// find gives the format and the store directory of a workspace.
func find(workspace string) (storeFormat, string, error) {
	if !filepath.IsAbs(workspace) {
		return nil, "", &session.InvalidError{Field: "workspace", Value: workspace, Why: "want an absolute path"}
	}
	for _, f := range format.All() {
		if f, ok := f.(storeFormat); ok && f.Name() == agent {
			return f, f.Roots(session.Env{Workspaces: []string{filepath.Clean(workspace)}})[0], nil
		}
	}
	return nil, "", &session.NotFoundError{What: "format", Name: agent}
}
