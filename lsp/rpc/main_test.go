package rpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = 60 * time.Second

// testHandler is the server of the tests. Its methods are named by what they do.
type testHandler struct {
	order  func(*Request) (string, bool)
	slow   func(*Request) bool
	handle func(context.Context, *Request) (any, error)
}

func (h *testHandler) Order(r *Request) (string, bool) {
	if h.order != nil {
		return h.order(r)
	}
	return "", false
}

func (h *testHandler) Slow(r *Request) bool { return h.slow != nil && h.slow(r) }

func (h *testHandler) Handle(ctx context.Context, r *Request) (any, error) {
	if h.handle != nil {
		return h.handle(ctx, r)
	}
	return plain(ctx, r)
}

// plain answers a handful of methods.
func plain(ctx context.Context, r *Request) (any, error) {
	switch r.Method {
	case "echo":
		return Raw(r.Params), nil
	case "null":
		return nil, nil
	case "panic":
		panic("secret text")
	case "nilpanic":
		return r.Params[len(r.Params)], nil
	case "fail":
		return nil, &Error{Code: -32011, Message: "session not found", Data: map[string]int{"line": 3}}
	case "plainfail":
		return nil, errors.New("disk on fire")
	case "nilerror":
		var e *Error
		return nil, e
	case "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	case "unencodable":
		return func() {}, nil
	case "badutf8":
		return "a\xffb", nil
	case "pretty":
		return Raw("{\n  \"a\": [1,\r\n 2]\n}"), nil
	}
	return nil, errorf(CodeMethodNotFound, "method %s is unknown", r.Method)
}

// frame gives messages as they are sent under a framing.
func frame(f Framing, messages ...string) string {
	var b strings.Builder
	for _, m := range messages {
		if f == NDJSON {
			b.WriteString(m + "\n")
		} else {
			fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(m), m)
		}
	}
	return b.String()
}

// unframe reads one message that the server wrote, strictly.
func unframe(f Framing, r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		if err == io.EOF && line != "" {
			err = io.ErrUnexpectedEOF
		}
		return "", err
	}
	if f == NDJSON {
		m := strings.TrimSuffix(line, "\n")
		if !jsontext.Value(m).IsValid(jsontext.AllowDuplicateNames(true)) {
			return "", fmt.Errorf("line is not JSON: %q", m)
		}
		return m, nil
	}
	digits, ok := strings.CutPrefix(line, "Content-Length: ")
	n, err := strconv.Atoi(strings.TrimSuffix(digits, "\r\n"))
	if !ok || err != nil {
		return "", fmt.Errorf("header %q", line)
	}
	if blank, err := r.ReadString('\n'); err != nil || blank != "\r\n" {
		return "", fmt.Errorf("after header %q %v", blank, err)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return "", err
	}
	if !jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true)) {
		return "", fmt.Errorf("body is not JSON: %q", body)
	}
	return string(body), nil
}

// talk gives all input at once and returns what the server wrote and how
// Serve ended.
func talk(t testing.TB, f Framing, input io.Reader, o Options, h Handler) ([]string, error) {
	t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := NewConn(input, &out, o).Serve(ctx, h)
	if ctx.Err() != nil {
		t.Fatalf("Serve did not end; wrote %.300q", out.String())
	}
	var got []string
	for r := bufio.NewReader(&out); ; {
		m, uerr := unframe(f, r)
		if uerr == io.EOF {
			return got, err
		}
		if uerr != nil {
			t.Fatalf("output: %v", uerr)
		}
		got = append(got, m)
	}
}
