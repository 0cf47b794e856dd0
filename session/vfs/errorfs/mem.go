package errorfs

import (
	"context"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-ls/agent-ls/session/vfs"
)

// Mem is a file system in memory that knows what is durable: the content of a
// file as of its last Sync, and the names in a directory as of its last
// SyncDir. It has no links. It is safe for concurrent use.
type Mem struct {
	mu    sync.Mutex // guards everything below, nodes included
	root  *node
	last  uint64              // inode given last
	locks map[string]*memLock // by path, while held
	pid   int
	time  time.Time // of the last change
}

// node is a file or a directory. synced is its content (names) on disk.
type node struct {
	ino    uint64
	mode   fs.FileMode
	mod    time.Time
	data   []byte
	synced []byte

	names, syncedNames map[string]*node // nil for files
}

type memLock struct {
	since time.Time
	free  chan struct{} // closed when released
}

// NewMem gives an empty file system whose locks name the process pid.
func NewMem(pid int) *Mem {
	m := &Mem{locks: map[string]*memLock{}, pid: pid, time: time.Unix(1_000_000_000, 0)}
	m.root = m.newNode(fs.ModeDir | 0o700)
	return m
}

func (m *Mem) newNode(mode fs.FileMode) *node {
	m.last++
	n := &node{ino: m.last, mode: mode, mod: m.tick()}
	if mode.IsDir() {
		n.names, n.syncedNames = map[string]*node{}, map[string]*node{}
	}
	return n
}

// tick moves the file system's own clock.
func (m *Mem) tick() time.Time {
	m.time = m.time.Add(time.Millisecond)
	return m.time
}

// Crash gives the file system as it may be after a loss of power: what was
// synced, and of what was appended to a file since, its first keep bytes
// (nil means none). The locks are gone; m itself stays as it is.
func (m *Mem) Crash(keep func(path string, unsynced int) int) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewMem(m.pid)
	c.last, c.time = m.last, m.time
	var clone func(n *node, path string) *node
	clone = func(n *node, path string) *node {
		out := &node{ino: n.ino, mode: n.mode, mod: n.mod, synced: slices.Clone(n.synced)}
		if n.mode.IsDir() {
			out.names = map[string]*node{}
			for name, child := range n.syncedNames {
				out.names[name] = clone(child, filepath.Join(path, name))
			}
			out.syncedNames = maps.Clone(out.names)
			return out
		}
		if more, ok := strings.CutPrefix(string(n.data), string(n.synced)); ok && keep != nil {
			k := min(max(0, keep(path, len(more))), len(more))
			out.synced = append(out.synced, more[:k]...)
		}
		out.data = slices.Clone(out.synced)
		return out
	}
	c.root = clone(m.root, string(filepath.Separator))
	return c
}

// find gives the node at path, or nil; m.mu is held.
func (m *Mem) find(path string) *node {
	n := m.root
	for _, name := range strings.Split(filepath.ToSlash(filepath.Clean(path)), "/") {
		if name == "" {
			continue
		}
		if n = n.names[name]; n == nil {
			return nil
		}
	}
	return n
}

// at gives the node at path; m.mu is held.
func (m *Mem) at(op, path string) (*node, error) {
	if n := m.find(path); n != nil {
		return n, nil
	}
	return nil, &fs.PathError{Op: op, Path: path, Err: fs.ErrNotExist}
}

// put makes a node at path, whose directory must exist; m.mu is held.
func (m *Mem) put(op, path string, n *node) error {
	dir, err := m.at(op, filepath.Dir(path))
	if err != nil {
		return err
	}
	if dir.names[filepath.Base(path)] != nil {
		return &fs.PathError{Op: op, Path: path, Err: fs.ErrExist}
	}
	dir.names[filepath.Base(path)] = n
	return nil
}

// Open implements vfs.FS.
func (m *Mem) Open(path string) (vfs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.at("open", path)
	if err != nil {
		return nil, err
	}
	return &memFile{m, n, path}, nil
}

// OpenAppend implements vfs.FS.
func (m *Mem) OpenAppend(path string) (vfs.File, error) { return m.Open(path) }

// Create implements vfs.FS.
func (m *Mem) Create(path string, perm fs.FileMode) (vfs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.newNode(perm.Perm())
	if err := m.put("create", path, n); err != nil {
		return nil, err
	}
	return &memFile{m, n, path}, nil
}

// Stat implements vfs.FS.
func (m *Mem) Stat(path string) (vfs.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.at("stat", path)
	if err != nil {
		return vfs.Info{}, err
	}
	return n.info(), nil
}

