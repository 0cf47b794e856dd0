package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/agent-ls/agent-ls/lsp"
	"github.com/agent-ls/agent-ls/lsp/rpc"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/format"
	"github.com/agent-ls/agent-ls/session/journal"
	"github.com/agent-ls/agent-ls/session/jsonl"
	"github.com/agent-ls/agent-ls/session/vfs"
	"github.com/agent-ls/agent-ls/watcher"
)

// systemClock is the only place that asks for the time.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

// app is the program put together.
type app struct {
	log     *zap.Logger
	catalog *catalog.Catalog
	journal *journal.Journal
	server  *lsp.Server
}

// newApp wires the layers. workspaces are the directories whose sessions are
// wanted; an editor changes them later.
func (r *run) newApp(workspaces ...string) (*app, error) {
	log, level, err := r.logger()
	if err != nil {
		return nil, err
	}
	roots, err := r.flags.roots()
	if err != nil {
		return nil, err
	}
	fsys := vfs.OS()
	limits := jsonl.Options{MaxLine: r.flags.MaxLine}
	disabled := map[string]bool{}
	for _, a := range r.flags.Disable {
		disabled[a] = true
	}
	cat, err := catalog.Open(catalog.Options{
		FS: fsys,
		Env: session.Env{
			Home: r.home, GOOS: runtime.GOOS, Getenv: r.getenv,
			Workspaces: workspaces, Roots: roots,
		},
		Formats:   format.All(),
		StateDir:  r.stateDir(),
		CachePath: r.cachePath(),
		Version:   build(),
		Clock:     systemClock{},
		Alive:     processAlive,
		PID:       os.Getpid(),
		Limits:    limits,
		Disabled:  disabled,
		Report:    func(err error) { log.Warn("a session, a file of notes or the cache cannot be used", zap.Error(err)) },
	})
	if err != nil {
		return nil, err
	}
	a := &app{log: log, catalog: cat, journal: journal.New(fsys, systemClock{})}
	a.server = lsp.NewServer(lsp.Options{
		Catalog:      cat,
		Journal:      a.journal,
		Hub:          watcher.NewHub(watcher.HubOptions{Catalog: cat, FS: fsys, Log: log, Limits: limits}),
		Clock:        systemClock{},
		Random:       rand.Reader,
		Log:          log,
		Version:      version,
		PID:          os.Getpid(),
		WatchProcess: watchProcess,
		SetLogLevel: func(s string) error {
			l, err := zapcore.ParseLevel(s)
			if err == nil {
				level.SetLevel(l)
			}
			return err
		},
	})
	return a, nil
}

// local is a server in this process and the connection to it.
type local struct {
	*app
	*client
	served chan error
}

// connect starts a server for the commands of the command line: an editor in
// the same process. The first scan has ended when it returns.
func (r *run) connect(notify func(string, []byte), workspaces ...string) (*local, error) {
	a, err := r.newApp(workspaces...)
	if err != nil {
		return nil, err
	}
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	conn := rpc.NewConn(toServer, fromServer, rpc.Options{Framing: rpc.NDJSON, Log: a.log})
	l := &local{app: a, served: make(chan error, 1)}
	go func() {
		err := a.server.Serve(r.ctx, conn)
		// The reader on the other side must see an end in any case.
		a.catalog.Flush()
		l.served <- errors.Join(err, fromServer.Close(), a.journal.Close())
	}()
	l.client = newClient(toClient, fromClient, notify)
	var folders []any
	for _, w := range workspaces {
		folders = append(folders, map[string]any{"uri": fileURI(w), "name": filepath.Base(w)})
	}
	if err := l.client.call(r.ctx, "initialize", map[string]any{"processId": nil, "capabilities": map[string]any{}, "workspaceFolders": folders}, nil); err != nil {
		return nil, err
	}
	select {
	case <-a.catalog.Scanned():
	case <-r.ctx.Done():
		return nil, r.ctx.Err()
	}
	return l, nil
}

// call asks the server without the pipe between, so that a long answer is not
// copied and decoded on the way. Notifications still come through the client.
func (l *local) call(ctx context.Context, method string, params, result any) error {
	p, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer, err := l.server.Handle(ctx, &rpc.Request{Method: method, Params: p})
	var rerr *rpc.Error
	if errors.As(err, &rerr) {
		return &rpcError{Code: int(rerr.Code), Message: rerr.Message}
	}
	if err != nil {
		return err
	}
	if r, ok := answer.(rpc.Reply); ok {
		if r.After != nil {
			defer r.After()
		}
		answer = r.Result
	}
	raw, err := rpc.Encode(answer)
	if err != nil || result == nil {
		return err
	}
	if r, ok := result.(*json.RawMessage); ok {
		*r = json.RawMessage(raw)
		return nil
	}
	return json.Unmarshal(raw, result)
}

