package main

import (
	"encoding/json"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// filters are the flags that select sessions.
type filters struct {
	CWD       string   `name:"cwd" type:"path" placeholder:"DIR" help:"Directory of the sessions (default: this one)."`
	All       bool     `short:"a" help:"Sessions of all directories."`
	Scope     string   `enum:"exact,subtree,repository" default:"exact" help:"How the directory selects: ${enum}."`
	Agent     []string `placeholder:"AGENT" help:"Only sessions of this agent; may be repeated."`
	Status    []string `placeholder:"STATUS" help:"Only running, idle, requires_action or unknown sessions; may be repeated."`
	Archived  string   `enum:"exclude,include,only" default:"exclude" help:"Archived sessions: ${enum}."`
	Subagents bool     `help:"List the sessions of subagents too."`
	Empty     bool     `help:"List sessions without messages too."`
}

func (f *filters) params(r *run) map[string]any {
	p := map[string]any{"scope": f.Scope, "archived": f.Archived}
	if dir := f.dir(r); dir != "" {
		p["cwd"] = dir
	}
	if len(f.Agent) > 0 {
		p["agents"] = f.Agent
	}
	if len(f.Status) > 0 {
		p["status"] = f.Status
	}
	if f.Subagents {
		p["includeSubagents"] = true
	}
	if f.Empty {
		p["includeEmpty"] = true
	}
	return p
}

// dir is the directory that is asked for; "" for all.
func (f *filters) dir(r *run) string {
	switch {
	case f.CWD != "":
		return f.CWD
	case f.All:
		return ""
	}
	return r.cwd
}

// workspaces are the directories whose stores are looked at.
func (f *filters) workspaces(r *run) []string {
	if dir := f.dir(r); dir != "" {
		return []string{dir}
	}
	if r.cwd != "" {
		return []string{r.cwd}
	}
	return nil
}

// sessionArg names a session.
type sessionArg struct {
	ID  string `arg:"" help:"Session: agent:id, the id alone, or a unique prefix of 4 or more characters."`
	CWD string `name:"cwd" type:"path" placeholder:"DIR" help:"Workspace in which to look as well (default: this directory)."`
}

func (s *sessionArg) workspaces(r *run) []string {
	if s.CWD != "" {
		return []string{s.CWD}
	}
	if r.cwd != "" {
		return []string{r.cwd}
	}
	return nil
}

// jsonFlag makes a command print the answer of the protocol.
type jsonFlag struct {
	JSON bool `help:"Print the answer as JSON, as docs/protocol.md describes it."`
}

// printJSON prints one JSON value and a line feed.
func (r *run) printJSON(v any) error {
	if raw, ok := v.(json.RawMessage); ok { // as the server gave it
		if _, err := r.stdout.Write(raw); err != nil {
			return err
		}
		_, err := r.stdout.Write([]byte{'\n'})
		return err
	}
	enc := json.NewEncoder(r.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// fileURI is the file: URI of an absolute path.
func fileURI(path string) string {
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return (&url.URL{Scheme: "file", Path: p}).String()
}

// input opens a file, or stdin for "-".
func (r *run) input(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(r.stdin), nil
	}
	return os.Open(name)
}
