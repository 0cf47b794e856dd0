//go:build unix

package main

import (
	"errors"
	"syscall"
)

// processAlive reports whether a process runs, also one of another user.
func processAlive(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
