package watcher

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also plays the part of other processes: with writerEnv set, the
// test binary appends lines to the file named there and does nothing else.
func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		if err := writeLines(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const writerEnv = "AGENT_LS_TEST_WRITER"

// writeLines appends numbered lines with one write each.
func writeLines(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(os.Getenv(writerEnv + "_LINES"))
	if err != nil {
		return err
	}
	for i := range n {
		if _, err := fmt.Fprintf(f, "%s-%d\n", os.Getenv(writerEnv+"_NAME"), i); err != nil {
			return err
		}
	}
	return f.Close()
}
