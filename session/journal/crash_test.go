package journal

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/session/vfs/errorfs"
)

// diskWith is a file system on which the transcript holds exactly text.
func diskWith(tb rapid.TB, text []byte) *errorfs.Mem {
	m := errorfs.NewMem(1)
	if err := m.MkdirAll(scriptDir, 0o700); err != nil {
		tb.Fatal(err)
	}
	h, err := m.Create(scriptPath, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := h.WriteOnce(text); err != nil {
		tb.Fatal(err)
	}
	return m
}

func textOn(tb rapid.TB, m *errorfs.Mem) []byte {
	h, err := m.Open(scriptPath)
	if err != nil {
		tb.Fatal(err)
	}
	i, err := h.Stat()
	if err != nil {
		tb.Fatal(err)
	}
	b := make([]byte, i.Size)
	if n, err := h.ReadAt(b, 0); n < len(b) {
		tb.Fatal(err)
	}
	return b
}

// After a crash at any byte of a batch, the next append leaves the old lines,
// those of the batch that were whole, at most one fragment, and its own.
func FuzzCrashThenAppend(f *testing.F) {
	f.Add([]byte("{\"old\":1}\n"), []byte("{\"a\":1}\n{\"b\":2}\n"), uint16(11))
	f.Add([]byte(""), []byte("{\"a\":\"\xff\"}\n"), uint16(3))
	f.Add([]byte("{\"torn"), []byte("{\"a\":1}\n"), uint16(0))
	f.Add([]byte("\n\n"), []byte("\n"), uint16(1))
	f.Fuzz(func(t *testing.T, old, batch []byte, cut uint16) {
		if !bytes.HasSuffix(batch, []byte{'\n'}) {
			t.Skip("no complete lines")
		}
		j := New(diskWith(t, old), wallClock{})
		before := j.fs.(*errorfs.Mem)
		if _, err := j.Append(context.Background(), scriptPath, Request{Lines: batch}); err != nil {
			t.Fatal(err)
		}
		whole := textOn(t, before)
		if !bytes.HasPrefix(whole, old) {
			t.Fatalf("old bytes were changed: %q", whole)
		}
		at := len(old) + int(cut)%(len(whole)-len(old)+1)

		disk := diskWith(t, whole[:at])
		next := []byte("{\"next\":1}\n")
		r, err := New(disk, wallClock{}).Append(context.Background(), scriptPath, Request{Lines: next})
		if err != nil {
			t.Fatal(err)
		}
		got := textOn(t, disk)
		torn := at > 0 && whole[at-1] != '\n'
		want := bytes.Clone(whole[:at])
		if torn {
			want = append(want, '\n')
		}
		if r.Closed != torn || r.Offset != int64(len(want)) {
			t.Errorf("%+v, want closed %v at %d", r, torn, len(want))
		}
		if want = append(want, next...); !bytes.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// Whatever fails, in whatever order: what was acknowledged is in the file,
// whole, in order and once, also after a crash that keeps any part of the
// rest; and what was refused without doubt is not there.
func TestAppend_law(t *testing.T) {
	kinds := []errorfs.Kind{
		errorfs.Lock, errorfs.Append, errorfs.Create, errorfs.Stat, errorfs.Read, errorfs.Write,
		errorfs.Sync, errorfs.Truncate, errorfs.SyncDir, errorfs.Unlock, errorfs.Close,
	}
	rapid.Check(t, func(t *rapid.T) {
		mem := errorfs.NewMem(1)
		if err := mem.MkdirAll(scriptDir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := mem.SyncDir("/"); err != nil {
			t.Fatal(err)
		}
		fsys := errorfs.New(mem, "/")
		j := New(fsys, wallClock{})
		var acked, refused []string
		for i := range rapid.IntRange(1, 12).Draw(t, "appends") {
			fsys.Clear()
			if rapid.Bool().Draw(t, "fails") {
				fsys.Add(errorfs.Rule{
					Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Err: errShort,
					Nth: rapid.IntRange(1, 4).Draw(t, "nth"), Short: rapid.IntRange(0, 20).Draw(t, "short"),
				})
			}
			var lines []string
			var group []*Pending
			for k := range rapid.IntRange(1, 3).Draw(t, "group") {
				line := fmt.Sprintf("{\"i\":%d,\"k\":%d,\"pad\":%q}\n", i, k, strings.Repeat("x", rapid.IntRange(0, 9).Draw(t, "pad")))
				p, err := j.Enqueue(scriptPath, Request{Lines: []byte(line), Create: true})
				if err != nil {
					t.Fatal(err)
				}
				lines, group = append(lines, line), append(group, p)
			}
			for k, p := range group {
				r, err := p.Wait(context.Background())
				if err != nil {
					if s, ok := err.(*StorageError); !ok || !s.Unknown {
						refused = append(refused, lines[k])
					}
					continue
				}
				if got := textOn(t, mem)[r.Offset : r.Offset+int64(r.Length)]; string(got) != lines[k] {
					t.Fatalf("the receipt says %q, the file %q", lines[k], got)
				}
				acked = append(acked, lines[k])
			}
			if rapid.IntRange(0, 3).Draw(t, "crash") == 0 {
				keep := rapid.IntRange(0, 40).Draw(t, "keep")
				mem = mem.Crash(func(string, int) int { return keep })
				fsys = errorfs.New(mem, "/")
				j = New(fsys, wallClock{})
			}
		}
		mem = mem.Crash(nil)
		if len(acked) == 0 {
			return
		}
		text := string(textOn(t, mem))
		rest := text
		for _, line := range acked {
			before, after, ok := strings.Cut(rest, line)
			if !ok || before != "" && before[len(before)-1] != '\n' {
				t.Fatalf("acknowledged, but not in its place: %q in %q", line, text)
			}
			rest = after
		}
		for _, line := range refused {
			if strings.Contains(text, line) && !strings.Contains(strings.Join(acked, ""), line) {
				t.Fatalf("refused, but there: %q in %q", line, text)
			}
		}
	})
}
