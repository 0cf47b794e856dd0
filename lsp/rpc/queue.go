package rpc

import (
	"context"
	"slices"
	"sync"

	"go.uber.org/zap"
)

type itemKind uint8

const (
	resultItem itemKind = iota // body is the result
	faultItem                  // body is the error object
	notifyItem                 // body is the params, or nil
	wholeItem                  // body is the message
	lazyItem                   // body comes from make
)

// An item is one message that waits to be written.
type item struct {
	kind   itemKind
	id     []byte // raw JSON; nil is null
	method string
	body   Raw
	make   func() any
}

// size is what an item counts against the bound.
func (it *item) size() int { return len(it.body) + len(it.method) + len(it.id) + 64 }

// appendHead appends what stands before body.
func (it *item) appendHead(dst []byte) []byte {
	switch it.kind {
	case resultItem, faultItem:
		dst = append(dst, `{"jsonrpc":"2.0","id":`...)
		if it.id == nil {
			dst = append(dst, "null"...)
		}
		dst = append(dst, it.id...)
		if it.kind == faultItem {
			return append(dst, `,"error":`...)
		}
		return append(dst, `,"result":`...)
	case notifyItem:
		dst = append(dst, `{"jsonrpc":"2.0","method":`...)
		dst = AppendString(dst, it.method)
		if it.body != nil {
			dst = append(dst, `,"params":`...)
		}
	case wholeItem, lazyItem:
	}
	return dst
}

// tail is what stands behind body.
func (it *item) tail() string {
	if it.kind == wholeItem {
		return ""
	}
	return "}"
}

// append appends the whole message.
func (it *item) append(dst []byte) []byte {
	dst = it.appendHead(dst)
	dst = append(dst, it.body...)
	return append(dst, it.tail()...)
}

// A queue holds what is to be written. Order: one line of turns, and each turn
// writes the first item of its key. So all leave in the order in which they
// were queued, until a lazy item has more to give: it stays the first of its
// key and gets one more turn at the end of the line.
type queue struct {
	max  int
	log  *zap.Logger
	wake chan struct{} // capacity 1: there is a turn, or closed was set

	mu      sync.Mutex
	keys    map[string][]*item
	turns   []string
	lazy    map[string]bool // keys with a lazy item that has not been made
	bytes   int             // queued or being written
	room    chan struct{}   // closed while bytes < max
	closed  bool            // nothing more is taken
	refused error           // why, from then on
}

func newQueue(limit int, log *zap.Logger) *queue {
	q := &queue{
		max: limit, log: log, wake: make(chan struct{}, 1),
		keys: map[string][]*item{}, lazy: map[string]bool{}, room: make(chan struct{}),
	}
	close(q.room)
	return q
}

// put queues it, and waits for room before: the bound may be passed by one
// message only.
func (q *queue) put(ctx context.Context, key string, it *item) error {
	for {
		q.mu.Lock()
		if q.closed {
			err := q.refused
			q.mu.Unlock()
			return err
		}
		if q.bytes < q.max {
			q.add(it.size())
			q.push(key, it)
			q.mu.Unlock()
			q.signal()
			return nil
		}
		room := q.room
		q.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// putLazy queues a lazy item, if none of its key waits. It never blocks.
func (q *queue) putLazy(key string, it *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.lazy[key] {
		return
	}
	q.lazy[key] = true
	q.push(key, it)
	q.signal()
}

// hasRoom waits until something could be queued.
func (q *queue) hasRoom(ctx context.Context) error {
	q.mu.Lock()
	room := q.room
	q.mu.Unlock()
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// push wants mu.
func (q *queue) push(key string, it *item) {
	q.keys[key] = append(q.keys[key], it)
	q.turns = append(q.turns, key)
}

// add wants mu.
func (q *queue) add(n int) {
	before := q.bytes < q.max
	q.bytes += n
	switch after := q.bytes < q.max; {
	case before && !after:
		q.room = make(chan struct{})
	case !before && after:
		close(q.room)
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// close lets what is queued be written and takes nothing more.
func (q *queue) close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed, q.refused = true, err
	if q.bytes >= q.max {
		close(q.room) // those who wait see closed
	}
	q.bytes, q.max = 0, 1
	q.signal()
}

// drop is close without writing what is queued.
func (q *queue) drop(err error) {
	q.close(err)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refused = err
	q.turns, q.keys, q.lazy = nil, map[string][]*item{}, map[string]bool{}
	q.signal()
}

// next takes the item whose turn it is; none is left if it is nil and closed.
func (q *queue) next() (key string, it *item, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) == 0 {
		return "", nil, q.closed
	}
	key = q.turns[0]
	if q.turns = q.turns[1:]; len(q.turns) == 0 {
		q.turns = nil // let go of the array
	}
	it = q.keys[key][0]
	if it.kind == lazyItem {
		// Cleared before make looks at the state, so that a change after its
		// look is queued anew. The item keeps its place until made.
		delete(q.lazy, key)
		return key, it, false
	}
	q.pop(key)
	return key, it, false
}

// pop takes the first item of key away. It wants mu.
func (q *queue) pop(key string) {
	if rest := q.keys[key][1:]; len(rest) > 0 {
		q.keys[key][0] = nil
		q.keys[key] = rest
	} else {
		delete(q.keys, key)
	}
}

// made ends the turn of a lazy item.
func (q *queue) made(key string, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.keys[key]) == 0 {
		return // dropped meanwhile
	}
	if !more {
		q.pop(key)
		return
	}
	if !q.lazy[key] {
		q.lazy[key] = true
		q.turns = append(q.turns, key)
		return
	}
	// One was queued since. It is folded into this, which will see the newer
	// state, and leaves it its turn.
	list := q.keys[key]
	for i := 1; i < len(list); i++ {
		if list[i].kind == lazyItem {
			q.keys[key] = slices.Delete(list, i, i+1)
			return
		}
	}
}

// written gives n bytes back.
func (q *queue) written(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.add(-n)
	}
}
