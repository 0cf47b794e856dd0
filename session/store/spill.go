package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/format"
)

// previewBytes is how much of a spilled result stays in the log.
const previewBytes = 2 << 10

// spill moves the large texts of tool results to files of their own before
// the messages are written, so that the log never holds them.
func (w *Writer) spill(messages []session.Message) ([]session.Message, error) {
	if w.c.o.SpillAbove < 0 {
		return messages, nil
	}
	out := make([]session.Message, len(messages))
	for i, m := range messages {
		blocks := make([]session.Block, len(m.Blocks))
		for k, b := range m.Blocks {
			if r, ok := b.(session.ToolResult); ok {
				var err error
				if b, err = w.spillResult(r); err != nil {
					return nil, err
				}
			}
			blocks[k] = b
		}
		m.Blocks = blocks
		out[i] = m
	}
	return out, nil
}

func (w *Writer) spillResult(r session.ToolResult) (session.ToolResult, error) {
	var text strings.Builder
	for _, b := range r.Content {
		t, ok := b.(session.Text)
		if !ok {
			return r, nil
		}
		text.WriteString(t.Text)
	}
	if text.Len() <= w.c.o.SpillAbove {
		return r, nil
	}
	path, err := w.save(r.UseID, text.String())
	if err != nil {
		return r, err
	}
	n := min(previewBytes, text.Len())
	for n > 0 && !utf8.RuneStart(text.String()[n]) {
		n--
	}
	r.Spilled = path
	r.Content = []session.Block{session.Text{Text: format.PCStub(path, strconv.Itoa(text.Len()), text.String()[:n])}}
	return r, nil
}

// save writes a result to a new file and syncs it: the stub in the log must
// not name what a crash can take away. The name comes from the call's id;
// a name that is taken gets a number, so that two ids which look alike never
// share a file.
func (w *Writer) save(id, text string) (string, error) {
	if err := w.c.o.FS.MkdirAll(w.c.SpillDir, 0o700); err != nil {
		return "", err
	}
	stem := cleanName(id)
	for n := 1; ; n++ {
		name := stem
		if n > 1 {
			name = fmt.Sprintf("%s-%d", stem, n)
		}
		path := filepath.Join(w.c.SpillDir, name+".txt")
		f, err := w.c.o.FS.Create(path, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		k, err := f.WriteOnce([]byte(text))
		if err == nil && k < len(text) {
			err = fmt.Errorf("spill file %q: only %d of %d bytes were written", path, k, len(text))
		}
		if err == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return "", errors.Join(err, w.c.o.FS.Remove(path))
		}
		return path, w.c.o.FS.SyncDir(w.c.SpillDir)
	}
}

// maxName keeps file names below the limit of file systems.
const maxName = 100

// cleanName makes a file name of an id, as PseudoClaude does: runs of other
// characters become one "_".
func cleanName(id string) string {
	var b strings.Builder
	gap := false
	for _, r := range id {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			if gap {
				b.WriteByte('_')
			}
			gap = false
			b.WriteRune(r)
		default:
			gap = true
		}
		if b.Len() >= maxName {
			break
		}
	}
	if gap {
		b.WriteByte('_')
	}
	if name := strings.Trim(b.String(), "."); name != "" {
		return name
	}
	return "tool-result"
}
