package main

import "golang.org/x/sys/windows"

const stillActive = 259

// processAlive reports whether a process runs.
func processAlive(pid int) bool {
	if pid <= 0 {
		return false
	}
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid)) //nolint:gosec // positive
	if err != nil {
		return false
	}
	defer func() { _ = windows.CloseHandle(h) }() // only asked
	var code uint32
	return windows.GetExitCodeProcess(h, &code) == nil && code == stillActive
}
