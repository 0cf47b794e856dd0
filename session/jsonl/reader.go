package jsonl

import (
	"bytes"
	"errors"
	"io"
	"iter"
)

// Reader gives the complete lines of a source from an offset to the present
// end. It is not safe for concurrent use. A Reader may be asked again after
// the source has grown: an unfinished line is read on, not read again, so
// following a line that arrives in n pieces costs its bytes once (twice where
// it is longer than the window).
type Reader struct {
	src io.ReaderAt
	opt Options
	err error

	line int64 // offset of the first byte of the line under way
	num  int   // its number

	// buf holds the bytes from base on; buf[:pos] were given out already,
	// and buf[pos:seen] are known to hold no line feed.
	buf  []byte
	base int64
	pos  int
	seen int
	full bool // the last read found more than it had room for

	// far is set while the line under way is longer than the window: its
	// bytes are not kept, and next is the offset up to which they were
	// searched for the line feed.
	far  bool
	next int64

	read int64 // bytes read from src
}

// NewReader reads src from byte offset off, which must be the start of a
// line; num is the number of that line (1 for offset 0).
func NewReader(src io.ReaderAt, off int64, num int, opt Options) *Reader {
	if opt.Window <= 0 {
		opt.Window = DefaultWindow
	}
	if opt.MaxLine <= 0 {
		opt.MaxLine = DefaultMaxLine
	}
	return &Reader{src: src, opt: opt, line: off, num: num, base: off}
}

// Offset is the byte offset behind the last complete line.
func (r *Reader) Offset() int64 { return r.line }

// Num is the number that the next line will have.
func (r *Reader) Num() int { return r.num }

// Err is the first error of the source other than its end. After an error
// Next gives no further line.
func (r *Reader) Err() error { return r.err }

// BytesRead is the number of bytes asked from the source so far.
func (r *Reader) BytesRead() int64 { return r.read }

// Lines gives the lines that are complete by now. The sequence may be asked
// for again after the source has grown.
func (r *Reader) Lines() iter.Seq[Line] {
	return func(yield func(Line) bool) {
		for {
			l, ok := r.Next()
			if !ok || !yield(l) {
				return
			}
		}
	}
}

// Next gives the next complete line. ok is false at the present end of the
// source, and after an error.
func (r *Reader) Next() (l Line, ok bool) {
	if r.err != nil {
		return Line{}, false
	}
	if r.far {
		return r.nextFar()
	}
	for {
		if l, ok = r.buffered(); ok {
			return l, true
		}
		if len(r.buf)-r.pos >= r.opt.Window {
			// The line does not fit the window: search on without keeping it.
			r.far, r.next = true, r.base+int64(len(r.buf))
			return r.nextFar()
		}
		if !r.fill() {
			return Line{}, false
		}
	}
}

// buffered gives the next line if all of it is in the buffer.
func (r *Reader) buffered() (l Line, ok bool) {
	i := bytes.IndexByte(r.buf[r.seen:], '\n')
	if i < 0 {
		r.seen = len(r.buf)
		return Line{}, false
	}
	end := r.seen + i
	l = r.make(r.buf[r.pos:end], int64(end-r.pos))
	r.pos, r.seen = end+1, end+1
	r.line, r.num = r.base+int64(r.pos), r.num+1
	return l, true
}

// Batch appends to dst the next complete lines, at most as many as one window
// holds; none at the present end of the source, and after an error. Unlike
// those of Next their bytes stay as they are, in a buffer that is the
// caller's from now on; spare is one that the caller is done with.
func (r *Reader) Batch(dst []Line, spare []byte) (lines []Line, used []byte) {
	l, ok := r.Next()
	if !ok {
		return dst, spare
	}
	dst = append(dst, l)
	for !r.far && r.err == nil {
		if l, ok = r.buffered(); !ok {
			break
		}
		dst = append(dst, l)
	}
	used = r.buf
	if cap(spare) < cap(used) {
		spare = make([]byte, 0, cap(used))
	}
	r.buf = append(spare[:0], used[r.pos:]...)
	r.base += int64(r.pos)
	r.seen -= r.pos
	r.pos = 0
	return dst, used
}