// done ends the connection and the server, which writes what is queued.
func (l *local) done(ctx context.Context) error {
	interrupted := ctx.Err() != nil // then the server has ended by itself
	err := l.close(context.WithoutCancel(ctx))
	if serr := <-l.served; serr != nil && !errors.Is(serr, context.Canceled) {
		return serr
	}
	if interrupted {
		return nil
	}
	return err
}

// logger writes to stderr or --log-file, never to stdout.
func (r *run) logger() (*zap.Logger, zap.AtomicLevel, error) {
	level := zap.NewAtomicLevel()
	l, err := zapcore.ParseLevel(r.flags.LogLevel)
	if err != nil {
		return nil, level, usagef("--log-level: %v", err)
	}
	level.SetLevel(l)
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	var sink zapcore.WriteSyncer = zapcore.Lock(zapcore.AddSync(r.stderr))
	if r.flags.LogFile != "" {
		f, err := os.OpenFile(r.flags.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, level, err
		}
		sink = zapcore.Lock(f)
	}
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(enc), sink, level)), level, nil
}

// roots decodes --root AGENT=DIR.
func (g *Globals) roots() (map[string][]string, error) {
	out := map[string][]string{}
	for _, s := range g.Root {
		agent, dir, ok := strings.Cut(s, "=")
		if !ok || agent == "" || dir == "" {
			return nil, usagef("--root %q: want AGENT=DIR", s)
		}
		known := agents()
		found := false
		for _, k := range known {
			found = found || k == agent
		}
		if !found {
			return nil, usagef("--root %q: no agent %q (known: %s)", s, agent, strings.Join(known, ", "))
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		out[agent] = append(out[agent], abs)
	}
	return out, nil
}

func agents() []string {
	var out []string
	for _, f := range format.All() {
		out = append(out, f.Name())
	}
	return out
}

// stateDir is where the overlay lives; see docs/protocol.md, files of its own.
func (r *run) stateDir() string {
	if d := r.getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "agent-ls")
	}
	if r.home == "" {
		return ""
	}
	switch runtime.GOOS {
	case "darwin":
		return filepath.Join(r.home, "Library", "Application Support", "agent-ls")
	case "windows":
		if d := r.getenv("LOCALAPPDATA"); d != "" {
			return filepath.Join(d, "agent-ls")
		}
		return filepath.Join(r.home, "AppData", "Local", "agent-ls")
	}
	return filepath.Join(r.home, ".local", "state", "agent-ls")
}

// cachePath is where rows outlive the process; "" for nowhere (no home, or
// --no-cache). See
// docs/protocol.md, files of its own.
func (r *run) cachePath() string {
	const name = "rows"
	if !r.flags.Cache {
		return ""
	}
	if d := r.getenv("XDG_CACHE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "agent-ls", name)
	}
	if r.home == "" {
		return ""
	}
	switch runtime.GOOS {
	case "darwin":
		return filepath.Join(r.home, "Library", "Caches", "agent-ls", name)
	case "windows":
		if d := r.getenv("LOCALAPPDATA"); d != "" {
			return filepath.Join(d, "agent-ls", "cache", name)
		}
		return filepath.Join(r.home, "AppData", "Local", "agent-ls", "cache", name)
	}
	return filepath.Join(r.home, ".cache", "agent-ls", name)
}

// build tells builds apart, also those of one version during development:
// another one may make other rows of the same files.
func build() string {
	exe, err := os.Executable()
	if err != nil {
		return version
	}
	info, err := os.Stat(exe)
	if err != nil {
		return version
	}
	return fmt.Sprintf("%s %d %d", version, info.Size(), info.ModTime().UnixNano())
}

// processEvery is how often a watched process is looked for. The end of
// stdin tells of nearly all ends at once; this is for the rest.
const processEvery = 5 * time.Second

// watchProcess gives a channel that is closed when pid has ended or ctx ends.
func watchProcess(ctx context.Context, pid int) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		t := time.NewTicker(processEvery)
		defer t.Stop()
		for processAlive(pid) {
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return gone
}
