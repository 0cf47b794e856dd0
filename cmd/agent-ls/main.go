// Command agent-ls lists, replays, resumes, appends and follows the sessions
// of coding agents, for editors over stdio and for people on the command line.
//
// It is the only package that knows flags, environment, standard streams and
// the clock. Invariant: when it serves, standard output carries protocol only.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/term"
)

// version is set by the linker.
var version = "dev"

// Exit codes; part of the command's contract.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// gcPercent keeps less garbage than the default: answering with a transcript
// of 108 MB took 199 instead of 277 MiB at its peak, in no more time.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	cwd, err := os.Getwd()
	if err != nil {
		cwd = ""
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	p := &process{
		args:   os.Args[1:],
		stdin:  os.Stdin,
		stdout: os.Stdout,
		stderr: os.Stderr,
		getenv: os.Getenv,
		cwd:    cwd,
		home:   home,
	}
	os.Exit(p.run())
}

// process is what the program may know of its surroundings.
type process struct {
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	cwd, home      string
}

// usageError is a wrong call: exit code 2.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// run is main without os.Exit.
func (p *process) run() (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	var c cli
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("agent-ls"),
		kong.Description("Sessions of coding agents: list, replay, resume, append, follow.\n\nWithout a command on a terminal it lists the sessions of this directory; otherwise it serves an editor on stdin and stdout."),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(func(code int) {
			if exited < 0 {
				exited = code
			}
		}),
		kong.Vars{"version": version},
	)
	if err != nil {
		return p.fail(err)
	}
	k, err := parser.Parse(p.implied())
	if exited >= 0 { // --help was printed
		return exited
	}
	if err != nil {
		return p.fail(&usageError{err.Error() + "; see agent-ls --help"})
	}
	if err := c.check(); err != nil {
		return p.fail(err)
	}
	err = k.Run(&run{ctx: ctx, process: p, flags: c.Globals})
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return exitFailed // interrupted: the user knows
	}
	if err != nil {
		return p.fail(err)
	}
	return exitOK
}

// implied puts in the command that a call without one means.
func (p *process) implied() []string {
	if len(p.args) == 0 {
		if isTerminal(p.stdin) && isTerminal(p.stdout) {
			return []string{"list"}
		}
		return []string{"serve"}
	}
	for _, a := range p.args {
		if !strings.HasPrefix(a, "-") {
			return p.args
		}
		if a == "--stdio" {
			return append([]string{"serve"}, p.args...)
		}
	}
	return p.args
}

func (p *process) fail(err error) int {
	var exit exitCode
	if errors.As(err, &exit) {
		return int(exit)
	}
	_, _ = fmt.Fprintf(p.stderr, "agent-ls: %s\n", visible(err.Error(), true))
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// exitCode ends the program with a code and without a message of its own.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// screenOf is where a command prints for people.
func (p *process) screenOf() *screen {
	s := &screen{w: p.stdout}
	f, ok := p.stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	s.colour = p.getenv("NO_COLOR") == "" && p.getenv("TERM") != "dumb"
	if w, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.width = w
	}
	return s
}