// fill reads more bytes behind those in the buffer.
func (r *Reader) fill() bool {
	if r.pos > 0 {
		n := copy(r.buf, r.buf[r.pos:])
		r.base += int64(r.pos)
		r.buf, r.seen, r.pos = r.buf[:n], r.seen-r.pos, 0
	}
	// Twice the window in the end, so that a line shorter than the window
	// always fits; until then as much as there is to read.
	if size := cap(r.buf); size == 0 || r.full && size < 2*r.opt.Window {
		grown := make([]byte, len(r.buf), min(2*r.opt.Window, max(firstBuffer, 4*size)))
		copy(grown, r.buf)
		r.buf = grown
	}
	old := len(r.buf)
	space := min(cap(r.buf)-old, r.opt.Window)
	n := r.readAt(r.buf[old:old+space], r.base+int64(old))
	r.buf, r.full = r.buf[:old+n], n == space
	if n == 0 && old == 0 && cap(r.buf) > idleBuffer {
		r.buf = nil // whoever follows a file waits most of the time
	}
	return n > 0
}

// firstBuffer is what a Reader begins with, and idleBuffer what it keeps at the
// end of the source where there is no unfinished line.
const (
	firstBuffer = 8 << 10
	idleBuffer  = 64 << 10
)

// readAt reads what is there by now; an error of the source is kept.
func (r *Reader) readAt(p []byte, off int64) int {
	n, err := r.src.ReadAt(p, off)
	r.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
		return 0
	}
	return n
}

// nextFar looks for the end of a line that is longer than the window, and
// then reads it whole if it is not too long.
func (r *Reader) nextFar() (Line, bool) {
	if cap(r.buf) < r.opt.Window {
		r.buf = make([]byte, 0, 2*r.opt.Window)
	}
	for {
		n := r.readAt(r.buf[:r.opt.Window], r.next)
		if n == 0 {
			r.drop()
			return Line{}, false
		}
		i := bytes.IndexByte(r.buf[:n], '\n')
		if i < 0 {
			r.next += int64(n)
			continue
		}
		end := r.next + int64(i)
		length := end - r.line
		keep := length
		if length > r.opt.MaxLine {
			keep = min(LongPrefix, length)
		}
		raw := make([]byte, keep)
		if got := r.readAt(raw, r.line); int64(got) < keep {
			// The source shrank meanwhile; whoever follows it will notice.
			r.drop()
			return Line{}, false
		}
		l := r.make(raw, length)
		r.line, r.num, r.far = end+1, r.num+1, false
		r.base = r.line
		r.drop()
		return l, true
	}
}

// drop empties the buffer, whose bytes no longer belong to base.
func (r *Reader) drop() { r.buf, r.pos, r.seen = r.buf[:0], 0, 0 }

// make cleans the bytes of a line.
func (r *Reader) make(raw []byte, length int64) Line {
	l := Line{Num: r.num, Offset: r.line, Length: length, Raw: raw}
	l.clean(r.opt.MaxLine)
	return l
}

var bom = []byte("\xef\xbb\xbf")

// clean leaves out what is around the value (CR, BOM, NUL runs), and all but
// a prefix of a line that is longer than maxLine.
func (l *Line) clean(maxLine int64) {
	raw := l.Raw
	if l.Length > maxLine {
		l.Flaw |= TooLong
		raw = raw[:min(len(raw), LongPrefix)]
	}
	if n := len(raw); n > 0 && raw[n-1] == '\r' && !l.Flaw.Has(TooLong) {
		raw = raw[:n-1]
	}
	if l.Offset == 0 && bytes.HasPrefix(raw, bom) {
		raw = raw[len(bom):]
		l.Lead += len(bom)
		l.Flaw |= BOM
	}
	if n := len(raw); n > 0 && (raw[0] == 0 || raw[n-1] == 0) {
		trimmed := bytes.TrimLeft(raw, "\x00")
		l.Lead += n - len(trimmed)
		raw = bytes.TrimRight(trimmed, "\x00")
		l.Flaw |= NULRun
	}
	l.Raw = raw
}

// Pending describes the unfinished line at the present end, as of the last
// Next that gave ok = false. Length is 0 where there is none. Raw holds
// all of a line that fits the window, else a prefix of LongPrefix bytes.
func (r *Reader) Pending() Line {
	l := Line{Num: r.num, Offset: r.line, Flaw: Torn}
	switch {
	case r.far:
		l.Length = r.next - r.line
		raw := make([]byte, min(l.Length, LongPrefix))
		n, _ := r.src.ReadAt(raw, r.line) // a prefix for display; shorter is fine
		l.Raw = raw[:n]
	default:
		l.Length = int64(len(r.buf) - r.pos)
		l.Raw = r.buf[r.pos:]
	}
	if l.Length == 0 {
		return Line{Num: r.num, Offset: r.line}
	}
	l.clean(r.opt.MaxLine)
	return l
}
