package watcher

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"sync/atomic"
	"syscall"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// Reason is what a look at a file has found.
type Reason uint8

// Reasons. Behind Truncated and all after it the Tail begins again at the
// start of the file: what was read before does not count any more.
const (
	// Unchanged: there is nothing to read.
	Unchanged Reason = iota
	// Grown: there are bytes behind those that were read.
	Grown
	// Undone: bytes behind the offset given to Keep were taken back or written
	// anew, those in front of it are as they were. Read on from that offset.
	Undone
	// Truncated: the file is shorter than what was read of it.
	Truncated
	// Replaced: another file has the name now.
	Replaced
	// Rewritten: it is the same file, and not shorter, with other bytes in
	// front of what was read.
	Rewritten
	// Removed: no file has the name. It is said once.
	Removed
	// Overrun: the file is shorter than the offset at which to begin.
	Overrun
)

// String gives the word for updates and logs.
func (r Reason) String() string {
	return [...]string{"unchanged", "grown", "undone", "truncated", "replaced", "rewritten", "removed", "overrun"}[r]
}

// Growth is the result of a look: the reason and the file as it was then.
type Growth struct {
	Reason Reason
	Info   vfs.Info // zero for Removed
}

// edgeSize is how much of both ends is kept in memory: as much as a revision
// looks at. On each growth a part of it is compared with what the file has
// there: headPrint bytes at the start and tailPrint bytes in front of the
// growth. A file that was written anew, and has grown longer than it was
// before anybody looked, differs in one of them: entries have ids and times.
const (
	edgeSize  = 4 << 10
	headPrint = 256
	tailPrint = 1 << 10
)

// Tail follows one file by name: Next says what became of it, ReadAt gives the
// bytes there were at that time. A reader of lines on top of it (jsonl.Reader)
// sees the end of the file where Next saw it, so that a look and what is read
// after it describe one moment.
//
// A look without growth is one stat and reads nothing; growth costs its own
// bytes, one fingerprint of fixed size and nothing of the rest, whatever the
// size of the file. A Tail is not safe for concurrent use.
type Tail struct {
	fs    vfs.FS
	path  string
	begin int64        // where to begin in the file that is there first
	stop  func() error // asked before each read; nil: never

	src     *source // nil while no file is open
	info    vfs.Info
	start   int64  // bytes from here on ...
	read    int64  // ... up to here have been read, in order
	kept    int64  // up to here they were made use of
	sum     uint32 // of those bytes
	head    []byte // the first of them, if start is the start of the file
	last    []byte // the newest of the bytes in front of read
	absent  bool   // Removed was said
	suspect bool
}

// NewTail begins at byte off of the file at path, which must be the start of a
// line. Nothing is opened before Next.
func NewTail(fs vfs.FS, path string, off int64) *Tail {
	return &Tail{fs: fs, path: path, begin: off}
}

// Next looks at the file. The error is that of the file system (or says that
// the path is not a regular file); the Tail is then as it was before.
func (t *Tail) Next() (Growth, error) {
	info, err := t.fs.Stat(t.path)
	if missing(err) {
		return t.gone(), nil
	}
	if err != nil {
		return Growth{}, err
	}
	if !info.Mode.IsRegular() {
		// Opening a pipe would wait for a writer.
		return Growth{}, &fs.PathError{Op: "tail", Path: t.path, Err: errors.New("not a regular file")}
	}
	if t.src == nil {
		return t.open()
	}
	if info.ID != t.info.ID {
		return t.again(Replaced, info), nil
	}
	if info.Size < t.read {
		if ok, err := t.undo(info); ok || err != nil {
			return Growth{Undone, info}, err
		}
		return t.again(Truncated, info), nil
	}
	same := info.Size == t.info.Size && info.ModTime.Equal(t.info.ModTime)
	if same && info.Size == t.read {
		return Growth{Unchanged, info}, nil
	}
	if ok, err := t.holds(t.read, t.last); err != nil {
		return Growth{}, err
	} else if !ok {
		if ok, err := t.undo(info); ok || err != nil {
			return Growth{Undone, info}, err
		}
		return t.again(Rewritten, info), nil
	}
	// Written to, and no longer than before: bytes changed in place, or the
	// system told of a write under way. Verify tells these apart later.
	t.suspect = info.Size == t.read
	t.info = info
	if t.suspect {
		return Growth{Unchanged, info}, nil
	}
	return Growth{Grown, info}, nil
}

