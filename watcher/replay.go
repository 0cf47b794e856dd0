package watcher

import (
	"fmt"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// replay is the content of one file as far as it was read.
type replay struct {
	tail    *Tail
	format  session.Format
	limits  jsonl.Options
	lines   *jsonl.Reader
	loader  *session.Loader
	shown   *session.Transcript
	count   int
	rebuilt rebuilt
	mark    string // reason of a mark whose effect has not been seen yet
}

// rebuilt is the last line that changed the conversation otherwise than at its
// end.
type rebuilt struct {
	at     int // index of its first entry; -1 if there was none
	reason string
}

func newReplay(f *feed) *replay {
	r := &replay{
		tail:    f.tail,
		format:  f.format,
		limits:  f.limits,
		lines:   jsonl.NewReader(f.tail, 0, 1, f.limits),
		loader:  session.NewLoader(f.format, f.id.Native),
		rebuilt: rebuilt{at: -1},
	}
	r.shown = r.loader.Transcript()
	return r
}

// more reads the lines that are complete by now.
func (r *replay) more() error {
	for line := range r.lines.Lines() {
		r.add(line)
	}
	r.tail.Keep(r.lines.Offset())
	r.shown = r.loader.Transcript()
	if err := r.lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", r.lines.Num(), err)
	}
	return nil
}

func (r *replay) add(line jsonl.Line) {
	effect := r.loader.Add(line)
	added := r.loader.Added()
	for i := range added {
		switch added[i].Kind {
		case session.KindReplace:
			r.mark = "replace"
		case session.KindCompaction:
			r.mark = "compaction"
		}
	}
	if effect == session.Rebuilt {
		r.rebuilt = rebuilt{r.count, "branch"}
		if r.mark != "" {
			r.rebuilt.reason = r.mark
		}
		r.mark = ""
	}
	r.count += len(added)
}

// rewind forgets what was read of an unfinished line, and an error.
func (r *replay) rewind() {
	r.lines = jsonl.NewReader(r.tail, r.lines.Offset(), r.lines.Num(), r.limits)
}

// unfinished gives the entries, up to that of id, of a last line that lacks
// only its line feed; nil if id is not among them.
func (r *replay) unfinished(id string) []session.Entry {
	line := r.lines.Pending()
	if line.Length == 0 || line.Flaw.Has(jsonl.TooLong) || !jsonl.Valid(line.Raw) {
		return nil
	}
	line.Flaw &^= jsonl.Torn
	entries := r.format.Decode(nil, line)
	for i := range entries {
		if entries[i].ID == id {
			return entries[:i+1]
		}
	}
	return nil
}

func (r *replay) len() int                        { return r.shown.Len() }
func (r *replay) offset() int64                   { return r.lines.Offset() }
func (r *replay) transcript() *session.Transcript { return r.shown }
