package rpc

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A peer is a client that writes exact bytes. What the server writes waits in
// the pipe until it is read.
type peer struct {
	t       *testing.T
	framing Framing
	conn    *Conn
	in      *io.PipeWriter
	out     *io.PipeReader
	lines   *bufio.Reader
	served  chan error
}

func newPeer(t *testing.T, o Options, h Handler) *peer {
	t.Helper()
	if o.Framing == Auto {
		o.Framing = LSP
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &peer{t: t, framing: o.Framing, conn: NewConn(inR, outW, o), in: inW, out: outR, lines: bufio.NewReader(outR), served: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		p.served <- p.conn.Serve(ctx, h)
		close(ended)
	}()
	timer := time.AfterFunc(patience, func() {
		// Ends every wait, so that the test fails where it stands.
		_ = outR.CloseWithError(fmt.Errorf("no answer for %v", patience))
		_ = inW.Close()
		cancel()
	})
	t.Cleanup(func() {
		timer.Stop()
		cancel()
		_ = inW.Close()
		_ = outR.Close()
		<-ended
	})
	return p
}

func (p *peer) send(messages ...string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, frame(p.framing, messages...)); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

func (p *peer) next() string {
	p.t.Helper()
	m, err := unframe(p.framing, p.lines)
	if err != nil {
		p.t.Fatalf("receive: %v", err)
	}
	return m
}

// want receives as many messages as are given, in this order.
func (p *peer) want(messages ...string) {
	p.t.Helper()
	var got []string
	for range messages {
		m := p.next()
		if !strings.Contains(m, `"method":`) {
			m = digest(p.t, m)
		}
		got = append(got, m)
	}
	if diff := cmp.Diff(messages, got); diff != "" {
		p.t.Fatalf("received (-want +got):\n%s", diff)
	}
}

// end closes the input, reads the rest, and gives the error of Serve.
func (p *peer) end() ([]string, error) {
	p.t.Helper()
	_ = p.in.Close()
	return p.rest()
}

func (p *peer) rest() (got []string, err error) {
	p.t.Helper()
	for {
		m, err := unframe(p.framing, p.lines)
		if err == io.EOF {
			return got, <-p.served
		}
		if err != nil {
			p.t.Fatalf("receive: %v", err)
		}
		got = append(got, digest(p.t, m))
	}
}

// await waits for what must come.
func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("did not come")
		panic("not reached")
	}
}

func req(id any, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":%q,"params":%s}`, id, method, params)
}

func note(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params)
}

func cancelOf(id string) string { return note("$/cancelRequest", `{"id":`+id+`}`) }
