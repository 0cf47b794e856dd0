//go:build unix

package watcher

import (
	"os"
	"syscall"
	"testing"
)

// Opening a pipe would wait for a writer for ever.
func TestTail_pipe(t *testing.T) {
	d := newTailed(t, "one\n", 0)
	d.look(d.tail.Next)
	d.must(os.Remove(d.path))
	d.must(syscall.Mkfifo(d.path, 0o644))
	if got := d.look(d.tail.Next); got != "error" {
		t.Errorf("look %q, want an error", got)
	}
}
