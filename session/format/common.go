package format

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// summaryMaxLine is the longest line that listing decodes. A longer one is
// passed over in windows, so that memory follows the window.
const summaryMaxLine = 16 << 20

// decodeLine makes entries of a line: one of a good line, one for each record
// and each fragment of a damaged one, none of a blank one. entry gets one
// valid JSON value; accept tells records from inner objects.
func decodeLine(dst []session.Entry, line jsonl.Line, accept func([]byte) bool, entry func([]byte, session.Pos) session.Entry) []session.Entry {
	at := func(off, n int) session.Pos {
		return session.Pos{Line: line.Num, Offset: line.Offset + int64(line.Lead+off), Length: n}
	}
	bad := func(pos session.Pos, why string) session.Entry {
		return session.Entry{ID: strconv.FormatInt(pos.Offset, 10), Pos: pos, Bad: why}
	}
	if line.Flaw.Has(jsonl.TooLong) {
		pos := at(0, 0)
		pos.Offset, pos.Length = line.Offset, int(line.Length)
		return append(dst, bad(pos, fmt.Sprintf("a line of %d bytes is above the limit and was not decoded", line.Length)))
	}
	start, end, ok := jsonl.Value(line.Raw, 0)
	if ok && blank(line.Raw[end:]) {
		return append(dst, entry(line.Raw[start:end], at(start, end-start)))
	}
	for _, p := range jsonl.Salvage(line.Raw, accept) {
		if p.Whole {
			dst = append(dst, entry(line.Raw[p.Off:p.Off+p.Len], at(p.Off, p.Len)))
		} else {
			dst = append(dst, bad(at(p.Off, p.Len), "not valid JSON"))
		}
	}
	return dst
}

// openLog opens a transcript for reading at any offset, and tells its size
// and time.
func openLog(root session.Root, p string) (file fs.File, src io.ReaderAt, info fs.FileInfo, err error) {
	if file, err = root.FS.Open(p); err != nil {
		return nil, nil, nil, err
	}
	src, ok := file.(io.ReaderAt)
	if !ok {
		err = fmt.Errorf("transcript %q: the file system cannot read at an offset", p)
	} else {
		info, err = file.Stat()
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, file.Close())
	}
	return file, src, info, nil
}

func blank(b []byte) bool {
	for _, c := range b {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}

// cutRunes shortens s to n runes and then adds mark.
func cutRunes(s string, n int, mark string) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	i := 0
	for range n {
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return s[:i] + mark
}

// injected reports whether a user text was written by the agent itself
// (environment blocks, command wrappers, caveats, reminders): such a text is
// no title. They begin with a lower-case tag, or with a known heading.
func injected(text string) bool {
	text = strings.TrimLeft(text, " \t\r\n")
	for _, p := range []string{"[Request interrupted", "# AGENTS.md instructions for "} {
		if strings.HasPrefix(text, p) {
			return true
		}
	}
	return leadingTag(text) != ""
}

// leadingTag gives the name of the lower-case tag that text begins with.
func leadingTag(text string) string {
	if len(text) < 3 || text[0] != '<' || text[1] < 'a' || text[1] > 'z' {
		return ""
	}
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_':
		case c == '>' || c == ' ':
			return text[1:i]
		default:
			return ""
		}
	}
	return ""
}
