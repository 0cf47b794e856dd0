package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Rules of the terminal output: nothing from a transcript reaches the
// terminal raw (see visible); colour only marks what the words say already;
// one blank line between parts; errors begin with "agent-ls: ", lower case,
// no full stop, and end with what to do where that is known.

// visible makes control characters, escape sequences and bidirectional
// controls readable, so that a transcript cannot drive the terminal. Line
// feeds and tabs pass where multi is set and become spaces where it is not.
func visible(s string, multi bool) string {
	clean := true
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "\\x%02x", s[i])
		case r == '\n' || r == '\t':
			if multi {
				b.WriteRune(r)
			} else {
				b.WriteByte(' ')
			}
		case r < 0x20:
			b.WriteByte('^')
			b.WriteByte(byte(r) + '@')
		case r == 0x7f:
			b.WriteString("^?")
		case r >= 0x80 && r < 0xa0, r == 0x2028, r == 0x2029, unicode.Is(unicode.Bidi_Control, r):
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// cut shortens s to width terminal columns, with "…" where something is left out.
func cut(s string, width int) string {
	if width <= 0 || uniseg.StringWidth(s) <= width {
		return s
	}
	var b strings.Builder
	used := 0
	for g := uniseg.NewGraphemes(s); g.Next(); {
		w := g.Width()
		if used+w > width-1 {
			break
		}
		b.WriteString(g.Str())
		used += w
	}
	return b.String() + "…"
}

// pad fills s with spaces to width terminal columns.
func pad(s string, width int) string {
	if n := width - uniseg.StringWidth(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}

// style is a terminal attribute.
type style string

const (
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	blue   style = "34"
	cyan   style = "36"
)

// screen is a place to print for people.
type screen struct {
	w      io.Writer
	colour bool
	width  int // columns; 0 where it is no terminal
}

func (s *screen) paint(st style, text string) string {
	if !s.colour || text == "" {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

func (s *screen) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.w, format, args...) // a closed pipe ends the program elsewhere
}

// age gives the distance of t from now in the largest fitting unit.
func age(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := now.Sub(t)
	switch {
	case d < 0:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d/time.Hour))
	default:
		return fmt.Sprintf("%dd", int(d/(24*time.Hour)))
	}
}

// byteSize gives n in the largest fitting unit of 1024.
func byteSize(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, e := float64(n)/unit, 0
	for v >= unit && e < 4 {
		v /= unit
		e++
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTP"[e])
}

// columns prints rows, the first of which are headings, in aligned columns;
// the last column takes what is left of the line.
func (s *screen) columns(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], uniseg.StringWidth(cell))
		}
	}
	for n, row := range rows {
		var b strings.Builder
		used := 0
		for i, cell := range row {
			if i == len(row)-1 {
				if s.width > 0 {
					cell = cut(cell, max(10, s.width-used))
				}
				b.WriteString(cell)
				break
			}
			b.WriteString(pad(cell, widths[i]) + "  ")
			used += widths[i] + 2
		}
		line := strings.TrimRight(b.String(), " ")
		if n == 0 {
			line = s.paint(dim, line)
		}
		s.printf("%s\n", line)
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return itoa(n) + " " + noun + "s"
}

func itoa(n int) string { return strconv.Itoa(n) }

func join(a, b error) error {
	if a != nil {
		return a // the first error says what happened
	}
	return b
}
