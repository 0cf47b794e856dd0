package format

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// FuzzTrees feeds any bytes to the formats whose entries form a tree: nothing
// panics, every effect tells the truth, lines that come one at a time give
// what reading all of them gives, and every message can be read.
func FuzzTrees(f *testing.F) {
	for _, data := range seedLogs(f) {
		f.Add(data)
	}
	f.Add([]byte(miniLog("u1 00 one", "a1<u1 01 hi", "u2<gone 02 two", "u1<u1 03 again")))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 16<<10 {
			t.Skip("long inputs find nothing more and take long")
		}
		for _, format := range []session.Format{claude{}, miniAgent{}} {
			tr := checkLive(t, format, data)
			for i := range tr.Entries() {
				e := &tr.Entries()[i]
				if e.Pos.Offset < 0 || e.Pos.End() > int64(len(data)) {
					t.Fatalf("%s: entry %d stands at %+v of %d bytes", format.Name(), i, e.Pos, len(data))
				}
			}
			for m, err := range session.Messages(format, bytes.NewReader(data), tr, tr.Current()) {
				if err != nil || len(m.Entries) == 0 {
					t.Fatalf("%s: %+v, %v", format.Name(), m, err)
				}
			}
		}
	})
}

// checkLive reads a transcript line by line, as the live tail does, and at
// once, and compares.
func checkLive(t failer, format session.Format, data []byte) *session.Transcript {
	t.Helper()
	opt := jsonl.Options{Window: 512, MaxLine: 32 << 10}
	l := session.NewLoader(format, claudeID)
	r := jsonl.NewReader(bytes.NewReader(data), 0, 1, opt)
	var before []int
	for line := range r.Lines() {
		effect := l.Add(line)
		after := l.Transcript().Current().Chain
		if truth := effectOf(before, after); effect < truth || effect != session.Rebuilt && effect != truth {
			t.Fatal(format.Name(), "line", line.Num, "effect", effect, "truth", truth, before, "became", after)
		}
		before = after
	}
	tr, _, err := session.Read(format, claudeID, bytes.NewReader(data), session.ReadOptions{Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	live := l.Transcript()
	if n := live.Len(); n <= tr.Len() && n > 0 {
		if diff := cmp.Diff(tr.Entries()[:n], live.Entries()); diff != "" {
			t.Fatal(format.Name(), diff)
		}
	}
	return tr
}

// Transcripts written as the agent does, with the damage of the wild, are the
// same read live, at once, and cut at any byte and read on; and the effects of
// their lines tell the truth.
func TestClaude_liveLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &logGen{t: t}
		data := g.write(rapid.IntRange(0, 16).Draw(t, "steps"))
		for range rapid.IntRange(0, 2).Draw(t, "damage") {
			if len(data) == 0 {
				break
			}
			at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
			switch rapid.IntRange(0, 3).Draw(t, "how") {
			case 0:
				data = data[:at]
			case 1:
				data = slices.Concat(data[:at], make([]byte, 8), data[at:])
			case 2:
				data = slices.Concat(data[:at], data[min(len(data), at+7):])
			case 3:
				data = slices.Concat(data, data[at:])
			}
		}
		checkLive(t, claude{}, data)
	})
}

// effectOf tells how one chain became another. An entry that moved within the
// file because its id came again is another entry.
func effectOf(before, after []int) session.Effect {
	if len(after) < len(before) {
		return session.Rebuilt
	}
	for k, i := range before {
		if after[k] != i {
			return session.Rebuilt
		}
	}
	if len(after) > len(before) {
		return session.Extended
	}
	return session.Recorded
}

// seedLogs gives the small transcripts that we have.
func seedLogs(t testing.TB) [][]byte {
	t.Helper()
	var out [][]byte
	for _, c := range loadClaudeCases(t) {
		store, p := claudeCaseStore(t, c.Case)
		if data := store[p].Data; len(data) < 8<<10 {
			out = append(out, data)
		}
	}
	return out
}
