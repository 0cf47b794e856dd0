package journal

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/agent-ls/agent-ls/session/vfs"
)

// file is what the journal knows of one transcript while anybody uses it, and
// for good after a failed sync. All of it is guarded by Journal.mu.
type file struct {
	path string
	uses int // requests and Holds that have not ended

	queue    []*Pending    // in order of arrival
	queued   int           // bytes
	pressing int           // requests in queue that do not want to wait for more
	flush    chan struct{} // closed when no batch must wait longer
	writing  bool          // somebody writes for all
	last     int           // how many the last write was for

	failed error // after a failed sync: what every later append gets

	lock      vfs.Unlocker  // nil while this process has no lock
	holders   int           // of lock: Holds, and the write under way
	acquiring chan struct{} // closed when the attempt under way has ended
}

// run waits until p has ended, writing for all when nobody else does. It is
// false when ctx ended first.
func (p *Pending) run(ctx context.Context) bool {
	j := p.j
	j.arrive(p)
	defer j.leave(p)
	if p.Durability == Batch {
		t := time.NewTimer(j.flushAfter - j.clock.Now().Sub(p.at))
		defer t.Stop()
		select {
		case <-t.C:
		case <-p.wake:
		case <-p.lead:
		case <-p.done:
		case <-ctx.Done():
			return false
		}
	}
	for {
		if ctx.Err() == nil && j.becomeLeader(p) {
			j.write(ctx, p.f)
			return true
		}
		select {
		case <-p.done:
			return true
		case <-p.lead:
		case <-ctx.Done():
			return false
		}
	}
}

// use gives the state of path to one more user; j.mu is held.
func (j *Journal) use(path string) *file {
	f := j.files[path]
	if f == nil {
		f = &file{path: path, flush: make(chan struct{})}
		j.files[path] = f
	}
	f.uses++
	return f
}

// drop ends n uses; j.mu is held. A file that nobody uses is forgotten when
// the next one is not used either: writers that go on at once find it.
func (j *Journal) drop(f *file, n int) {
	f.uses -= n
	if f.uses > 0 || f.failed != nil {
		return
	}
	if i := j.idle; i != nil && i != f && i.uses == 0 && i.failed == nil {
		delete(j.files, i.path)
	}
	j.idle = f
}

// urgent reports whether the queue must not wait for more.
func (f *file) urgent() bool { return f.pressing > 0 || f.queued >= FlushBytes }

// press says that p does not want to wait for more; Journal.mu is held.
func (f *file) press(p *Pending) {
	if !p.pressing && !p.taken {
		p.pressing = true
		f.pressing++
	}
}

// wakeAll ends the wait of a batch; Journal.mu is held.
func (f *file) wakeAll() {
	close(f.flush)
	f.flush = make(chan struct{})
}

func (j *Journal) arrive(p *Pending) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p.waiting++
}

// leave passes the lead on, in case it was given to the one who leaves.
func (j *Journal) leave(p *Pending) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p.waiting--
	j.pass(p.f)
}

// pass lets the first one who waits take the lead, if nobody has it and the
// queue is not a batch that may still grow; j.mu is held.
func (j *Journal) pass(f *file) {
	if f.writing || !f.urgent() {
		return
	}
	for _, p := range f.queue {
		if p.waiting == 0 {
			continue
		}
		select {
		case p.lead <- struct{}{}:
		default: // it has a token that it did not look at yet
		}
		return
	}
}

// becomeLeader makes the caller the one who writes, if nobody is and its
// request is still queued.
func (j *Journal) becomeLeader(p *Pending) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	p.f.press(p)
	if p.f.writing || p.taken {
		return false
	}
	p.f.writing = true
	return true
}

// withdraw takes a request back; false means that it is being written, or was.
func (j *Journal) withdraw(p *Pending) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if p.taken {
		return false
	}
	f := p.f
	for i, q := range f.queue {
		if q == p {
			f.queue = append(f.queue[:i:i], f.queue[i+1:]...)
			break
		}
	}
	f.queued -= len(p.Lines)
	if p.pressing {
		f.pressing--
	}
	p.taken, p.err = true, errWithdrawn
	close(p.done)
	j.pass(f)
	j.drop(f, 1)
	return true
}

// write is the leader's work: everything that waits, in one write.
func (j *Journal) write(ctx context.Context, f *file) {
	j.letIn(f)
	j.mu.Lock()
	group := f.queue
	f.queue, f.queued, f.pressing = nil, 0, 0
	for _, p := range group {
		p.taken = true
	}
	failed := f.failed
	f.last = len(group)
	j.mu.Unlock()

	if failed == nil {
		failed = j.commit(ctx, f, group)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range group {
		if p.err == nil && failed != nil {
			p.receipt, p.err = Receipt{}, failed
		}
		close(p.done)
	}
	var s *StorageError
	if f.failed == nil && errors.As(failed, &s) && s.Unknown {
		f.failed = &StorageError{Op: "append to", Path: f.path, Err: &refusedError{s}}
	}
	f.writing = false // whoever leaves run passes the lead on
	j.drop(f, len(group))
}

// letInTries is how often the leader looks in vain for more to write, some
// tens of microseconds.
const letInTries = 200

// letIn lets the goroutines run that the last write has woken, for they may
// be about to append again. A sync costs as much for many as for one, so a
// few microseconds pay; one writer alone does not wait.
func (j *Journal) letIn(f *file) {
	j.mu.Lock()
	n, want := len(f.queue), len(f.queue)+f.last
	j.mu.Unlock()
	if want <= 2 {
		return
	}
	for tries := 0; n < want && tries < letInTries; tries++ {
		runtime.Gosched()
		j.mu.Lock()
		now := len(f.queue)
		j.mu.Unlock()
		if now > n {
			n, tries = now, 0
		}
	}
}
