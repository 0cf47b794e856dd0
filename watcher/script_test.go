package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/jsonl"
)

// A script is a list of commands and, behind "Output:", the updates that the
// subscribers get. Paths are below a directory of the script's own; the root
// of the store is "s" there, and does not exist before "mkdir s".
//
//	append FILE WORD...    add lines, one word each
//	raw FILE "QUOTED"      add bytes, in Go's quotes
//	part FILE WORD         add a word without the line feed
//	write FILE WORD...     the same file with other lines (O_TRUNC)
//	over FILE OFFSET WORD  other bytes at an offset, no truncation
//	truncate FILE SIZE
//	replace FILE WORD...   another file with these lines gets the name
//	mv FROM TO, rm PATH, mkdir DIR, ln TARGET NAME (a symbolic link)
//	sub NAME FILE [AFTER [HAD]]  subscribe to the session at FILE as NAME, which
//	                       has HAD entries of an unfinished last line already
//	unsub NAME
//	list                   follow the list
//	await +ID -ID...       wait for changes of the list
//	deaf / hear            hints are lost / are given again
//	overflow               the notifier says that hints were lost
//	roots DIR...           the catalog has other roots now
//
// After each command the runner waits until every subscriber has a state that
// fits the files, unless the command begins with "-". The last line of a
// script is waited for in any case. "# " begins a comment.
//
// An update is shown as NAME, the reason of a reset, "+" and the new words,
// "gone". A change of the list is shown as "list", "+" and "-" with sessions.
type script struct {
	t      tester
	ctx    context.Context //nolint:containedctx // of the whole script
	cancel context.CancelFunc
	ended  chan error
	dir    string
	fs     *countingFS
	cat    *toyCatalog
	hub    *Hub
	n      *muffled
	fake   *fakeNotifier // nil with a real one

	mu   sync.Mutex
	step int // number of the command
	out  []string
	list []string // heard and not yet in out
	subs map[string]*follower
	news chan struct{} // one place: something was heard
}

// follower is a subscriber that keeps what it was told.
type follower struct {
	sub   *Subscription
	id    session.ID
	path  string
	base  int // entries before the place at which it began
	had   int // entries behind base that it had from elsewhere
	words []string
	gone  bool
	seen  bool // the feed has seen the file, for certain
	line  int  // its last line in out, written ...
	step  int  // ... during this command
	done  chan struct{}
}

var notifiers = map[string]func(t *testing.T, fs *countingFS) Notifier{
	"fsnotify": func(t *testing.T, fs *countingFS) Notifier {
		return newNotifier(t, NotifierOptions{FS: fs, Poll: PollNever})
	},
	"poll": func(t *testing.T, fs *countingFS) Notifier {
		return newNotifier(t, NotifierOptions{FS: fs, Poll: PollAlways, Interval: 2 * time.Millisecond, Focused: time.Millisecond})
	},
	"fake": func(*testing.T, *countingFS) Notifier { return newFakeNotifier() },
}

func newNotifier(t *testing.T, o NotifierOptions) Notifier {
	n, err := NewNotifier(o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for name, notifier := range notifiers {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					runScript(t, string(data), notifier)
				})
			}
		})
	}
}

func runScript(t *testing.T, text string, notifier func(*testing.T, *countingFS) Notifier) {
	commands, want, ok := strings.Cut(text, "\nOutput:\n")
	if !ok {
		t.Fatal("script without Output:")
	}
	fs := newCountingFS()
	s := startScript(t, realPath(t, t.TempDir()), fs, notifier(t, fs))
	defer s.stop()
	for line := range strings.Lines(commands) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fast := strings.HasPrefix(line, "-")
		args := strings.Fields(strings.TrimPrefix(line, "-"))
		s.command(args)
		if !fast {
			s.settle(line)
			s.mu.Lock()
			s.step++
			s.mu.Unlock()
		}
	}
	s.settle("the end")
	s.tellList()
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	byName(lines)
	byName(s.out)
	if diff := cmp.Diff(lines, s.out); diff != "" {
		t.Errorf("updates (-want +got)\n%s", diff)
	}
}

func realPath(t *testing.T, path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

// tester is what a *testing.T and a *rapid.T have in common.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Error(...any)
	Errorf(string, ...any)
}

// startScript runs a Hub on dir. The caller stops it.
func startScript(t tester, dir string, fs *countingFS, n Notifier) *script {
	s := &script{t: t, dir: dir, fs: fs, subs: map[string]*follower{}, news: make(chan struct{}, 1), ended: make(chan error, 1)}
	s.cat = newToyCatalog(s.fs, s.path("s"))
	s.fake, _ = n.(*fakeNotifier)
	s.n = muffle(n)
	s.hub = newHub(s.cat, HubOptions{FS: s.fs, Notifier: s.n, Limits: jsonl.Options{Window: 64}})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go func() { s.ended <- s.hub.Run(s.ctx) }()
	s.await("the first scan", func() bool { return s.cat.scans.Load() > 0 })
	return s
}

