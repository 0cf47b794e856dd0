// Package wire has the messages of the contract in docs/protocol.md, as they
// are encoded. It has no behaviour and knows no other package; lsp/convert.go
// makes its values from those of the domain.
//
// Invariant: what is absent is unknown; no empty string and no zero stands
// for "unknown". Fields may be added; names and meanings stay.
package wire

import "github.com/go-json-experiment/json/jsontext"

// Version of the contract, as in capabilities.experimental.agentLs.
const Version = 1

// Session is one conversation; docs/protocol.md, section 3.
type Session struct {
	SessionID       string            `json:"sessionId"`
	Agent           string            `json:"agent"`
	NativeID        string            `json:"nativeId"`
	URI             string            `json:"uri"`
	CWD             string            `json:"cwd,omitempty"`
	CWDMissing      bool              `json:"cwdMissing,omitzero"`
	Title           string            `json:"title,omitempty"`
	TitleSource     string            `json:"titleSource"`
	FirstPrompt     string            `json:"firstPrompt,omitempty"`
	LastPrompt      string            `json:"lastPrompt,omitempty"`
	Model           string            `json:"model,omitempty"`
	GitBranch       string            `json:"gitBranch,omitempty"`
	CreatedAt       string            `json:"createdAt,omitempty"`
	UpdatedAt       string            `json:"updatedAt,omitempty"`
	Status          string            `json:"status"`
	Counts          *Counts           `json:"counts,omitempty"`
	Size            int64             `json:"size"`
	Kind            string            `json:"kind"`
	ParentSessionID string            `json:"parentSessionId,omitempty"`
	ParentToolUseID string            `json:"parentToolUseId,omitempty"`
	Archived        bool              `json:"archived,omitzero"`
	Tags            []string          `json:"tags,omitempty"`
	Unread          bool              `json:"unread,omitzero"`
	Programmatic    bool              `json:"programmatic,omitzero"`
	Empty           bool              `json:"empty,omitzero"`
	Can             Can               `json:"can"`
	WhyNot          map[string]string `json:"whyNot,omitempty"`
	Revision        string            `json:"revision,omitempty"`
	Problems        *int              `json:"problems,omitempty"`
}

// Counts are message entries in the log and in the conversation after replay.
type Counts struct {
	Physical  int  `json:"physical"`
	Effective *int `json:"effective,omitempty"`
}

// Can says which operations a session takes.
type Can struct {
	Append bool `json:"append"`
	Fork   bool `json:"fork"`
	Rename bool `json:"rename"`
	Delete bool `json:"delete"`
	Resume bool `json:"resume"`
}

// Entry is one logged event.
type Entry struct {
	ID        string  `json:"id"`
	ParentID  string  `json:"parentId,omitempty"`
	Line      int     `json:"line"`
	Offset    int64   `json:"offset"`
	Length    int     `json:"length"`
	Timestamp string  `json:"timestamp,omitempty"`
	Role      string  `json:"role,omitempty"`
	Kind      string  `json:"kind"`
	Type      string  `json:"type,omitempty"` // the store's own word
	Content   []Block `json:"content,omitempty"`
	Model     string  `json:"model,omitempty"`
	Usage     *Usage  `json:"usage,omitempty"`
	Sidechain bool    `json:"sidechain,omitzero"`
	Effective bool    `json:"effective"`
	Excluded  string  `json:"excluded,omitempty"`
	Raw       string  `json:"raw,omitempty"`
}

// Block is a content block; which fields it has depends on Type.
type Block struct {
	Type      string         `json:"type"`
	Text      string         `json:"text,omitempty"`      // text, thinking
	ID        string         `json:"id,omitempty"`        // tool_use
	Name      string         `json:"name,omitempty"`      // tool_use, tool_result
	Input     jsontext.Value `json:"input,omitempty"`     // tool_use
	Kind      string         `json:"kind,omitempty"`      // tool_use
	Locations []Location     `json:"locations,omitempty"` // tool_use
	ToolUseID string         `json:"toolUseId,omitempty"` // tool_result
	Content   []Block        `json:"content,omitempty"`   // tool_result
	IsError   bool           `json:"isError,omitzero"`    // tool_result
	Spilled   string         `json:"spilled,omitempty"`   // tool_result
	MIMEType  string         `json:"mimeType,omitempty"`  // image
	URI       string         `json:"uri,omitempty"`       // image
	Data      string         `json:"data,omitempty"`      // image
	Raw       string         `json:"raw,omitempty"`       // unknown
	Cut       *Cut           `json:"cut,omitempty"`
}

