package session

import (
	"io"
	"iter"

	"github.com/agent-ls/agent-ls/session/jsonl"
)

// ReadOptions bound a Read.
type ReadOptions struct {
	jsonl.Options
	// From and FromLine start the replay at the line that begins at offset
	// From; zero values mean the start of the file.
	From     int64
	FromLine int
}

// Cost is what a read took, for reports and for tests of work done.
type Cost struct {
	Bytes       int64 // read from the source
	Lines       int
	LongestLine int64
	Skipped     int64 // bytes of lines above MaxLine, not decoded
}

// Read replays the transcript in src with format f. The error is that of the
// source; damage is in Transcript.Problems. The transcript then holds what
// came before the error.
func Read(f Format, native string, src io.ReaderAt, opt ReadOptions) (*Transcript, Cost, error) {
	panic("not yet")
}

// LoadBody reads and decodes the content of one entry.
func LoadBody(f Format, src io.ReaderAt, e Entry) (Body, error) { panic("not yet") }

// Messages gives the effective conversation of r as a model API takes it:
// entries of one group become one message, every tool call has its results,
// nothing is invented. Bodies are read one message at a time, so memory
// follows the longest message. Iteration stops at the first error of src.
func Messages(f Format, src io.ReaderAt, t *Transcript, r *Resolution) iter.Seq2[Message, error] {
	panic("not yet")
}