// Lstat implements vfs.FS.
func (m *Mem) Lstat(path string) (vfs.Info, error) { return m.Stat(path) }

func (n *node) info() vfs.Info {
	return vfs.Info{Size: int64(len(n.data)), ModTime: n.mod, Mode: n.mode, ID: vfs.FileID{Dev: 1, Ino: n.ino}}
}

// ReadDir implements vfs.FS.
func (m *Mem) ReadDir(path string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.at("readdir", path)
	if err != nil {
		return nil, err
	}
	var out []fs.DirEntry
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		out = append(out, fs.FileInfoToDirEntry(memInfo{name, n.names[name].info()}))
	}
	return out, nil
}

// MkdirAll implements vfs.FS.
func (m *Mem) MkdirAll(path string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.find(path) != nil {
		return nil
	}
	n := m.root
	for _, name := range strings.Split(filepath.ToSlash(filepath.Clean(path)), "/") {
		if name == "" {
			continue
		}
		if n.names[name] == nil {
			n.names[name] = m.newNode(fs.ModeDir | perm)
		}
		n = n.names[name]
	}
	return nil
}

// Mkdir implements vfs.FS.
func (m *Mem) Mkdir(path string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put("mkdir", path, m.newNode(fs.ModeDir|perm))
}

// Rename implements vfs.FS. An existing file at to is replaced.
func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.at("rename", from)
	if err != nil {
		return err
	}
	dir, err := m.at("rename", filepath.Dir(to))
	if err != nil {
		return err
	}
	delete(m.find(filepath.Dir(from)).names, filepath.Base(from))
	dir.names[filepath.Base(to)] = n
	return nil
}

// Remove implements vfs.FS.
func (m *Mem) Remove(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.at("remove", path); err != nil {
		return err
	}
	delete(m.find(filepath.Dir(path)).names, filepath.Base(path))
	return nil
}

// RemoveAll implements vfs.FS.
func (m *Mem) RemoveAll(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.find(path) != nil {
		delete(m.find(filepath.Dir(path)).names, filepath.Base(path))
	}
	return nil
}

// SyncDir implements vfs.FS.
func (m *Mem) SyncDir(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.at("syncdir", path)
	if err != nil {
		return err
	}
	n.syncedNames = maps.Clone(n.names)
	return nil
}

// Lock implements vfs.FS.
func (m *Mem) Lock(ctx context.Context, path string) (vfs.Unlocker, error) {
	for {
		m.mu.Lock()
		if _, err := m.at("lock", filepath.Dir(path)); err != nil {
			m.mu.Unlock()
			return nil, err
		}
		held := m.locks[path]
		if held == nil {
			l := &memLock{since: m.tick(), free: make(chan struct{})}
			m.locks[path] = l
			if m.find(path) == nil {
				_ = m.put("lock", path, m.newNode(0o600)) // the directory is there
			}
			m.mu.Unlock()
			return &memUnlocker{m, path, l}, nil
		}
		m.mu.Unlock()
		select {
		case <-held.free:
		case <-ctx.Done():
			return nil, &vfs.LockHeldError{Path: path, PID: m.pid, Since: held.since}
		}
	}
}

type memUnlocker struct {
	m    *Mem
	path string
	lock *memLock
}

func (u *memUnlocker) Unlock() error {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	if u.m.locks[u.path] == u.lock {
		delete(u.m.locks, u.path)
		close(u.lock.free)
	}
	return nil
}

// Holder implements vfs.FS. Nobody is remembered after the release.
func (m *Mem) Holder(path string) (pid int, since time.Time, held bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.locks[path]; l != nil {
		return m.pid, l.since, true
	}
	return 0, time.Time{}, false
}

// EvalSymlinks implements vfs.FS.
func (m *Mem) EvalSymlinks(path string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.at("lstat", path); err != nil {
		return "", err
	}
	return filepath.Clean(path), nil
}

type memFile struct {
	m    *Mem
	n    *node
	path string
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteOnce(p []byte) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.n.data = append(f.n.data, p...)
	f.n.mod = f.m.tick()
	return len(p), nil
}

func (f *memFile) Stat() (vfs.Info, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return f.n.info(), nil
}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.n.synced = slices.Clone(f.n.data)
	return nil
}

func (f *memFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.n.data = append(f.n.data, make([]byte, max(0, size-int64(len(f.n.data))))...)[:size:size]
	f.n.mod = f.m.tick()
	return nil
}

func (f *memFile) Close() error { return nil }
