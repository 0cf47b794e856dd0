package format

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/chain"
)

const claudeCases = "../../testdata/claude/cases"

// claudeCase is one transcript made by hand, with the answers of the agent's
// SDK and of its CLI (what it sent to the model after resuming).
type claudeCase struct {
	Case, What, SessionID string
	SDK                   struct {
		Messages   []string
		Info       *claudeCaseInfo
		Programmed bool `json:"listedWithoutProgrammatic"`
	}
	CLISent [][]string
}

type claudeCaseInfo struct {
	Summary, CustomTitle, FirstPrompt, GitBranch string
	CreatedAt                                    int64
	HasCWD                                       bool
}

func loadClaudeCases(t testing.TB) []claudeCase {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(claudeCases, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out []claudeCase
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// claudeCaseStore puts the files of a case into a store and gives the path of
// its transcript.
func claudeCaseStore(t testing.TB, name string) (fstest.MapFS, string) {
	t.Helper()
	dir := filepath.Join(claudeCases, name)
	store := fstest.MapFS{}
	transcript := ""
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if strings.HasSuffix(p, ".gz") {
			z, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil {
				return err
			}
			if b, err = io.ReadAll(z); err != nil {
				return err
			}
			p = strings.TrimSuffix(p, ".gz")
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		at := "projects/-home-dev-hand/" + filepath.ToSlash(rel)
		store[at] = &fstest.MapFile{Data: b}
		if strings.Count(rel, string(filepath.Separator)) == 0 {
			transcript = at
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return store, transcript
}

// caseName gives the name that the makers of a case gave a line: the last
// digits of its uuid are the name in ASCII.
func caseName(uuid string) string {
	b, err := hex.DecodeString(uuid[max(0, len(uuid)-12):])
	if err != nil {
		return uuid
	}
	return string(bytes.TrimLeft(b, "\x00"))
}

// sdkView is what the SDK shows of our conversation: no words of the program,
// but also calls and results without their other half.
func sdkView(tr *session.Transcript) []string {
	out := []string{}
	for _, i := range chainWithDangling(tr.Current()) {
		e := &tr.Entries()[i]
		if f, _ := e.Mark.(chain.Flags); f.Has(chain.Turn) && !f.Has(chain.Meta) {
			out = append(out, caseName(e.ID))
		}
	}
	return out
}

// chainWithDangling is the chain with the calls and results that were left
// out for want of their other half, in file order among themselves.
func chainWithDangling(r *session.Resolution) []int {
	out := slices.Clone(r.Chain)
	for i, why := range r.Excluded {
		if why != session.DanglingToolCall {
			continue
		}
		at := slices.IndexFunc(out, func(j int) bool { return j > i })
		if at < 0 {
			at = len(out)
		}
		out = slices.Insert(out, at, i)
	}
	return out
}

// cut40 is how the cases cut texts.
func cut40(s string) string {
	u := utf16.Encode([]rune(s))
	return string(utf16.Decode(u[:min(40, len(u))]))
}

// sentView is our conversation as the cases write what the CLI sent:
// neighbours of one role are one message.
func sentView(t testing.TB, f session.Format, src io.ReaderAt, tr *session.Transcript) [][]string {
	t.Helper()
	return sentBy(t, f, src, tr, tr.Current())
}

// sentBy is sentView for another leaf.
func sentBy(t testing.TB, f session.Format, src io.ReaderAt, tr *session.Transcript, r *session.Resolution) [][]string {
	t.Helper()
	out := [][]string{}
	for m, err := range session.Messages(f, src, tr, r) {
		if err != nil {
			t.Fatal(err)
		}
		msg := []string{"user"}
		if m.Role == session.Assistant {
			msg[0] = "assistant"
		}
		for _, b := range m.Blocks {
			switch b := b.(type) {
			case session.Text:
				msg = append(msg, cut40(b.Text))
			case session.ToolUse:
				msg = append(msg, "tool_use:"+b.ID)
			case session.ToolResult:
				msg = append(msg, "tool_result:"+b.UseID)
			case session.Image:
				msg = append(msg, "image")
			default:
				msg = append(msg, fmt.Sprintf("%T", b))
			}
		}
		out = appendSent(out, msg)
	}
	return out
}

func appendSent(out [][]string, msg []string) [][]string {
	if n := len(out); n > 0 && out[n-1][0] == msg[0] {
		out[n-1] = append(out[n-1], msg[1:]...)
		return out
	}
	return append(out, msg)
}

// withoutRepairs takes out of what the CLI sent what it made up, which we
// never do: the probe, an answer to an unanswered user, results of calls that
// have none (with the calls).
func withoutRepairs(sent [][]string, dangling *session.Dangling) [][]string {
	out := [][]string{}
	made := map[string]bool{}
	if dangling != nil {
		for _, id := range dangling.ToolUseIDs {
			made["tool_use:"+id], made["tool_result:"+id] = true, true
		}
	}
	for i, m := range sent {
		var keep []string
		for j, s := range m {
			probe := i == len(sent)-1 && j == len(m)-1
			if probe || made[s] || (m[0] == "assistant" && s == "No response requested.") {
				continue
			}
			keep = append(keep, s)
		}
		if len(keep) > 1 {
			out = appendSent(out, keep)
		}
	}
	return out
}

// Every case gives what the agent's readers give; where one of them is not
// followed, docs/formats/claude.md says why, and says nothing else.
func TestClaude_cases(t *testing.T) {
	want := documentedDeviations(t)
	got := map[string]string{}
	var f claude
	for _, c := range loadClaudeCases(t) {
		store, p := claudeCaseStore(t, c.Case)
		native, ok := f.Identify(p)
		if !ok {
			t.Errorf("%s: %s is no transcript", c.Case, p)
			continue
		}
		data := store[p].Data
		tr, _, err := session.Read(f, native, bytes.NewReader(data), session.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		deviates := func(from, diff string) {
			if diff == "" {
				return
			}
			key := c.Case + " " + from
			got[key] = diff
			if want[key] == "" {
				t.Errorf("%s (%s) differs from %s (-want +ours):\n%s", c.Case, c.What, from, diff)
			}
		}
		deviates("sdk messages", cmp.Diff(c.SDK.Messages, sdkView(tr)))
		if c.CLISent != nil {
			deviates("cli", cmp.Diff(withoutRepairs(c.CLISent, tr.Current().Dangling), sentView(t, f, bytes.NewReader(data), tr)))
		}
		row, err := f.Summarize(session.Root{Dir: "/store", FS: store}, p, session.Session{})
		var info *claudeCaseInfo
		if err == nil {
			info = &claudeCaseInfo{
				Summary: row.Title, FirstPrompt: row.FirstPrompt, GitBranch: row.GitBranch, HasCWD: row.CWD != "",
			}
			if row.TitleSource == session.TitleUser || row.TitleSource == session.TitleAgent && row.Title != c.SDK.Info.summaryOnly() {
				info.CustomTitle = row.Title
			}
			if !row.CreatedAt.IsZero() {
				info.CreatedAt = row.CreatedAt.UnixMilli()
			}
		} else if !errors.Is(err, session.ErrNotFound) {
			t.Errorf("%s: %v", c.Case, err)
		}
		if c.SDK.Info != nil && c.SDK.Info.GitBranch == "" && c.SDK.Info.CreatedAt == 0 {
			c.SDK.Info.HasCWD = false // the SDK then tells its own directory
		}
		deviates("sdk info", cmp.Diff(c.SDK.Info, info))
		listed := err == nil && !row.Programmatic
		if listed != c.SDK.Programmed {
			deviates("sdk list", fmt.Sprintf("listed without programmatic ones: %v, ours %v", c.SDK.Programmed, listed))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] == "" {
			t.Errorf("docs/formats/claude.md lists the deviation %q, which is none", key)
		}
	}
}

// summaryOnly is the title of a session that has only an old summary line.
func (i *claudeCaseInfo) summaryOnly() string {
	if i == nil || i.CustomTitle != "" {
		return ""
	}
	return i.Summary
}

// documentedDeviations reads the table of docs/formats/claude.md: case and
// reader to the reason.
func documentedDeviations(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile("../../docs/formats/claude.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	_, table, ok := strings.Cut(string(b), "| case | reader | ours | reason |\n| --- | --- | --- | --- |\n")
	if !ok {
		t.Fatal("docs/formats/claude.md has no table of deviations")
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 {
			break
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[3] == "" || cells[4] == "" {
			t.Errorf("deviation of %s without a reason", cells[1])
		}
		out[cells[1]+" "+cells[2]] = cells[4]
	}
	return out
}
