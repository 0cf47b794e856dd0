package session

import (
	"time"
)

// Role is who speaks in an entry.
type Role uint8

// Roles.
const (
	NoRole Role = iota
	User
	Assistant
	System
	Tool
)

// String gives the wire word; "" for NoRole.
func (r Role) String() string {
	return [...]string{"", "user", "assistant", "system", "tool"}[r]
}

// ParseRole is the inverse of Role.String.
func ParseRole(s string) (Role, bool) {
	switch s {
	case "user":
		return User, true
	case "assistant":
		return Assistant, true
	case "system":
		return System, true
	case "tool":
		return Tool, true
	}
	return NoRole, false
}

// Kind is what an entry is in the log.
type Kind uint8

// Kinds of entry.
const (
	KindUnknown Kind = iota
	KindMessage
	KindReplace
	KindCompaction
	KindSummary
	KindMeta
)

// String gives the wire word.
func (k Kind) String() string {
	return [...]string{"unknown", "message", "replace", "compaction", "summary", "meta"}[k]
}

// Reason says why an entry is not part of the effective conversation.
type Reason uint8

// Reasons; Effective means that the entry counts.
const (
	Effective Reason = iota
	NotAMessage
	Replaced
	Compacted
	DeadBranch
	DanglingToolCall
	RolledBack
	Superseded
	SidechainEntry
	CopiedFromParent
)

// String gives the wire word; "" for Effective.
func (r Reason) String() string {
	return [...]string{
		"", "not-a-message", "replaced", "compacted", "dead-branch", "dangling-tool-call",
		"rolled-back", "superseded", "sidechain", "copied-from-parent",
	}[r]
}

// Pos is where an entry stands in its transcript. Several entries may share a
// line (glued objects), each with its own offset.
type Pos struct {
	Line   int   // 1-based
	Offset int64 // of the first byte of the entry's JSON value
	Length int   // of that value, in bytes
}

// End is the offset just behind the entry's value.
func (p Pos) End() int64 { return p.Offset + int64(p.Length) }

// Entry is the envelope of one logged event: what it is, where it stands and
// how it hangs together with others. It holds no text; Format.Body decodes
// that from the entry's own bytes when it is shown. So a transcript of any
// size costs memory by the number of its entries, not by their length.
type Entry struct {
	ID          string // the store's own id, else the decimal offset of the entry
	Parent      string // "" at a root or where the store has no tree
	Pos         Pos
	Time        time.Time // zero where the entry has none
	Role        Role
	Kind        Kind
	Type        string   // the store's own word for the line, e.g. "attachment"
	Group       string   // entries of one group make one model message; "" for a group of its own
	ToolUses    []string // ids of the calls made, in order
	ToolResults []string // ids of the calls answered, in order
	Sidechain   bool
	Session     string // the session that the entry itself names; "" where it is this one
	Bad         string // why the bytes are no event of the store; "" if they are
	// Mark is what only the format's own Replayer understands (a replace
	// count, a compact boundary, a pin). nil for most entries.
	Mark any
}

// Body is the decoded content of one entry.
type Body struct {
	Blocks []Block
	Model  string
	Usage  *Usage
}

// Usage is what a model call consumed, in tokens. A negative value is unknown.
type Usage struct {
	Input, Output, CacheRead, CacheWrite int64
	// Cost is in US dollars where the store records it, else negative.
	Cost float64
	// Key identifies the model call: entries with an equal non-empty key
	// describe one call and are counted once, the last one winning.
	Key string
}

// Block is one piece of content: Text, Thinking, ToolUse, ToolResult, Image or Unknown.
type Block interface{ block() }

// Text is plain text, Markdown by convention.
type Text struct{ Text string }

// Thinking is readable reasoning. Encrypted or signature-only reasoning is
// given as Unknown with Hidden set, never as text.
type Thinking struct{ Text string }

// ToolUse is a call. Input is one JSON value, as logged.
type ToolUse struct {
	ID, Name  string
	Input     []byte
	Kind      ToolKind
	Locations []Location
}

// ToolResult answers the call UseID.
type ToolResult struct {
	UseID   string
	Name    string // where the store records it
	Content []Block
	IsError bool
	// Spilled is the absolute path of the file that holds the full output,
	// where the agent moved it out of the log.
	Spilled string
}

// Image is inline base64 data (Data) or a reference (URI).
type Image struct{ MIMEType, URI, Data string }

// Unknown is kept as it was logged. Hidden marks what must not be shown as
// text (encrypted reasoning).
type Unknown struct {
	Raw    []byte
	Hidden bool
}

// Quoted is a Text, or a Thinking, as it stands in the log: JSON is the inside
// of a JSON string. Only Quoter.Quote gives it. It shares the bytes that it
// was taken from.
type Quoted struct {
	JSON     []byte
	Thinking bool
}

func (Quoted) block()     {}
func (Text) block()       {}
func (Thinking) block()   {}
func (ToolUse) block()    {}
func (ToolResult) block() {}
func (Image) block()      {}
func (Unknown) block()    {}

// Location is a file that a tool call touches; Line is 1-based, 0 if unknown.
type Location struct {
	Path string
	Line int
}

// ToolKind is what a tool does, in the words of the Agent Client Protocol.
type ToolKind uint8

// Kinds of tool.
const (
	ToolOther ToolKind = iota
	ToolRead
	ToolEdit
	ToolDelete
	ToolMove
	ToolSearch
	ToolExecute
	ToolThink
	ToolFetch
)

// String gives the wire word.
func (k ToolKind) String() string {
	return [...]string{"other", "read", "edit", "delete", "move", "search", "execute", "think", "fetch"}[k]
}

// Message is what a model API takes: several entries can make one (Entries
// names them, in order). As a draft to be appended, Entries is empty.
type Message struct {
	Role    Role
	Blocks  []Block
	Model   string
	Usage   *Usage
	Time    time.Time
	Entries []string
}

// Draft is a message to be appended, before it has an id.
type Draft = Message
