package lsp

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/lsp/rpc"
	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/watcher"
)

// settings are those of the client that the server itself keeps.
type settings struct {
	pruneDays    *float64
	pruneCreated bool
	debounce     time.Duration
}

// polls are the words for how directories are watched.
var polls = map[string]watcher.Poll{
	"": watcher.PollAuto, "auto": watcher.PollAuto, "always": watcher.PollAlways, "never": watcher.PollNever,
}

// maxDebounce bounds watch.debounceMs.
const maxDebounce = time.Minute

// didChangeConfiguration counts for all requests behind it; sessions of other
// stores are found in the background.
func (s *Server) didChangeConfiguration(_ context.Context, p wire.ConfigurationParams) (any, error) {
	var section wire.Settings
	if err := decodeMember("settings", p.Settings, &section); err != nil {
		return nil, err
	}
	c, err := configuration("settings.agentLs", section.AgentLs)
	if err != nil {
		return nil, err
	}
	if err := s.configure(c); err != nil {
		return nil, err
	}
	if c.Stores == nil {
		return nil, nil
	}
	s.tasks.Go(func() {
		change, err := s.o.Catalog.Reroot(s.base)
		s.o.Hub.RootsChanged()
		s.publish(s.base, change)
		if err != nil && s.base.Err() == nil {
			s.o.Log.Warn("stores cannot be read", zap.Error(err))
		}
	})
	return nil, nil
}

// configuration decodes settings; there may be none.
func configuration(field string, raw []byte) (*wire.Configuration, error) {
	c := &wire.Configuration{}
	return c, decodeMember(field, raw, c)
}

// decodeMember decodes an object inside of params. Null and [] are none.
func decodeMember(field string, raw []byte, v any) error {
	if len(raw) == 0 || string(raw) == "null" || isEmptyArray(raw) {
		return nil
	}
	err := json.Unmarshal(raw, v, decoding)
	if err == nil {
		return nil
	}
	var sem *json.SemanticError
	if errors.As(err, &sem) && sem.JSONPointer != "" {
		field += "." + fieldOf(sem.JSONPointer)
	}
	return &rpc.Error{Code: rpc.CodeInvalidParams, Message: field + " is of the wrong type", Data: map[string]any{"field": field}}
}

// configure takes over settings, all or none; roots count from the next look
// at the stores on.
func (s *Server) configure(c *wire.Configuration) error {
	roots, off, err := s.stores(c.Stores)
	if err != nil {
		return err
	}
	s.mu.Lock()
	next := s.settings
	s.mu.Unlock()
	if c.Watch != nil {
		if _, ok := polls[c.Watch.Poll]; !ok {
			return &session.InvalidError{Field: "watch.poll", Value: c.Watch.Poll, Why: "want auto, always or never"}
		}
		next.debounce = time.Duration(c.Watch.DebounceMS) * time.Millisecond
		if next.debounce < 0 || next.debounce > maxDebounce {
			return &session.InvalidError{Field: "watch.debounceMs", Value: itoa(c.Watch.DebounceMS), Why: "want 0 to " + itoa(int(maxDebounce/time.Millisecond))}
		}
	}
	if c.Prune != nil {
		if next.pruneDays, next.pruneCreated, err = pruneRule("prune.", c.Prune.OlderThanDays, c.Prune.Basis); err != nil {
			return err
		}
	}
	if c.Log != nil && c.Log.Level != "" && s.o.SetLogLevel != nil {
		if err := s.o.SetLogLevel(c.Log.Level); err != nil {
			return &session.InvalidError{Field: "log.level", Value: c.Log.Level, Why: err.Error()}
		}
	}
	if c.Stores != nil {
		s.o.Catalog.SetStores(roots, off)
	}
	s.mu.Lock()
	s.settings = next
	s.mu.Unlock()
	return nil
}

// stores checks the settings of the agents' stores.
func (s *Server) stores(in map[string]wire.StoreConfig) (roots map[string][]string, off map[string]bool, err error) {
	roots, off = map[string][]string{}, map[string]bool{}
	for agent, store := range in {
		field := "stores." + agent
		if _, ok := s.o.Catalog.Format(agent); !ok {
			return nil, nil, &session.InvalidError{Field: field, Value: agent, Why: "no such agent"}
		}
		for _, dir := range store.Roots {
			if !filepath.IsAbs(dir) {
				return nil, nil, &session.InvalidError{Field: field + ".roots", Value: dir, Why: "want an absolute path"}
			}
		}
		if len(store.Roots) > 0 {
			roots[agent] = store.Roots
		}
		if store.Enabled != nil && !*store.Enabled {
			off[agent] = true
		}
	}
	return roots, off, nil
}
