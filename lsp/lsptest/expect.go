package lsptest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agent-ls/agent-ls/lsp/wire"
)

// Verdict is what an expectation finds in a state.
type Verdict uint8

// Verdicts. An unmeetable expectation will not be met whatever comes.
const (
	Unmet Verdict = iota
	Met
	Unmeetable
)

// State is what an editor knows from the notifications that have come.
type State struct {
	Notifications []Notification
	Sessions      map[string]*Mirror // by session id
	Progress      map[string][]json.RawMessage
}

// Mirror is one session as the updates tell it: what an editor shows.
type Mirror struct {
	Revision string
	Entries  []wire.Entry // in the order of the log, each once
	Updates  int
	Resets   []string
	Twice    []string // ids of entries that came again as they had been
}

// Texts are the texts of the entries, in order.
func (m *Mirror) Texts() []string {
	var out []string
	for _, e := range m.Entries {
		var parts []string
		for _, b := range e.Content {
			parts = append(parts, b.Text)
		}
		out = append(out, strings.Join(parts, ""))
	}
	return out
}

// apply takes over one update.
func (m *Mirror) apply(u wire.Update) {
	m.Updates++
	m.Revision = u.Revision
	if u.Reset != "" {
		m.Resets = append(m.Resets, u.Reset)
		m.Entries = nil
	}
	for _, e := range u.Entries {
		i, known := slices.BinarySearchFunc(m.Entries, e.Offset, func(e wire.Entry, off int64) int { return int(e.Offset - off) })
		switch {
		case !known:
			m.Entries = slices.Insert(m.Entries, i, e)
		case m.Entries[i].Effective == e.Effective && m.Entries[i].Excluded == e.Excluded:
			m.Twice = append(m.Twice, e.ID)
		default:
			m.Entries[i] = e
		}
	}
}

// note keeps a notification. The caller holds e.mu.
func (e *Editor) note(n Notification) {
	switch n.Method {
	case "session/update":
		var u wire.Update
		if json.Unmarshal(n.Params, &u) != nil {
			return
		}
		m := e.state.Sessions[u.SessionID]
		if m == nil {
			m = &Mirror{}
			e.state.Sessions[u.SessionID] = m
		}
		m.apply(u)
	case "$/progress":
		var p struct{ Token, Value json.RawMessage }
		if json.Unmarshal(n.Params, &p) == nil {
			token := strings.Trim(string(p.Token), `"`)
			e.state.Progress[token] = append(e.state.Progress[token], p.Value)
		}
	}
}

// Expectation is something that is to be found in the state some time.
type Expectation struct {
	Check       func(State) Verdict
	Description string
}

// Await waits until all expectations are met. It ends the test when one has
// become unmeetable, or when nothing comes for Patience.
func (e *Editor) Await(expectations ...Expectation) {
	e.t.Helper()
	want := AllOf(expectations...)
	for {
		e.mu.Lock()
		state := e.state
		state.Notifications = e.got
		verdict := want.Check(state)
		shown := ""
		if verdict == Unmeetable {
			shown = fmt.Sprint(e.got[max(0, len(e.got)-5):])
		}
		change := e.change
		e.mu.Unlock()
		switch verdict {
		case Met:
			return
		case Unmeetable:
			e.t.Fatalf("cannot be met any more: %s; the last notifications: %s", want.Description, shown)
		}
		patience := time.NewTimer(Patience)
		select {
		case <-change:
			patience.Stop()
		case <-patience.C:
			e.t.Fatalf("not met: %s", want.Description)
		}
	}
}

// Look gives f the state as it is now. f must not keep it.
func (e *Editor) Look(f func(State)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	state := e.state
	state.Notifications = e.got
	f(state)
}

// AllOf is met when all are, and unmeetable when one is.
func AllOf(list ...Expectation) Expectation {
	return Expectation{
		Check: func(s State) Verdict {
			verdict := Met
			for _, x := range list {
				switch x.Check(s) {
				case Unmeetable:
					return Unmeetable
				case Unmet:
					verdict = Unmet
				}
			}
			return verdict
		},
		Description: describe("all of", list),
	}
}

// AnyOf is met when one is, and unmeetable when all are.
func AnyOf(list ...Expectation) Expectation {
	return Expectation{
		Check: func(s State) Verdict {
			verdict := Unmeetable
			for _, x := range list {
				switch x.Check(s) {
				case Met:
					return Met
				case Unmet:
					verdict = Unmet
				}
			}
			return verdict
		},
		Description: describe("any of", list),
	}
}

// OnceMet looks at must only when first is met: then they have to be met too.
func OnceMet(first Expectation, must ...Expectation) Expectation {
	return Expectation{
		Check: func(s State) Verdict {
			v := first.Check(s)
			if v != Met {
				return v
			}
			for _, x := range must {
				if x.Check(s) != Met {
					return Unmeetable
				}
			}
			return Met
		},
		Description: describe("once "+first.Description+", also", must),
	}
}

func describe(how string, list []Expectation) string {
	var parts []string
	for _, x := range list {
		parts = append(parts, x.Description)
	}
	return how + " (" + strings.Join(parts, "; ") + ")"
}

// Received is met by n notifications of a method.
func Received(method string, n int) Expectation {
	return Expectation{
		Check: func(s State) Verdict {
			got := 0
			for _, x := range s.Notifications {
				if x.Method == method {
					got++
				}
			}
			if got >= n {
				return Met
			}
			return Unmet
		},
		Description: fmt.Sprintf("%d %s", n, method),
	}
}

// InSession is met when ok says so of the session as updates tell it.
func InSession(id, description string, ok func(*Mirror) bool) Expectation {
	return Expectation{
		Check: func(s State) Verdict {
			if m := s.Sessions[id]; m != nil && ok(m) {
				return Met
			}
			return Unmet
		},
		Description: description + " in " + id,
	}
}

// HasTexts is met when the entries of a session have these texts, in the order
// of the log. An entry that came twice makes it unmeetable, as does a text at
// a wrong place while no reset has come.
func HasTexts(id string, texts ...string) Expectation {
	return Expectation{
		Check: func(s State) Verdict {
			m := s.Sessions[id]
			if m == nil {
				return Unmet
			}
			got := m.Texts()
			switch {
			case len(m.Twice) > 0:
				return Unmeetable
			case slices.Equal(got, texts):
				return Met
			case len(got) > len(texts) && len(m.Resets) == 0:
				return Unmeetable
			}
			return Unmet
		},
		Description: fmt.Sprintf("texts %q in %s", texts, id),
	}
}

// WasReset is met when the last reset of a session had this reason.
func WasReset(id, reason string) Expectation {
	return InSession(id, "reset "+reason, func(m *Mirror) bool {
		return len(m.Resets) > 0 && m.Resets[len(m.Resets)-1] == reason
	})
}
