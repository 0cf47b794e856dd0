// Package jsonl turns the bytes of a transcript into lines.
//
// It knows bytes only: where a line begins and ends, which of its bytes are
// damage, and how to walk a JSON value without building it. It does not know
// what a line means, which agent wrote it, or that files change while they
// are read.
//
// Invariant: lines partition the bytes. Every byte of the source belongs to
// exactly one line (or to the unfinished tail), whatever the sizes of the
// reads were, and the memory in use follows the window, not the longest line.
package jsonl

// Flaw is a set of the kinds of damage seen in one physical line.
type Flaw uint8

// The kinds of damage. A line can have several.
const (
	// BOM: a UTF-8 byte order mark at offset 0 was left out of Raw.
	BOM Flaw = 1 << iota
	// NULRun: runs of 0x00 outside any JSON value were left out of Raw.
	NULRun
	// TooLong: the line is longer than Options.MaxLine; Raw holds only a prefix.
	TooLong
	// Torn: the line is not terminated (the last line of a file).
	Torn
)

// Has reports whether all of want are in f.
func (f Flaw) Has(want Flaw) bool { return f&want == want }

// Line is one physical line of a file, ended by LF.
//
// Raw aliases the reader's buffer and is valid until the next call of Next.
// It has neither the LF, nor a CR before it, nor a BOM, nor NUL runs at its
// ends; Offset and Length always describe the bytes on disk.
type Line struct {
	Num    int   // 1-based number of the physical line
	Offset int64 // of the first byte of the line
	Length int64 // bytes on disk without the line feed
	Lead   int   // bytes left out before Raw[0], so Raw[i] is at Offset+Lead+i
	Raw    []byte
	Flaw   Flaw
}

// Options bound what a Reader keeps in memory. Zero values mean the defaults.
type Options struct {
	Window  int   // bytes read at a time; default 256 KiB
	MaxLine int64 // longest line given whole; default 64 MiB
}

// Defaults of Options.
const (
	DefaultWindow  = 256 << 10
	DefaultMaxLine = 64 << 20
	// LongPrefix is how much of a line above MaxLine is kept in Raw.
	LongPrefix = 4 << 10
)
