package session

import (
	"io"

	"github.com/agent-ls/agent-ls/session/jsonl"
	"github.com/agent-ls/agent-ls/session/parallel"
)

// bulk is a batch of lines on its way through a parallel Read.
type bulk struct {
	lines   []jsonl.Line
	buf     []byte  // of the lines
	entries []Entry // of all lines
	ends    []int   // for each line, the index behind its last entry
}

// decode makes entries of the lines of b.
func (b *bulk) decode(f Format) {
	b.entries, b.ends = b.entries[:0], b.ends[:0]
	for _, line := range b.lines {
		b.entries = f.Decode(b.entries, line)
		b.ends = append(b.ends, len(b.entries))
	}
}

// loadBulk feeds all lines of r to l. They are decoded by some goroutines, and
// replayed in order by this one. size is that of the source.
func (l *Loader) loadBulk(r *jsonl.Reader, workers int, size int64) {
	done := make(chan *bulk, 4*workers) // to be used again
	batches := func(yield func(*bulk) bool) {
		for {
			b := &bulk{}
			select {
			case b = <-done:
			default:
			}
			b.lines, b.buf = r.Batch(b.lines[:0], b.buf)
			if len(b.lines) == 0 || !yield(b) {
				return
			}
		}
	}
	for b := range parallel.InOrder(batches, workers, func(b *bulk) { b.decode(l.format) }) {
		l.addBulk(b, size)
		select {
		case done <- b:
		default:
		}
	}
}

// addBulk is AddDecoded for all lines of b, whose effects nobody asks for.
func (l *Loader) addBulk(b *bulk, size int64) {
	from := 0
	for k, line := range b.lines {
		l.note(line, b.entries[from:b.ends[k]])
		from = b.ends[k]
	}
	if r, ok := l.replay.(Bulk); ok {
		last := b.lines[len(b.lines)-1]
		end := last.Offset + last.Length + 1
		more := float64(len(b.entries)) / float64(end-b.lines[0].Offset) * float64(max(0, size-end))
		r.AddAll(b.entries, int(min(more*1.05, mostAhead)))
		return
	}
	for i := range b.entries {
		l.replay.Add(b.entries[i])
	}
}

// mostAhead bounds for how many entries room is made ahead.
const mostAhead = 1 << 17

// sequential is the size up to which a transcript is read by one goroutine.
const sequential = 1 << 20

// sizeOf is the size of src where it tells, else -1.
func sizeOf(src io.ReaderAt) int64 {
	if s, ok := src.(interface{ Size() int64 }); ok {
		return s.Size()
	}
	return -1
}
