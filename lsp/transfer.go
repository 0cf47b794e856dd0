package lsp

import (
	"slices"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
)

// convertLines writes the conversation as the store of another agent holds it.
// lost names what that store does not hold; it is found by reading back what
// was written.
func convertLines(target session.Format, o *catalog.Opened, made session.Session, at, title string, a session.Append) (lines []byte, lost []string, err error) {
	f, ok := target.(session.Appender)
	if !ok {
		return nil, nil, &session.UnsupportedError{Op: "fork to " + target.Name(), Agent: o.Format.Name(), Why: "agent-ls does not write the sessions of " + target.Name()}
	}
	r, err := o.Transcript.Resolve(at)
	if err != nil {
		return nil, nil, err
	}
	drafts, err := conversation(o, r)
	if err != nil {
		return nil, nil, err
	}
	before := tallyOf(drafts)
	a.Session, a.Transcript, a.Parent = made, nil, ""
	held := holds(f, a)
	a.Drafts = nil
	for _, d := range drafts {
		if d.Blocks = keep(d.Blocks, held); len(d.Blocks) > 0 {
			a.Drafts = append(a.Drafts, d)
		}
	}
	if len(a.Drafts) == 0 {
		return nil, nil, &session.InvalidError{Field: "at", Value: at, Why: "no message comes before it that " + target.Name() + " can hold"}
	}
	if _, named := target.(session.Namer); named && title != "" {
		a.Session.Title, a.Session.TitleSource = title, session.TitleUser
	}
	if lines, err = f.Encode(nil, a); err != nil {
		return nil, nil, err
	}
	var after []session.Message
	for _, e := range decodeLines(target, lines, 0) {
		if e.Kind == session.KindMessage {
			b := target.Body(lines[e.Pos.Offset:e.Pos.End()])
			after = append(after, session.Message{Role: e.Role, Blocks: b.Blocks, Model: b.Model, Usage: b.Usage})
		}
	}
	lost = before.minus(tallyOf(after))
	outside := 0
	for i := range r.Excluded {
		if r.Excluded[i] != session.Effective && r.Excluded[i] != session.NotAMessage {
			outside++
		}
	}
	if outside > 0 {
		lost = append(lost, itoa(outside)+" entries outside of the conversation")
	}
	return lines, lost, nil
}

// holds tells which types of block a store takes, by asking its encoder.
func holds(f session.Appender, a session.Append) func(session.Block, bool) bool {
	takes := func(drafts ...session.Draft) bool {
		a.Drafts = drafts
		_, err := f.Encode(nil, a)
		return err == nil
	}
	text := session.Text{Text: "x"}
	call := session.Draft{Role: session.Assistant, Blocks: []session.Block{session.ToolUse{ID: "x", Name: "x", Input: []byte("{}")}}}
	result := func(b session.Block) session.Draft {
		return session.Draft{Role: session.Tool, Blocks: []session.Block{session.ToolResult{UseID: "x", Name: "x", Content: []session.Block{b}}}}
	}
	data, ref := session.Image{MIMEType: "image/png", Data: "AA=="}, session.Image{URI: "file:///x"}
	thinking := takes(session.Draft{Role: session.Assistant, Blocks: []session.Block{session.Thinking{Text: "x"}, text}})
	image := func(i session.Image) bool {
		return takes(session.Draft{Role: session.User, Blocks: []session.Block{i, text}})
	}
	imageData, imageRef := image(data), image(ref)
	insideData, insideRef := takes(call, result(data)), takes(call, result(ref))
	return func(b session.Block, inside bool) bool {
		switch b := b.(type) {
		case session.Text, session.ToolUse, session.ToolResult:
			return true
		case session.Thinking:
			return thinking && !inside
		case session.Image:
			switch {
			case inside && b.Data != "":
				return insideData
			case inside:
				return insideRef
			case b.Data != "":
				return imageData
			}
			return imageRef
		}
		return false // what is not understood is not carried elsewhere
	}
}

// keep gives the blocks that a store holds.
func keep(in []session.Block, held func(session.Block, bool) bool) []session.Block {
	var out []session.Block
	for _, b := range in {
		if !held(b, false) {
			continue
		}
		if r, ok := b.(session.ToolResult); ok {
			r.Content = slices.DeleteFunc(slices.Clone(r.Content), func(b session.Block) bool { return !held(b, true) })
			b = r
		}
		out = append(out, b)
	}
	return out
}

// tally counts what a conversation is made of.
type tally struct{ texts, thinking, calls, results, failed, images, unknown, usage, models, bytes int }

func tallyOf(messages []session.Message) tally {
	var t tally
	models := map[string]bool{}
	for _, m := range messages {
		if m.Usage != nil && (m.Usage.Input > 0 || m.Usage.Output > 0) {
			t.usage++
		}
		if m.Model != "" {
			models[m.Model] = true
		}
		t.blocks(m.Blocks)
	}
	t.models = len(models)
	return t
}

func (t *tally) blocks(in []session.Block) {
	for _, b := range in {
		switch b := b.(type) {
		case session.Text:
			t.texts++
			t.bytes += len(b.Text)
		case session.Thinking:
			t.thinking++
		case session.ToolUse:
			t.calls++
		case session.ToolResult:
			t.results++
			if b.IsError {
				t.failed++
			}
			t.blocks(b.Content)
		case session.Image:
			t.images++
		case session.Unknown:
			t.unknown++
		}
	}
}

// minus says what t has and u has not. Texts may be joined by a store; of them
// only missing bytes count.
func (t tally) minus(u tally) []string {
	var out []string
	for _, c := range []struct {
		n    int
		what string
	}{
		{t.bytes - u.bytes, "bytes of text"},
		{t.thinking - u.thinking, "thinking blocks"},
		{t.calls - u.calls, "tool calls"},
		{t.results - u.results, "tool results"},
		{t.failed - u.failed, "marks of failed tool results"},
		{t.images - u.images, "images"},
		{t.unknown - u.unknown, "blocks of unknown type"},
		{t.usage - u.usage, "token counts"},
		{t.models - u.models, "model names"},
	} {
		if c.n > 0 {
			out = append(out, itoa(c.n)+" "+c.what)
		}
	}
	return out
}
