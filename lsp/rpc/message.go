package rpc

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxBatch bounds what one input can ask for: "1," is two bytes and its
	// answer a hundred.
	maxBatch = 1000
	// maxID bounds what is echoed and kept for a request.
	maxID = 1024
	// maxMethod bounds what error texts repeat.
	maxMethod = 256
)

// message is one JSON-RPC message. Its slices are parts of the frame.
type message struct {
	method string
	id     []byte // raw, nil if absent or null
	params []byte // nil if absent or null
	result []byte // of a response
	fault  []byte // the error member of a response

	place      int // among the answers to a batch
	isResponse bool
	invalid    *Error // why it is none of call, notification, response
}

// ignored tells that m is a notification with unusable params: those are never
// answered.
func (m *message) ignored() bool {
	return m.invalid != nil && m.invalid.Code == CodeInvalidParams && m.id == nil
}

// answered tells whether m gets an answer.
func (m *message) answered() bool {
	return !m.isResponse && !m.ignored() && (m.id != nil || m.invalid != nil)
}

// A parser splits frames into messages. It is checked there that all of the
// frame is JSON: jsonrpc2 looks at the envelope only.
type parser struct {
	dec jsontext.Decoder
	buf bytes.Buffer
}

var parsing = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

func (p *parser) reset(frame []byte) {
	p.buf = *bytes.NewBuffer(frame)
	p.dec.Reset(&p.buf, parsing...)
}

// parse gives the messages of a frame. The error is the answer if it cannot be
// split into messages.
func (p *parser) parse(frame []byte) (msgs []message, batch bool, fault *Error) {
	p.reset(frame)
	defer p.reset(nil) // keeps no frame
	switch p.dec.PeekKind() {
	case '{':
		m, err := p.message(frame)
		if err == nil {
			err = p.end()
		}
		if err != nil {
			return nil, false, notJSON(err)
		}
		return []message{m}, false, nil
	case '[':
		values, count, err := p.elements(frame)
		switch {
		case err != nil:
			return nil, true, notJSON(err)
		case count == 0:
			return nil, true, errorf(CodeInvalidRequest, "empty batch")
		case count > maxBatch:
			return nil, true, errorf(CodeInvalidRequest, "batch of %d messages, more than the limit of %d", count, maxBatch)
		}
		for _, v := range values {
			m := message{invalid: errorf(CodeInvalidRequest, "member of a batch is not an object")}
			if v[0] == '{' {
				p.reset(v)
				if m, err = p.message(v); err != nil {
					m = message{invalid: notJSON(err)}
				}
			}
			msgs = append(msgs, m)
		}
		return msgs, true, nil
	}
	if _, err := p.dec.ReadValue(); err != nil {
		return nil, false, notJSON(err)
	}
	if err := p.end(); err != nil {
		return nil, false, notJSON(err)
	}
	return nil, false, errorf(CodeInvalidRequest, "message is neither an object nor an array")
}

var errTrailing = errors.New("bytes behind the value")

// end tells whether anything but white space follows.
func (p *parser) end() error {
	if _, err := p.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	return nil
}

func notJSON(err error) *Error {
	text := strings.TrimPrefix(err.Error(), "jsontext: ")
	if errors.Is(err, io.EOF) {
		text = "it is empty"
	}
	return errorf(CodeParse, "message is not JSON: %s", text)
}

