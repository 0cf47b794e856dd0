//go:build !linux && !darwin && !freebsd && !dragonfly

package watcher

import "strings"

// hasEvents reports whether the system tells of every write to dir. A network
// share can be told by its name on Windows; mapped drives give events there.
func hasEvents(dir string) bool {
	return !strings.HasPrefix(dir, `\\`) || strings.HasPrefix(dir, `\\?\`)
}
