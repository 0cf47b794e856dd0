package format

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/agent-ls/agent-ls/session"
)

// bigClaude makes a transcript with lines of about 1,450 bytes; with boundary
// the last compaction is 400 lines from its end.
func bigClaude(lines int, boundary bool) []byte {
	const native = "11111111-1111-4111-8111-111111111111"
	var b bytes.Buffer
	b.Grow(lines * 1500)
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog, and \\\"quotes\\\" it.\\n", 20)
	id := func(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", i) }
	env := func(i int) string {
		return fmt.Sprintf(`"uuid":"%s","timestamp":"2026-12-01T%02d:%02d:%02d.%03dZ","userType":"external","entrypoint":"cli","cwd":"/home/dev/proj","sessionId":"%s","version":"2.1.332","gitBranch":"main"}`+"\n",
			id(i), i/3600000%24, i/60000%60, i/1000%60, i%1000, native)
	}
	parent := "null"
	for i := range lines {
		if boundary && i == lines-400 {
			fmt.Fprintf(&b, `{"parentUuid":null,"logicalParentUuid":%s,"isSidechain":false,"type":"system","subtype":"compact_boundary","content":"Conversation compacted","isMeta":false,"level":"info","compactMetadata":{"trigger":"auto","preTokens":150000},`, parent)
		} else {
			switch i % 4 {
			case 0:
				fmt.Fprintf(&b, `{"parentUuid":%s,"isSidechain":false,"type":"user","message":{"role":"user","content":"question %d %s"},`, parent, i, prose[:200])
			case 1:
				fmt.Fprintf(&b, `{"parentUuid":%s,"isSidechain":false,"message":{"id":"msg_%d","type":"message","role":"assistant","model":"claude-opus-5-5","content":[{"type":"text","text":"%s"}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":12,"cache_creation_input_tokens":100,"cache_read_input_tokens":200,"output_tokens":20}},"requestId":"req_%d","type":"assistant",`, parent, i/4, prose, i/4)
			case 2:
				fmt.Fprintf(&b, `{"parentUuid":%s,"isSidechain":false,"message":{"id":"msg_%d","type":"message","role":"assistant","model":"claude-opus-5-5","content":[{"type":"tool_use","id":"toolu_%d","name":"Bash","input":{"command":"go test ./...","description":"run"}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":12,"cache_creation_input_tokens":100,"cache_read_input_tokens":200,"output_tokens":20}},"requestId":"req_%d","type":"assistant",`, parent, i/4, i/4, i/4)
			case 3:
				fmt.Fprintf(&b, `{"parentUuid":%s,"isSidechain":false,"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_%d","type":"tool_result","content":"%s"}]},"toolUseResult":{"stdout":"%s","stderr":"","interrupted":false},"sourceToolAssistantUUID":%s,`, parent, i/4, prose, prose[:800], parent)
			}
		}
		b.WriteString(env(i))
		parent = `"` + id(i) + `"`
	}
	return b.Bytes()
}

// BenchmarkClaude_resume compares reading 80,000 lines (118 MB) for resuming
// with the floor of looking at every byte once, in the same run.
func BenchmarkClaude_resume(b *testing.B) {
	for _, boundary := range []bool{false, true} {
		data := bigClaude(80_000, boundary)
		var f claude
		name := fmt.Sprintf("boundary=%v/", boundary)
		b.Run(name+"floor", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			buf := make([]byte, 1<<20)
			for b.Loop() {
				r := bytes.NewReader(data)
				for {
					n, err := r.Read(buf)
					if err == io.EOF {
						break
					}
					if bytes.Count(buf[:n], []byte("\n")) == 0 {
						b.Fatal("no lines")
					}
				}
			}
		})
		b.Run(name+"replay", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				tr, _, err := session.Read(f, "11111111-1111-4111-8111-111111111111", bytes.NewReader(data), session.ReadOptions{})
				if err != nil || len(tr.Current().Chain) < 300 {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"messages", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			src := bytes.NewReader(data)
			tr, _, err := session.Read(f, "11111111-1111-4111-8111-111111111111", src, session.ReadOptions{})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				n := 0
				for _, err := range session.Messages(f, src, tr, tr.Current()) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n < 200 {
					b.Fatal(n)
				}
			}
		})
		if !boundary {
			continue
		}
		b.Run(name+"from-the-end", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			// A pin is behind the boundary, as the agent writes one each turn.
			data := append(data[:len(data):len(data)], `{"type":"last-prompt","leafUuid":"`+claudeNoPin+`","explicit":true}`+"\n"...)
			src := bytes.NewReader(data)
			for b.Loop() {
				off, ok := f.Tail(src, int64(len(data)))
				if !ok {
					b.Fatal("not offered")
				}
				tr, _, err := session.Read(f, claudeID, src, session.ReadOptions{From: off})
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				for _, err := range session.Messages(f, src, tr, tr.Current()) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n < 200 {
					b.Fatal(n)
				}
			}
		})
	}
}
