package rpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Limits of a header block. Real ones have two lines of 30 bytes.
const (
	maxHeaderLine  = 8 << 10
	maxHeaderBlock = 64 << 10
	readBuffer     = 64 << 10
)

// lostError tells that it is not known where the next message begins.
type lostError struct{ err error }

func (e *lostError) Error() string { return "input: " + e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

func lost(format string, args ...any) error {
	return &lostError{fmt.Errorf(format, args...)}
}

// frames cuts the input into messages.
type frames struct {
	r       *bufio.Reader
	framing Framing
	max     int64
	begun   bool
	head    []byte // of headerLine
}

func newFrames(r io.Reader, framing Framing, maxMessage int64) *frames {
	return &frames{r: bufio.NewReaderSize(r, readBuffer), framing: framing, max: maxMessage}
}

// begin skips a BOM and white space, and finds the framing.
func (f *frames) begin() error {
	f.begun = true
	if b, err := f.r.Peek(1); err == nil && b[0] == 0xEF {
		if b, err := f.r.Peek(3); err == nil && b[1] == 0xBB && b[2] == 0xBF {
			_, _ = f.r.Discard(3) // just peeked
		}
	}
	for {
		b, err := f.r.ReadByte()
		switch {
		case err != nil:
			return err
		case b == ' ' || b == '\t' || b == '\r' || b == '\n':
			continue
		}
		_ = f.r.UnreadByte() // just read
		if f.framing == Auto {
			f.framing = LSP
			if b == '{' || b == '[' {
				f.framing = NDJSON
			}
		}
		return nil
	}
}

// next gives the bytes of the next message, which belong to the caller. The
// error is an *Error if the message could not be read and the next one can, a
// *lostError if it cannot, and else io.EOF or what the input gave.
func (f *frames) next() ([]byte, error) {
	if f.framing == NDJSON {
		return f.line()
	}
	length, refused, err := f.header()
	switch {
	case err != nil:
		return nil, err
	case refused == nil && length > f.max:
		refused = tooLarge(length, f.max)
	}
	if refused != nil {
		return nil, &skipError{refused, length}
	}
	return f.body(length)
}

// skipError is an answer that is due before n bytes of body are skipped, so
// that a client that waits for it before it goes on is not kept waiting.
type skipError struct {
	answer *Error
	n      int64
}

func (e *skipError) Error() string { return e.answer.Message }

func tooLarge(n, limit int64) *Error {
	return errorf(CodeParse, "message of %d bytes, more than the limit of %d", n, limit)
}

// skip reads over n bytes.
func (f *frames) skip(n int64) error {
	for n > 0 {
		k, err := f.r.Discard(int(min(n, 1<<20)))
		n -= int64(k)
		if err != nil {
			return inside(err, "a message that was skipped, %d bytes before its end", n)
		}
	}
	return nil
}

// inside makes the end of input an error where it must not be.
func inside(err error, format string, args ...any) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return lost("ended inside "+format+": %w", append(args, io.ErrUnexpectedEOF)...)
	}
	return err
}

// header reads one header block. refused tells why the body, which has the
// given length, is not to be read.
func (f *frames) header() (length int64, refused *Error, err error) {
	length = -1
	for total, lines := 0, 0; ; {
		// Something that cannot be a header may have no line end at all, and
		// waiting for one would be forever.
		if b, err := f.r.Peek(1); err == nil && (b[0] == '{' || b[0] == '[') {
			return 0, nil, lost("message without Content-Length header")
		}
		line, err := f.headerLine()
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0 && lines == 0:
			return 0, nil, io.EOF
		case err != nil:
			return 0, nil, inside(err, "a header")
		}
		if total += len(line); total > maxHeaderBlock {
			return 0, nil, lost("header block longer than %d bytes", maxHeaderBlock)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if lines == 0 {
				total = 0
				continue // blank lines between messages
			}
			break
		}
		lines++
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !isToken(name) {
			return 0, nil, lost("a line of %d bytes is no header", len(line)) // maybe a piece of a message: not shown
		}
		value = bytes.Trim(value, " \t")
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			n, ok := parseLength(value)
			if !ok {
				return 0, nil, lost("Content-Length %s is no length", shorten(value))
			}
			if length >= 0 && length != n {
				return 0, nil, lost("two Content-Length headers, %d and %d", length, n)
			}
			length = n
		case bytes.EqualFold(name, []byte("Content-Type")):
			if cs := charset(string(value)); cs != "" && cs != "utf-8" && cs != "utf8" {
				refused = errorf(CodeParse, "charset %s of Content-Type is not utf-8", shorten([]byte(cs)))
			}
		}
	}
	if length < 0 {
		return 0, nil, lost("header block without Content-Length")
	}
	return length, refused, nil
}

// headerLine reads one line with its end, at most maxHeaderLine bytes. It is
// valid until the next call.
func (f *frames) headerLine() ([]byte, error) {
	line := f.head[:0]
	defer func() { f.head = line[:0] }()
	for {
		b, err := f.r.ReadByte()
		if err != nil {
			return line, err
		}
		line = append(line, b)
		if b == '\n' {
			return line, nil
		}
		if len(line) > maxHeaderLine {
			return line, lost("header line longer than %d bytes", maxHeaderLine)
		}
	}
}

// isToken reports whether b is a header name (RFC 9110, section 5.6.2).
func isToken(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c >= 0x7F || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return len(b) > 0
}

// parseLength takes decimal digits only: no sign, no 0x, no underscore.
func parseLength(b []byte) (int64, bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}

// charset gives the lower-case charset parameter of a Content-Type.
func charset(contentType string) string {
	_, params, _ := strings.Cut(strings.ToLower(contentType), ";")
	for p := range strings.SplitSeq(params, ";") {
		if name, value, ok := strings.Cut(p, "="); ok && strings.TrimSpace(name) == "charset" {
			return strings.Trim(value, ` "`)
		}
	}
	return ""
}

// shorten quotes at most 40 bytes of what the client sent.
func shorten(b []byte) string {
	const limit = 40
	if len(b) > limit {
		return strconv.QuoteToASCII(string(b[:limit])) + "..."
	}
	return strconv.QuoteToASCII(string(b))
}

// body reads n bytes. Memory follows the bytes that arrive, not n.
func (f *frames) body(n int64) ([]byte, error) {
	buf := make([]byte, min(n, readBuffer))
	for have := 0; ; {
		k, err := io.ReadFull(f.r, buf[have:])
		have += k
		if err != nil {
			return nil, inside(err, "a message, after %d of %d bytes", have, n)
		}
		if int64(have) == n {
			return buf, nil
		}
		grown := make([]byte, min(n, 2*int64(len(buf))))
		copy(grown, buf)
		buf = grown
	}
}

// line reads the next line that is not blank. The last one needs no line end.
func (f *frames) line() ([]byte, error) {
	for {
		var long []byte
		var size int64
		var end error
		for {
			piece, err := f.r.ReadSlice('\n')
			size += int64(len(piece))
			if err == nil && long == nil && size <= f.max {
				long = bytes.Clone(bytes.TrimSpace(piece))
				break
			}
			if size <= f.max {
				long = append(long, piece...)
			} else {
				long = nil
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				end = err
				break
			}
		}
		if size > f.max {
			return nil, tooLarge(size, f.max)
		}
		if long = bytes.TrimSpace(long); len(long) > 0 {
			return long, nil
		}
		if end != nil {
			return nil, end
		}
	}
}
