//go:build !windows && (!unix || aix)

package vfs

import (
	"errors"
	"io/fs"
	"os"
)

// Systems without flock: reading works, and appends are refused, since no
// lock can be had. Files have no identity beyond size and time here.

func infoOf(_ string, fi fs.FileInfo) Info {
	return Info{Size: fi.Size(), ModTime: fi.ModTime(), Mode: fi.Mode()}
}

// writeOnce is not one system call for certain here.
func writeOnce(file *os.File, p []byte) (int, error) { return file.Write(p) }

func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func unlock(*os.File) error { return errors.ErrUnsupported }

func syncDir(string) error { return nil }
