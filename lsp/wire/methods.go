package wire

import "github.com/go-json-experiment/json/jsontext"

// Filters select sessions; they are part of several requests.
type Filters struct {
	CWD                 string   `json:"cwd,omitempty"`
	Scope               string   `json:"scope,omitempty"` // exact, subtree, repository
	Agents              []string `json:"agents,omitempty"`
	Query               string   `json:"query,omitempty"`
	Status              []string `json:"status,omitempty"`
	Archived            string   `json:"archived,omitempty"` // exclude, include, only
	IncludeSubagents    bool     `json:"includeSubagents,omitzero"`
	IncludeEmpty        bool     `json:"includeEmpty,omitzero"`
	IncludeProgrammatic *bool    `json:"includeProgrammatic,omitempty"` // default true
	Exclude             []string `json:"exclude,omitempty"`
}

// ListParams of session/list.
type ListParams struct {
	Filters            `json:",inline"`
	Sort               string         `json:"sort,omitempty"` // updated, created, size, title
	Limit              *int           `json:"limit,omitempty"`
	Cursor             string         `json:"cursor,omitempty"`
	PartialResultToken jsontext.Value `json:"partialResultToken,omitempty"`
	WorkDoneToken      jsontext.Value `json:"workDoneToken,omitempty"`
}

// ListResult of session/list.
type ListResult struct {
	Sessions   []Session `json:"sessions"`
	NextCursor string    `json:"nextCursor,omitempty"`
	Total      int       `json:"total"`
}

// SearchParams of session/search. Query is the text to look for.
type SearchParams struct {
	Filters            `json:",inline"`
	Mode               string         `json:"mode,omitempty"` // text, regex
	CaseSensitive      bool           `json:"caseSensitive,omitzero"`
	Roles              []string       `json:"roles,omitempty"`
	Since              string         `json:"since,omitempty"`
	Until              string         `json:"until,omitempty"`
	Limit              *int           `json:"limit,omitempty"`
	Cursor             string         `json:"cursor,omitempty"`
	PartialResultToken jsontext.Value `json:"partialResultToken,omitempty"`
	WorkDoneToken      jsontext.Value `json:"workDoneToken,omitempty"`
}

// SearchResult of session/search.
type SearchResult struct {
	Hits       []Hit     `json:"hits"`
	NextCursor string    `json:"nextCursor,omitempty"`
	Searched   *Searched `json:"searched,omitempty"`
}

// Hit is an entry that was found.
type Hit struct {
	Session   Session `json:"session"`
	EntryID   string  `json:"entryId"`
	Line      int     `json:"line"`
	Offset    int64   `json:"offset"`
	Role      string  `json:"role"`
	Timestamp string  `json:"timestamp,omitempty"`
	Snippet   string  `json:"snippet"`
	Ranges    []Range `json:"ranges"`
}

// Searched says what was looked into for one page.
type Searched struct {
	Sessions int   `json:"sessions"`
	Bytes    int64 `json:"bytes"`
	// Failed is the number of sessions that could not be read.
	Failed int `json:"failed,omitzero"`
}

// ReadParams of session/read.
type ReadParams struct {
	SessionID string `json:"sessionId,omitempty"`
	URI       string `json:"uri,omitempty"`
	View      string `json:"view,omitempty"` // effective, physical
	Leaf      string `json:"leaf,omitempty"`
	After     string `json:"after,omitempty"`
	Before    string `json:"before,omitempty"`
	Limit     *int   `json:"limit,omitempty"`
	Raw       bool   `json:"raw,omitzero"`
	MaxBlock  int    `json:"maxBlock,omitzero"`
	Entry     string `json:"entry,omitempty"`
	Block     *int   `json:"block,omitempty"`
	Range     *Range `json:"range,omitempty"`
}

// Range is a half-open range: in bytes of a block's text where a part of it is
// asked for, in UTF-16 code units in the snippet of a Hit.
type Range struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// ReadResult of session/read.
type ReadResult struct {
	Session   Session  `json:"session"`
	Entries   []Entry  `json:"entries"`
	HasBefore bool     `json:"hasBefore"`
	HasAfter  bool     `json:"hasAfter"`
	Leaf      string   `json:"leaf,omitempty"`
	Branches  []Branch `json:"branches"`
	Report    Report   `json:"report"`
	Revision  string   `json:"revision"`
}

// ReadBlockResult of session/read with entry. Bytes is the size of the whole.
type ReadBlockResult struct {
	Entry string `json:"entry"`
	Block int    `json:"block"`
	Type  string `json:"type"`
	Text  string `json:"text"`
	Range Range  `json:"range"`
	Bytes int    `json:"bytes"`
}

// ResumeParams of session/resume.
type ResumeParams struct {
	SessionID string `json:"sessionId"`
	Leaf      string `json:"leaf,omitempty"`
	Subscribe *bool  `json:"subscribe,omitempty"` // default true
	MaxBlock  int    `json:"maxBlock,omitzero"`
}

// ResumeResult of session/resume. The server puts Messages in as it encodes
// them, one at a time; a client reads them here.
type ResumeResult struct {
	Messages []Message `json:"messages,omitempty"`
	Session  Session   `json:"session"`
	Report   Report    `json:"report"`
	Reminder *Reminder `json:"reminder,omitempty"`
	Command  *Command  `json:"command,omitempty"`
	Writer   *Writer   `json:"writer,omitempty"`
	Revision string    `json:"revision"`
}

