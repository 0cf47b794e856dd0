package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

func infoOf(path string, fi fs.FileInfo) Info {
	i := Info{Size: fi.Size(), ModTime: fi.ModTime(), Mode: fi.Mode()}
	// The identity is not in what stat returns here; it has to be asked for.
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return i
	}
	h, err := windows.CreateFile(name, 0, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE,
		nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return i
	}
	defer func() { _ = windows.CloseHandle(h) }() // only asked
	var d windows.ByHandleFileInformation
	if windows.GetFileInformationByHandle(h, &d) == nil {
		i.ID = FileID{Dev: uint64(d.VolumeSerialNumber), Ino: uint64(d.FileIndexHigh)<<32 | uint64(d.FileIndexLow)}
	}
	return i
}

func writeOnce(file *os.File, p []byte) (int, error) {
	c, err := file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var n uint32
	var inner error
	// The largest offset means the end of the file, as O_APPEND does.
	o := &windows.Overlapped{Offset: ^uint32(0), OffsetHigh: ^uint32(0)}
	if err := c.Control(func(fd uintptr) { inner = windows.WriteFile(windows.Handle(fd), p, &n, o) }); err != nil {
		return 0, err
	}
	return int(n), inner
}

func tryLock(file *os.File) (bool, error) {
	return tryLockFile(file, windows.LOCKFILE_EXCLUSIVE_LOCK)
}

func tryShared(file *os.File) (bool, error) { return tryLockFile(file, 0) }

func tryLockFile(file *os.File, how uint32) (bool, error) {
	c, err := file.SyscallConn()
	if err != nil {
		return false, err
	}
	var inner error
	err = c.Control(func(fd uintptr) {
		// One byte far behind the text, since a locked range cannot be read.
		inner = windows.LockFileEx(windows.Handle(fd), how|windows.LOCKFILE_FAIL_IMMEDIATELY,
			0, 1, 0, &windows.Overlapped{Offset: lockAt})
	})
	if err != nil {
		return false, err
	}
	if errors.Is(inner, windows.ERROR_LOCK_VIOLATION) || errors.Is(inner, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return inner == nil, inner
}

const lockAt = 1 << 20

func unlock(file *os.File) error {
	c, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = c.Control(func(fd uintptr) {
		inner = windows.UnlockFileEx(windows.Handle(fd), 0, 1, 0, &windows.Overlapped{Offset: lockAt})
	})
	return errors.Join(err, inner)
}

// syncDir does nothing: names are durable with the file on this system.
func syncDir(string) error { return nil }
