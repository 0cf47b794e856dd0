//go:build unix && !aix

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func infoOf(_ string, fi fs.FileInfo) Info {
	i := Info{Size: fi.Size(), ModTime: fi.ModTime(), Mode: fi.Mode()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		i.ID = FileID{Dev: uint64(st.Dev), Ino: st.Ino} //nolint:unconvert // the width differs between systems
	}
	return i
}

// raw runs f with the descriptor, which stays open meanwhile.
func raw(file *os.File, f func(fd int) error) error {
	c, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := c.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

func writeOnce(file *os.File, p []byte) (n int, err error) {
	err = raw(file, func(fd int) error {
		for {
			n, err = unix.Write(fd, p)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		n = max(n, 0)
		return err
	})
	return n, err
}

func tryLock(file *os.File) (ok bool, err error)   { return tryFlock(file, unix.LOCK_EX) }
func tryShared(file *os.File) (ok bool, err error) { return tryFlock(file, unix.LOCK_SH) }

func tryFlock(file *os.File, how int) (ok bool, err error) {
	err = raw(file, func(fd int) error {
		for {
			err := unix.Flock(fd, how|unix.LOCK_NB)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case errors.Is(err, unix.EWOULDBLOCK):
				return nil
			}
			ok = err == nil
			return err
		}
	})
	return ok, err
}

func unlock(file *os.File) error {
	return raw(file, func(fd int) error { return unix.Flock(fd, unix.LOCK_UN) })
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