// NewParams of session/new.
type NewParams struct {
	Agent string `json:"agent"`
	CWD   string `json:"cwd"`
	Model string `json:"model,omitempty"`
	Title string `json:"title,omitempty"`
}

// SessionResult of session/new, rename, tag, archive, unarchive and markRead.
type SessionResult struct {
	Session Session `json:"session"`
}

// AppendParams of session/append.
type AppendParams struct {
	SessionID        string      `json:"sessionId"`
	Messages         []MessageIn `json:"messages"`
	ParentID         string      `json:"parentId,omitempty"`
	ExpectedRevision string      `json:"expectedRevision,omitempty"`
	Durability       string      `json:"durability,omitempty"` // sync, batch
	Force            bool        `json:"force,omitzero"`
}

// ReplaceParams of session/replace.
type ReplaceParams struct {
	SessionID        string      `json:"sessionId"`
	Reason           string      `json:"reason"`
	Messages         []MessageIn `json:"messages"`
	ExpectedRevision string      `json:"expectedRevision,omitempty"`
	Force            bool        `json:"force,omitzero"`
}

// AppendResult of session/append and session/replace.
type AppendResult struct {
	Entries  []Appended `json:"entries"`
	Revision string     `json:"revision"`
}

// Appended is where an entry stands on disk.
type Appended struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset"`
	Length int    `json:"length"`
}

// ForkParams of session/fork.
type ForkParams struct {
	SessionID string `json:"sessionId"`
	At        string `json:"at,omitempty"`
	Agent     string `json:"agent,omitempty"`
	CWD       string `json:"cwd,omitempty"`
	Title     string `json:"title,omitempty"`
}

// ForkResult of session/fork.
type ForkResult struct {
	Session Session    `json:"session"`
	Report  ForkReport `json:"report"`
}

// ForkReport lists what the target store could not hold.
type ForkReport struct {
	Entries int      `json:"entries"`
	Lost    []string `json:"lost,omitempty"`
}

// SessionParams name one session: session/archive, unarchive, diagnose, unsubscribe.
type SessionParams struct {
	SessionID string `json:"sessionId"`
}

// RenameParams of session/rename. An empty title takes the name away.
type RenameParams struct {
	SessionID string  `json:"sessionId"`
	Title     *string `json:"title"`
}

// TagParams of session/tag: the tags replace those there were.
type TagParams struct {
	SessionID string   `json:"sessionId"`
	Tags      []string `json:"tags"`
}

// MarkReadParams of session/markRead; without an entry all is read.
type MarkReadParams struct {
	SessionID string `json:"sessionId"`
	Entry     string `json:"entry,omitempty"`
}

// DeleteParams of session/delete.
type DeleteParams struct {
	SessionID   string `json:"sessionId"`
	Permanently bool   `json:"permanently,omitzero"`
	Force       bool   `json:"force,omitzero"`
}

// DeleteResult of session/delete; Trashed is a URI in the trash.
type DeleteResult struct {
	Trashed string `json:"trashed,omitempty"`
}

// PruneParams of session/prune.
type PruneParams struct {
	OlderThanDays *float64 `json:"olderThanDays,omitempty"` // default 30
	Basis         string   `json:"basis,omitempty"`         // activity, created
	CWD           string   `json:"cwd,omitempty"`
	Agents        []string `json:"agents,omitempty"`
	DryRun        *bool    `json:"dryRun,omitempty"` // default true
}

// PruneResult of session/prune.
type PruneResult struct {
	Sessions []Session `json:"sessions"`
	Bytes    int64     `json:"bytes"`
	Kept     []Kept    `json:"kept"`
}

// Kept is an old session that was kept, and why.
type Kept struct {
	SessionID string `json:"sessionId"`
	Why       string `json:"why"`
}

// RepairParams of session/repair.
type RepairParams struct {
	SessionID string `json:"sessionId"`
	DryRun    *bool  `json:"dryRun,omitempty"` // default true
}

// DiagnoseResult of session/diagnose and session/repair.
type DiagnoseResult struct {
	Findings []Finding `json:"findings"`
	Actions  []string  `json:"actions"`
}

// SubscribeParams of session/subscribe.
type SubscribeParams struct {
	SessionID string `json:"sessionId"`
	After     string `json:"after,omitempty"`
	MaxBlock  int    `json:"maxBlock,omitzero"`
}

// SubscribeResult of session/subscribe.
type SubscribeResult struct {
	Revision string `json:"revision"`
}

// Update is session/update.
type Update struct {
	SessionID string  `json:"sessionId"`
	Revision  string  `json:"revision"`
	Session   Session `json:"session"`
	Entries   []Entry `json:"entries"`
	Reset     string  `json:"reset,omitempty"`
}

// Changed is session/changed.
type Changed struct {
	Added   []Session `json:"added"`
	Updated []Session `json:"updated"`
	Removed []string  `json:"removed"`
}

// WorkDone is the value of $/progress for a workDoneToken: begin, report, end.
type WorkDone struct {
	Kind    string `json:"kind"`
	Title   string `json:"title,omitempty"`
	Message string `json:"message,omitempty"`
}

// Progress is $/progress.
type Progress struct {
	Token jsontext.Value `json:"token"`
	Value any            `json:"value"`
}
