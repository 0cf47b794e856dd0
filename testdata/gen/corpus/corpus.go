// Package corpus makes stores of realistic sessions for benchmarks and tests:
// the envelopes that the agents write, long lines, escapes, CJK and emoji,
// parallel tool calls, bookkeeping, compaction. The same seed gives the same
// bytes. It knows how stores look, and no reader of them.
package corpus

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Transcript says what one transcript is like.
type Transcript struct {
	Seed  uint64
	Lines int // about
	Bytes int // about; 0 means about 1,400 a line
	// Boundary is how many lines from the end the last compaction stands; 0
	// means none.
	Boundary int
	CWD      string
	ID       string
}

// start is when the first session began.
var start = time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)

// One word in oddEach is of the second kind.
var (
	words = strings.Fields(`the index of orders is read twice because cache key changes on each request so we move it out of the loop and add a test
tab	here more return nil, err func main() { }`)
	oddWords = strings.Fields(`für Größe naïve 漢字 かな 한글 переменная 🙂 "quoted" C:\path\file <tag> & fmt.Println("x")`)
)

const oddEach = 12

// prose is about n bytes of text.
func prose(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		from := words
		if r.IntN(oddEach) == 0 {
			from = oddWords
		}
		b.WriteString(from[r.IntN(len(from))])
		if r.IntN(12) == 0 {
			b.WriteByte('\n')
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func uuid(r *rand.Rand) string {
	a, b := r.Uint64(), r.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff)
}

// claude writes one transcript.
type claude struct {
	w      *bufio.Writer
	r      *rand.Rand
	t      Transcript
	n      int
	scale  float64
	parent string
	now    time.Time
	err    error
	line   bytes.Buffer
}

// Claude writes a transcript of Claude Code to w.
func Claude(w io.Writer, t Transcript) error {
	if t.ID == "" {
		t.ID = "11111111-1111-4111-8111-111111111111"
	}
	if t.CWD == "" {
		t.CWD = "/home/dev/proj"
	}
	c := &claude{w: bufio.NewWriterSize(w, 1<<20), r: rand.New(rand.NewPCG(t.Seed, 1)), t: t, scale: 1, now: start}
	if t.Bytes > 0 && t.Lines > 0 {
		c.scale = float64(t.Bytes) / float64(t.Lines) / 1560
	}
	c.note(map[string]any{"type": "queue-operation", "operation": "enqueue", "timestamp": c.stamp(), "sessionId": t.ID, "content": "begin"})
	for c.n < t.Lines && c.err == nil {
		if t.Boundary > 0 && c.n >= t.Lines-t.Boundary {
			c.compact()
			c.t.Boundary = 0
		}
		c.turn()
	}
	if c.err != nil {
		return c.err
	}
	return c.w.Flush()
}

func (c *claude) stamp() string {
	c.now = c.now.Add(time.Duration(c.r.IntN(9000)) * time.Millisecond)
	return c.now.Format("2006-01-02T15:04:05.000Z")
}

func (c *claude) note(v map[string]any) {
	c.line.Reset()
	e := json.NewEncoder(&c.line)
	e.SetEscapeHTML(false) // as JavaScript writes it
	err := e.Encode(v)
	if err == nil {
		_, err = c.w.Write(c.line.Bytes())
	}
	if err != nil && c.err == nil {
		c.err = err
	}
	c.n++
}

// chained writes a line with the envelope and makes it the new leaf.
func (c *claude) chained(parent string, v map[string]any) string {
	id := uuid(c.r)
	v["uuid"], v["parentUuid"] = id, nil
	if parent != "" {
		v["parentUuid"] = parent
	}
	v["timestamp"], v["sessionId"], v["cwd"], v["gitBranch"] = c.stamp(), c.t.ID, c.t.CWD, "main"
	v["version"], v["userType"], v["entrypoint"], v["isSidechain"] = "2.1.332", "external", "cli", false
	c.note(v)
	c.parent = id
	return id
}

// size is a length in bytes with a long tail, as tool results have.
func (c *claude) size(typical int) int {
	n := float64(typical) * c.scale
	switch c.r.IntN(100) {
	case 0:
		n *= 12
	case 1, 2, 3:
		n *= 4
	}
	return max(8, int(n*(0.3+0.9*c.r.Float64())))
}

func (c *claude) assistant(parent, id string, block map[string]any, stop string) string {
	return c.chained(parent, map[string]any{
		"type": "assistant", "requestId": "req_" + id,
		"message": map[string]any{
			"id": "msg_" + id, "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": []any{block},
			"stop_reason": stop, "stop_sequence": nil,
			"usage": map[string]any{"input_tokens": 12, "output_tokens": 40, "cache_read_input_tokens": 9000, "cache_creation_input_tokens": 300},
		},
	})
}

func (c *claude) user(content any, more map[string]any) {
	v := map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": content}}
	for k, x := range more {
		v[k] = x
	}
	c.chained(c.parent, v)
}

func (c *claude) turn() {
	c.user(prose(c.r, c.size(200)), map[string]any{"promptSource": "typed"})
	if c.r.IntN(3) == 0 {
		c.chained(c.parent, map[string]any{"type": "attachment", "attachment": map[string]any{"type": "session_context", "text": prose(c.r, c.size(600))}})
	}
	for range 1 + c.r.IntN(6) {
		msg := fmt.Sprintf("%016x", c.r.Uint64())
		c.assistant(c.parent, msg, map[string]any{"type": "text", "text": prose(c.r, c.size(500))}, "tool_use")
		calls := 1 + c.r.IntN(8)/6
		var owners, ids []string
		for i := range calls {
			id := fmt.Sprintf("toolu_%s%d", msg, i)
			input := map[string]any{"command": "go test ./...", "description": prose(c.r, 40)}
			name := "Bash"
			if c.r.IntN(2) == 0 {
				name, input = "Read", map[string]any{"file_path": c.t.CWD + "/src/orders.go"}
			}
			owners = append(owners, c.assistant(c.parent, msg, map[string]any{"type": "tool_use", "id": id, "name": name, "input": input}, "tool_use"))
			ids = append(ids, id)
		}
		for i, id := range ids {
			text := prose(c.r, c.size(1500))
			c.parent = owners[i]
			c.user([]any{map[string]any{"type": "tool_result", "tool_use_id": id, "content": text}}, map[string]any{
				"toolUseResult": map[string]any{"stdout": text, "stderr": "", "interrupted": false}, "sourceToolAssistantUUID": owners[i],
			})
		}
	}
	c.assistant(c.parent, fmt.Sprintf("%016x", c.r.Uint64()), map[string]any{"type": "text", "text": prose(c.r, c.size(700))}, "end_turn")
	c.note(map[string]any{"type": "last-prompt", "lastPrompt": "go on", "leafUuid": c.parent, "sessionId": c.t.ID})
	c.note(map[string]any{"type": "mode", "mode": "default", "sessionId": c.t.ID})
}

func (c *claude) compact() {
	before := c.parent
	c.chained("", map[string]any{
		"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted", "level": "info", "isMeta": false,
		"logicalParentUuid": before, "compactMetadata": map[string]any{"trigger": "auto", "preTokens": 150000},
	})
	c.user("This session is being continued. "+prose(c.r, 2000), map[string]any{"isCompactSummary": true, "isVisibleInTranscriptOnly": true})
}

// PseudoClaude writes a transcript of PseudoClaude to w; a Boundary is a replace.
func PseudoClaude(w io.Writer, t Transcript) error {
	r := rand.New(rand.NewPCG(t.Seed, 2))
	out := bufio.NewWriterSize(w, 1<<20)
	size := 1400
	if t.Bytes > 0 && t.Lines > 0 {
		size = t.Bytes / t.Lines
	}
	ts := start.Unix()
	put := func(v map[string]any) error {
		ts += int64(r.IntN(9))
		v["ts"] = ts
		b, err := json.Marshal(v)
		if err == nil {
			_, err = out.Write(append(b, '\n'))
		}
		return err
	}
	for i := 0; i < t.Lines; i++ {
		v := map[string]any{"type": "message", "role": "user", "content": prose(r, size)}
		switch {
		case t.Boundary > 0 && i == t.Lines-t.Boundary:
			v = map[string]any{"type": "replace", "reason": "compact"}
		case i%4 == 1:
			v["role"] = "assistant"
		case i%4 == 2:
			v = map[string]any{"type": "message", "role": "assistant", "tool_calls": []any{map[string]any{"ID": fmt.Sprint("c", i), "Name": "read", "Arguments": map[string]any{"path": "a.go"}}}}
		case i%4 == 3:
			v = map[string]any{"type": "message", "role": "user", "tool_result": map[string]any{"CallID": fmt.Sprint("c", i-1), "Name": "read", "Content": prose(r, 2*size), "IsError": false}}
		}
		if i == 0 {
			v["model"] = "demo-1"
		}
		if err := put(v); err != nil {
			return err
		}
	}
	return out.Flush()
}

// MiniAgent writes a transcript of mini-agent to w.
func MiniAgent(w io.Writer, t Transcript) error {
	r := rand.New(rand.NewPCG(t.Seed, 3))
	out := bufio.NewWriterSize(w, 1<<20)
	var parent any
	for i := range t.Lines {
		role := [...]string{"user", "assistant"}[i%2]
		id := uuid(r)
		b, err := json.Marshal(map[string]any{
			"type": role, "uuid": id, "parentUuid": parent, "sessionId": t.ID,
			"timestamp": start.Add(time.Duration(i) * time.Second).Format(time.RFC3339),
			"message":   map[string]any{"role": role, "content": []any{map[string]any{"type": "text", "text": prose(r, 600)}}},
		})
		if err != nil {
			return err
		}
		if _, err := out.Write(append(b, '\n')); err != nil {
			return err
		}
		parent = id
	}
	return out.Flush()
}

// Store makes a store of n sessions of kind (claude, pseudoclaude, mini-agent)
// with about size bytes in all below dir, in 20 projects; sessions differ in
// length by a factor of about fifty. Modification times are set, so that the
// order of a list does not depend on the disk.
func Store(dir, kind string, n, size int, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 4))
	total := 0.0
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = 0.02 + r.Float64()*r.Float64()
		total += weights[i]
	}
	for i := range n {
		bytes := int(float64(size) * weights[i] / total)
		t := Transcript{Seed: seed + uint64(i), Lines: max(4, bytes/1400), Bytes: bytes, CWD: fmt.Sprintf("/home/dev/project-%02d", i%20), ID: uuid(r)}
		path, write := "", Claude
		switch kind {
		case "claude":
			path = filepath.Join(dir, "projects", "-home-dev-project-"+fmt.Sprintf("%02d", i%20), t.ID+".jsonl")
		case "pseudoclaude":
			id := start.Add(time.Duration(i)*time.Minute).Format("20060102-150405") + fmt.Sprintf("-%04x", i%65536)
			path, write = filepath.Join(dir, id, "conversation.jsonl"), PseudoClaude
		case "mini-agent":
			path, write = filepath.Join(dir, t.ID+".jsonl"), MiniAgent
		default:
			return fmt.Errorf("kind %q: want claude, pseudoclaude or mini-agent", kind)
		}
		if err := File(path, func(w io.Writer) error { return write(w, t) }); err != nil {
			return err
		}
		at := start.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(path, at, at); err != nil {
			return err
		}
	}
	return nil
}

// File makes a file, and its directory.
func File(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = write(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
