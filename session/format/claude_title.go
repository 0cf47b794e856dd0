package format

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/agent-ls/agent-ls/session/jsonl"
)

// claudePromptUnits is where a first prompt is cut, in UTF-16 units.
const claudePromptUnits = 200

// claudePrompt finds the prompt that a user line shows in a list. command is
// the name of a slash command, which serves where no prompt is found at all.
func (l *claudeLine) prompt() (prompt, command string) {
	if l.typ != "user" || l.meta || l.summary || l.sidechain {
		return "", ""
	}
	content := l.msg.content
	if s, ok := jsonl.String(content); ok {
		return claudePromptOf(s)
	}
	var texts []string
	result := false
	claudeBlocks(content, func(typ string, b []byte) bool {
		switch typ {
		case "tool_result":
			result = true
		case "text":
			texts = append(texts, field(b, "text"))
		}
		return !result
	})
	if result {
		return "", ""
	}
	for _, s := range texts {
		p, c := claudePromptOf(s)
		if p != "" {
			return p, command
		}
		if command == "" {
			command = c
		}
	}
	return "", command
}

// claudePromptOf takes what the user typed out of one text. Texts that the
// agent wrote itself begin with a lower-case tag.
func claudePromptOf(s string) (prompt, command string) {
	s = strings.TrimSpace(s)
	if name, ok := between(s, "<command-name>", "</command-name>"); ok {
		return "", strings.TrimSpace(name)
	}
	if input, ok := between(s, "<bash-input>", "</bash-input>"); ok {
		return claudeCut("! " + strings.TrimSpace(input)), ""
	}
	// What the editor or a hook put before the prompt, in the same text.
	for {
		tag := leadingTag(s)
		if tag != "ide_selection" && tag != "ide_opened_file" && tag != "ide_diagnostics" && tag != "system-reminder" {
			break
		}
		_, rest, closed := strings.Cut(s, "</"+tag+">")
		if !closed {
			break
		}
		s = strings.TrimSpace(rest)
	}
	if s == "" || injected(s) {
		return "", ""
	}
	return claudeCut(s), ""
}

func between(s, open, end string) (string, bool) {
	_, s, ok := strings.Cut(s, open)
	if !ok {
		return "", false
	}
	s, _, ok = strings.Cut(s, end)
	return s, ok
}

// claudeCut makes one line of s and cuts it without splitting a pair.
func claudeCut(s string) string {
	units := 0
	for i, r := range s {
		n := utf16.RuneLen(r)
		if n < 0 {
			n = 1
		}
		if units+n > claudePromptUnits {
			s = strings.TrimRight(s[:i], " \t\r\n") + "…"
			break
		}
		units += n
	}
	return strings.ReplaceAll(s, "\n", " ")
}

// firstLine is a title as it is shown: valid, on one line, of bounded length.
func firstLine(s string) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, string(utf8.RuneError)))
	return claudeCut(s)
}
