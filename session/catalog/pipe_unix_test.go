//go:build unix

package catalog

import (
	"syscall"
	"testing"
)

// makePipe makes a file that blocks whoever opens it.
func makePipe(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}
