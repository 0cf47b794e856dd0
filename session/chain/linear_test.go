package chain

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/session"
)

// logGen makes linear logs of every kind of entry, sensible and not.
func logGen() *rapid.Generator[[]session.Entry] {
	return rapid.Custom(func(t *rapid.T) []session.Entry {
		n := rapid.IntRange(0, 40).Draw(t, "entries")
		out := make([]session.Entry, n)
		call := func(name string) string { return fmt.Sprint("c", rapid.IntRange(0, 3).Draw(t, name)) }
		group := func() string { return rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group") }
		for i := range out {
			e := session.Entry{ID: fmt.Sprint(i), Kind: session.KindMessage, Role: session.User}
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				e.Kind, e.Mark = session.KindReplace, ReplaceMark{}
			case 1:
				e.Kind, e.Mark = session.KindReplace, ReplaceMark{Group: group(), Count: rapid.IntRange(0, 3).Draw(t, "count")}
			case 2, 3:
				e.Mark = GroupMember{Group: group()}
			case 4, 5:
				e.Role, e.ToolUses = session.Assistant, []string{call("use"), call("use2")}
			case 6, 7:
				e.Role, e.ToolResults = session.Tool, []string{call("result")}
			case 8:
				e.Kind, e.Bad = session.KindUnknown, "bad"
			}
			out[i] = e
		}
		return out
	})
}

// Adding one at a time is adding all; the effect tells the truth; a snapshot
// does not change; Tally counts what the chain holds.
func TestLinear_laws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := logGen().Draw(t, "log")
		live := Linear()
		var tally Tally
		var before []int
		var snapshots []*session.Transcript
		for i := range log {
			effect := live.Add(log[i])
			tally.Add(&log[i])
			tr := live.Transcript()
			snapshots = append(snapshots, tr)
			sameReasons(t, tr)
			now := tr.Current().Chain
			switch effect {
			case session.Recorded:
				if !cmp.Equal(before, now) && len(before)+len(now) > 0 {
					t.Fatalf("entry %d recorded, but %v became %v", i, before, now)
				}
			case session.Extended:
				if len(now) <= len(before) || !cmp.Equal(append([]int{}, before...), append([]int{}, now[:len(before)]...)) {
					t.Fatalf("entry %d extended, but %v became %v", i, before, now)
				}
			}
			if tally.Count() != len(now) {
				t.Fatalf("entry %d: tally %d, chain %v", i, tally.Count(), now)
			}
			before = now
		}
		for n, tr := range snapshots {
			batch := Linear()
			for i := range log[:n+1] {
				batch.Add(log[i])
			}
			if diff := cmp.Diff(*batch.Transcript().Current(), *tr.Current()); diff != "" {
				t.Fatalf("after %d entries: %s", n+1, diff)
			}
		}
	})
}

// Every entry either counts or says why not; what counts is in the chain.
func TestLinear_reasons(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := logGen().Draw(t, "log")
		r := Linear()
		for i := range log {
			r.Add(log[i])
		}
		tr := r.Transcript()
		leaf := ""
		if len(log) > 0 && rapid.Bool().Draw(t, "other leaf") {
			leaf = log[rapid.IntRange(0, len(log)-1).Draw(t, "leaf")].ID
		}
		res, err := tr.Resolve(leaf)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Excluded) != len(log) {
			t.Fatalf("%d reasons for %d entries", len(res.Excluded), len(log))
		}
		in := map[int]bool{}
		for _, i := range res.Chain {
			in[i] = true
		}
		for i, why := range res.Excluded {
			if in[i] != (why == session.Effective) {
				t.Fatalf("entry %d: in the chain %v, reason %q", i, in[i], why)
			}
			if log[i].Kind != session.KindMessage && why != session.NotAMessage {
				t.Fatalf("entry %d is no message: %q", i, why)
			}
		}
	})
}

func TestLinear_danglingCall(t *testing.T) {
	msg := func(id string, uses, results []string) session.Entry {
		return session.Entry{ID: id, Kind: session.KindMessage, Role: session.User, ToolUses: uses, ToolResults: results}
	}
	for _, c := range []struct {
		name  string
		log   []session.Entry
		chain []int
		want  *session.Dangling
	}{
		{"answered in any order", []session.Entry{msg("a", []string{"1", "2"}, nil), msg("b", nil, []string{"2"}), msg("c", nil, []string{"1"})}, []int{0, 1, 2}, nil},
		{"one missing takes all behind it", []session.Entry{msg("q", nil, nil), msg("a", []string{"1", "2"}, nil), msg("b", nil, []string{"2"}), msg("u", nil, nil)}, []int{0}, &session.Dangling{EntryID: "a", ToolUseIDs: []string{"1"}, Dropped: 3}},
		{"only the last one with calls counts", []session.Entry{msg("a", []string{"1"}, nil), msg("b", []string{"2"}, nil), msg("c", nil, []string{"2"})}, []int{0, 1, 2}, nil},
	} {
		r := Linear()
		for _, e := range c.log {
			r.Add(e)
		}
		res := r.Transcript().Current()
		if !cmp.Equal(c.chain, res.Chain) || !cmp.Equal(c.want, res.Dangling) {
			t.Errorf("%s: chain %v dangling %+v", c.name, res.Chain, res.Dangling)
		}
	}
}
