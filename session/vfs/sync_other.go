//go:build !linux

package vfs

import "os"

// datasync is what os.File.Sync does on this system (on macOS a full flush of
// the disk's own cache).
func datasync(file *os.File) error { return file.Sync() }