// stop ends everything, and makes sure that nothing is left.
func (s *script) stop() {
	s.mu.Lock()
	subs := maps.Clone(s.subs)
	s.mu.Unlock()
	for _, f := range subs {
		f.sub.Close()
		<-f.done
	}
	s.cancel()
	if err := <-s.ended; err != nil {
		s.t.Error(err)
	}
	if n := s.fs.open.Load(); n != 0 {
		s.t.Errorf("%d files left open", n)
	}
}

// byName groups updates by subscriber, since only the order of each is told.
func byName(updates []string) {
	slices.SortStableFunc(updates, func(a, b string) int {
		a, _, _ = strings.Cut(a, " ")
		b, _, _ = strings.Cut(b, " ")
		return strings.Compare(a, b)
	})
}

func (s *script) path(p string) string { return filepath.Join(s.dir, filepath.FromSlash(p)) }

func (s *script) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func lines(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return strings.Join(words, "\n") + "\n"
}

func (s *script) write(path string, flag int, text string) {
	f, err := os.OpenFile(s.path(path), flag|os.O_WRONLY, 0o644)
	s.must(err)
	_, err = f.WriteString(text)
	s.must(err)
	s.must(f.Close())
}

func (s *script) command(args []string) {
	touched := func(paths ...string) {
		if s.fake == nil {
			return
		}
		for _, p := range paths {
			s.fake.hint(s.path(p))
		}
	}
	arg := func(i int) string { return args[i] }
	switch args[0] {
	case "append":
		s.write(arg(1), os.O_APPEND|os.O_CREATE, lines(args[2:]))
		touched(arg(1))
	case "part":
		s.write(arg(1), os.O_APPEND|os.O_CREATE, arg(2))
		touched(arg(1))
	case "raw":
		text, err := strconv.Unquote(strings.Join(args[2:], " "))
		s.must(err)
		s.write(arg(1), os.O_APPEND|os.O_CREATE, text)
		touched(arg(1))
	case "write":
		s.write(arg(1), os.O_TRUNC|os.O_CREATE, lines(args[2:]))
		touched(arg(1))
	case "over":
		f, err := os.OpenFile(s.path(arg(1)), os.O_WRONLY, 0)
		s.must(err)
		off, err := strconv.ParseInt(arg(2), 10, 64)
		s.must(err)
		_, err = f.WriteAt([]byte(arg(3)), off)
		s.must(err)
		s.must(f.Close())
		touched(arg(1))
	case "truncate":
		size, err := strconv.ParseInt(arg(2), 10, 64)
		s.must(err)
		s.must(os.Truncate(s.path(arg(1)), size))
		touched(arg(1))
	case "replace":
		tmp := s.path(arg(1)) + ".tmp"
		s.must(os.WriteFile(tmp, []byte(lines(args[2:])), 0o644))
		s.must(os.Rename(tmp, s.path(arg(1))))
		touched(arg(1)+".tmp", arg(1))
	case "mv":
		s.must(os.Rename(s.path(arg(1)), s.path(arg(2))))
		touched(arg(1), arg(2))
	case "rm":
		s.must(os.RemoveAll(s.path(arg(1))))
		touched(arg(1))
	case "mkdir":
		s.must(os.MkdirAll(s.path(arg(1)), 0o755))
		for p := arg(1); p != "."; p = filepath.Dir(p) {
			touched(p)
		}
	case "ln":
		s.must(os.Symlink(s.path(arg(1)), s.path(arg(2))))
		touched(arg(2))
	case "sub":
		after := ""
		if len(args) > 3 {
			after = strings.Trim(arg(3), `"`)
		}
		had := 0
		if len(args) > 4 {
			n, err := strconv.Atoi(args[4])
			s.must(err)
			had = n
		}
		s.subscribe(arg(1), arg(2), after, had)
	case "unsub":
		s.mu.Lock()
		f := s.subs[arg(1)]
		delete(s.subs, arg(1))
		s.mu.Unlock()
		f.sub.Close()
		<-f.done
	case "list":
		ch := s.hub.Changes(s.ctx)
		go func() {
			for c := range ch {
				s.heardList(c)
			}
		}()
	case "await":
		s.await(strings.Join(args, " "), func() bool {
			return !slices.ContainsFunc(args[1:], func(w string) bool { return !slices.Contains(s.list, w) })
		})
		s.tellList()
	case "deaf":
		s.n.deaf(true)
		s.quiet()
	case "hear":
		s.n.deaf(false)
	case "overflow":
		s.n.events <- Event{Overflow: true}
	case "roots":
		var roots []string
		for _, r := range args[1:] {
			roots = append(roots, s.path(r))
		}
		s.cat.setRoots(roots...)
		s.hub.RootsChanged()
	default:
		s.t.Fatalf("unknown command %q", args)
	}
}

