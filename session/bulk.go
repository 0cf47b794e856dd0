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
func (l *Loader) loadBulk(r *jsonl.Reader, workers int) {
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
		l.addBulk(b)
		select {
		case done <- b:
		default:
		}
	}
}

// addBulk is AddDecoded for all lines of b, whose effects nobody asks for.
func (l *Loader) addBulk(b *bulk) {
	from := 0
	for k, line := range b.lines {
		l.note(line, b.entries[from:b.ends[k]])
		from = b.ends[k]
	}
	if r, ok := l.replay.(Bulk); ok {
		r.AddAll(b.entries)
		return
	}
	for i := range b.entries {
		l.replay.Add(b.entries[i])
	}
}

// sequential is the size up to which a transcript is read by one goroutine.
const sequential = 1 << 20

// sizeOf is the size of src where it tells, else -1.
func sizeOf(src io.ReaderAt) int64 {
	if s, ok := src.(interface{ Size() int64 }); ok {
		return s.Size()
	}
	return -1
}
