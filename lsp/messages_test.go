package lsp

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/lsp/rpc"
	"github.com/agent-ls/agent-ls/lsp/wire"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/format"
)

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// encodesAlike compares what is handed on as it stands in the log with what
// decoding and encoding it gives.
func encodesAlike(t fataler, f session.Format, native string, log []byte, limit int) int {
	t.Helper()
	src := bytes.NewReader(log)
	tr, _, err := session.Read(f, native, src, session.ReadOptions{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	p := session.NewPlan(f, src, tr, tr.Current())
	fast, err := encodeMessages(context.Background(), p, limit)
	if err != nil {
		t.Fatalf("%v", err)
	}
	slow := []wire.Message{}
	var spilled []string
	for m, err := range session.Messages(f, src, tr, tr.Current()) {
		if err != nil {
			t.Fatalf("%v", err)
		}
		slow = append(slow, wire.Message{
			Role: m.Role.String(), Content: blocks(m.Blocks, limit), Model: m.Model, Usage: usage(m.Usage),
			Timestamp: timeText(m.Time), EntryIDs: m.Entries,
		})
		for _, b := range m.Blocks {
			if r, ok := b.(session.ToolResult); ok && r.Spilled != "" {
				spilled = append(spilled, r.Spilled)
			}
		}
	}
	raw, err := rpc.Encode(slow)
	if err != nil {
		t.Fatalf("%v", err)
	}
	got := jsontext.Value(string(fast.json) + "]}")
	want := jsontext.Value(`{"messages":` + string(raw) + "}")
	for _, v := range []*jsontext.Value{&got, &want} {
		// Strict: no bad UTF-8 and no name twice, but for the arguments of a call.
		if err := v.Canonicalize(jsontext.AllowDuplicateNames(true)); err != nil {
			t.Fatalf("%s: %v in %.2000s", native, err, *v)
		}
	}
	if string(got) != string(want) {
		t.Fatalf("%s with limit %d:\n got %.3000s\nwant %.3000s", native, limit, got, want)
	}
	if strings.Join(spilled, "|") != strings.Join(fast.spilled, "|") {
		t.Fatalf("%s: spilled %v, want %v", native, fast.spilled, spilled)
	}
	return len(slow)
}

func TestEncodeMessages_samples(t *testing.T) {
	n := 0
	for _, f := range format.All() {
		err := filepath.WalkDir(filepath.Join("..", "testdata", f.Name()), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".jsonl" {
				return err
			}
			log, err := os.ReadFile(path)
			for _, limit := range []int{defaultMaxBlock, 40, 5} {
				n += encodesAlike(t, f, strings.TrimSuffix(filepath.Base(path), ".jsonl"), log, limit)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 500 {
		t.Errorf("only %d messages", n)
	}
}

// Hostile text in every place where a text can stand.
func TestEncodeMessages_hostile(t *testing.T) {
	f := named(t, "claude")
	text := rapid.SliceOfN(rapid.SampledFrom([]string{
		"a", " ", "word ", `\n`, `\"`, `\\`, `\/`, `\u001b[2J`, `\ud83d\ude42`, `\ud83d`, `\udc00`, "\xff", "é", "漢", "🙂", `\u202e`, `<script>`, `\u0000`,
	}), 0, 40)
	rapid.Check(t, func(t *rapid.T) {
		s := func() string { return strings.Join(text.Draw(t, "text"), "") }
		var b strings.Builder
		say := func(id, parent, typ, content string) {
			b.WriteString(`{"uuid":"` + id + `","parentUuid":` + parent + `,"type":"` + typ + `","timestamp":"2026-08-28T14:20:30.000Z","message":{"role":"` + typ + `","id":"m","model":"` + s() + `",` +
				`"usage":{"input_tokens":1,"output_tokens":2},"content":` + content + `},"toolUseResult":{"persistedOutputPath":"/tmp/x"}}` + "\n")
		}
		call := rapid.SampledFrom([]string{"t1", `t\u0031`, `t"1`}).Draw(t, "id")
		call = strings.ReplaceAll(call, `"`, `\"`)
		say("1", "null", "user", `"`+s()+`"`)
		say("2", `"1"`, "assistant", `[{"type":"text","text":"`+s()+`"},{"type":"thinking","thinking":"`+s()+`"},{"type":"tool_use","id":"`+call+`","name":"Read","input":{"file_path":"/a/`+s()+`","offset":3, "a":{"`+s()+`":1}}}]`)
		say("3", `"2"`, "user", `[{"type":"tool_result","tool_use_id":"`+call+`","is_error":true,"content":[{"type":"text","text":"`+s()+`"},{"type":"image","source":{"media_type":"image/png","data":"`+s()+`"}},{"type":"odd","x":"`+s()+`"}, null]}]`)
		say("4", `"3"`, "assistant", `[{"type":"text","text":""},{"type":"redacted_thinking","data":"x"},7]`)
		encodesAlike(t, f, "s", []byte(b.String()), rapid.SampledFrom([]int{1, 7, 100, defaultMaxBlock}).Draw(t, "limit"))
	})
}

func named(t *testing.T, name string) session.Format {
	t.Helper()
	for _, f := range format.All() {
		if f.Name() == name {
			return f
		}
	}
	t.Fatalf("no format %s", name)
	return nil
}
