package wire

import "github.com/go-json-experiment/json/jsontext"

// InitializeParams are what is used of the standard's.
type InitializeParams struct {
	ProcessID             *int              `json:"processId"`
	RootURI               *string           `json:"rootUri"`
	RootPath              *string           `json:"rootPath"`
	WorkspaceFolders      []WorkspaceFolder `json:"workspaceFolders"`
	InitializationOptions jsontext.Value    `json:"initializationOptions"` // Configuration
	Trace                 string            `json:"trace"`
}

// WorkspaceFolder is an open directory of the editor.
type WorkspaceFolder struct {
	URI  string `json:"uri"`
	Name string `json:"name"`
}

// FoldersParams of workspace/didChangeWorkspaceFolders.
type FoldersParams struct {
	Event FoldersEvent `json:"event"`
}

// FoldersEvent is what changed.
type FoldersEvent struct {
	Added   []WorkspaceFolder `json:"added"`
	Removed []WorkspaceFolder `json:"removed"`
}

// Configuration is initializationOptions, and section agentLs of
// workspace/didChangeConfiguration.
type Configuration struct {
	Stores map[string]StoreConfig `json:"stores,omitempty"`
	Watch  *WatchConfig           `json:"watch,omitempty"`
	Prune  *PruneConfig           `json:"prune,omitempty"`
	Log    *LogConfig             `json:"log,omitempty"`
}

// StoreConfig of one agent.
type StoreConfig struct {
	Roots   []string `json:"roots,omitempty"`
	Enabled *bool    `json:"enabled,omitempty"`
}

// WatchConfig of the watcher: how it watches (auto, always, never), and how
// long session/changed folds.
type WatchConfig struct {
	Poll       string `json:"poll,omitempty"`
	DebounceMS int    `json:"debounceMs,omitzero"`
}

// PruneConfig are the defaults of session/prune.
type PruneConfig struct {
	OlderThanDays *float64 `json:"olderThanDays,omitempty"`
	Basis         string   `json:"basis,omitempty"`
}

// LogConfig of the log.
type LogConfig struct {
	Level string `json:"level,omitempty"`
}

// ConfigurationParams of workspace/didChangeConfiguration.
type ConfigurationParams struct {
	Settings jsontext.Value `json:"settings"` // Settings
}

// Settings holds our section.
type Settings struct {
	AgentLs jsontext.Value `json:"agentLs"` // Configuration
}

// InitializeResult of initialize.
type InitializeResult struct {
	Capabilities Capabilities `json:"capabilities"`
	ServerInfo   ServerInfo   `json:"serverInfo"`
}

// ServerInfo names the server.
type ServerInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Capabilities of the server.
type Capabilities struct {
	Workspace    WorkspaceCapabilities `json:"workspace"`
	Experimental Experimental          `json:"experimental"`
}

// WorkspaceCapabilities of the server.
type WorkspaceCapabilities struct {
	WorkspaceFolders WorkspaceFolders `json:"workspaceFolders"`
}

// WorkspaceFolders says that changes of the folders are wanted.
type WorkspaceFolders struct {
	Supported           bool `json:"supported"`
	ChangeNotifications bool `json:"changeNotifications"`
}

// Experimental holds our own capabilities.
type Experimental struct {
	AgentLs AgentLs `json:"agentLs"`
}

// AgentLs are our own capabilities.
type AgentLs struct {
	Version int      `json:"version"`
	Methods []string `json:"methods"`
	Agents  []Agent  `json:"agents"`
}

// Agent is what can be done with the sessions of one agent.
type Agent struct {
	Agent  string   `json:"agent"`
	Roots  []string `json:"roots"`
	Append bool     `json:"append"`
	Fork   bool     `json:"fork"`
	Rename bool     `json:"rename"`
	Tree   bool     `json:"tree"`
}
