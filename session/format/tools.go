package format

import (
	"strings"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// toolKinds maps the names of tools, lower case without separators, as the
// agents call them. Names that are not here are told by their words.
var toolKinds = map[string]session.ToolKind{
	"read": session.ToolRead, "readfile": session.ToolRead, "view": session.ToolRead, "cat": session.ToolRead,
	"notebookread": session.ToolRead, "readmanyfiles": session.ToolRead, "viewimage": session.ToolRead,
	"ls": session.ToolRead, "listdir": session.ToolRead, "listdirectory": session.ToolRead, "listfiles": session.ToolRead,
	"edit": session.ToolEdit, "multiedit": session.ToolEdit, "write": session.ToolEdit, "writefile": session.ToolEdit,
	"editfile": session.ToolEdit, "create": session.ToolEdit, "createfile": session.ToolEdit, "applypatch": session.ToolEdit,
	"replace": session.ToolEdit, "strreplace": session.ToolEdit, "strreplaceeditor": session.ToolEdit,
	"strreplacebasededittool": session.ToolEdit, "notebookedit": session.ToolEdit, "patch": session.ToolEdit,
	"delete": session.ToolDelete, "deletefile": session.ToolDelete, "remove": session.ToolDelete, "rm": session.ToolDelete,
	"move": session.ToolMove, "rename": session.ToolMove, "mv": session.ToolMove, "movefile": session.ToolMove,
	"grep": session.ToolSearch, "glob": session.ToolSearch, "search": session.ToolSearch, "find": session.ToolSearch,
	"searchfilecontent": session.ToolSearch, "codesearch": session.ToolSearch, "toolsearch": session.ToolSearch, "filesearch": session.ToolSearch,
	"bash": session.ToolExecute, "shell": session.ToolExecute, "exec": session.ToolExecute, "execcommand": session.ToolExecute,
	"runshellcommand": session.ToolExecute, "runcommand": session.ToolExecute, "runterminalcommand": session.ToolExecute,
	"localshell": session.ToolExecute, "bashoutput": session.ToolExecute, "killshell": session.ToolExecute, "killbash": session.ToolExecute,
	"execute": session.ToolExecute, "terminal": session.ToolExecute, "powershell": session.ToolExecute, "writestdin": session.ToolExecute,
	"think": session.ToolThink, "todowrite": session.ToolThink, "updateplan": session.ToolThink, "task": session.ToolThink,
	"agent": session.ToolThink, "exitplanmode": session.ToolThink, "todoread": session.ToolThink,
	"webfetch": session.ToolFetch, "fetch": session.ToolFetch, "websearch": session.ToolFetch, "googlewebsearch": session.ToolFetch,
	"browse": session.ToolFetch, "curl": session.ToolFetch,
}

// toolSeparators is built once: building it costs more than using it.
var toolSeparators = strings.NewReplacer("_", "", "-", "", " ", "", ".", "")

// toolFacts tells from its name and arguments what a tool does and which
// files it touches. args is a JSON value as logged, and may be damaged.
func toolFacts(name string, args []byte) (session.ToolKind, []session.Location) {
	key := strings.ToLower(toolSeparators.Replace(name))
	kind := toolKinds[key]
	var paths []string
	var line int
	jsonl.Members(args, func(k, v []byte) bool {
		switch string(k) {
		case "file_path", "filePath", "path", "absolute_path", "filename", "file", "notebook_path", "target_file", "source", "destination", "old_path", "new_path":
			if s, ok := jsonl.String(v); ok && plausiblePath(s) {
				paths = append(paths, s)
			}
		case "paths", "files":
			jsonl.Elements(v, func(e []byte) bool {
				if s, ok := jsonl.String(e); ok && plausiblePath(s) {
					paths = append(paths, s)
				}
				return len(paths) < maxLocations
			})
		case "offset", "line", "line_number", "start_line":
			if n, ok := jsonl.Int(v); ok && n > 0 && n < 1<<31 {
				line = int(n)
			}
		}
		return len(paths) < maxLocations
	})
	var locations []session.Location
	for _, p := range paths {
		locations = append(locations, session.Location{Path: p, Line: line})
	}
	return kind, locations
}

// maxLocations bounds what one hostile call can claim to touch.
const maxLocations = 64

// plausiblePath leaves out what no editor should offer as a link.
func plausiblePath(s string) bool {
	return s != "" && len(s) <= 4096 && !strings.ContainsAny(s, "\x00\n\r") && !strings.Contains(s, "://")
}
