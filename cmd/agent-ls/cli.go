package main

import (
	"context"

	"github.com/alecthomas/kong"
)

// Globals are the flags that every command takes.
type Globals struct {
	Root     []string         `placeholder:"AGENT=DIR" help:"Directory of a store instead of the agent's default; may be repeated (claude=/backup/.claude/projects)."`
	Disable  []string         `placeholder:"AGENT" help:"Leave out an agent's store; may be repeated."`
	Cache    bool             `default:"true" negatable:"" help:"Keep what is known of sessions in the user's cache directory for the next start."`
	LogFile  string           `type:"path" placeholder:"FILE" help:"Write the log to a file instead of stderr."`
	LogLevel string           `enum:"debug,info,warn,error" default:"warn" help:"Least level that is logged: ${enum}."`
	MaxLine  int64            `default:"67108864" placeholder:"BYTES" help:"Longest line of a transcript that is decoded (default: 64 MiB)."`
	Version  kong.VersionFlag `help:"Print the version and exit."`
}

type cli struct {
	Globals

	List   listCmd   `cmd:"" help:"List sessions, newest first."`
	Search searchCmd `cmd:"" help:"Find text in what was said in sessions."`
	Show   showCmd   `cmd:"" help:"Print a session: the conversation as it counts, or every line of the log."`
	Resume resumeCmd `cmd:"" help:"Print what the agent would load, and the command that continues the session."`
	New    newCmd    `cmd:"" help:"Make a new session and print its id."`
	Append appendCmd `cmd:"" help:"Append messages to a session, durably."`
	Record recordCmd `cmd:"" help:"Append messages from stdin, one JSON object a line, acknowledging each."`
	Watch  watchCmd  `cmd:"" help:"Follow a session, or the list of sessions, until interrupted."`
	Prune  pruneCmd  `cmd:"" help:"Remove old sessions; says what it would do unless --yes."`

	Serve     serveCmd     `cmd:"" help:"Serve an editor on stdin and stdout (also: agent-ls --stdio)."`
	DemoAgent demoAgentCmd `cmd:"" hidden:""`
	Demo      demoCmd      `cmd:"" help:"Show the main job in a temporary workspace, in under 20 seconds."`

	VersionCmd versionCmd `cmd:"" name:"version" help:"Print the version."`
}

// check looks at what kong cannot.
func (c *cli) check() error {
	if c.MaxLine < 1<<10 {
		return usagef("--max-line %d is too small: at least 1024", c.MaxLine)
	}
	_, err := c.roots()
	return err
}

// run is what a command gets to do its work.
type run struct {
	*process
	ctx   context.Context //nolint:containedctx // the commands are methods that kong calls; one run is one call
	flags Globals
}

type versionCmd struct {
	JSON bool `help:"Print JSON."`
}

func (v *versionCmd) Run(r *run) error {
	if v.JSON {
		return r.printJSON(map[string]any{"name": "agent-ls", "version": version, "protocol": 1})
	}
	r.screenOf().printf("agent-ls %s\n", version)
	return nil
}
