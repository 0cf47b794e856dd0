// Package catalog knows which sessions exist: it scans the stores, keeps one
// row a session, and answers queries from immutable snapshots.
//
// It does not know the protocol, and it never watches: somebody tells it what
// to look at again. Invariant: no reader waits for a scan.
package catalog

import (
	"context"
	"io"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/jsonl"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// Options of Open.
type Options struct {
	FS       vfs.FS
	Env      session.Env
	Formats  []session.Format
	StateDir string // of the overlay; "" keeps the overlay in memory only
	Clock    session.Clock
	Alive    func(pid int) bool
	Limits   jsonl.Options
	// Disabled agents are not scanned.
	Disabled map[string]bool
}

// Catalog is safe for concurrent use.
type Catalog struct{}

// Open makes a catalog; it reads no store.
func Open(o Options) (*Catalog, error) { panic("not yet") }

// Snapshot is the present state; it never blocks and never changes.
func (c *Catalog) Snapshot() *Snapshot { panic("not yet") }

// Scanned is closed when the first Scan has ended.
func (c *Catalog) Scanned() <-chan struct{} { panic("not yet") }

// Change says how a snapshot differs from the one before it.
type Change struct {
	Added, Updated []session.Session
	Removed        []session.ID
}

// Empty reports whether nothing changed.
func (c Change) Empty() bool { return len(c.Added)+len(c.Updated)+len(c.Removed) == 0 }

// Scan looks at all stores and publishes what changed; progress (may be nil)
// gets every batch of rows as it is found.
func (c *Catalog) Scan(ctx context.Context, progress func(Change)) (Change, error) { panic("not yet") }

// Refresh looks at some paths (transcripts, side files or directories) again.
func (c *Catalog) Refresh(ctx context.Context, paths ...string) (Change, error) { panic("not yet") }

// SetWorkspaces replaces the open workspaces; AddWorkspace adds one. Roots
// that are new are scanned before they return.
func (c *Catalog) SetWorkspaces(ctx context.Context, dirs []string) (Change, error) {
	panic("not yet")
}

// AddWorkspace adds one workspace, if it is not known yet.
func (c *Catalog) AddWorkspace(ctx context.Context, dir string) (Change, error) { panic("not yet") }

// StoreRoot is one root of one format.
type StoreRoot struct {
	Format session.Format
	Root   session.Root
}

// Roots gives all roots, existing or not (the watcher wants both).
func (c *Catalog) Roots() []StoreRoot { panic("not yet") }

// Resolve tells which session a path below a root belongs to, as transcript
// or as side file.
func (c *Catalog) Resolve(path string) (id session.ID, transcript bool, ok bool) { panic("not yet") }

// Format gives the format of an agent.
func (c *Catalog) Format(agent string) (session.Format, bool) { panic("not yet") }

// Query selects and orders rows.
type Query struct {
	CWD                 string
	Scope               Scope
	Agents              []string
	Text                string
	Status              []session.Status
	Archived            Archived
	IncludeSubagents    bool
	IncludeEmpty        bool
	IncludeProgrammatic bool
	Exclude             []string
	Sort                Sort
	Limit               int
	Cursor              string
	Since, Until        time.Time
}

// Scope says how CWD selects.
type Scope uint8

// Scopes.
const (
	Exact Scope = iota
	Subtree
	Repository
)

// Archived says what happens to archived sessions.
type Archived uint8

// Values of Archived.
const (
	ExcludeArchived Archived = iota
	IncludeArchived
	OnlyArchived
)

// Sort orders rows; newest, largest first, titles A to Z.
type Sort uint8

// Orders.
const (
	ByUpdated Sort = iota
	ByCreated
	BySize
	ByTitle
)

// Row is a session together with the overlay's words about it.
type Row struct {
	session.Session
	Note Note
}

// Note is what the user said about a session.
type Note struct {
	Title    string
	Tags     []string
	Archived bool
	ReadTo   string // entry id up to which it was read
	ReadAt   time.Time
	Unread   bool // derived: changed since ReadAt (false while never read)
}

// Page is one page of a list.
type Page struct {
	Rows  []Row
	Next  string // "" at the end
	Total int
}

// Snapshot is immutable.
type Snapshot struct{}

// List answers a query. A foreign cursor gives a *session.InvalidError.
func (s *Snapshot) List(q Query) (Page, error) { panic("not yet") }

// Lookup finds a session by "agent:native", by bare native id, or by a unique
// prefix of 4 or more characters of either. Errors: *session.NotFoundError,
// *session.AmbiguousError.
func (s *Snapshot) Lookup(name string) (Row, error) { panic("not yet") }

// ByPath finds the session whose transcript is at path.
func (s *Snapshot) ByPath(path string) (Row, bool) { panic("not yet") }

// Annotate changes the overlay and publishes the new row. edit gets the
// present note and returns the new one.
func (c *Catalog) Annotate(ctx context.Context, id session.ID, edit func(Note) Note) (Row, error) {
	panic("not yet")
}

// Opened is a transcript with the bytes it was read from.
type Opened struct {
	Row        Row
	Format     session.Format
	Transcript *session.Transcript
	Revision   session.Revision
	Source     io.ReaderAt // valid until Close
	Cost       session.Cost
	From       int64 // offset at which the replay began (Tailed formats)
	closer     io.Closer
}

// Close releases the file.
func (o *Opened) Close() error { return o.closer.Close() }

// LoadOptions of Load.
type LoadOptions struct {
	// Resume allows a replay of the part from which the effective
	// conversation follows, where the format can prove it.
	Resume bool
}

// Load reads a transcript.
func (c *Catalog) Load(ctx context.Context, id session.ID, o LoadOptions) (*Opened, error) {
	panic("not yet")
}

// PruneOptions of Prune.
type PruneOptions struct {
	OlderThan time.Duration
	ByCreated bool
	CWD       string
	Agents    []string
	DryRun    bool
	Keep      func(Row) string // a reason to keep it, or ""
}

// Pruned is what Prune removed or would remove.
type Pruned struct {
	Sessions []Row
	Bytes    int64
	Kept     []Kept
}

// Kept names a session that is old enough and was kept all the same.
type Kept struct {
	ID  session.ID
	Why string
}

// Prune removes sessions that are old, with their side files.
func (c *Catalog) Prune(ctx context.Context, o PruneOptions) (Pruned, error) { panic("not yet") }
