package catalog

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// saved is one record of the cache: what is known of one transcript.
type saved struct {
	path, agent, dir string
	stamp            stamp            // without a device: its number does not outlive a restart
	session          *session.Session // as its format made it; nil where the file is no session
	row              *row             // of decodeSaved: that session in the row it will have
	place            place            // of its working directory
	length           int32            // of the record that was read
	gone             bool             // the transcript is there no more
}

// Kinds of record.
const (
	savedRow byte = 1 + iota
	savedNoSession
	savedGone
)

// Flags of a row.
const (
	savedArchived byte = 1 << iota
	savedProgrammatic
	savedEmpty
	savedMissing // the working directory
)

// encode appends the record of s to dst. Strings have their length before
// them, numbers are varints, times are seconds and nanoseconds.
func (s saved) encode(dst []byte) []byte {
	e := encoder{dst}
	switch {
	case s.gone:
		e.byte(savedGone)
		e.strings(s.path)
		return e.b
	case s.session == nil:
		e.byte(savedNoSession)
	default:
		e.byte(savedRow)
	}
	e.strings(s.path, s.agent, s.dir)
	e.ints(int64(s.stamp.id.Ino), s.stamp.size, s.stamp.mod)
	r := s.session
	if r == nil {
		return e.b
	}
	e.strings(r.Native, r.CWD, s.place.real, r.Title, r.FirstPrompt, r.LastPrompt, r.Model, r.GitBranch, r.Tag,
		r.Parent.Agent, r.Parent.Native, r.ParentTool, string(r.Revision), string(r.Cursor))
	e.ints(int64(r.TitleSource), int64(r.Status), int64(r.Kind), int64(r.Physical), int64(r.Effective),
		int64(r.Problems), r.Size, int64(r.WriterPID))
	for _, t := range []time.Time{r.CreatedAt, r.UpdatedAt, r.ModTime, r.WriterSince} {
		e.ints(t.Unix(), int64(t.Nanosecond()))
	}
	var flags byte
	for _, f := range []struct {
		is   bool
		flag byte
	}{{r.Archived, savedArchived}, {r.Programmatic, savedProgrammatic}, {r.Empty, savedEmpty}, {s.place.missing, savedMissing}} {
		if f.is {
			flags |= f.flag
		}
	}
	e.byte(flags)
	e.ints(int64(len(r.SideFiles)))
	e.strings(r.SideFiles...)
	return e.b
}

var errSaved = errors.New("not a record of the cache")

// decodeSaved is the inverse of encode. Strings of the row are parts of b;
// alloc gives memory for it.
func decodeSaved(b string, alloc func() *row) (saved, error) {
	d := decoder{rest: b}
	var s saved
	kind := d.byte()
	d.strings(&s.path)
	switch kind {
	case savedGone:
		s.gone = true
		return s, d.end()
	case savedRow:
		s.row = alloc()
		s.session = &s.row.Session
	case savedNoSession:
	default:
		return s, errSaved
	}
	d.strings(&s.agent, &s.dir)
	s.stamp = stamp{vfs.FileID{Ino: uint64(d.int())}, d.int(), d.int()}
	r := s.session
	if r == nil {
		return s, d.end()
	}
	var revision, note string
	d.strings(&r.Native, &r.CWD, &s.place.real, &r.Title, &r.FirstPrompt, &r.LastPrompt, &r.Model, &r.GitBranch, &r.Tag,
		&r.Parent.Agent, &r.Parent.Native, &r.ParentTool, &revision, &note)
	r.Agent, r.Root, r.Path, r.Revision = s.agent, s.dir, s.path, session.Revision(revision)
	if note != "" {
		r.Cursor = []byte(note)
	}
	r.TitleSource, r.Status, r.Kind = session.TitleSource(d.int()), session.Status(d.int()), session.SessionKind(d.int())
	r.Physical, r.Effective, r.Problems = int(d.int()), int(d.int()), int(d.int())
	r.Size, r.WriterPID = d.int(), int(d.int())
	for _, t := range []*time.Time{&r.CreatedAt, &r.UpdatedAt, &r.ModTime, &r.WriterSince} {
		*t = time.Unix(d.int(), d.int()).UTC()
	}
	flags := d.byte()
	r.Archived, r.Programmatic, r.Empty = flags&savedArchived != 0, flags&savedProgrammatic != 0, flags&savedEmpty != 0
	s.place.cwd, s.place.missing = r.CWD, flags&savedMissing != 0
	if r.CWD != "" {
		s.place.key = pathKey(r.CWD)
	}
	switch n := d.int(); {
	case n < 0 || n > int64(len(d.rest)): // each has its length
		d.fail()
	case n > 0:
		r.SideFiles = make([]string, n)
		for i := range r.SideFiles {
			d.strings(&r.SideFiles[i])
		}
	}
	if r.TitleSource > session.TitleUser || r.Status > session.StatusRequiresAction || r.Kind > session.Fork {
		return s, errSaved
	}
	return s, d.end()
}

// slabs gives rows in groups, since single ones cost a start 100,000
// allocations. A group stays while one of it is used: at most as much memory
// as the start took.
type slabs struct{ rest []row }

func (s *slabs) row() *row {
	if len(s.rest) == 0 {
		s.rest = make([]row, 64)
	}
	r := &s.rest[0]
	s.rest = s.rest[1:]
	return r
}

type encoder struct{ b []byte }

func (e *encoder) byte(c byte) { e.b = append(e.b, c) }

func (e *encoder) ints(list ...int64) {
	for _, n := range list {
		e.b = binary.AppendVarint(e.b, n)
	}
}

func (e *encoder) strings(list ...string) {
	for _, s := range list {
		e.b = binary.AppendUvarint(e.b, uint64(len(s)))
		e.b = append(e.b, s...)
	}
}

// decoder takes values from rest. After a failure it gives zero values.
type decoder struct {
	rest   string
	failed bool
}

func (d *decoder) fail() { d.rest, d.failed = "", true }

func (d *decoder) end() error {
	if d.failed || d.rest != "" {
		return errSaved
	}
	return nil
}

func (d *decoder) byte() byte {
	if d.rest == "" {
		d.fail()
		return 0
	}
	c := d.rest[0]
	d.rest = d.rest[1:]
	return c
}

func (d *decoder) uint() uint64 {
	var n uint64
	for shift := 0; shift < 64; shift += 7 {
		c := d.byte()
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return n
		}
	}
	d.fail()
	return 0
}

func (d *decoder) int() int64 {
	u := d.uint()
	return int64(u>>1) ^ -int64(u&1)
}

func (d *decoder) strings(list ...*string) {
	for _, p := range list {
		n := d.uint()
		if n > uint64(len(d.rest)) {
			d.fail()
			return
		}
		*p, d.rest = d.rest[:n], d.rest[n:]
	}
}
