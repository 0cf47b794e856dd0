package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/format"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// previewBytes is how much of a spilled result stays in the log.
const previewBytes = 2 << 10

// spill moves the large texts of tool results to files of their own before
// the messages are written. PseudoClaude logs the whole result first and
// replaces the conversation by one with stubs later; here the log never holds
// the large text, so no replace is needed. The conversation in memory keeps
// it until the agent compacts.
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
	text, ok := textOf(r)
	if !ok || len(text) <= w.c.o.SpillAbove {
		return r, nil
	}
	path, err := w.c.save(r.UseID, text)
	if err != nil {
		return r, err
	}
	n := min(previewBytes, len(text))
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	r.Spilled = path
	r.Content = []session.Block{session.Text{Text: format.PCStub(path, strconv.Itoa(len(text)), text[:n])}}
	return r, nil
}

// textOf joins the text of a result as the store does; ok is false where it
// holds something else.
func textOf(r session.ToolResult) (text string, ok bool) {
	var parts []string
	for _, b := range r.Content {
		t, ok := b.(session.Text)
		if !ok {
			return "", false
		}
		parts = append(parts, t.Text)
	}
	return strings.Join(parts, "\n\n"), true
}

// Output gives the whole text of a tool result, from its spill file where it
// was moved out of the log. A result that names a file outside of this
// session's SpillDir gives *session.InvalidError: a transcript is no reason
// to read any file. A file that is gone gives fs.ErrNotExist; the stub in the
// log is then all there is.
func (c *Context) Output(r session.ToolResult) (string, error) {
	if r.Spilled == "" {
		text, _ := textOf(r)
		return text, nil
	}
	if filepath.Dir(filepath.Clean(r.Spilled)) != c.SpillDir {
		return "", &session.InvalidError{Field: "spill file", Value: r.Spilled, Why: "it is not in the directory of this session's tool results"}
	}
	return read(c.o.FS, filepath.Clean(r.Spilled))
}

func read(fsys vfs.FS, path string) (text string, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, info.Size))
	return string(b), err
}

// save writes a result to a file and syncs it: the stub in the log must not
// name what a crash can take away. The name comes from the call's id. A file
// that has the name already is used again if it holds the same (the result is
// written once more by a compaction); else the name gets a number, so that
// two ids which look alike never share a file.
func (c *Context) save(id, text string) (string, error) {
	if err := c.o.FS.MkdirAll(c.SpillDir, 0o700); err != nil {
		return "", err
	}
	stem := cleanName(id)
	for n := 1; ; n++ {
		name := stem
		if n > 1 {
			name = fmt.Sprintf("%s-%d", stem, n)
		}
		path := filepath.Join(c.SpillDir, name+".txt")
		err := c.saveAs(path, text)
		if errors.Is(err, fs.ErrExist) {
			if !c.holds(path, text) {
				continue
			}
			err = c.syncAgain(path)
		}
		if err != nil {
			return "", err
		}
		return path, c.o.FS.SyncDir(c.SpillDir)
	}
}

// saveAs makes the file whole, or leaves none.
func (c *Context) saveAs(path, text string) error {
	f, err := c.o.FS.Create(path, 0o600)
	if err != nil {
		return err
	}
	n, err := f.WriteOnce([]byte(text))
	if err == nil && n < len(text) {
		err = fmt.Errorf("spill file %q: only %d of %d bytes were written", path, n, len(text))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, c.o.FS.Remove(path))
	}
	return nil
}

// holds reports whether the file at path holds exactly text.
func (c *Context) holds(path, text string) bool {
	info, err := c.o.FS.Lstat(path)
	if err != nil || !info.Mode.IsRegular() || info.Size != int64(len(text)) {
		return false
	}
	got, err := read(c.o.FS, path)
	return err == nil && got == text
}

// syncAgain makes a file durable whose writer may have died before it did.
func (c *Context) syncAgain(path string) error {
	f, err := c.o.FS.OpenAppend(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
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
			gap = false
			b.WriteRune(r)
		case !gap:
			gap = true
			b.WriteByte('_')
		}
		if b.Len() >= maxName {
			break
		}
	}
	if name := strings.Trim(b.String(), "."); name != "" {
		return name
	}
	return "tool-result"
}
