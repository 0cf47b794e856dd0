package session

import (
	"errors"
	"io"
	"time"

	"github.com/agent-ls/agent-ls/session/jsonl"
)

// ReadOptions bound a Read.
type ReadOptions struct {
	jsonl.Options
	// From and FromLine start the replay at the line that begins at offset
	// From; zero values mean the start of the file.
	From     int64
	FromLine int
	// Workers is the number of goroutines that decode the lines of a long
	// transcript. Up to 1 all is done by the caller's.
	Workers int
}

// Cost is what a read took, for reports and for tests of work done.
type Cost struct {
	Bytes       int64 // read from the source
	Lines       int
	LongestLine int64
	Skipped     int64 // bytes of lines above MaxLine, not decoded
}

// Loader replays lines as they come: Read and the live tail do the same by it.
// It is not safe for concurrent use; the transcripts it gives are.
type Loader struct {
	format   Format
	replay   Replayer
	scratch  []Entry
	problems []Problem
	last     Time // the latest time seen, to notice clocks that go back
	cost     Cost
}

// NewLoader makes a Loader for one transcript.
func NewLoader(f Format, native string) *Loader {
	return &Loader{format: f, replay: f.Replay(native)}
}

// Add takes the next line and says what it did to the effective conversation.
// It keeps nothing of line.Raw.
func (l *Loader) Add(line jsonl.Line) Effect {
	l.scratch = l.format.Decode(l.scratch[:0], line)
	return l.AddDecoded(line, l.scratch)
}

// AddDecoded is Add for a line that the format has decoded already.
func (l *Loader) AddDecoded(line jsonl.Line, entries []Entry) Effect {
	l.note(line, entries)
	effect := Recorded
	for i := range entries {
		effect = max(effect, l.replay.Add(entries[i]))
	}
	return effect
}

// note counts one line, and reports its damage.
func (l *Loader) note(line jsonl.Line, entries []Entry) {
	l.cost.Lines++
	l.cost.LongestLine = max(l.cost.LongestLine, line.Length)
	if line.Flaw.Has(jsonl.TooLong) {
		l.cost.Skipped += line.Length
	}
	l.inspect(line, entries)
}

// Added gives the entries of the line added last, until the next Add.
func (l *Loader) Added() []Entry { return l.scratch }

// Cost is what the lines added so far took; Bytes is the caller's to know.
func (l *Loader) Cost() Cost { return l.cost }

// Transcript is the state after the lines added so far.
func (l *Loader) Transcript() *Transcript { return l.TranscriptWith(jsonl.Line{}) }

// TranscriptWith is Transcript with the unfinished line at the end of the
// file reported as a torn tail.
func (l *Loader) TranscriptWith(pending jsonl.Line) *Transcript {
	t := l.replay.Transcript()
	problems := l.problems
	if pending.Length > 0 {
		problems = append(problems[:len(problems):len(problems)], Problem{
			Code: TornTail, Severity: Warning, Pos: linePos(pending),
			Text: "the last line has no line feed: it is cut off, or is being written now",
		})
	}
	return t.withProblems(problems)
}

func linePos(line jsonl.Line) Pos {
	return Pos{Line: line.Num, Offset: line.Offset, Length: int(line.Length)}
}

// inspect reports the damage of one line.
func (l *Loader) inspect(line jsonl.Line, entries []Entry) {
	add := func(code Code, s Severity, pos Pos, id, text string) {
		l.problems = append(l.problems, Problem{Code: code, Severity: s, Pos: pos, EntryID: id, Text: text})
	}
	if line.Flaw.Has(jsonl.NULRun) {
		add(NULRun, Warning, linePos(line), "", "a run of NUL bytes was skipped")
	}
	whole := 0
	for i := range entries {
		if entries[i].Bad == "" {
			whole++
		}
	}
	if len(entries) > 1 && whole > 0 {
		add(GluedLines, Warning, linePos(line), "", "several records share this line; each whole one was read")
	}
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Bad != "" && line.Flaw.Has(jsonl.TooLong):
			add(TooLongLine, Warning, e.Pos, e.ID, e.Bad)
		case e.Bad != "":
			add(BadJSON, Error, e.Pos, e.ID, e.Bad)
		case e.Kind == KindUnknown:
			add(UnknownType, Hint, e.Pos, e.ID, "a line of a type that is not known; it is kept and does not count")
		}
		if e.Time.IsZero() {
			continue
		}
		if e.Time.Before(l.last.Add(-clockSlack)) {
			add(ClockWentBack, Hint, e.Pos, e.ID, "older than an entry before it")
		} else if e.Time.After(l.last) {
			l.last = e.Time
		}
	}
}

// clockSlack is how far back a time may go without being noted: agents stamp a
// message when it begins and write it when it ends, so that healthy logs are
// out of order by seconds.
const clockSlack = time.Minute

// Read replays the transcript in src with format f. The error is a *ReadError
// with that of the source; damage is in Transcript.Problems. The transcript then holds what
// came before the error.
func Read(f Format, native string, src io.ReaderAt, opt ReadOptions) (*Transcript, Cost, error) {
	l := NewLoader(f, native)
	r := jsonl.NewReader(src, opt.From, max(1, opt.FromLine), opt.Options)
	if size := sizeOf(src); opt.Workers > 1 && size-opt.From > sequential {
		l.loadBulk(r, opt.Workers, size)
	} else {
		for line := range r.Lines() {
			l.Add(line)
		}
	}
	pending := r.Pending()
	// Unlike a live tail, a reader of a file at rest takes a last line that
	// is whole but for its line feed.
	if pending.Length > 0 && !pending.Flaw.Has(jsonl.TooLong) && jsonl.Valid(pending.Raw) {
		pending.Flaw &^= jsonl.Torn
		l.Add(pending)
		pending = jsonl.Line{}
	}
	cost := l.Cost()
	cost.Bytes = r.BytesRead()
	err := r.Err()
	if err != nil {
		err = &ReadError{Pos: Pos{Line: r.Num(), Offset: r.Offset()}, Err: err}
	}
	return l.TranscriptWith(pending), cost, err
}

// ReadError says where a transcript could not be read, and why.
type ReadError struct {
	Pos Pos
	Err error
}

func (e *ReadError) Error() string {
	return "transcript unreadable at line " + itoa(e.Pos.Line) + ": " + e.Err.Error()
}

// Unwrap gives the error of the source.
func (e *ReadError) Unwrap() error { return e.Err }

// LoadBody reads and decodes the content of one entry. The error is a
// *ReadError; io.ErrUnexpectedEOF in it means that the source is shorter than it was.
func LoadBody(f Format, src io.ReaderAt, e Entry) (Body, error) {
	raw, err := LoadRaw(src, e)
	if err != nil {
		return Body{}, err
	}
	return f.Body(raw), nil
}

// LoadRaw reads the bytes of one entry as they stand in the log.
func LoadRaw(src io.ReaderAt, e Entry) ([]byte, error) {
	raw := make([]byte, e.Pos.Length)
	if err := readRaw(src, e, raw); err != nil {
		return nil, err
	}
	return raw, nil
}

// readRaw fills raw with the bytes of an entry.
func readRaw(src io.ReaderAt, e Entry, raw []byte) error {
	if n, err := src.ReadAt(raw, e.Pos.Offset); n < len(raw) {
		return shortRead(e, err)
	}
	return nil
}

// shortRead is the error of a read that did not give all of e.
func shortRead(e Entry, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &ReadError{Pos: e.Pos, Err: err}
}
