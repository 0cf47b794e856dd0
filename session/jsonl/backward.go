package jsonl

import (
	"bytes"
	"errors"
	"io"
	"iter"
)

// Backward gives the lines of the first size bytes of src from the last to
// the first. An unterminated last line comes first, with the flaw Torn. Line
// numbers are not known (Num is 0). Raw is valid until the next line. Memory
// follows the window and the longest line up to MaxLine. The sequence stops
// at an error of src, which the function given last reports.
func Backward(src io.ReaderAt, size int64, opt Options) (iter.Seq[Line], func() error) {
	if opt.Window <= 0 {
		opt.Window = DefaultWindow
	}
	if opt.MaxLine <= 0 {
		opt.MaxLine = DefaultMaxLine
	}
	var failed error
	read := func(p []byte, off int64) bool {
		n, err := src.ReadAt(p, off)
		if n == len(p) {
			return true
		}
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // the source shrank
		}
		failed = err
		return false
	}
	seq := func(yield func(Line) bool) {
		block := make([]byte, opt.Window)
		end := size // of the line looked for, without its line feed
		torn := true
		at := size // block holds [at, at+n)
		n := 0
		for end > 0 || torn {
			if torn {
				torn = false
				if size == 0 {
					return
				}
				var last [1]byte
				if !read(last[:], size-1) {
					return
				}
				if last[0] == '\n' {
					end = size - 1
				}
			}
			// Look for the line feed before end.
			start := int64(-1)
			for pos := end; ; {
				if pos <= at { // nothing of it in the block
					if at == 0 {
						start = 0
						break
					}
					n = int(min(int64(opt.Window), pos))
					at = pos - int64(n)
					if !read(block[:n], at) {
						return
					}
				}
				if i := bytes.LastIndexByte(block[:min(int64(n), pos-at)], '\n'); i >= 0 {
					start = at + int64(i) + 1
					break
				}
				pos = at
				if pos == 0 {
					start = 0
					break
				}
			}
			l := Line{Offset: start, Length: end - start}
			if end == size && size > 0 {
				l.Flaw |= Torn
			}
			switch {
			case l.Length > opt.MaxLine:
				l.Raw = make([]byte, min(LongPrefix, l.Length))
				if !read(l.Raw, start) {
					return
				}
			case start >= at && end <= at+int64(n):
				l.Raw = block[start-at : end-at]
			default:
				l.Raw = make([]byte, l.Length)
				if !read(l.Raw, start) {
					return
				}
			}
			l.clean(opt.MaxLine)
			if !yield(l) || start == 0 {
				return
			}
			end = start - 1
			if end == 0 { // an empty first line
				if !yield(Line{}) {
					return
				}
				return
			}
		}
	}
	return seq, func() error { return failed }
}

// LastIndex finds the last occurrence of pattern in src that begins at floor
// or behind it and before limit, reading blocks from the end. -1 means none.
// Searching forward inside each block is several times faster than
// bytes.LastIndex, which goes byte by byte.
func LastIndex(src io.ReaderAt, floor, limit int64, pattern []byte, opt Options) (int64, error) {
	if opt.Window <= 0 {
		opt.Window = DefaultWindow
	}
	overlap := len(pattern) - 1
	block := make([]byte, opt.Window+overlap)
	for end := limit; end > floor; {
		start := max(floor, end-int64(opt.Window))
		n, err := src.ReadAt(block[:end-start+int64(overlap)], start)
		if err != nil && !errors.Is(err, io.EOF) {
			return -1, err
		}
		last := -1
		for from := 0; ; {
			i := bytes.Index(block[from:n], pattern)
			if i < 0 || int64(from+i) >= end-start {
				break
			}
			last = from + i
			from = last + 1
		}
		if last >= 0 {
			return start + int64(last), nil
		}
		end = start
	}
	return -1, nil
}
