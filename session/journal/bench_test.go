package journal

import (
	"bytes"
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/agent-ls/agent-ls/session/vfs"
)

// raw is the floor: one write and one fdatasync on an open file.
func raw(tb testing.TB, f vfs.File, line []byte) {
	if _, err := f.WriteOnce(line); err != nil {
		tb.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		tb.Fatal(err)
	}
}

func rawFile(tb testing.TB) vfs.File {
	f, err := vfs.OS().Create(filepath.Join(tb.TempDir(), "raw.jsonl"), 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	return f
}

func line(n int) []byte {
	return append(append([]byte(`{"pad":"`), bytes.Repeat([]byte("x"), n)...), "\"}\n"...)
}

// One durable append next to its floor; the two take turns, so that other
// work on the machine slows both. x-raw is the ratio; the aim is 1.2.
func BenchmarkAppend_single(b *testing.B) {
	f, l := rawFile(b), line(1000)
	j := New(vfs.OS(), wallClock{})
	path := filepath.Join(b.TempDir(), "a.jsonl")
	release := func() error { return nil }
	for _, held := range []bool{false, true} {
		b.Run(map[bool]string{false: "lock-each", true: "held"}[held], func(b *testing.B) {
			raw(b, f, l)
			if _, err := j.Append(context.Background(), path, Request{Lines: l, Create: true}); err != nil {
				b.Fatal(err)
			}
			if held {
				var err error
				if release, err = j.Hold(context.Background(), path); err != nil {
					b.Fatal(err)
				}
			}
			var floor, ours time.Duration
			for b.Loop() {
				t := time.Now()
				raw(b, f, l)
				floor += time.Since(t)
				t = time.Now()
				if _, err := j.Append(context.Background(), path, Request{Lines: l}); err != nil {
					b.Fatal(err)
				}
				ours += time.Since(t)
			}
			b.ReportMetric(float64(ours)/float64(floor), "x-raw")
			b.ReportMetric(float64(floor.Microseconds())/float64(b.N), "raw-µs/op")
			b.ReportMetric(float64(ours.Microseconds())/float64(b.N), "append-µs/op")
		})
	}
	if err := release(); err != nil {
		b.Fatal(err)
	}
}

// 32 writers to one file next to one writer's raw write and fdatasync.
// x-raw is how many times as many appends a second; the aim is 20.
func BenchmarkAppend_group(b *testing.B) {
	f, l := rawFile(b), line(1000)
	j := New(vfs.OS(), wallClock{})
	path := filepath.Join(b.TempDir(), "a.jsonl")
	const writers, rounds = 32, 20
	var floor, ours time.Duration
	for b.Loop() {
		t := time.Now()
		for range rounds {
			raw(b, f, l)
		}
		floor += time.Since(t)
		var wg sync.WaitGroup
		t = time.Now()
		for range writers {
			wg.Go(func() {
				for range rounds {
					if _, err := j.Append(context.Background(), path, Request{Lines: l, Create: true}); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
		ours += time.Since(t)
	}
	b.ReportMetric(writers*float64(floor)/float64(ours), "x-raw")
	b.ReportMetric(float64(b.N)*writers*rounds/ours.Seconds(), "appends/s")
}
