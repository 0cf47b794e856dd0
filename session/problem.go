package session

// Code names a kind of finding; the list is part of the wire contract.
type Code string

// Codes of findings.
const (
	BadJSON           Code = "bad-json"
	TornTail          Code = "torn-tail"
	GluedLines        Code = "glued-lines"
	NULRun            Code = "nul-run"
	TooLongLine       Code = "too-long-line"
	DanglingCall      Code = "dangling-tool-call"
	OrphanToolResult  Code = "orphan-tool-result"
	MissingParent     Code = "missing-parent"
	Cycle             Code = "cycle"
	DuplicateID       Code = "duplicate-id"
	PartialReplace    Code = "partial-replace"
	UnknownType       Code = "unknown-type"
	WrongSessionID    Code = "wrong-session-id"
	ClockWentBack     Code = "clock-went-back"
	MissingSpillFile  Code = "missing-spill-file"
	MissingParentFile Code = "missing-parent-file"
)

// Severity orders findings by what they cost the reader.
type Severity uint8

// Severities.
const (
	Hint Severity = iota
	Info
	Warning
	Error
)

// String gives the wire word.
func (s Severity) String() string { return [...]string{"hint", "info", "warning", "error"}[s] }

// Problem is a finding: damage or a repair, with its place. It is a value,
// not an error; reading goes on. Text never quotes the transcript.
type Problem struct {
	Code     Code
	Severity Severity
	Pos      Pos
	EntryID  string // the entry concerned, where there is one
	Text     string
}
