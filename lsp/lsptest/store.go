package lsptest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Store is the disk of one test: a home and a workspace, both new directories.
type Store struct {
	t         testing.TB
	Home      string
	Workspace string
}

// NewStore makes an empty one. Its paths have no links in them.
func NewStore(t testing.TB) *Store {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{t: t, Home: filepath.Join(dir, "home"), Workspace: filepath.Join(dir, "ws")}
	for _, d := range []string{s.Home, s.Workspace} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// PseudoClaude puts a transcript where PseudoClaude has it, and gives its path.
func (s *Store) PseudoClaude(native, text string) string {
	s.t.Helper()
	return s.put(filepath.Join(s.Workspace, ".PseudoClaude", "sessions", native, "conversation.jsonl"), text)
}

// Claude puts a transcript where Claude Code has it, and gives its path.
func (s *Store) Claude(native, text string) string {
	s.t.Helper()
	dir := regexp.MustCompile(`[^A-Za-z0-9]`).ReplaceAllString(s.Workspace, "-")
	return s.put(filepath.Join(s.Home, ".claude", "projects", dir, native+".jsonl"), text)
}

func (s *Store) put(path, text string) string {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.Append(path, text)
	return path
}

// Append writes to the end of a file as another process does, by one call.
func (s *Store) Append(path, text string) {
	s.t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		s.t.Error(err)
	}
	if err := f.Close(); err != nil {
		s.t.Error(err)
	}
}

// Read gives the bytes of a file.
func (s *Store) Read(path string) string {
	s.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// Folders are params of initialize with the workspace as the only folder.
func (s *Store) Folders() map[string]any {
	return map[string]any{
		"processId": nil, "capabilities": map[string]any{},
		"workspaceFolders": []any{map[string]any{"uri": "file://" + s.Workspace, "name": "ws"}},
	}
}

// Say is a line of a PseudoClaude transcript.
func Say(role, text string) string {
	return fmt.Sprintf("{\"type\":\"message\",\"role\":%q,\"content\":%q,\"ts\":1787926830}\n", role, text)
}

// ClaudeSay is a line of a Claude Code transcript; parent is "" for a root.
func ClaudeSay(native, uuid, parent, role, text string) string {
	up := "null"
	if parent != "" {
		up = fmt.Sprintf("%q", parent)
	}
	content := fmt.Sprintf("%q", text)
	if role == "assistant" {
		content = fmt.Sprintf(`[{"type":"text","text":%q}]`, text)
	}
	return fmt.Sprintf(`{"parentUuid":%s,"isSidechain":false,"type":%q,"message":{"role":%q,"content":%s},"uuid":%q,"timestamp":"2026-08-28T14:20:30.000Z","sessionId":%q}`+"\n",
		up, role, role, content, uuid, native)
}
