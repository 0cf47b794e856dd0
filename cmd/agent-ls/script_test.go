package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts run the real main in a home and a workspace of their own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
			e.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
			e.Setenv("XDG_DATA_HOME", filepath.Join(home, "data"))
			e.Setenv("CLAUDE_CONFIG_DIR", filepath.Join(home, "claude"))
			e.Setenv("TZ", "UTC")
			e.Cd = filepath.Join(e.WorkDir, "ws")
			for _, d := range []string{home, e.Cd} {
				if err := os.MkdirAll(d, 0o700); err != nil {
					return err
				}
			}
			return nil
		},
	})
}

func TestImplied(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "serve"}, // no terminal here
		{[]string{"--stdio"}, "serve"},
		{[]string{"--log-level=debug", "--stdio"}, "serve"},
		{[]string{"list", "--json"}, "list"},
		{[]string{"--help"}, "--help"},
	} {
		p := &process{args: c.args, stdin: os.Stdin, stdout: os.NewFile(^uintptr(0), "none")}
		if got := p.implied(); len(got) == 0 || got[0] != c.want {
			t.Errorf("%q implies %q, want %s", c.args, got, c.want)
		}
	}
}
