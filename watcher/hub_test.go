package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
)

// limit is how long a test waits for what is to come: long enough for a busy
// machine, and only then a failure.
const limit = 30 * time.Second

type hubTest struct {
	*testing.T
	dir  string
	fs   *countingFS
	cat  *toyCatalog
	hub  *Hub
	ctx  context.Context //nolint:containedctx // of the whole test
	stop func()
}

// newHubTest runs a Hub; prepare may change the catalog before.
func newHubTest(t *testing.T, n Notifier, prepare ...func(*toyCatalog)) *hubTest {
	h := &hubTest{T: t, dir: realPath(t, t.TempDir()), fs: newCountingFS()}
	h.cat = newToyCatalog(h.fs, h.dir)
	for _, p := range prepare {
		p(h.cat)
	}
	h.hub = newHub(h.cat, HubOptions{FS: h.fs, Notifier: n, Poll: PollNever})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.hub.Run(ctx) }()
	var once sync.Once
	h.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(h.stop)
	var done func()
	h.ctx, done = context.WithTimeout(context.Background(), limit)
	t.Cleanup(done)
	return h
}

func (h *hubTest) path(name string) string { return filepath.Join(h.dir, name+".log") }

func (h *hubTest) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *hubTest) append(name, text string) {
	h.Helper()
	f, err := os.OpenFile(h.path(name), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	h.must(err)
	_, err = f.WriteString(text)
	h.must(err)
	h.must(f.Close())
}

func toyID(name string) session.ID { return session.ID{Agent: "toy", Native: name} }

func (h *hubTest) subscribe(name, after string) *Subscription {
	h.Helper()
	s, err := h.hub.SubscribeFile(h.ctx, toyID(name), h.path(name), after)
	h.must(err)
	h.Cleanup(s.Close)
	return s
}

func (h *hubTest) next(s *Subscription) Update {
	h.Helper()
	u, err := s.Next(h.ctx)
	h.must(err)
	return u
}

// collect reads updates until it has n words, and makes sure that each update
// begins where the one before ended.
func (h *hubTest) collect(s *Subscription, n int) []string {
	h.Helper()
	var words []string
	for len(words) < n {
		u := h.next(s)
		if u.Reset != "" || u.From != len(words) {
			h.Fatalf("update from %d (reset %q) behind %d entries", u.From, u.Reset, len(words))
		}
		words = append(words, texts(h, u)[u.From:]...)
	}
	return words
}

// A summary that takes for ever delays rows, and no update.
func TestHub_slowCatalog(t *testing.T) {
	slow := make(chan struct{})
	h := newHubTest(t, nil, func(c *toyCatalog) { c.slow = slow })
	h.append("a", "one\n")
	s := h.subscribe("a", "")
	h.collect(s, 1)
	changes := h.hub.Changes(h.ctx)
	for i := range 20 {
		h.append("a", fmt.Sprintln("more", i))
		if u := h.next(s); u.Transcript.Len() != i+2 {
			t.Fatalf("%d entries, want %d", u.Transcript.Len(), i+2)
		}
	}
	if len(changes) != 0 {
		t.Error("a change from a catalog that hangs")
	}
	close(slow)
	select {
	case c := <-changes:
		if len(c.Added)+len(c.Updated) == 0 {
			t.Errorf("change %+v", c)
		}
	case <-h.ctx.Done():
		t.Error("no change")
	}
}

func TestHub_syncAndSettle(t *testing.T) {
	n := newFakeNotifier() // gives no hints at all
	h := newHubTest(t, n)
	id := toyID("a")
	h.must(h.hub.Sync(h.ctx, id, 1_000_000)) // nobody is there to be told
	h.append("a", "one\n")
	s := h.subscribe("a", "")
	h.next(s)
	h.append("a", "two\n")
	h.must(h.hub.Sync(h.ctx, id, 8))
	u, ok := h.hub.Current(id)
	if !ok || u.Offset != 8 || u.Transcript.Len() != 2 {
		t.Fatalf("current %+v, %v", u, ok)
	}
	if u := h.next(s); u.From != 1 || u.Offset != 8 {
		t.Fatalf("update from %d to offset %d", u.From, u.Offset)
	}

	// The reader has the update and has not come back: Settle waits for it.
	short, cancel := context.WithTimeout(h.ctx, 20*time.Millisecond)
	if err := h.hub.Settle(short, id, 8); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("settled (%v) although the reader is busy", err)
	}
	cancel()
	h.append("a", "three\n")
	got := make(chan Update)
	go func() {
		for {
			u, err := s.Next(h.ctx)
			if err != nil {
				close(got)
				return
			}
			got <- u
		}
	}()
	settled := make(chan error, 1)
	go func() { settled <- h.hub.Settle(h.ctx, id, 14) }()
	if u := <-got; u.From != 2 || u.Offset != 14 {
		t.Fatalf("update from %d to offset %d", u.From, u.Offset)
	}
	h.must(<-settled)

	// What is not in the file any more is not waited for.
	h.must(os.Truncate(h.path("a"), 4))
	h.must(h.hub.Sync(h.ctx, id, 14))
	if u := <-got; u.Reset != "truncated" {
		t.Fatalf("reset %q", u.Reset)
	}
	h.must(os.Remove(h.path("a")))
	h.must(h.hub.Sync(h.ctx, id, 14))
	if u := <-got; !u.Removed {
		t.Fatal("not removed")
	}
	// An unfinished line is waited for.
	h.append("a", "four")
	short, cancel = context.WithTimeout(h.ctx, 20*time.Millisecond)
	if err := h.hub.Sync(short, id, 4); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("synced: %v", err)
	}
	cancel()
	if u := <-got; u.Removed || u.Reset != "replaced" || u.Transcript.Len() != 0 {
		t.Fatalf("reset %q, %d entries", u.Reset, u.Transcript.Len())
	}
	// A reader who leaves is not waited for.
	s2 := h.subscribe("a", "")
	h.next(s2)
	go func() { settled <- h.hub.Settle(h.ctx, id, 0) }()
	s2.Close()
	h.must(<-settled)
	s.Close()
	if _, ok := <-got; ok {
		for range got {
		}
	}
}

