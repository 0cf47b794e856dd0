// Command gen makes stores and transcripts for benchmarks; see package corpus.
//
//	go run ./testdata/gen -kind claude -sessions 2000 -bytes 220000000 -dir DIR
//	go run ./testdata/gen -kind claude -lines 80000 -bytes 108000000 -boundary 400 -file FILE
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/agent-ls/agent-ls/testdata/gen/corpus"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	var (
		kind     = flag.String("kind", "claude", "claude, pseudoclaude or mini-agent")
		dir      = flag.String("dir", "", "directory of a store to make")
		sessions = flag.Int("sessions", 100, "sessions of the store")
		file     = flag.String("file", "", "one transcript to make instead")
		lines    = flag.Int("lines", 1000, "its lines, about")
		boundary = flag.Int("boundary", 0, "lines behind its last compaction; 0 for none")
		size     = flag.Int("bytes", 0, "bytes in all, about")
		seed     = flag.Uint64("seed", 1, "the same seed gives the same bytes")
	)
	flag.Parse()
	switch {
	case *file != "":
		write, ok := map[string]func(io.Writer, corpus.Transcript) error{
			"claude": corpus.Claude, "pseudoclaude": corpus.PseudoClaude, "mini-agent": corpus.MiniAgent,
		}[*kind]
		if !ok {
			return fmt.Errorf("kind %q: want claude, pseudoclaude or mini-agent", *kind)
		}
		t := corpus.Transcript{Seed: *seed, Lines: *lines, Bytes: *size, Boundary: *boundary}
		return corpus.File(*file, func(w io.Writer) error { return write(w, t) })
	case *dir != "":
		if *size == 0 {
			*size = *sessions * 110_000
		}
		return corpus.Store(*dir, *kind, *sessions, *size, *seed)
	}
	return errors.New("give -dir for a store or -file for one transcript")
}
