package rpc

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// pipes gives both directions as the system's pipes, as an editor uses them.
func pipes(b *testing.B) (serverIn, clientIn *os.File, serverOut, clientOut *os.File) {
	b.Helper()
	serverIn, clientOut, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	clientIn, serverOut, err = os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	return serverIn, clientIn, serverOut, clientOut
}

// ratio reports ns/op over that of the floor, which ran first.
func ratio(b *testing.B, floor *float64) {
	per := float64(b.Elapsed()) / float64(b.N)
	if strings.HasSuffix(b.Name(), "floor") {
		*floor = per
		return
	}
	if *floor > 0 {
		b.ReportMetric(per / *floor, "x-floor")
	}
}

// BenchmarkRoundTrip is one request and its answer. The floor is the same
// bytes over the same pipes with nothing done in between.
func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{10, 1 << 10, 1 << 20} {
		ask := frame(LSP, req(1234567, "echo", `["`+strings.Repeat("x", size)+`"]`))
		answer := frame(LSP, ok("1234567", `["`+strings.Repeat("x", size)+`"]`))
		var floor float64
		trips := func(b *testing.B, in io.Reader, out io.Writer) {
			b.SetBytes(int64(len(ask)))
			got := make([]byte, len(answer))
			wrote := make(chan error) // one at a time
			go func() {
				for range b.N {
					if _, err := io.WriteString(out, ask); err != nil {
						wrote <- err
						return
					}
					wrote <- nil
				}
			}()
			b.ResetTimer()
			for range b.N {
				if _, err := io.ReadFull(in, got); err != nil {
					b.Fatal(err)
				}
				if err := <-wrote; err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if string(got) != answer {
				b.Fatalf("got %.100q", got)
			}
			ratio(b, &floor)
		}
		b.Run(fmt.Sprintf("%d/floor", size), func(b *testing.B) {
			serverIn, clientIn, serverOut, clientOut := pipes(b)
			go func() {
				buf := make([]byte, len(ask))
				for {
					if _, err := io.ReadFull(serverIn, buf); err != nil {
						_ = serverOut.Close()
						return
					}
					_, _ = io.WriteString(serverOut, answer) // the client checks
				}
			}()
			trips(b, clientIn, clientOut)
			_ = clientOut.Close()
		})
		for _, inline := range []bool{true, false} {
			b.Run(fmt.Sprintf("%d/inline=%v", size, inline), func(b *testing.B) {
				serverIn, clientIn, serverOut, clientOut := pipes(b)
				served := make(chan error)
				go func() {
					served <- NewConn(serverIn, serverOut, Options{}).Serve(context.Background(), &testHandler{
						order: func(*Request) (string, bool) { return "k", inline },
					})
				}()
				trips(b, clientIn, clientOut)
				_ = clientOut.Close()
				if err := <-served; err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// BenchmarkNotify sends notifications as fast as the client takes them. The
// floor is one write for each.
func BenchmarkNotify(b *testing.B) {
	for _, size := range []int{200, 10 << 10} {
		params := Raw(`["` + strings.Repeat("x", size) + `"]`)
		whole := frame(LSP, `{"jsonrpc":"2.0","method":"session/update","params":`+string(params)+`}`)
		var floor float64
		drain := func(b *testing.B, in io.Reader, send func(n int)) {
			b.SetBytes(int64(len(whole)))
			b.ResetTimer()
			go send(b.N)
			if n, err := io.CopyN(io.Discard, bufio.NewReaderSize(in, 64<<10), int64(b.N)*int64(len(whole))); err != nil {
				b.Fatal(n, err)
			}
			b.StopTimer()
			ratio(b, &floor)
		}
		b.Run(fmt.Sprintf("%d/floor", size), func(b *testing.B) {
			_, clientIn, serverOut, _ := pipes(b)
			drain(b, clientIn, func(n int) {
				for range n {
					_, _ = io.WriteString(serverOut, whole) // the client counts
				}
			})
		})
		b.Run(fmt.Sprintf("%d/notify", size), func(b *testing.B) {
			serverIn, clientIn, serverOut, clientOut := pipes(b)
			c := NewConn(serverIn, serverOut, Options{Framing: LSP})
			served := make(chan error)
			go func() { served <- c.Serve(context.Background(), &testHandler{}) }()
			drain(b, clientIn, func(n int) {
				for range n {
					_ = c.Notify("k", "session/update", params) // the client counts
				}
			})
			_ = clientOut.Close()
			if err := <-served; err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkRead takes notifications that the client sends.
func BenchmarkRead(b *testing.B) {
	for _, f := range []Framing{LSP, NDJSON} {
		b.Run(f.String(), func(b *testing.B) {
			one := frame(f, note("textDocument/didChange", `{"text":"`+strings.Repeat("x", 1000)+`"}`))
			b.SetBytes(int64(len(one)))
			b.ReportAllocs()
			in := io.LimitReader(&repeat{[]byte(one), 0}, int64(b.N)*int64(len(one)))
			if err := NewConn(in, io.Discard, Options{}).Serve(b.Context(), &testHandler{
				order: func(*Request) (string, bool) { return "", true },
			}); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// repeat reads b over and over.
type repeat struct {
	b []byte
	i int
}

func (r *repeat) Read(p []byte) (n int, err error) {
	for n < len(p) {
		k := copy(p[n:], r.b[r.i:])
		n += k
		r.i = (r.i + k) % len(r.b)
	}
	return n, nil
}