func TestHub_feedEndsWithItsLastSubscriber(t *testing.T) {
	h := newHubTest(t, nil)
	h.append("a", "one\n")
	s1, s2 := h.subscribe("a", ""), h.subscribe("a", "")
	u1, u2 := h.next(s1), h.next(s2)
	s1.Close()
	s1.Close()
	if _, err := s1.Next(h.ctx); !errors.Is(err, io.EOF) {
		t.Errorf("next after close: %v", err)
	}
	if got := texts(t, u2); !slices.Equal(got, []string{"one"}) {
		t.Errorf("words %q", got)
	}
	s2.Close()
	h.stop()
	if n := h.fs.open.Load(); n != 0 {
		t.Errorf("%d files left open", n)
	}
	if _, err := u1.Source.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("reading from a session that nobody follows: %v", err)
	}
	if _, ok := h.hub.Current(toyID("a")); ok {
		t.Error("still live")
	}
}

// An update can be shown after the file it speaks of was replaced.
func TestHub_sourceOutlivesReplacement(t *testing.T) {
	h := newHubTest(t, nil)
	h.append("a", "one\n")
	s, other := h.subscribe("a", ""), h.subscribe("a", "end")
	u := h.next(s)
	h.next(other)
	h.must(os.WriteFile(h.path("new"), []byte("two\n"), 0o644))
	h.must(os.Rename(h.path("new"), h.path("a")))
	if v := h.next(other); v.Reset != "replaced" {
		t.Fatalf("reset %q", v.Reset)
	}
	if got := texts(t, u); !slices.Equal(got, []string{"one"}) {
		t.Errorf("words of the file before: %q", got)
	}
	if n := h.fs.open.Load(); n != 2 {
		t.Errorf("%d files open, want 2", n)
	}
	if v := h.next(s); v.Reset != "replaced" {
		t.Fatalf("reset %q", v.Reset)
	}
	if n := h.fs.open.Load(); n != 1 {
		t.Errorf("%d files open, want 1", n)
	}
}

func TestHub_subscribeErrors(t *testing.T) {
	h := newHubTest(t, nil)
	if _, err := h.hub.Subscribe(h.ctx, toyID("no-such"), ""); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("unknown session: %v", err)
	}
	if _, err := h.hub.SubscribeFile(h.ctx, session.ID{Agent: "no-such", Native: "a"}, h.path("a"), ""); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("unknown agent: %v", err)
	}
	h.must(os.Mkdir(h.path("dir"), 0o755))
	if _, err := h.hub.SubscribeFile(h.ctx, toyID("dir"), h.path("dir"), ""); err == nil {
		t.Error("a directory was followed")
	}
	s := h.subscribe("a", "")
	h.next(s)
	h.stop()
	if _, err := s.Next(h.ctx); !errors.Is(err, io.EOF) {
		t.Errorf("next after the end: %v", err)
	}
	if _, err := h.hub.SubscribeFile(h.ctx, toyID("a"), h.path("a"), ""); !errors.Is(err, io.EOF) {
		t.Errorf("subscribe after the end: %v", err)
	}
	if _, ok := <-h.hub.Changes(h.ctx); ok {
		t.Error("a change after the end")
	}

	idle := newHub(h.cat, HubOptions{FS: h.fs})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := idle.SubscribeFile(ctx, toyID("a"), h.path("a"), ""); !errors.Is(err, context.Canceled) {
		t.Errorf("subscribe before the start: %v", err)
	}
	idle.RootsChanged()
	idle.RootsChanged() // waits for nobody
}

