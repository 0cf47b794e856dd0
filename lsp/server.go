// Package lsp is the server of one connection: the methods of
// docs/protocol.md on top of the catalog, the journal and the Hub.
//
// It is the only package that knows both the domain and the messages
// (lsp/wire); convert.go is the border. It does no file I/O of its own and
// knows no agent. Invariant: a session that is bad, gone or held costs the
// request that names it, never the connection or another session.
package lsp

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/lsp/rpc"
	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/watcher"
)

// Options of NewServer. Catalog, Journal, Hub and Clock are needed.
type Options struct {
	Catalog *catalog.Catalog
	Journal *journal.Journal
	Hub     *watcher.Hub // Run is called by Serve
	Clock   session.Clock
	Random  io.Reader
	Log     *zap.Logger
	Version string
	PID     int // of this process
	// WatchProcess, if set, gives a channel that is closed when the process
	// pid has ended or ctx ends.
	WatchProcess func(ctx context.Context, pid int) <-chan struct{}
	// SetLogLevel, if set, changes the level of the log.
	SetLogLevel func(level string) error
}

// Server is one accepted connection.
type Server struct {
	o       Options
	methods map[string]method

	life  lifecycle
	conn  *rpc.Conn
	base  context.Context //nolint:containedctx // ends with Serve; goroutines of subscriptions live that long
	tasks sync.WaitGroup

	mu      sync.Mutex // guards what follows
	subs    map[session.ID]*subscriber
	watches *watch
	wrote   map[session.ID]bool // sessions that this process has appended to

	settings settings
}

// NewServer makes a server for one connection.
func NewServer(o Options) *Server {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	s := &Server{o: o, subs: map[session.ID]*subscriber{}, wrote: map[session.ID]bool{}}
	s.life.ready = make(chan struct{})
	s.methods = s.table()
	return s
}

// method is how a request is answered.
type method struct {
	call   func(ctx context.Context, r *rpc.Request) (any, error)
	inline bool // on the reading goroutine: life cycle and settings
	slow   bool // may read whole transcripts
	own    bool // one of ours, for capabilities.experimental.agentLs.methods
}

// handler makes a method of a typed function.
func handler[P any](fn func(context.Context, P) (any, error)) func(context.Context, *rpc.Request) (any, error) {
	return func(ctx context.Context, r *rpc.Request) (any, error) {
		var p P
		if err := decode(r, &p); err != nil {
			return nil, err
		}
		return fn(ctx, p)
	}
}

func (s *Server) table() map[string]method {
	own := func(call func(context.Context, *rpc.Request) (any, error)) method {
		return method{call: call, own: true}
	}
	slow := func(call func(context.Context, *rpc.Request) (any, error)) method {
		return method{call: call, own: true, slow: true}
	}
	return map[string]method{
		"initialize":                          {call: handler(s.initialize), inline: true},
		"initialized":                         {call: ignore, inline: true},
		"shutdown":                            {call: handler(s.shutdown), inline: true},
		"exit":                                {call: s.exit, inline: true},
		"$/setTrace":                          {call: ignore, inline: true},
		"workspace/didChangeWorkspaceFolders": {call: handler(s.didChangeWorkspaceFolders)},
		"workspace/didChangeConfiguration":    {call: handler(s.didChangeConfiguration), inline: true},

		"session/list":        own(handler(s.list)),
		"session/search":      slow(handler(s.search)),
		"session/read":        slow(handler(s.read)),
		"session/resume":      slow(handler(s.resume)),
		"session/new":         own(handler(s.create)),
		"session/append":      own(handler(s.append)),
		"session/replace":     own(handler(s.replace)),
		"session/fork":        slow(handler(s.fork)),
		"session/rename":      own(handler(s.rename)),
		"session/tag":         own(handler(s.tag)),
		"session/archive":     own(handler(s.archive)),
		"session/unarchive":   own(handler(s.unarchive)),
		"session/markRead":    own(handler(s.markRead)),
		"session/delete":      own(handler(s.delete)),
		"session/prune":       slow(handler(s.prune)),
		"session/diagnose":    slow(handler(s.diagnose)),
		"session/repair":      slow(handler(s.repair)),
		"session/subscribe":   slow(handler(s.subscribe)),
		"session/unsubscribe": own(handler(s.unsubscribe)),
		"session/watch":       own(handler(s.watch)),
		"session/unwatch":     own(s.unwatch),
	}
}

func ignore(context.Context, *rpc.Request) (any, error) { return nil, nil }

