package chain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/session"
)

// drawEntries makes a tree with everything that can be wrong with one.
func drawEntries(t *rapid.T) []session.Entry {
	n := rapid.IntRange(0, 24).Draw(t, "n")
	id := func(k int) string { return fmt.Sprintf("n%d", k) }
	orderly := rapid.Bool().Draw(t, "orderly")
	var out []session.Entry
	for k := range n {
		e := session.Entry{ID: id(k), Pos: session.Pos{Line: k + 1, Offset: int64(k * 10), Length: 9}}
		pick := rapid.IntRange(0, 99).Draw(t, "kind")
		parent := k - 1
		if !orderly || pick%10 == 0 {
			parent = rapid.IntRange(-1, n+1).Draw(t, "parent")
		}
		if parent >= 0 {
			e.Parent = id(parent)
		}
		if pick%13 == 0 {
			e.ID = id(rapid.IntRange(0, n).Draw(t, "id"))
		}
		e.Time = time.Unix(int64(rapid.IntRange(0, 9).Draw(t, "time")), 0)
		e.Kind = session.KindMessage
		call := fmt.Sprintf("t%d", rapid.IntRange(0, 3).Draw(t, "call"))
		switch f := Node | Turn | Shown; {
		case pick < 30:
			e.Role, e.Mark = session.User, f|Mixed
		case pick < 45:
			e.Role, e.Mark = session.Assistant, f|Mixed
			e.Group = fmt.Sprintf("m%d", rapid.IntRange(0, 2).Draw(t, "group"))
		case pick < 60:
			e.Role, e.Mark, e.ToolUses = session.Assistant, f, []string{call}
			e.Group = fmt.Sprintf("m%d", rapid.IntRange(0, 2).Draw(t, "group"))
		case pick < 72:
			e.Role, e.Mark, e.ToolResults = session.Tool, f, []string{call}
		case pick < 76:
			e.Role, e.Mark = session.User, f|Meta|Mixed
		case pick < 80:
			e.Role, e.Mark = session.User, f|Aside|Mixed
		case pick < 84:
			e.Kind, e.Mark = session.KindMeta, Node
		case pick < 87:
			e.Kind, e.Mark = session.KindMeta, Node|Link
		case pick < 89:
			e.Kind, e.Role, e.Mark = session.KindMeta, session.Assistant, f
		case pick < 91:
			e.Mark = Node | Shown
		case pick < 95:
			b := &Boundary{Flags: Node | Shown, Logical: id(k - 1)}
			if rapid.Bool().Draw(t, "root") {
				e.Parent = ""
			}
			switch rapid.IntRange(0, 2).Draw(t, "keeps") {
			case 1:
				b.Anchor, b.Head, b.Tail = id(k+1), id(max(0, k-3)), id(k-1)
			case 2:
				b.Anchor, b.Kept = id(k), []string{id(max(0, k-2)), id(k - 1)}
			}
			e.Kind, e.Mark = session.KindCompaction, b
		default:
			p := Pin{ID: id(rapid.IntRange(0, n).Draw(t, "pin")), Explicit: rapid.Bool().Draw(t, "explicit")}
			e = session.Entry{ID: fmt.Sprint(k * 10), Pos: e.Pos, Kind: session.KindMeta, Mark: p}
		}
		out = append(out, e)
	}
	return out
}

// The effect of every entry is what comparing the conversations before and
// after it shows, and every state is the one of a replay from the start.
func TestTree_effectsTellTheTruth(t *testing.T) {
	for _, rules := range []TreeRules{{Bridge: true}, {ByTime: true, AnyTip: true}, {Whole: true, Bridge: true}} {
		t.Run(fmt.Sprint(rules), rapid.MakeCheck(func(t *rapid.T) {
			entries := drawEntries(t)
			r := Tree(rules)
			var before []int
			// Some come in bulk, at the start or later.
			at, n := rapid.IntRange(0, len(entries)).Draw(t, "bulk at"), rapid.IntRange(0, 8).Draw(t, "bulk")
			for k, e := range entries {
				if k >= at && k < at+n {
					r.(session.Bulk).AddAll(entries[k:k+1], rapid.IntRange(0, 3).Draw(t, "more"))
					before = r.Transcript().Current().Chain
					continue
				}
				effect := r.Add(e)
				sameReasons(t, r.Transcript())
				fresh := Tree(rules)
				for _, e := range entries[:k+1] {
					fresh.Add(e)
				}
				after := r.Transcript().Current().Chain
				if want := fresh.Transcript().Current().Chain; !slices.Equal(after, want) {
					t.Fatalf("entry %d: chain %v, from the start %v", k, after, want)
				}
				slow, _ := resolve(rules, fresh.Transcript().Entries(), nil, "")
				if diff := cmp.Diff(slow, *r.Transcript().Current()); diff != "" {
					t.Fatalf("entry %d: with all parents looked up again:\n%s%s", k, diff, show(entries[:k+1]))
				}
				if want := compare(narrow(before), after); effect != want {
					t.Fatalf("entry %d: effect %d, truth %d: %v -> %v in\n%s", k, effect, want, before, after, show(entries[:k+1]))
				}
				before = after
			}
		}))
	}
}

// Whatever the tree, a resolution accounts for every entry exactly once.
func TestTree_resolutionAccountsForAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := drawEntries(t)
		r := Tree(TreeRules{Bridge: true})
		for _, e := range entries {
			r.Add(e)
		}
		tr := r.Transcript()
		leaves := []string{"", session.LeafNewest}
		for _, b := range tr.Current().Branches {
			leaves = append(leaves, b.Leaf)
		}
		for _, leaf := range leaves {
			res, err := tr.Resolve(leaf)
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Excluded) != len(entries) {
				t.Fatalf("%d reasons for %d entries", len(res.Excluded), len(entries))
			}
			on := map[int]bool{}
			for _, i := range res.Chain {
				if on[i] || res.Excluded[i] != session.Effective {
					t.Fatalf("entry %d twice, or excluded as %v", i, res.Excluded[i])
				}
				on[i] = true
			}
			for i, why := range res.Excluded {
				if (why == session.Effective) != on[i] {
					t.Fatalf("entry %d is %q but on chain is %v", i, why, on[i])
				}
			}
		}
	})
}

func show(entries []session.Entry) string {
	var b strings.Builder
	for i, e := range entries {
		fmt.Fprintf(&b, "%d %s<-%s %v %v %s use %v result %v mark %+v\n", i, e.ID, e.Parent, e.Role, e.Kind, e.Group, e.ToolUses, e.ToolResults, e.Mark)
	}
	return b.String()
}

// sameReasons checks that what a transcript knows of its entries is what its
// resolution says.
func sameReasons(t *rapid.T, tr *session.Transcript) {
	told := make([]session.Reason, tr.Len())
	for i := range told {
		told[i] = tr.Reason(i) // before anything was resolved
	}
	if diff := cmp.Diff(tr.Current().Excluded, told, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("reasons (- resolved, + known):\n%s%s", diff, show(tr.Entries()))
	}
}
