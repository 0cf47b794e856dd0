package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// datasync is fdatasync: the size is data, the times are not.
func datasync(file *os.File) error {
	return raw(file, func(fd int) error {
		for {
			if err := unix.Fdatasync(fd); !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	})
}