// Methods gives the names of our own methods, sorted.
func (s *Server) Methods() []string {
	var out []string
	for name, m := range s.methods {
		if m.own {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Serve answers on c until the client is gone, and then writes what is queued.
// It returns when all of its goroutines have ended. See ExitCode.
func (s *Server) Serve(ctx context.Context, c *rpc.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.conn, s.base = c, ctx
	s.tasks.Go(func() { s.work(ctx) })
	err := c.Serve(ctx, s)
	cancel()
	s.tasks.Wait()
	s.close(context.WithoutCancel(ctx))
	// Ended without exit, or with it: what was promised is on disk.
	flush, stop := context.WithTimeout(context.WithoutCancel(ctx), flushLimit)
	defer stop()
	if ferr := s.o.Journal.Flush(flush); ferr != nil {
		s.o.Log.Error("appends could not be flushed", zap.Error(ferr))
		if err == nil {
			err = ferr
		}
	}
	return err
}

// flushLimit bounds the last flush.
const flushLimit = 10 * time.Second

// work runs the Hub as soon as the workspace is known, so that initialize
// never waits for a scan.
func (s *Server) work(ctx context.Context) {
	select {
	case <-s.life.ready:
	case <-ctx.Done():
		return
	}
	if err := s.o.Hub.Run(ctx); err != nil {
		s.o.Log.Error("nothing is watched", zap.Error(err))
		s.conn.Lazy("", "window/showMessage", func() any {
			return map[string]any{"type": 1, "message": "agent-ls cannot watch files: " + err.Error()}
		})
		if _, err := s.o.Catalog.Scan(ctx, nil); err != nil {
			s.o.Log.Error("sessions cannot be listed", zap.Error(err))
		}
	}
}

// Order implements rpc.Handler: requests about one session run in order,
// those about different ones in parallel.
func (s *Server) Order(r *rpc.Request) (key string, inline bool) {
	m, ok := s.methods[r.Method]
	if !ok || m.inline {
		return "", true // answered at once
	}
	switch {
	case !m.own:
		return "workspace", false
	case r.Method == "session/watch", r.Method == "session/unwatch":
		return "watch", false
	}
	var p struct {
		SessionID string `json:"sessionId"`
		URI       string `json:"uri"`
	}
	if decodeLoose(r.Params, &p) != nil {
		return "", false
	}
	if p.SessionID == "" && p.URI == "" {
		return "", false
	}
	if row, err := s.lookup(p.SessionID, p.URI); err == nil {
		return row.ID.String(), false
	}
	return p.SessionID + p.URI, false
}

// Refuse implements rpc.Gatekeeper: the life cycle goes by the order of arrival.
func (s *Server) Refuse(r *rpc.Request) error { return s.life.refuse(r) }

// Slow implements rpc.Slower.
func (s *Server) Slow(r *rpc.Request) bool { return s.methods[r.Method].slow }

// Handle implements rpc.Handler.
func (s *Server) Handle(ctx context.Context, r *rpc.Request) (any, error) {
	m, ok := s.methods[r.Method]
	if !ok {
		return nil, &rpc.Error{Code: rpc.CodeMethodNotFound, Message: "unknown method " + r.Method}
	}
	result, err := m.call(ctx, r)
	if err != nil {
		return nil, toError(err)
	}
	return result, nil
}

// lookup finds a session by a name of it or by the URI of its transcript.
func (s *Server) lookup(name, uri string) (catalog.Row, error) {
	if name == "" && uri == "" {
		return catalog.Row{}, &session.InvalidError{Field: "sessionId", Value: name, Why: "name a session by its id"}
	}
	if name == "" {
		path, err := pathOf(uri)
		if err != nil {
			return catalog.Row{}, &session.InvalidError{Field: "uri", Value: uri, Why: err.Error()}
		}
		if row, ok := s.o.Catalog.Snapshot().ByPath(path); ok {
			return row, nil
		}
		return catalog.Row{}, &session.NotFoundError{What: "session", Name: uri}
	}
	return s.o.Catalog.Snapshot().Lookup(name)
}

// find is lookup that waits for the first scan before it says "not found".
func (s *Server) find(ctx context.Context, name, uri string) (catalog.Row, error) {
	s.o.Catalog.Restore()
	row, err := s.lookup(name, uri)
	if err == nil && row.WriterPID != 0 {
		return s.fresh(ctx, row)
	}
	if err == nil || !isNotFound(err) {
		return row, err
	}
	select {
	case <-s.o.Catalog.Scanned():
	case <-ctx.Done():
		return row, ctx.Err()
	}
	return s.lookup(name, uri)
}

// fresh looks at a session again: nothing tells that a lock was taken or
// released, or that a process has ended.
func (s *Server) fresh(ctx context.Context, row catalog.Row) (catalog.Row, error) {
	change, err := s.o.Catalog.Refresh(ctx, row.Path)
	if err != nil {
		return row, err
	}
	s.publish(ctx, change)
	return s.lookup(row.ID.String(), "")
}

// publish tells the list watchers of a change that a request has made.
func (s *Server) publish(ctx context.Context, c catalog.Change) {
	if err := s.o.Hub.Publish(ctx, c); err != nil && ctx.Err() == nil {
		s.o.Log.Debug("change was not published", zap.Error(err))
	}
}

// wire makes the message of a row.
func (s *Server) wire(r catalog.Row) wire.Session {
	f, _ := s.o.Catalog.Format(r.Agent)
	return wireSession(r, f, s.o.PID)
}