// quiet returns when every hint that was given has been followed.
func (s *script) quiet() {
	for {
		idle := make(chan bool, 1)
		var r *router
		s.hub.ask <- func(router *router) {
			r = router
			idle <- router.work.empty() && len(router.due.paths) == 0 && !router.due.scan
		}
		free := <-idle
		// The scout and the refresher take more when they have done what they had.
		r.places <- scoutWork{}
		r.rows <- rowWork{}
		var feeds []*feed
		s.hub.ask <- func(r *router) {
			for _, f := range r.feeds {
				feeds = append(feeds, f)
			}
			idle <- r.work.empty()
		}
		free = <-idle && free
		for _, f := range feeds {
			free = free && len(f.wake) == 0
			done := make(chan struct{})
			f.ask <- func() { close(done) }
			<-done
		}
		if free {
			return
		}
	}
}

func (s *script) subscribe(name, file, after string, had int) {
	path := s.path(file)
	row, ok := s.cat.row(path)
	if !ok {
		row.ID = session.ID{Agent: "toy", Native: file}
	}
	sub, err := s.hub.SubscribeFile(s.ctx, row.ID, path, after)
	s.must(err)
	f := &follower{sub: sub, id: row.ID, path: path, base: -1, had: had, line: -1, done: make(chan struct{})}
	s.mu.Lock()
	s.subs[name] = f
	s.mu.Unlock()
	go func() {
		defer close(f.done)
		for {
			u, err := sub.Next(s.ctx)
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
					s.t.Error(err)
				}
				return
			}
			s.heard(name, f, u)
		}
	}()
	s.await("the first update of "+name, func() bool { return f.base >= 0 })
	_, f.seen = s.inFile(path)
}

// heard writes an update down.
func (s *script) heard(name string, f *follower, u Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := name
	if f.base < 0 {
		f.base = u.From
	}
	if u.Reset != "" {
		out += " " + u.Reset
		f.words, f.base, f.had = nil, 0, 0
		if u.From != 0 {
			s.t.Errorf("reset from entry %d", u.From)
		}
	}
	if len(u.Transcript.Entries()) > u.From {
		f.base, f.had = f.base+f.had, 0
	}
	if at := f.base + len(f.words); u.From != at {
		s.t.Errorf("update of %s from entry %d, want %d", name, u.From, at)
	}
	words := texts(s.t, u)[u.From:]
	f.words = append(f.words, words...)
	f.gone = u.Removed
	if f.step == s.step && f.line >= 0 && u.Reset == "" && !u.Removed {
		out = s.out[f.line] // one command can be two writes, and two updates
	} else {
		f.line, f.step = len(s.out), s.step
		s.out = append(s.out, "")
	}
	if len(words) > 0 {
		if !strings.Contains(out, " + ") {
			out += " +"
		}
		for _, w := range words {
			if len(w) > 40 {
				w = fmt.Sprintf("%.8s~%d", w, len(w))
			}
			out += " " + w
		}
	}
	if u.Removed {
		out += " gone"
	}
	s.out[f.line] = out
	s.wake()
}

// tellList writes down the changes of the list since the last time: how they
// fold into messages is a matter of time.
func (s *script) tellList() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) > 0 {
		slices.Sort(s.list)
		s.out = append(s.out, "list "+strings.Join(s.list, " "))
		s.list = nil
	}
}

func (s *script) heardList(c catalog.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var parts []string
	for _, r := range c.Added {
		parts = append(parts, "+"+r.Native)
	}
	for _, id := range c.Removed {
		parts = append(parts, "-"+id.Native)
	}
	// Rows that changed are as many as there were looks: not told.
	s.list = append(s.list, parts...)
	s.wake()
}

// texts reads the words of all entries from the source of the update. One that
// was truncated away meanwhile is "?": the reset that says so is to come.
func texts(t tester, u Update) []string {
	var words []string
	for _, e := range u.Transcript.Entries() {
		raw := make([]byte, e.Pos.Length)
		if _, err := u.Source.ReadAt(raw, e.Pos.Offset); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("entry at %d: %v", e.Pos.Offset, err)
			}
			raw = []byte("?")
		}
		words = append(words, string(raw))
	}
	return words
}

func (s *script) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// await waits for cond, which is asked with mu held.
func (s *script) await(what string, cond func() bool) {
	s.t.Helper()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		s.mu.Lock()
		ok := cond()
		out := slices.Clone(s.out[max(0, len(s.out)-20):])
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-s.news:
		case <-look.C:
		case <-limit.C:
			s.t.Fatalf("waited too long for %s; so far:\n\t%s", what, strings.Join(out, "\n\t"))
		}
	}
}

// settle waits until every follower knows what is in its file now.
func (s *script) settle(line string) {
	s.t.Helper()
	s.await(fmt.Sprintf("what follows %q", line), func() bool {
		for _, f := range s.subs {
			words, there := s.inFile(f.path)
			// That a file without a line has gone is told only if it was seen.
			f.seen = f.seen || len(words) > 0
			if there == f.gone && (there || f.seen) {
				return false
			}
			if there && !slices.Equal(f.words, words[min(f.base+f.had, len(words)):]) {
				return false
			}
		}
		return true
	})
}

func (s *script) inFile(path string) (words []string, there bool) {
	data, err := os.ReadFile(path)
	if missing(err) {
		return nil, false
	}
	s.must(err)
	text := string(data)
	text = text[:strings.LastIndexByte(text, '\n')+1]
	return strings.Fields(text), true
}
