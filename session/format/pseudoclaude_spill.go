package format

import (
	"path/filepath"
	"strings"
)

// A spilled tool result is replaced in the log by a stub: its first line
// names the file that holds the whole output, then comes a preview.
const (
	pcStubStart = "[tool result of "
	pcStubFile  = " bytes moved to "
)

// PCStub is the text that stands in the log for a tool result of size bytes
// which was moved to the file at path (absolute).
func PCStub(path string, size, preview string) string {
	return pcStubStart + size + pcStubFile + path + "]\n" + preview
}

// pcSpilled gives the absolute path that a stub names. PseudoClaude's own
// stubs have no fixed form; they too name a file below tool-results.
func pcSpilled(text string) string {
	head, _, _ := strings.Cut(text, "\n")
	if rest, ok := strings.CutPrefix(head, pcStubStart); ok {
		if _, path, ok := strings.Cut(rest, pcStubFile); ok {
			path = strings.TrimSuffix(path, "]")
			if filepath.IsAbs(path) {
				return path
			}
		}
		return ""
	}
	if len(text) > 16<<10 { // a stub is short: a preview and a path
		return ""
	}
	marker := string(filepath.Separator) + PCToolResults + string(filepath.Separator)
	i := strings.Index(text, marker)
	if i < 0 {
		return ""
	}
	start := strings.LastIndexAny(text[:i], " \t\n\"'`<([:") + 1
	end := i + len(marker)
	for end < len(text) && !strings.ContainsRune(" \t\r\n\"'`>)]", rune(text[end])) {
		end++
	}
	path := text[start:end]
	if !filepath.IsAbs(path) || !strings.HasSuffix(path, ".txt") {
		return ""
	}
	return path
}
