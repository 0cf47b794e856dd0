//go:build unix

package lsp_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/agent-ls/agent-ls/lsp/lsptest"
	"github.com/agent-ls/agent-ls/session/journal"
)

// Who resumes a session is told which other process holds it, also when it
// was taken after the session was listed.
func TestResume_tellsTheWriter(t *testing.T) {
	s, ws := newServer(t)
	path := transcript(t, ws, say("user", "q"))
	e := lsptest.New(t, s, folders(ws))
	var res struct{ Writer *struct{ PID int } }
	e.Do("session/resume", map[string]any{"sessionId": sessionID, "subscribe": false}, &res)
	if res.Writer != nil {
		t.Fatalf("nobody holds it: %+v", res.Writer)
	}
	// A lock of another process, as its holder writes it: pid and time.
	f, err := os.OpenFile(journal.LockPath(path), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(f, "1 %d\n", time.Now().Add(-time.Minute).UnixMilli()); err != nil {
		t.Fatal(err)
	}
	e.Do("session/resume", map[string]any{"sessionId": sessionID, "subscribe": false}, &res)
	if res.Writer == nil || res.Writer.PID != 1 {
		t.Fatalf("%+v", res.Writer)
	}
}
