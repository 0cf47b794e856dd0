package session

import (
	"io"

	"github.com/agent-ls/agent-ls/session/jsonl"
)

// bulk is a batch of lines on its way through a parallel Read.
type bulk struct {
	lines   []jsonl.Line
	buf     []byte  // of the lines
	entries []Entry // of all lines
	ends    []int   // for each line, the index behind its last entry
	ready   chan struct{}
	panic   any // of decoding
}

// decode makes entries of the lines of b.
func (b *bulk) decode(f Format) {
	defer func() {
		b.panic = recover() // for the goroutine that reads
		close(b.ready)
	}()
	b.entries, b.ends = b.entries[:0], b.ends[:0]
	for _, line := range b.lines {
		b.entries = f.Decode(b.entries, line)
		b.ends = append(b.ends, len(b.entries))
	}
}

// loadBulk feeds all lines of r to l. They are decoded by some goroutines, and
// replayed in order by this one; few batches are under way at a time. No
// goroutine is left when it returns.
func (l *Loader) loadBulk(r *jsonl.Reader, workers int, size int64) {
	order := make(chan *bulk, 2*workers) // bounds what is under way
	work := make(chan *bulk, 2*workers)
	done := make(chan *bulk, 2*workers+2) // to be used again
	stop := make(chan struct{})
	ended := make(chan struct{})
	defer func() {
		close(stop)
		for range workers + 1 {
			<-ended
		}
	}()
	for range workers {
		go func() {
			defer func() { ended <- struct{}{} }()
			for b := range work {
				b.decode(l.format)
			}
		}()
	}
	go func() {
		defer func() { ended <- struct{}{} }()
		defer close(work)
		defer close(order)
		for {
			b := &bulk{}
			select {
			case b = <-done:
			default:
			}
			b.ready, b.panic = make(chan struct{}), nil
			b.lines, b.buf = r.Batch(b.lines[:0], b.buf)
			if len(b.lines) == 0 {
				return
			}
			select {
			case order <- b:
				work <- b // it holds as much as order does
			case <-stop:
				return
			}
		}
	}()
	for b := range order {
		<-b.ready
		if b.panic != nil {
			panic(b.panic)
		}
		l.addBulk(b, size)
		select {
		case done <- b:
		default:
		}
	}
}

// addBulk is AddDecoded for all lines of b, whose effects nobody asks for.
// size is that of the source.
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