// A hint costs one stat; an update costs its own bytes, and what was read
// before is not read again.
func TestHub_work(t *testing.T) {
	for _, size := range []int{1 << 10, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			n := newFakeNotifier()
			h := newHubTest(t, n)
			line := strings.Repeat("x", 1023) + "\n"
			h.append("a", strings.Repeat(line, size/len(line)))
			s := h.subscribe("a", "end")
			h.next(s)
			end := int64(size)
			h.must(h.hub.Sync(h.ctx, toyID("a"), end))
			h.fs.bytes.Store(0)
			for range 100 {
				select {
				case n.events <- Event{Path: h.path("a")}:
				case <-h.ctx.Done():
				}
			}
			h.must(h.hub.Sync(h.ctx, toyID("a"), end))
			if got := h.fs.bytes.Swap(0); got != 0 {
				t.Errorf("hints without growth read %d bytes", got)
			}
			h.append("a", line)
			end += int64(len(line))
			h.must(h.hub.Sync(h.ctx, toyID("a"), end))
			h.next(s)
			if got, want := h.fs.bytes.Swap(0), int64(len(line))+prints(size); got != want {
				t.Errorf("a line read %d bytes, want %d", got, want)
			}
		})
	}
}

// Two other processes append to one file at full speed.
func TestHub_twoProcesses(t *testing.T) {
	const each = 1000
	h := newHubTest(t, nil)
	h.append("a", "")
	s := h.subscribe("a", "")
	var writers []*exec.Cmd
	for _, name := range []string{"x", "y"} {
		c := exec.CommandContext(h.ctx, os.Args[0])
		c.Env = append(os.Environ(), writerEnv+"="+h.path("a"), writerEnv+"_NAME="+name, fmt.Sprintf("%s_LINES=%d", writerEnv, each))
		c.Stderr = os.Stderr
		h.must(c.Start())
		writers = append(writers, c)
	}
	got := h.collect(s, 2*each)
	for _, w := range writers {
		h.must(w.Wait())
	}
	data, err := os.ReadFile(h.path("a"))
	h.must(err)
	if diff := cmp.Diff(strings.Fields(string(data)), got); diff != "" {
		t.Errorf("words (-file +updates)\n%s", diff)
	}
}

func TestHub_thousandSessions(t *testing.T) {
	const sessions, lines = 1000, 3
	h := newHubTest(t, nil)
	subs := make([]*Subscription, sessions)
	for i := range subs {
		subs[i] = h.subscribe(fmt.Sprint(i), "")
	}
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for l := range lines {
				for i := w; i < sessions; i += 4 {
					f, err := os.OpenFile(h.path(fmt.Sprint(i)), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
					if err == nil {
						_, err = fmt.Fprintf(f, "%d-%d\n", i, l)
						err = errors.Join(err, f.Close())
					}
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for i, s := range subs {
		want := []string{fmt.Sprintf("%d-0", i), fmt.Sprintf("%d-1", i), fmt.Sprintf("%d-2", i)}
		if got := h.collect(s, lines); !slices.Equal(got, want) {
			t.Fatalf("session %d: %q", i, got)
		}
	}
	writers.Wait()
	// The list has them too, in far fewer messages than there were writes.
	changes := h.hub.Changes(h.ctx)
	h.append("last", "one\n")
	for seen := false; !seen; {
		select {
		case c, ok := <-changes:
			if !ok {
				t.Fatal("no change")
			}
			seen = slices.ContainsFunc(c.Added, func(r catalog.Row) bool { return r.Native == "last" })
		case <-h.ctx.Done():
			t.Fatal("no change")
		}
	}
}

// A mailbox has one place however many updates there are, and nothing of them
// is lost or repeated.
func TestSubscription_folds(t *testing.T) {
	updates := 300_000
	if testing.Short() {
		updates = 30_000
	}
	entries := make([]session.Entry, updates)
	at := func(n int) *session.Transcript { return session.NewTranscript(entries[:n], nil, nil) }
	s := newSubscription(make(chan struct{}), func() {})
	var feed sync.WaitGroup
	feed.Go(func() {
		s.put(parcel{Update: Update{Transcript: at(0)}})
		for n := range updates {
			u := Update{Transcript: at(n + 1), From: n, Offset: int64(n + 1)}
			if n%10_007 == 10_006 {
				u.Reset, u.From = "compaction", 0
			}
			s.put(parcel{Update: u})
		}
	})
	have, got, resets := 0, 0, 0
	for have < updates {
		u, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got++
		if u.Reset != "" {
			have = 0
			resets++
		}
		if u.From != have {
			t.Fatalf("update from %d, want %d", u.From, have)
		}
		if have = u.Transcript.Len(); u.Offset != int64(have) {
			t.Fatalf("offset %d with %d entries", u.Offset, have)
		}
	}
	feed.Wait()
	if resets == 0 {
		t.Error("no reset arrived")
	}
	t.Logf("%d updates arrived as %d, with %d resets", updates, got, resets)
}

func TestFold(t *testing.T) {
	at := func(n int) *session.Transcript { return session.NewTranscript(make([]session.Entry, n), nil, nil) }
	up := func(from, n int, reset string, removed bool) Update {
		return Update{Transcript: at(n), From: from, Reset: reset, Removed: removed}
	}
	tests := []struct {
		name      string
		old, next Update
		from, n   int
		reset     string
		removed   bool
	}{
		{"growth and growth", up(3, 5, "", false), up(5, 6, "", false), 3, 6, "", false},
		{"nothing and what the reader had", up(5, 5, "", false), up(6, 7, "", false), 6, 7, "", false},
		{"reset and growth", up(0, 5, "truncated", false), up(5, 6, "", false), 0, 6, "truncated", false},
		{"growth and reset", up(3, 5, "", false), up(0, 2, "replaced", false), 0, 2, "replaced", false},
		{"reset and reset", up(0, 5, "truncated", false), up(0, 2, "replaced", false), 0, 2, "replaced", false},
		{"growth and removal", up(3, 5, "", false), up(5, 5, "", true), 3, 5, "", true},
		{"removal and reset", up(5, 5, "", true), up(0, 1, "replaced", false), 0, 1, "replaced", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := fold(parcel{Update: test.old}, parcel{Update: test.next})
			if got.From != test.from || got.Transcript.Len() != test.n || got.Reset != test.reset || got.Removed != test.removed {
				t.Errorf("from %d of %d, reset %q, removed %v", got.From, got.Transcript.Len(), got.Reset, got.Removed)
			}
		})
	}
}

// Folded changes bring a list to the same state as one after the other, and
// never add what is there or remove what is not.
func TestChanges_law(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth := map[string]int{}
		start := map[string]int{}
		for _, name := range rapid.SliceOfDistinct(rapid.StringMatching("[a-e]"), rapid.ID[string]).Draw(t, "start") {
			truth[name], start[name] = 1, 1
		}
		change := func(label string) (c catalog.Change) {
			for _, name := range rapid.SliceOfDistinct(rapid.StringMatching("[a-e]"), rapid.ID[string]).Draw(t, label) {
				size, there := truth[name]
				row := catalog.Row{Session: session.Session{ID: toyID(name), Size: int64(size + 1)}}
				switch {
				case !there:
					truth[name] = 1
					row.Size = 1
					c.Added = append(c.Added, row)
				case rapid.Bool().Draw(t, "remove"):
					delete(truth, name)
					c.Removed = append(c.Removed, row.ID)
				default:
					truth[name]++
					c.Updated = append(c.Updated, row)
				}
			}
			return c
		}
		all := &changes{at: map[session.ID]*fate{}}
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			all.add(change("change"))
		}
		c := all.change()
		got := start
		for _, r := range c.Added {
			if _, there := got[r.Native]; there {
				t.Fatalf("%s added twice", r.Native)
			}
			got[r.Native] = int(r.Size)
		}
		for _, r := range c.Updated {
			if _, there := got[r.Native]; !there {
				t.Fatalf("%s updated before it was added", r.Native)
			}
			got[r.Native] = int(r.Size)
		}
		for _, id := range c.Removed {
			if _, there := got[id.Native]; !there {
				t.Fatalf("%s removed and was not there", id.Native)
			}
			delete(got, id.Native)
		}
		if diff := cmp.Diff(truth, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("list (-want +got)\n%s", diff)
		}
	})
}

// The first change goes at once, those behind it wait for each other.
func TestHub_changesFold(t *testing.T) {
	h := newHubTest(t, newFakeNotifier())
	ctx, cancel := context.WithCancel(h.ctx)
	changes := h.hub.Changes(ctx)
	const n = 2000
	var pub sync.WaitGroup
	pub.Go(func() {
		for i := range n {
			row := catalog.Row{Session: session.Session{ID: toyID(fmt.Sprint(i))}}
			if err := h.hub.Publish(ctx, catalog.Change{Added: []catalog.Row{row}}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	first := <-changes
	rows, messages := len(first.Added), 1
	pub.Wait()
	for rows < n {
		rows += len((<-changes).Added)
		messages++
	}
	if messages > n/10 {
		t.Errorf("%d changes in %d messages", n, messages)
	}
	cancel()
	for range changes { // closed when the watcher has left
	}
	h.must(h.hub.Publish(h.ctx, catalog.Change{Removed: []session.ID{toyID("0")}}))
}
