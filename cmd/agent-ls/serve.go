package main

import (
	"errors"
	"io"

	"go.uber.org/zap"

	"github.com/agent-ls/agent-ls/lsp/rpc"
)

type serveCmd struct {
	Stdio      bool   `help:"Serve on stdin and stdout (the only way there is; editors pass it)."`
	Framing    string `enum:"auto,lsp,ndjson" default:"auto" help:"How messages are delimited: found from the first byte, LSP headers, or one a line."`
	MaxMessage int64  `default:"268435456" placeholder:"BYTES" help:"Largest message that is read (default: 256 MiB)."`
}

func (*serveCmd) Help() string {
	return "Speaks JSON-RPC 2.0 as docs/protocol.md describes it. Standard output carries protocol only; the log goes to stderr or --log-file.\n" +
		"It ends with exit code 0 after shutdown and exit, else 1.\n\nExamples:\n  agent-ls --stdio\n  agent-ls serve --framing=ndjson --log-file=/tmp/agent-ls.log --log-level=debug"
}

func (c *serveCmd) Run(r *run) error {
	framing := map[string]rpc.Framing{"auto": rpc.Auto, "lsp": rpc.LSP, "ndjson": rpc.NDJSON}[c.Framing]
	if c.MaxMessage < 1<<10 {
		return usagef("--max-message %d is too small: at least 1024", c.MaxMessage)
	}
	a, err := r.newApp()
	if err != nil {
		return err
	}
	conn := rpc.NewConn(r.stdin, noClose{r.stdout}, rpc.Options{Framing: framing, MaxMessage: c.MaxMessage, Log: a.log})
	err = a.server.Serve(r.ctx, conn)
	a.catalog.Flush()
	if cerr := a.journal.Close(); cerr != nil {
		a.log.Error("appends could not be finished", zap.Error(cerr))
		err = errors.Join(err, cerr)
	}
	if err != nil {
		return err
	}
	if code := a.server.ExitCode(); code != exitOK {
		return exitCode(code)
	}
	return nil
}

// noClose keeps stdout open for what follows the connection.
type noClose struct{ io.Writer }
