// Package errorfs is a file system for tests: FS makes the operations of
// another one fail, come out short or wait, and Mem is one in memory that can
// lose, as a crash does, what was not synced.
//
// It does not know what is in the files. Invariant: without rules an FS does
// what its base does; every operation that changes something is recorded.
package errorfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/agent-ls/agent-ls/session/vfs"
)

// Kind is what an operation does.
type Kind string

// Kinds of operation. Stat and Read are recorded only when they fail.
const (
	Open     Kind = "open"
	Append   Kind = "open-append"
	Create   Kind = "create"
	Stat     Kind = "stat" // by path or on an open file
	Read     Kind = "read"
	Write    Kind = "write"
	Sync     Kind = "sync"
	Truncate Kind = "truncate"
	Close    Kind = "close"
	ReadDir  Kind = "readdir"
	Mkdir    Kind = "mkdir"
	Rename   Kind = "rename"
	Remove   Kind = "remove"
	SyncDir  Kind = "syncdir"
	Lock     Kind = "lock"
	Unlock   Kind = "unlock"
)

// Rule makes operations fail. The zero values of its fields mean: any path,
// from the first operation on, once, nothing done beforehand.
type Rule struct {
	Kind  Kind
	Base  string // pattern for the last element of the path, as for filepath.Match
	Nth   int    // the first operation that it applies to, from 1
	Times int    // how often it applies; negative means from then on
	Err   error  // nil: the operation goes on (but see Short)
	// Short, for Write: only so many bytes are written. With a nil Err this is
	// a short write; with Short 0 and an Err nothing is written.
	Short int
	// Do runs before the operation: to wait, or to act as another program.
	Do func()

	seen, hits int
}

// FS passes operations on to a base, except where a rule says otherwise. It
// is safe for concurrent use.
type FS struct {
	base vfs.FS
	root string

	mu    sync.Mutex // guards what follows
	rules []*Rule
	room  int64 // bytes that can still be written; negative for no limit
	ops   []string
}

// New wraps base. Paths in the record are relative to root.
func New(base vfs.FS, root string) *FS { return &FS{base: base, root: root, room: -1} }

// Add adds rules; the first one that applies to an operation counts.
func (f *FS) Add(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range rules {
		f.rules = append(f.rules, &rules[i])
	}
}

// Clear removes all rules and limits.
func (f *FS) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules, f.room = nil, -1
}

// Room makes the disk full after n more bytes: as Linux does, the write that
// does not fit comes out short, and the next one gives ENOSPC.
func (f *FS) Room(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room = n
}

// Ops gives the operations recorded since the last call, one a string.
func (f *FS) Ops() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.ops
	f.ops = nil
	return out
}

// Count is the number of recorded operations of a kind since the last Ops.
func (f *FS) Count(k Kind) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, o := range f.ops {
		if o == string(k) || strings.HasPrefix(o, string(k)+" ") {
			n++
		}
	}
	return n
}

// rule finds the rule that applies to an operation and counts it.
func (f *FS) rule(k Kind, path string) *Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found *Rule
	for _, r := range f.rules {
		if r.Kind != k {
			continue
		}
		if r.Base != "" {
			if ok, err := filepath.Match(r.Base, filepath.Base(path)); err != nil || !ok {
				continue
			}
		}
		r.seen++
		if found != nil || r.seen < r.Nth || r.Times >= 0 && r.hits >= max(1, r.Times) {
			continue
		}
		r.hits++
		found = r
	}
	return found
}

// before runs what a rule says about an operation.
func (f *FS) before(k Kind, path string) error {
	r := f.rule(k, path)
	if r == nil {
		return nil
	}
	if r.Do != nil {
		r.Do()
	}
	if r.Err != nil {
		return &fs.PathError{Op: string(k), Path: path, Err: r.Err}
	}
	return nil
}