// Cut says how large a shortened block is as a whole, in bytes.
type Cut struct {
	Bytes int `json:"bytes"`
}

// Location is a file that a tool call touches.
type Location struct {
	Path string `json:"path"`
	Line int    `json:"line,omitzero"`
}

// Usage is in tokens.
type Usage struct {
	Input      *int64   `json:"input,omitempty"`
	Output     *int64   `json:"output,omitempty"`
	CacheRead  *int64   `json:"cacheRead,omitempty"`
	CacheWrite *int64   `json:"cacheWrite,omitempty"`
	Cost       *float64 `json:"cost,omitempty"`
}

// Message is what a model API takes.
type Message struct {
	Role      string   `json:"role"`
	Content   []Block  `json:"content"`
	Model     string   `json:"model,omitempty"`
	Usage     *Usage   `json:"usage,omitempty"`
	Timestamp string   `json:"timestamp,omitempty"`
	EntryIDs  []string `json:"entryIds,omitempty"`
}

// MessageIn is a message to be written; Content is a string or blocks.
type MessageIn struct {
	Role      string         `json:"role"`
	Content   jsontext.Value `json:"content"`
	Model     string         `json:"model,omitempty"`
	Usage     *Usage         `json:"usage,omitempty"`
	Timestamp string         `json:"timestamp,omitempty"`
}

// Report is what reading repaired or left out; section 4.1.
type Report struct {
	BadLines         []BadLine `json:"badLines"`
	Dangling         *Dangling `json:"dangling,omitempty"`
	MissingParent    []string  `json:"missingParent,omitempty"`
	Cycle            []string  `json:"cycle,omitempty"`
	DuplicateIDs     []string  `json:"duplicateIds,omitempty"`
	TornTail         *BadLine  `json:"tornTail,omitempty"`
	CopiedFromParent int       `json:"copiedFromParent,omitzero"`
	Spilled          []string  `json:"spilled,omitempty"`
	Findings         []Finding `json:"findings,omitempty"`
	Cost             *Cost     `json:"cost,omitempty"`
}

// BadLine is a place that could not be read.
type BadLine struct {
	Line   int    `json:"line"`
	Offset int64  `json:"offset"`
	Length int    `json:"length"`
	Reason string `json:"reason"`
}

// Dangling describes tool calls without results that were cut.
type Dangling struct {
	EntryID    string   `json:"entryId"`
	ToolUseIDs []string `json:"toolUseIds"`
	Dropped    int      `json:"dropped"`
}

// Cost is what a read took: bytes, lines, the longest line, bytes of lines
// above --max-line that were not decoded, and where the replay began.
type Cost struct {
	Bytes       int64 `json:"bytes"`
	Lines       int   `json:"lines"`
	LongestLine int64 `json:"longestLine"`
	Skipped     int64 `json:"skipped,omitzero"`
	From        int64 `json:"from,omitzero"`
}

// Finding is damage or a repair, with its place; section 6. Action names the
// safe repair that session/repair offers.
type Finding struct {
	Code     string `json:"code"`
	Severity string `json:"severity"`
	Line     int    `json:"line"`
	Offset   int64  `json:"offset"`
	Length   int    `json:"length"`
	EntryID  string `json:"entryId,omitempty"`
	Message  string `json:"message"`
	Action   string `json:"action,omitempty"`
}

// Command continues a session in its agent's own CLI: an argument vector,
// never a shell string.
type Command struct {
	Argv []string          `json:"argv"`
	CWD  string            `json:"cwd,omitempty"`
	Env  map[string]string `json:"env,omitempty"`
}

// Writer is another process that holds a session.
type Writer struct {
	PID   int    `json:"pid,omitzero"`
	Since string `json:"since,omitempty"`
}

// Reminder is for the caller to add in memory; it is never written to the log.
type Reminder struct {
	Text          string `json:"text"`
	LastMessageAt string `json:"lastMessageAt"`
}

// Branch is another tip of a tree.
type Branch struct {
	Leaf      string `json:"leaf"`
	ForkedAt  string `json:"forkedAt,omitempty"`
	UpdatedAt string `json:"updatedAt,omitempty"`
	Entries   int    `json:"entries"`
}
