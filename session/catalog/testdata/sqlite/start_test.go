// Package sqlite measures what SQLite would cost as the cache of the catalog,
// beside the log that is used. It is a module of its own, so that the program
// does not depend on it. Run it here with
//
//	go test -bench . -benchmem
package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/catalog"
	"github.com/agent-ls/agent-ls/session/format"
	"github.com/agent-ls/agent-ls/session/vfs"
)

const rows = 100_000

type clock struct{}

func (clock) Now() time.Time { return time.Unix(1767225600, 0) }

// store makes a Claude Code store of small sessions and gives its rows, which
// are in the log at path by then.
func store(b *testing.B, path string) (catalog.Options, []session.Session) {
	b.Helper()
	root := filepath.Join(b.TempDir(), "claude")
	for i := range rows {
		dir := filepath.Join(root, "projects", fmt.Sprintf("-w-%03d", i%500))
		if i < 500 {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				b.Fatal(err)
			}
		}
		line := fmt.Sprintf(`{"parentUuid":null,"type":"user","uuid":"u","timestamp":"2026-01-01T%02d:%02d:%02d.000Z","cwd":"/w/%03d","gitBranch":"main","message":{"role":"user","content":"please fix the flaky test number %d, it fails with a timeout after ten minutes"}}`+"\n", i/3600%24, i/60%60, i%60, i%500, i)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%08x-1111-4111-8111-%012x.jsonl", i*7919, i)), []byte(line), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	o := catalog.Options{
		FS: vfs.OS(), Clock: clock{}, Formats: format.All(), CachePath: path,
		Env:    session.Env{Roots: map[string][]string{"claude": {root}}},
		Report: func(err error) { b.Error(err) },
	}
	c, err := catalog.Open(o)
	if err != nil {
		b.Fatal(err)
	}
	ch, err := c.Scan(context.Background(), nil)
	if err != nil || len(ch.Added) != rows {
		b.Fatal(len(ch.Added), err)
	}
	var all []session.Session
	for _, r := range ch.Added {
		all = append(all, r.Session)
	}
	return o, all
}

// BenchmarkStart is from nothing to the first page of 50, all rows in memory.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	log, db := filepath.Join(dir, "rows"), filepath.Join(dir, "rows.db")
	o, all := store(b, log)
	fill(b, db, all)
	for _, p := range []string{log, db} {
		info, err := os.Stat(p)
		if err != nil {
			b.Fatal(err)
		}
		b.Logf("%s: %d bytes", filepath.Base(p), info.Size())
	}
	b.Run("floor", func(b *testing.B) { // read the log
		for b.Loop() {
			if _, err := os.ReadFile(log); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("log", func(b *testing.B) {
		for b.Loop() {
			c, err := catalog.Open(o)
			if err != nil {
				b.Fatal(err)
			}
			c.Restore()
			if p, err := c.Snapshot().List(catalog.Query{}); err != nil || p.Total != rows {
				b.Fatal(p.Total, err)
			}
		}
	})
	b.Run("sqlite-columns", func(b *testing.B) {
		for b.Loop() {
			page(b, load(b, db, true))
		}
	})
	b.Run("sqlite-blob", func(b *testing.B) {
		for b.Loop() {
			load(b, db, false) // without decoding what is in it
		}
	})
}

func page(b *testing.B, list []session.Session) {
	slices.SortFunc(list, func(x, y session.Session) int { return y.UpdatedAt.Compare(x.UpdatedAt) })
	if len(list) != rows {
		b.Fatal(len(list))
	}
}

func open(b *testing.B, path string) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		b.Fatal(err)
	}
	return db
}

const columns = "path, native, root, cwd, title, first, last, model, branch, created, updated, modified, status, physical, effective, size, kind, revision, ino"

func fill(b *testing.B, path string, all []session.Session) {
	db := open(b, path)
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE rows (path TEXT PRIMARY KEY, native, root, cwd, title, first, last, model, branch, created, updated, modified, status, physical, effective, size, kind, revision, ino) WITHOUT ROWID; CREATE TABLE blobs (path TEXT PRIMARY KEY, row BLOB) WITHOUT ROWID"); err != nil {
		b.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		b.Fatal(err)
	}
	insert, err := tx.Prepare("INSERT INTO rows (" + columns + ") VALUES (?" + strings.Repeat(",?", 18) + ")")
	if err != nil {
		b.Fatal(err)
	}
	blob, err := tx.Prepare("INSERT INTO blobs VALUES (?, ?)")
	if err != nil {
		b.Fatal(err)
	}
	for i, s := range all {
		if _, err := insert.Exec(s.Path, s.Native, s.Root, s.CWD, s.Title, s.FirstPrompt, s.LastPrompt, s.Model, s.GitBranch,
			s.CreatedAt.UnixNano(), s.UpdatedAt.UnixNano(), s.ModTime.UnixNano(), int(s.Status), s.Physical, s.Effective, s.Size, int(s.Kind), string(s.Revision), i); err != nil {
			b.Fatal(err)
		}
		text, err := json.Marshal(s)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := blob.Exec(s.Path, text); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
}

func load(b *testing.B, path string, all bool) []session.Session {
	db := open(b, path)
	defer db.Close()
	query := "SELECT path, row FROM blobs"
	if all {
		query = "SELECT " + columns + " FROM rows"
	}
	found, err := db.Query(query)
	if err != nil {
		b.Fatal(err)
	}
	defer found.Close()
	list := make([]session.Session, 0, rows)
	for found.Next() {
		var s session.Session
		if !all {
			var raw sql.RawBytes
			if err := found.Scan(&s.Path, &raw); err != nil {
				b.Fatal(err)
			}
			continue
		}
		var created, updated, modified, ino int64
		if err := found.Scan(&s.Path, &s.Native, &s.Root, &s.CWD, &s.Title, &s.FirstPrompt, &s.LastPrompt, &s.Model, &s.GitBranch,
			&created, &updated, &modified, &s.Status, &s.Physical, &s.Effective, &s.Size, &s.Kind, &s.Revision, &ino); err != nil {
			b.Fatal(err)
		}
		s.CreatedAt, s.UpdatedAt, s.ModTime = time.Unix(0, created), time.Unix(0, updated), time.Unix(0, modified)
		list = append(list, s)
	}
	if err := found.Err(); err != nil {
		b.Fatal(err)
	}
	return list
}
