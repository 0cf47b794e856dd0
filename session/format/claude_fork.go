package format

import (
	"encoding/json"
	"slices"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/chain"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// EncodeFork implements session.Forker, as the SDK's forkSession does it: the
// lines of the conversation with fresh ids and a note of where they came
// from, without bookkeeping. Unlike it we leave abandoned branches behind, and
// each line follows the one before it, so that every reader finds the same
// conversation whatever repairs it took to find it here.
func (f claude) EncodeFork(dst []byte, native, at, title string, a session.Append, load func(session.Entry) ([]byte, error)) ([]byte, error) {
	r, err := a.Transcript.Resolve(at)
	if err != nil {
		return nil, err
	}
	w := &claudeWriter{a: a, native: native}
	entries := a.Transcript.Entries()
	lines := f.forked(entries, r)
	ids := map[string]string{}
	for _, i := range lines {
		if ids[entries[i].ID], err = newUUID(a.Random); err != nil {
			return nil, err
		}
	}
	parent := ""
	for _, i := range lines {
		raw, err := load(entries[i])
		if err != nil {
			return nil, err
		}
		if _, cut := entries[i].Mark.(*chain.Boundary); cut {
			parent = ""
		}
		if w.out, err = claudeForkLine(w.out, raw, native, a.Session.Native, parent, ids); err != nil {
			return nil, err
		}
		parent = ids[entries[i].ID]
	}
	if title == "" {
		title = a.Session.Title + " (fork)"
	}
	if err := w.line(claudeTitle{"custom-title", title, native}); err != nil {
		return nil, err
	}
	return append(dst, w.out...), nil
}

// forked gives the entries to copy, in the order of the conversation: those
// that count, each behind what its path runs through.
func (claude) forked(entries []session.Entry, r *session.Resolution) []int {
	last := map[string]int{}
	for i := range entries {
		if f, _ := entries[i].Mark.(chain.Flags); f.Has(chain.Node) {
			last[entries[i].ID] = i
		}
	}
	var out []int
	taken := map[int]bool{}
	for _, i := range r.Chain {
		var path []int
		at, ok := last[entries[i].Parent]
		for ok && !taken[at] && r.Excluded[at] == session.NotAMessage {
			taken[at] = true
			if f, _ := entries[at].Mark.(chain.Flags); !f.Has(chain.Link) {
				path = append(path, at)
			}
			at, ok = last[entries[at].Parent]
		}
		slices.Reverse(path)
		out = append(append(out, path...), i)
	}
	return out
}

// claudeForkLine copies a line with other ids; all else stays as it is.
func claudeForkLine(dst, raw []byte, native, from, parent string, ids map[string]string) ([]byte, error) {
	quoted := func(s string) []byte {
		if s == "" {
			return []byte("null")
		}
		b, _ := json.Marshal(s) // a string cannot fail
		return b
	}
	dst = append(dst, '{')
	own := ""
	ok := jsonl.Members(raw, func(k, v []byte) bool {
		switch string(k) {
		case "uuid":
			own = text(v)
			v = quoted(ids[own])
		case "parentUuid":
			v = quoted(parent)
		case "sessionId":
			v = quoted(native)
		case "logicalParentUuid", "sourceToolAssistantUUID":
			if id := ids[text(v)]; id != "" {
				v = quoted(id)
			}
		case "compactMetadata":
			v = claudeForkIDs(v, ids)
		case "forkedFrom":
			return true
		}
		dst = append(append(append(dst, '"'), k...), '"', ':')
		dst = append(append(dst, v...), ',')
		return true
	})
	if !ok {
		return nil, &session.InvalidError{Field: "entry", Value: own, Why: "is no JSON object any more"}
	}
	note, err := marshal(struct {
		SessionID string `json:"sessionId"`
		UUID      string `json:"messageUuid"`
	}{from, own})
	if err != nil {
		return nil, err
	}
	dst = append(append(dst, `"forkedFrom":`...), note...)
	return append(dst, '}', '\n'), nil
}

// claudeForkIDs replaces the ids in a value, which is copied.
func claudeForkIDs(v []byte, ids map[string]string) []byte {
	var out []byte
	for i := 0; i < len(v); {
		if v[i] != '"' {
			out = append(out, v[i])
			i++
			continue
		}
		_, end, ok := jsonl.Value(v, i)
		if !ok {
			return v
		}
		if id := ids[text(v[i:end])]; id != "" {
			out = append(append(append(out, '"'), id...), '"')
		} else {
			out = append(out, v[i:end]...)
		}
		i = end
	}
	return out
}
