package lsp

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/agent-ls/agent-ls/lsp/rpc"
	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
)

// lifecycle is where the connection stands between initialize and exit.
type lifecycle struct {
	ready chan struct{} // closed by initialize

	mu          sync.Mutex // guards what follows
	initialized bool
	shutdown    bool
}

// refuse gives the error of a request that comes too early or too late.
func (l *lifecycle) refuse(r *rpc.Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case r.Method == "exit":
		return nil
	case l.shutdown:
		return &rpc.Error{Code: rpc.CodeInvalidRequest, Message: "the server is shut down; only exit may follow"}
	case r.Method == "initialize" && l.initialized:
		return &rpc.Error{Code: rpc.CodeInvalidRequest, Message: "initialize was sent before"}
	case r.Method != "initialize" && !l.initialized:
		return &rpc.Error{Code: codeNotInitialized, Message: r.Method + " before initialize"}
	}
	return nil
}

// ExitCode is what the process ends with after Serve: 0 after shutdown and
// exit, else 1; the end of the input after shutdown counts as exit.
func (s *Server) ExitCode() int {
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	if s.life.shutdown {
		return 0
	}
	return 1
}

func (s *Server) initialize(_ context.Context, p wire.InitializeParams) (any, error) {
	var dirs []string
	for _, f := range p.WorkspaceFolders {
		if dir, err := pathOf(f.URI); err == nil {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 && p.RootURI != nil {
		if dir, err := pathOf(*p.RootURI); err == nil {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 && p.RootPath != nil && filepath.IsAbs(*p.RootPath) {
		dirs = append(dirs, *p.RootPath)
	}
	c, err := configuration("initializationOptions", p.InitializationOptions)
	if err != nil {
		return nil, err
	}
	if err := s.configure(c); err != nil {
		return nil, err
	}
	if c.Watch != nil { // counts before Run only
		s.o.Hub.SetPoll(polls[c.Watch.Poll])
	}
	s.o.Catalog.Expect(dirs)
	s.life.mu.Lock()
	s.life.initialized = true
	s.life.mu.Unlock()
	close(s.life.ready)
	if p.ProcessID != nil && *p.ProcessID > 0 && s.o.WatchProcess != nil {
		gone := s.o.WatchProcess(s.base, *p.ProcessID)
		s.tasks.Go(func() {
			select {
			case <-gone:
				s.conn.Stop()
			case <-s.base.Done():
			}
		})
	}
	return wire.InitializeResult{
		ServerInfo: wire.ServerInfo{Name: "agent-ls", Version: s.o.Version},
		Capabilities: wire.Capabilities{
			Workspace: wire.WorkspaceCapabilities{WorkspaceFolders: wire.WorkspaceFolders{Supported: true, ChangeNotifications: true}},
			Experimental: wire.Experimental{AgentLs: wire.AgentLs{
				Version: wire.Version, Methods: s.Methods(), Agents: s.agents(),
			}},
		},
	}, nil
}

// agents tells what can be done with the sessions of each agent; it follows
// from the interfaces that its format implements.
func (s *Server) agents() []wire.Agent {
	out := []wire.Agent{}
	roots := s.o.Catalog.Roots()
	for _, f := range s.o.Catalog.Formats() {
		a := wire.Agent{Agent: f.Name(), Roots: []string{}}
		for _, r := range roots {
			if r.Format.Name() == f.Name() {
				a.Roots = append(a.Roots, r.Root.Dir)
			}
		}
		_, a.Append = f.(session.Appender)
		_, a.Fork = f.(session.Forker)
		_, a.Rename = f.(session.Namer)
		_, linear := f.(session.Replacer)
		a.Tree = !linear
		out = append(out, a)
	}
	return out
}

func (s *Server) shutdown(context.Context, struct{}) (any, error) {
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	s.life.shutdown = true
	return nil, nil
}

func (s *Server) exit(context.Context, *rpc.Request) (any, error) {
	s.conn.Stop()
	return nil, nil
}

func (s *Server) didChangeWorkspaceFolders(ctx context.Context, p wire.FoldersParams) (any, error) {
	gone := map[string]bool{}
	for _, f := range p.Event.Removed {
		if dir, err := pathOf(f.URI); err == nil {
			gone[dir] = true
		}
	}
	var dirs []string
	for _, dir := range s.o.Catalog.Workspaces() {
		if !gone[dir] {
			dirs = append(dirs, dir)
		}
	}
	for _, f := range p.Event.Added {
		if dir, err := pathOf(f.URI); err == nil {
			dirs = append(dirs, dir)
		}
	}
	change, err := s.o.Catalog.SetWorkspaces(ctx, dirs)
	s.o.Hub.RootsChanged()
	s.publish(ctx, change)
	return nil, err
}
