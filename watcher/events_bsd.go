//go:build darwin || freebsd || dragonfly

package watcher

import "syscall"

// mntLocal is MNT_LOCAL of sys/mount.h, alike on these systems.
const mntLocal = 0x1000

// hasEvents reports whether the kernel sees every write to dir: on a local
// file system. A directory that cannot be asked counts as local.
func hasEvents(dir string) bool {
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) != nil || s.Flags&mntLocal != 0
}
