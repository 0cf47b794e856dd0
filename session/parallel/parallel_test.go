package parallel_test

import (
	"iter"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agent-ls/agent-ls/session/parallel"
)

// upTo counts, and notes how far it was asked.
func upTo(n int, asked *atomic.Int64) iter.Seq[*int] {
	return func(yield func(*int) bool) {
		for i := range n {
			asked.Store(int64(i + 1))
			if !yield(&i) {
				return
			}
		}
	}
}

// leaves fails if goroutines are left that were not there before.
func leaves(t *testing.T) func() {
	t.Helper()
	before := runtime.NumGoroutine()
	return func() {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
				return
			}
		}
	}
}

func TestInOrder(t *testing.T) {
	defer leaves(t)()
	for _, workers := range []int{1, 2, 7} {
		var asked, busy, most atomic.Int64
		var got []int
		for v := range parallel.InOrder(upTo(1000, &asked), workers, func(v *int) {
			n := busy.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			*v *= 2
			busy.Add(-1)
		}) {
			got = append(got, *v)
			if ahead := int(asked.Load()) - len(got); ahead > 3*workers+2 {
				t.Fatalf("%d workers: %d items under way", workers, ahead)
			}
		}
		if len(got) != 1000 || !slices.IsSorted(got) || got[999] != 1998 {
			t.Errorf("%d workers: %d items, %v", workers, len(got), got)
		}
		if most.Load() > int64(workers) {
			t.Errorf("%d at once, want %d", most.Load(), workers)
		}
	}
}

func TestInOrder_stop(t *testing.T) {
	defer leaves(t)()
	var asked, done atomic.Int64
	n := 0
	for range parallel.InOrder(upTo(1<<30, &asked), 2, func(*int) { done.Add(1) }) {
		if n++; n == 10 {
			break
		}
	}
	if asked.Load() > 30 || done.Load() > asked.Load() {
		t.Errorf("%d asked, %d done for %d", asked.Load(), done.Load(), n)
	}
}

func TestInOrder_panics(t *testing.T) {
	defer leaves(t)()
	caught := func(f func()) (v any) {
		defer func() { v = recover() }()
		f()
		return nil
	}
	var asked atomic.Int64
	if v := caught(func() {
		for range parallel.InOrder(upTo(100, &asked), 2, func(v *int) {
			if *v == 20 {
				panic("work")
			}
		}) {
		}
	}); v != "work" {
		t.Errorf("recovered %v", v)
	}
	if v := caught(func() {
		for range parallel.InOrder(func(yield func(int) bool) { yield(1); panic("items") }, 2, func(int) {}) {
		}
	}); v != "items" {
		t.Errorf("recovered %v", v)
	}
	if v := caught(func() {
		for range parallel.InOrder(upTo(100, &asked), 2, func(*int) {}) {
			panic("loop")
		}
	}); v != "loop" {
		t.Errorf("recovered %v", v)
	}
}
