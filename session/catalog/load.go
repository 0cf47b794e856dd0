package catalog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/journal"
)

// Opened is a transcript with the bytes it was read from.
type Opened struct {
	Row        Row // as the transcript is, which may be newer than the snapshot
	Format     session.Format
	Transcript *session.Transcript
	Revision   session.Revision
	Size       int64
	Source     io.ReaderAt // valid until Close
	Cost       session.Cost
	From       int64 // offset at which the replay began (Tailed formats)
	closer     io.Closer
}

// Close releases the file.
func (o *Opened) Close() error {
	if o.closer == nil {
		return nil
	}
	return o.closer.Close()
}

// LinesBefore counts the lines before From: the replay, which does not read
// them, counts its lines from there.
func (o *Opened) LinesBefore() (int, error) {
	n, buf := 0, make([]byte, 256<<10)
	for off := int64(0); off < o.From; {
		part := buf[:min(int64(len(buf)), o.From-off)]
		got, err := o.Source.ReadAt(part, off)
		n += bytes.Count(part[:got], []byte{'\n'})
		if off += int64(got); got < len(part) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, &session.ReadError{Pos: session.Pos{Line: n + 1, Offset: off}, Err: err}
		}
	}
	return n, nil
}

// LoadOptions of Load.
type LoadOptions struct {
	// Resume allows a replay of the part from which the effective
	// conversation follows, where the format can prove it.
	Resume bool
}

// Load reads a transcript. Row, Transcript and Revision are of the same
// bytes, even while the file grows; a Row that the snapshot does not have yet
// is not published. Errors: *session.NotFoundError, fs.ErrNotExist where the
// file is gone, and *session.ReadError; damage is in the transcript's findings.
func (c *Catalog) Load(ctx context.Context, id session.ID, o LoadOptions) (*Opened, error) {
	out, err := c.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := c.replay(ctx, out, o); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	c.bringUp(out, out.Row.Path, out.closer != nil)
	return out, nil
}

// Tail gives the last bytes of a transcript, at most n.
func (c *Catalog) Tail(ctx context.Context, id session.ID, n int64) (tail []byte, err error) {
	o, err := c.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	tail = make([]byte, min(n, o.Size))
	got, err := o.Source.ReadAt(tail, o.Size-int64(len(tail)))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return tail[:got], err
}

// Open opens a transcript without reading it: Transcript, Revision and Cost
// are not set, and Row is that of the snapshot.
func (c *Catalog) Open(ctx context.Context, id session.ID) (*Opened, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, _, ok := c.snap.Load().find(id)
	if !ok {
		return nil, &session.NotFoundError{What: "session", Name: id.String()}
	}
	out := &Opened{Row: r.Row, Format: c.formats[id.Agent]}
	h, err := c.o.FS.Open(r.Path)
	switch {
	case isMissing(err) && r.Empty:
		out.Source = strings.NewReader("") // not written yet
	case err != nil && !isMissing(err):
		return nil, &session.ReadError{Pos: session.Pos{Line: 1}, Err: err}
	case err != nil:
		return nil, err
	default:
		out.closer = h
		info, err := h.Stat()
		if err != nil {
			return nil, errors.Join(err, h.Close())
		}
		out.Size = info.Size
		out.Source = io.NewSectionReader(h, 0, info.Size)
	}
	return out, nil
}

// bringUp makes out.Row fit the bytes that were read.
func (c *Catalog) bringUp(out *Opened, path string, exists bool) {
	c.mu.Lock()
	root, rel, ok := c.rootOf(path)
	c.mu.Unlock()
	if ok {
		t := target{root: root, rel: rel, path: path, lock: c.exists(journal.LockPath(path)), lazy: !exists}
		if l, o := c.look(t); o == changed && l.session != nil {
			c.mu.Lock()
			out.Row = c.fill(*l.session, l.holder).Row
			c.mu.Unlock()
		}
	}
	out.Row.Size, out.Row.Revision = out.Size, out.Revision
}

func (c *Catalog) replay(ctx context.Context, out *Opened, o LoadOptions) error {
	opt := session.ReadOptions{Options: c.o.Limits, Workers: runtime.GOMAXPROCS(0)}
	if t, ok := out.Format.(session.Tailed); ok && o.Resume {
		if off, ok := t.Tail(out.Source, out.Size); ok {
			opt.From, out.From = off, off
		}
	}
	var err error
	src := &cancelled{src: out.Source, size: out.Size, ctx: ctx}
	out.Transcript, out.Cost, err = session.Read(out.Format, out.Row.Native, src, opt)
	if err != nil {
		return err
	}
	out.Revision, err = journal.Revision(out.Source, out.Size)
	return err
}

// cancelled is a source that fails when ctx ends: reading a long transcript
// stops within a window.
type cancelled struct {
	src  io.ReaderAt
	size int64
	ctx  context.Context //nolint:containedctx // lives for one read
}

func (c *cancelled) Size() int64 { return c.size }

func (c *cancelled) ReadAt(p []byte, off int64) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.src.ReadAt(p, off)
}