// elements gives the members of the array in frame, at most maxBatch of them.
func (p *parser) elements(frame []byte) (values [][]byte, count int, err error) {
	if _, err := p.dec.ReadToken(); err != nil {
		return nil, 0, err
	}
	for p.dec.PeekKind() != ']' {
		v, err := p.value(frame)
		if err != nil {
			return nil, 0, err
		}
		if count++; count <= maxBatch {
			values = append(values, v)
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return nil, 0, err
	}
	return values, count, p.end()
}

// value reads one value and gives it as a part of frame.
func (p *parser) value(frame []byte) ([]byte, error) {
	v, err := p.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	end := p.dec.InputOffset()
	return frame[end-int64(len(v)) : end : end], nil
}

// message reads the object at the decoder. The error tells that it is no JSON.
func (p *parser) message(frame []byte) (message, error) {
	var m message
	if _, err := p.dec.ReadToken(); err != nil {
		return m, err
	}
	var version, method []byte
	var seen uint8
	var twice string
	for p.dec.PeekKind() != '}' {
		name, err := p.value(frame)
		if err != nil {
			return m, err
		}
		value, err := p.value(frame)
		if err != nil {
			return m, err
		}
		var to *[]byte
		var bit uint8
		switch unquote(name) {
		case "jsonrpc":
			to, bit = &version, 1
		case "id":
			to, bit = &m.id, 2
		case "method":
			to, bit = &method, 4
		case "params":
			to, bit = &m.params, 8
		case "result":
			to, bit = &m.result, 16
		case "error":
			to, bit = &m.fault, 32
		default:
			continue // unknown members are for later versions
		}
		if seen&bit != 0 {
			twice = unquote(name)
		}
		seen |= bit
		*to = value
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return m, err
	}
	m.check(version, method, twice)
	return m, nil
}

// check decides what m is.
func (m *message) check(version, method []byte, twice string) {
	if isNull(m.params) {
		m.params = nil
	}
	m.isResponse = method == nil && (m.result != nil || m.fault != nil)
	if m.isResponse {
		return // never answered, so nothing more to complain about
	}
	var bad *Error
	switch {
	case isNull(m.id):
		m.id = nil
	case m.id != nil:
		if bad = checkID(m.id); bad != nil {
			m.id = nil
		}
	}
	switch {
	case twice != "":
		m.id = nil // which one is meant?
		bad = errorf(CodeInvalidRequest, "member %q twice", twice)
	case bad != nil:
	case version == nil || unquote(version) != "2.0" || version[0] != '"':
		bad = errorf(CodeInvalidRequest, `member "jsonrpc" must be "2.0"`)
	case method == nil:
		bad = errorf(CodeInvalidRequest, `member "method" is missing`)
	case method[0] != '"':
		bad = errorf(CodeInvalidRequest, `member "method" must be a string`)
	case len(method) > maxMethod:
		bad = errorf(CodeInvalidRequest, "method longer than %d bytes", maxMethod)
	case m.result != nil || m.fault != nil:
		bad = errorf(CodeInvalidRequest, "both a request and a response")
	case m.params != nil && m.params[0] != '{' && m.params[0] != '[':
		bad = errorf(CodeInvalidParams, "params must be an object or an array")
		bad.Data = map[string]string{"field": "params"}
	}
	m.method = unquote(method)
	m.invalid = bad
}

func isNull(b []byte) bool { return string(b) == "null" }

// checkID takes strings and whole numbers of any size.
func checkID(id []byte) *Error {
	switch {
	case len(id) > maxID:
		return errorf(CodeInvalidRequest, "id longer than %d bytes", maxID)
	case id[0] == '"' && utf8.Valid(id):
		return nil
	case (id[0] == '-' || id[0] >= '0' && id[0] <= '9') && !bytes.ContainsAny(id, ".eE"):
		return nil
	}
	return errorf(CodeInvalidRequest, "id must be a string or a whole number")
}

// idKey is equal for ids that mean the same: "a" and "\u0061".
func idKey(id []byte) string {
	if len(id) > 0 && id[0] == '"' {
		return `"` + unquote(id)
	}
	if string(id) == "-0" {
		return "0"
	}
	return string(id)
}

// unquote gives the text of a valid JSON string, and of another value its JSON.
func unquote(b []byte) string {
	if len(b) < 2 || b[0] != '"' {
		return string(b)
	}
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b[1 : len(b)-1])
	}
	s, err := jsontext.AppendUnquote(nil, b)
	if err != nil && len(s) == 0 {
		return string(b)
	}
	return string(s)
}

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }
