package watcher

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Random programs of writers and readers. Whatever happens to the file, and
// whatever hints are lost, each subscriber gets each entry once and in order,
// or a reset (followers see to that with every update), and in the end what is
// in the file (the runner waits for it).
func TestHub_model(t *testing.T) {
	fewer(t, "15") // each takes a third of a second, most of it waiting
	base := realPath(t, t.TempDir())
	for name, notifier := range notifiers {
		t.Run(name, func(t *testing.T) {
			n := 0
			rapid.Check(t, func(rt *rapid.T) {
				n++
				dir := fmt.Sprintf("%s/%s-%d", base, name, n)
				if err := os.MkdirAll(dir+"/s/a", 0o755); err != nil {
					rt.Fatal(err)
				}
				defer os.RemoveAll(dir) //nolint:errcheck // below t.TempDir
				fs := newCountingFS()
				m := &model{s: startScript(rt, dir, fs, notifier(t, fs))}
				defer m.s.stop()
				rt.Repeat(m.actions())
				m.hear()
			})
		})
	}
}

// fewer sets how many programs rapid tries, unless the command line says it.
func fewer(t *testing.T, checks string) {
	f := flag.Lookup("rapid.checks")
	if old := f.Value.String(); old == f.DefValue {
		t.Cleanup(func() { _ = f.Value.Set(old) })
		_ = f.Value.Set(checks) // a number: it cannot fail
	}
}

// model is the program's own idea of what it has done.
type model struct {
	s     *script
	words int // made so far; each is another one
	subs  int
	deaf  bool
	there bool // s/a/log exists
	away  bool // it was moved to s/a/old
}

// run executes a command, and waits for what follows from it if hints arrive.
func (m *model) run(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	m.s.command(strings.Fields(line))
	if !m.deaf {
		m.s.settle(line)
	}
}

func (m *model) word(t *rapid.T) string {
	m.words++
	// Some are longer than the window of the reader.
	return strings.Repeat(fmt.Sprintf("w%d", m.words), rapid.SampledFrom([]int{1, 10, 30, 100, 1000}).Draw(t, "length"))
}

func (m *model) wordList(t *rapid.T, most int) string {
	words := make([]string, rapid.IntRange(1, most).Draw(t, "words"))
	for i := range words {
		words[i] = m.word(t)
		if rapid.IntRange(0, 9).Draw(t, "mark") == 0 {
			words[i] = rapid.SampledFrom([]string{"!compact", "!replace", "!branch"}).Draw(t, "kind")
		}
	}
	return strings.Join(words, " ")
}

func (m *model) size() int64 {
	info, err := os.Stat(m.s.path("s/a/log"))
	m.s.must(err)
	return info.Size()
}

func (m *model) hear() {
	if m.deaf {
		m.deaf = false
		m.s.command([]string{"hear"})
		m.run("overflow")
	}
}

func (m *model) actions() map[string]func(*rapid.T) {
	onFile := func(do func(*rapid.T)) func(*rapid.T) {
		return func(t *rapid.T) {
			if !m.there {
				t.Skip("no file")
			}
			do(t)
		}
	}
	return map[string]func(*rapid.T){
		"append": func(t *rapid.T) {
			m.run("append s/a/log %s", m.wordList(t, 4))
			m.there = true
		},
		"part": func(t *rapid.T) {
			m.run("part s/a/log %s", m.word(t))
			m.there = true
		},
		"line feed": onFile(func(*rapid.T) { m.run(`raw s/a/log "\n"`) }),
		"truncate": onFile(func(t *rapid.T) {
			m.run("truncate s/a/log %d", rapid.Int64Range(0, m.size()).Draw(t, "size"))
		}),
		"write": onFile(func(t *rapid.T) { m.run("write s/a/log %s", m.wordList(t, 6)) }),
		"replace": onFile(func(t *rapid.T) {
			m.run("replace s/a/log %s", m.wordList(t, 4))
		}),
		"remove": onFile(func(*rapid.T) {
			m.there = false
			m.run("rm s/a/log")
		}),
		"remove directory": func(*rapid.T) {
			m.there, m.away = false, false
			m.run("rm s/a")
			m.run("mkdir s/a")
		},
		"remove store": func(*rapid.T) {
			m.there, m.away = false, false
			m.run("rm s")
			m.run("mkdir s/a")
		},
		"move away": onFile(func(*rapid.T) {
			m.there, m.away = false, true
			m.run("mv s/a/log s/a/old")
		}),
		"move back": func(t *rapid.T) {
			if !m.away {
				t.Skip("not away")
			}
			m.there, m.away = true, false
			m.run("mv s/a/old s/a/log")
		},
		"move directory": func(*rapid.T) {
			m.run("mv s/a s/b")
			m.run("mv s/b s/a")
		},
		"subscribe": func(t *rapid.T) {
			if len(m.s.subs) > 3 {
				t.Skip("enough")
			}
			after := ""
			switch rapid.IntRange(0, 4).Draw(t, "after") {
			case 0:
				after = "end"
			case 1:
				after = "no-such-entry"
			case 2: // an offset, of an entry or not
				after = fmt.Sprint(rapid.Int64Range(0, 3000).Draw(t, "offset"))
			}
			m.subs++
			m.run("sub S%d s/a/log %s", m.subs, after)
		},
		"unsubscribe": func(t *rapid.T) {
			for name := range m.s.subs {
				m.run("unsub %s", name)
				return
			}
			t.Skip("nobody")
		},
		"deaf": func(t *rapid.T) {
			if m.deaf {
				t.Skip("already")
			}
			m.run("deaf")
			m.deaf = true
		},
		"hear":     func(*rapid.T) { m.hear() },
		"overflow": func(*rapid.T) { m.run("overflow") },
	}
}
