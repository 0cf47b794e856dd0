// Package parallel does work on several goroutines and gives its results in
// order. It knows nothing of what the work is.
package parallel

import "iter"

// job is an item on its way.
type job[T any] struct {
	item  T
	ready chan struct{} // closed when the work on it is done
	panic any
}

// InOrder calls do for each item, on so many goroutines, and gives the items
// in their order when that is done. Items come from a goroutine of their own;
// about three for each worker are under way. When the loop over the result
// ends, however it ends, no goroutine is left: items are asked for no longer,
// and work that was begun is waited for. A panic of items or do comes out of
// the loop.
func InOrder[T any](items iter.Seq[T], workers int, do func(T)) iter.Seq[T] {
	return func(yield func(T) bool) {
		order := make(chan *job[T], 2*workers)
		todo := make(chan *job[T], 2*workers+1) // those in order, and the one that is waited for
		stop := make(chan struct{})
		ended := make(chan any) // panics of the goroutines, nil for none
		defer func() {
			close(stop)
			for range order { // until the producer has noticed
			}
			var failed any
			for range workers + 1 {
				if p := <-ended; p != nil {
					failed = p
				}
			}
			if failed != nil {
				panic(failed)
			}
		}()
		go func() {
			defer func() {
				failed := recover()
				close(todo)
				close(order)
				ended <- failed
			}()
			for item := range items {
				j := &job[T]{item: item, ready: make(chan struct{})}
				select {
				case order <- j:
					todo <- j
				case <-stop:
					return
				}
			}
		}()
		for range workers {
			go func() {
				defer func() { ended <- nil }()
				for j := range todo {
					select {
					case <-stop:
						close(j.ready)
					default:
						j.run(do)
					}
				}
			}()
		}
		for j := range order {
			<-j.ready
			if j.panic != nil {
				panic(j.panic)
			}
			if !yield(j.item) {
				return
			}
		}
	}
}

func (j *job[T]) run(do func(T)) {
	defer func() {
		j.panic = recover() // for the goroutine that waits
		close(j.ready)
	}()
	do(j.item)
}
