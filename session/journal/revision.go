package journal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/agent-ls/agent-ls/session"
)

// revisionSpan is how much of each end of a file a revision looks at.
const revisionSpan = 4 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Revision identifies the first size bytes of src, equally in every part of
// the program and in every process. It is the size and checksums of both
// ends, so neither a touch nor a copy changes it, and an append always does.
// Up to 8 KiB the ends are the whole file. In a larger one, bytes changed in
// the middle at an equal size are not seen: agents append or write a new
// file, and to see it every look would have to read everything. Each end is
// read at once, so that who knows it can give it from memory.
func Revision(src io.ReaderAt, size int64) (session.Revision, error) {
	head, err := checksum(src, 0, min(size, revisionSpan))
	if err != nil {
		return "", err
	}
	start := max(0, size-revisionSpan)
	tail, err := checksum(src, start, size-start)
	if err != nil {
		return "", err
	}
	return session.Revision(fmt.Sprintf("%x-%08x%08x", size, head, tail)), nil
}

func checksum(src io.ReaderAt, off, n int64) (uint32, error) {
	var buf [revisionSpan]byte
	got, err := src.ReadAt(buf[:n], off)
	if int64(got) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	return crc32.Checksum(buf[:n], castagnoli), nil
}