// Suspect reports that the file was written to without growing, which the
// last look could not explain. It calls for Verify after a while without
// hints.
func (t *Tail) Suspect() bool { return t.suspect }

// Verify reads again all that was read so far, if the Tail is suspect, and
// says Rewritten if the bytes have changed. Its cost follows the file.
func (t *Tail) Verify() (Growth, error) {
	g, err := t.Next()
	if err != nil || g.Reason != Unchanged || !t.suspect {
		return g, err
	}
	sum, err := checksum(t.src.file, t.start, t.read)
	if err == io.EOF { // shorter since the look
		return t.again(Truncated, t.info), nil
	}
	if err != nil {
		return Growth{}, err
	}
	t.suspect = false
	if sum != t.sum {
		return t.again(Rewritten, t.info), nil
	}
	return g, nil
}

// Size is the size of the file at the last look: where ReadAt ends.
func (t *Tail) Size() int64 { return t.info.Size }

// ReadAt reads from the file as it was at the last look; it ends there even
// where the file has grown since.
func (t *Tail) ReadAt(p []byte, off int64) (int, error) {
	if t.src == nil || off >= t.info.Size {
		return 0, io.EOF
	}
	if t.stop != nil {
		if err := t.stop(); err != nil {
			return 0, err
		}
	}
	short := false
	if rest := t.info.Size - off; int64(len(p)) > rest {
		p, short = p[:rest], true
	}
	n, err := t.src.file.ReadAt(p, off)
	if fresh := t.read - off; fresh >= 0 && fresh < int64(n) {
		t.note(p[fresh:n])
	}
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// Close closes the file unless somebody else still reads from it.
func (t *Tail) Close() {
	t.forget()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// note remembers that b follows what was read so far.
func (t *Tail) note(b []byte) {
	t.read += int64(len(b))
	t.sum = crc32.Update(t.sum, castagnoli, b)
	if rest := edgeSize - len(t.head); rest > 0 && int64(len(t.head)) == t.read-int64(len(b)) {
		t.head = append(t.head, b[:min(rest, len(b))]...)
	}
	if len(b) >= edgeSize {
		t.last = append(t.last[:0], b[len(b)-edgeSize:]...)
		return
	}
	if over := len(t.last) + len(b) - edgeSize; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	t.last = append(t.last, b...)
}

// Revision is that of the file as it was at the last look. Where it was read up
// to its end it costs no reading.
func (t *Tail) Revision() (session.Revision, error) {
	if t.src == nil {
		return journal.Revision(bytes.NewReader(nil), 0)
	}
	return journal.Revision((*edges)(t), t.info.Size)
}

// edges reads the ends of a file from memory.
type edges Tail

func (e *edges) ReadAt(p []byte, off int64) (int, error) {
	switch end := off + int64(len(p)); {
	case end <= int64(len(e.head)):
		return copy(p, e.head[off:]), nil
	case end == e.read && len(p) <= len(e.last):
		return copy(p, e.last[len(e.last)-len(p):]), nil
	}
	return e.src.file.ReadAt(p, off)
}

// Keep says that what lies in front of off was made use of, and what was read
// behind it (an unfinished line) was not.
func (t *Tail) Keep(off int64) { t.kept = off }

// holds reports whether the file still is what was read of it in front of off,
// as far as the fingerprints tell; last are the bytes there.
func (t *Tail) holds(off int64, last []byte) (bool, error) {
	last = last[max(0, len(last)-tailPrint):]
	if ok, err := t.has(last, off-int64(len(last))); !ok || err != nil {
		return false, err
	}
	if off == int64(len(last)) {
		return true, nil // that was all
	}
	return t.has(t.head[:min(len(t.head), headPrint)], 0)
}

// has reports whether the file has b at off.
func (t *Tail) has(b []byte, off int64) (bool, error) {
	var buf [tailPrint]byte
	got := buf[:len(b)]
	n, err := t.src.file.ReadAt(got, off)
	if err != nil && err != io.EOF {
		return false, err
	}
	return n == len(b) && bytes.Equal(got, b), nil
}

// undo goes back to the offset of Keep, if there was more, and the file still
// is the same in front of it.
func (t *Tail) undo(info vfs.Info) (bool, error) {
	if t.read <= t.kept || info.Size < t.kept {
		return false, nil
	}
	front := t.last[:max(0, len(t.last)-int(min(t.read-t.kept, edgeSize)))]
	if len(front) == 0 && t.kept > t.start {
		return false, nil // the unfinished line is long: nothing to compare with
	}
	if ok, err := t.holds(t.kept, front); !ok || err != nil {
		return false, err
	}
	t.info, t.suspect = info, false
	t.start, t.read, t.sum, t.last = t.kept, t.kept, 0, front
	t.head = t.head[:min(int64(len(t.head)), t.kept)]
	return true, nil
}

// open opens the file that is there now.
func (t *Tail) open() (Growth, error) {
	file, err := t.fs.Open(t.path)
	if missing(err) {
		return t.gone(), nil
	}
	if err != nil {
		return Growth{}, err
	}
	info, err := file.Stat() // of what was opened, not of what had the name before
	if err != nil {
		_ = file.Close()
		return Growth{}, err
	}
	begin := t.begin
	if begin > info.Size {
		_ = file.Close()
		return t.again(Overrun, info), nil
	}
	front := make([]byte, min(begin, tailPrint))
	if _, err := file.ReadAt(front, begin-int64(len(front))); err != nil && err != io.EOF {
		_ = file.Close()
		return Growth{}, err
	}
	if begin > 0 && front[len(front)-1] != '\n' {
		_ = file.Close()
		return t.again(Rewritten, info), nil
	}
	t.src = newSource(file)
	t.info, t.absent = info, false
	t.start, t.read, t.kept, t.last = begin, begin, begin, front
	if info.Size == begin {
		return Growth{Unchanged, info}, nil
	}
	return Growth{Grown, info}, nil
}

func (t *Tail) gone() Growth {
	if t.absent {
		return Growth{Reason: Unchanged}
	}
	t.again(Removed, vfs.Info{})
	t.absent = true
	return Growth{Reason: Removed}
}

// again begins at the start of whatever file has the name at the next look.
func (t *Tail) again(r Reason, info vfs.Info) Growth {
	t.forget()
	return Growth{r, info}
}

func (t *Tail) forget() {
	if t.src != nil {
		t.src.release()
	}
	*t = Tail{fs: t.fs, path: t.path, stop: t.stop, head: t.head[:0], last: t.last[:0]}
}

// checksum is that of the bytes of src from start to end; io.EOF if there are
// fewer.
func checksum(src io.ReaderAt, start, end int64) (uint32, error) {
	var sum uint32
	buf := make([]byte, min(end-start, 256<<10))
	for off := start; off < end; {
		n, err := src.ReadAt(buf[:min(int64(len(buf)), end-off)], off)
		sum = crc32.Update(sum, castagnoli, buf[:n])
		off += int64(n)
		if err != nil && (err != io.EOF || off < end) {
			return 0, err
		}
	}
	return sum, nil
}

// source is an open file with several holders; the last one to release it
// closes it. So an update that was overtaken by a replacement can still be
// shown.
type source struct {
	file vfs.File
	refs atomic.Int32
}

func newSource(f vfs.File) *source {
	s := &source{file: f}
	s.refs.Store(1)
	return s
}

// ReadAt reads from the file that had the name when the source was opened.
func (s *source) ReadAt(p []byte, off int64) (int, error) { return s.file.ReadAt(p, off) }

// retain is for those who hold the source already.
func (s *source) retain() *source {
	s.refs.Add(1)
	return s
}

func (s *source) release() {
	if s.refs.Add(-1) == 0 {
		_ = s.file.Close() // it was only read
	}
}

// missing reports that no file has the name: also where what should be a
// directory of its path is a file.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