// record notes an operation; quiet ones only when they failed.
func (f *FS) record(err error, quiet bool, k Kind, path string, extra ...any) {
	if err == nil && quiet {
		return
	}
	rel, relErr := filepath.Rel(f.root, path)
	if relErr != nil {
		rel = path
	}
	s := string(k) + " " + filepath.ToSlash(rel)
	if len(extra) > 0 {
		s += " " + fmt.Sprint(extra...)
	}
	if err != nil {
		s += " = " + cause(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops = append(f.ops, s)
}

// cause is the innermost error, which does not name the path again.
func cause(err error) string {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		err = p.Err
	}
	return err.Error()
}

// step is an operation without a result.
func (f *FS) step(k Kind, path string, do func() error) error {
	err := f.before(k, path)
	if err == nil {
		err = do()
	}
	f.record(err, false, k, path)
	return err
}

func (f *FS) open(k Kind, path string, do func() (vfs.File, error)) (vfs.File, error) {
	var h vfs.File
	err := f.before(k, path)
	if err == nil {
		h, err = do()
	}
	f.record(err, k == Open, k, path)
	if err != nil {
		return nil, err
	}
	return &file{fs: f, base: h, path: path}, nil
}

// Open implements vfs.FS.
func (f *FS) Open(path string) (vfs.File, error) {
	return f.open(Open, path, func() (vfs.File, error) { return f.base.Open(path) })
}

// OpenAppend implements vfs.FS.
func (f *FS) OpenAppend(path string) (vfs.File, error) {
	return f.open(Append, path, func() (vfs.File, error) { return f.base.OpenAppend(path) })
}

// Create implements vfs.FS.
func (f *FS) Create(path string, perm fs.FileMode) (vfs.File, error) {
	return f.open(Create, path, func() (vfs.File, error) { return f.base.Create(path, perm) })
}

// Stat implements vfs.FS.
func (f *FS) Stat(path string) (vfs.Info, error) {
	return f.stat(path, func() (vfs.Info, error) { return f.base.Stat(path) })
}

// Lstat implements vfs.FS.
func (f *FS) Lstat(path string) (vfs.Info, error) {
	return f.stat(path, func() (vfs.Info, error) { return f.base.Lstat(path) })
}

func (f *FS) stat(path string, do func() (vfs.Info, error)) (i vfs.Info, err error) {
	if err = f.before(Stat, path); err == nil {
		i, err = do()
	}
	f.record(err, true, Stat, path)
	return i, err
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(path string) (list []fs.DirEntry, err error) {
	if err = f.before(ReadDir, path); err == nil {
		list, err = f.base.ReadDir(path)
	}
	f.record(err, true, ReadDir, path)
	return list, err
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(path string, perm fs.FileMode) error {
	return f.step(Mkdir, path, func() error { return f.base.MkdirAll(path, perm) })
}

// Mkdir implements vfs.FS.
func (f *FS) Mkdir(path string, perm fs.FileMode) error {
	return f.step(Mkdir, path, func() error { return f.base.Mkdir(path, perm) })
}

// Rename implements vfs.FS.
func (f *FS) Rename(from, to string) error {
	return f.step(Rename, to, func() error { return f.base.Rename(from, to) })
}

// Remove implements vfs.FS.
func (f *FS) Remove(path string) error {
	return f.step(Remove, path, func() error { return f.base.Remove(path) })
}

// RemoveAll implements vfs.FS.
func (f *FS) RemoveAll(path string) error {
	return f.step(Remove, path, func() error { return f.base.RemoveAll(path) })
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(path string) error {
	return f.step(SyncDir, path, func() error { return f.base.SyncDir(path) })
}

// Lock implements vfs.FS.
func (f *FS) Lock(ctx context.Context, path string) (vfs.Unlocker, error) {
	var u vfs.Unlocker
	err := f.step(Lock, path, func() (err error) { u, err = f.base.Lock(ctx, path); return err })
	if err != nil {
		return nil, err
	}
	return &unlocker{f, u, path}, nil
}

type unlocker struct {
	fs   *FS
	base vfs.Unlocker
	path string
}

func (u *unlocker) Unlock() error { return u.fs.step(Unlock, u.path, u.base.Unlock) }

// Holder implements vfs.FS.
func (f *FS) Holder(path string) (int, time.Time, bool) { return f.base.Holder(path) }

// EvalSymlinks implements vfs.FS.
func (f *FS) EvalSymlinks(path string) (string, error) { return f.base.EvalSymlinks(path) }

// DirFS implements vfs.FS; its operations are neither recorded nor made to fail.
func (f *FS) DirFS(dir string) fs.FS { return f.base.DirFS(dir) }

type file struct {
	fs   *FS
	base vfs.File
	path string
}

func (h *file) ReadAt(p []byte, off int64) (n int, err error) {
	if err = h.fs.before(Read, h.path); err != nil {
		h.fs.record(err, false, Read, h.path)
		return 0, err
	}
	return h.base.ReadAt(p, off)
}

func (h *file) Close() error {
	err := h.fs.before(Close, h.path)
	err = errors.Join(err, h.base.Close())
	h.fs.record(err, true, Close, h.path)
	return err
}

func (h *file) WriteOnce(p []byte) (n int, err error) {
	f := h.fs
	part, short := p, false
	var failure error
	if r := f.rule(Write, h.path); r != nil {
		if r.Do != nil {
			r.Do()
		}
		if r.Err != nil {
			failure = &fs.PathError{Op: "write", Path: h.path, Err: r.Err}
		}
		if r.Err != nil || r.Short > 0 {
			part, short = p[:min(r.Short, len(p))], true
		}
	}
	f.mu.Lock()
	if f.room >= 0 {
		if f.room == 0 && len(part) > 0 {
			failure = &fs.PathError{Op: "write", Path: h.path, Err: syscall.ENOSPC}
		}
		part = part[:min(int64(len(part)), f.room)]
		f.room -= int64(len(part))
		short = short || len(part) < len(p)
	}
	f.mu.Unlock()
	if len(part) > 0 {
		n, err = h.base.WriteOnce(part)
	}
	err = errors.Join(failure, err)
	if short {
		f.record(err, false, Write, h.path, n, " of ", len(p), " bytes")
	} else {
		f.record(err, false, Write, h.path, n, " bytes")
	}
	return n, err
}

func (h *file) Stat() (i vfs.Info, err error) {
	return h.fs.stat(h.path, h.base.Stat)
}

func (h *file) Sync() error { return h.fs.step(Sync, h.path, h.base.Sync) }

func (h *file) Truncate(size int64) error {
	err := h.fs.before(Truncate, h.path)
	if err == nil {
		err = h.base.Truncate(size)
	}
	h.fs.record(err, false, Truncate, h.path, "to ", size)
	return err
}
