// Package overlay keeps what the user said about sessions in files of our
// own: names, tags, archive marks, read marks. The agents' stores are not
// touched by it.
//
// It does not know what sessions exist. Invariant: a file is replaced
// atomically, and two processes that annotate at the same time both survive.
package overlay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/vfs"
)

// Note is what the user said about one session. The zero Note is nothing.
type Note struct {
	Title    string
	Tags     []string
	Archived *bool     // nil: the store's own mark counts
	ReadTo   string    // entry id up to which it was read
	ReadAt   time.Time // when; zero while never read
	Resumed  time.Time // last resumed through us
}

// IsZero reports whether the note says nothing.
func (n Note) IsZero() bool {
	return n.Title == "" && len(n.Tags) == 0 && n.Archived == nil && n.ReadTo == "" && n.ReadAt.IsZero() && n.Resumed.IsZero()
}

// Equal compares two notes; times are compared as instants.
func (n Note) Equal(m Note) bool {
	archived := (n.Archived == nil) == (m.Archived == nil) && (n.Archived == nil || *n.Archived == *m.Archived)
	return archived && n.Title == m.Title && slices.Equal(n.Tags, m.Tags) &&
		n.ReadTo == m.ReadTo && n.ReadAt.Equal(m.ReadAt) && n.Resumed.Equal(m.Resumed)
}

// Store is the directory of notes: sixteen files for each agent, so that a
// note costs little among ten thousand,
//
//	overlay/<agent>.<0-f>.json  {"version":1,"notes":{"<native id>":{...}}}
//
// where the digit is the last one of the FNV-1a hash of the id (32 bits).
// With an empty directory notes are kept in memory only. A Store is not safe
// for concurrent use; the catalog serializes it. Several processes may use
// one directory.
type Store struct {
	fs      vfs.FS
	dir     string
	notes   map[session.ID]Note
	stamp   map[part]stamp // by file, as of the last Load
	damaged []error        // found by Edit, told of by the next Load
}

type stamp struct {
	size int64
	mod  time.Time
	id   vfs.FileID
}

// noteOnDisk are the members of a note that this version knows.
type noteOnDisk struct {
	Title    string    `json:"title,omitempty"`
	Tags     []string  `json:"tags,omitempty"`
	Archived *bool     `json:"archived,omitempty"`
	ReadTo   string    `json:"readTo,omitempty"`
	ReadAt   time.Time `json:"readAt,omitzero"`
	Resumed  time.Time `json:"resumedAt,omitzero"`
}

// New gives the store in dir (state directory of the program), without
// reading it.
func New(fsys vfs.FS, dir string) *Store {
	if dir != "" {
		dir = filepath.Join(dir, "overlay")
	}
	return &Store{fs: fsys, dir: dir, notes: map[session.ID]Note{}, stamp: map[part]stamp{}}
}

// Dir is the directory to watch; "" where notes are in memory only.
func (s *Store) Dir() string { return s.dir }

// Note gives what is known of id.
func (s *Store) Note(id session.ID) Note { return s.notes[id] }

// Load reads what other processes have written since the last time and gives
// the sessions whose notes changed. A file that cannot be understood is set
// aside (renamed to <name>.corrupt-<n>), and told of in the error; the other
// files count all the same. ctx bounds the wait for the lock that this needs.
func (s *Store) Load(ctx context.Context) ([]session.ID, error) {
	if s.dir == "" {
		return nil, nil
	}
	errs := s.damaged
	s.damaged = nil
	list, err := s.fs.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(append(errs, err)...)
	}
	var changed []session.ID
	there := map[part]bool{}
	for _, e := range list {
		p, ok := parsePart(e.Name())
		if !ok {
			continue
		}
		there[p] = true
		ids, err := s.load(ctx, p)
		changed = append(changed, ids...)
		errs = append(errs, err)
	}
	for p := range s.stamp {
		if !there[p] {
			delete(s.stamp, p)
			changed = append(changed, s.take(p, nil)...)
		}
	}
	return changed, errors.Join(errs...)
}

// part names one file: the agent and the digit.
type part struct {
	agent string
	digit byte
}

func partOf(id session.ID) part {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id.Native)) // a hash cannot fail
	return part{id.Agent, "0123456789abcdef"[h.Sum32()&15]}
}

func (p part) String() string { return p.agent + "." + string(rune(p.digit)) }

// parsePart is the inverse of the naming of files.
func parsePart(name string) (part, bool) {
	stem, ok := strings.CutSuffix(name, ".json")
	n := len(stem)
	if !ok || n < 3 || stem[0] == '.' || stem[n-2] != '.' || !strings.Contains("0123456789abcdef", stem[n-1:]) {
		return part{}, false
	}
	return part{stem[:n-2], stem[n-1]}, true
}

func (s *Store) path(p part) string { return filepath.Join(s.dir, p.String()+".json") }

func (s *Store) lock(ctx context.Context, p part) (vfs.Unlocker, error) {
	l, err := s.fs.Lock(ctx, filepath.Join(s.dir, "."+p.String()+".lock"))
	var held *vfs.LockHeldError
	if errors.As(err, &held) {
		return nil, &session.LockedError{Path: held.Path, PID: held.PID, Since: held.Since}
	}
	return l, err
}

// load reads one file if it is not as it was.
func (s *Store) load(ctx context.Context, p part) ([]session.ID, error) {
	path := s.path(p)
	info, err := s.fs.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // gone since it was listed; the next Load sees it
	}
	if err != nil {
		return nil, err
	}
	now := stamp{info.Size, info.ModTime, info.ID}
	if s.stamp[p] == now {
		return nil, nil
	}
	f, err := readFile(s.fs, path)
	if errors.Is(err, errDamaged) {
		lock, lerr := s.lock(ctx, p)
		if lerr != nil {
			return nil, lerr
		}
		// Another process may have written it anew meanwhile.
		if f, err = readFile(s.fs, path); errors.Is(err, errDamaged) {
			err = s.setAside(path)
			f = newFile()
		}
		err = errors.Join(err, lock.Unlock())
	}
	if f == nil {
		if errors.Is(err, errNewer) {
			s.stamp[p] = now // told of once
		}
		return nil, err
	}
	s.stamp[p] = now
	return s.take(p, f), err
}

// take makes the notes of a part those of f.
func (s *Store) take(p part, f *file) []session.ID {
	var changed []session.ID
	seen := map[session.ID]bool{}
	if f != nil {
		for native, raw := range f.notes {
			var d noteOnDisk
			if err := json.Unmarshal(raw, &d); err != nil {
				continue // of a newer version; it stays in the file
			}
			id := session.ID{Agent: p.agent, Native: native}
			if partOf(id) != p {
				continue // copied here by hand: it would never be written back
			}
			seen[id] = true
			if n := Note(d); !s.notes[id].Equal(n) {
				s.notes[id] = n
				changed = append(changed, id)
			}
		}
	}
	for id := range s.notes {
		if !seen[id] && partOf(id) == p {
			delete(s.notes, id)
			changed = append(changed, id)
		}
	}
	return changed
}

// setAside keeps a damaged file under another name; its lock is held.
func (s *Store) setAside(path string) error {
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.corrupt-%d", path, n)
		if _, err := s.fs.Lstat(aside); err == nil {
			continue
		}
		if err := s.fs.Rename(path, aside); err != nil {
			return err
		}
		return fmt.Errorf("notes %q could not be read and were set aside as %q", path, aside)
	}
}

// Edit changes the note of id: under the lock of the file it reads what is
// there, applies edit, and replaces the file. Notes of other sessions that
// have changed on disk are left to Load. Errors: *session.LockedError when
// another process keeps the lock until ctx ends, and those of the disk.
func (s *Store) Edit(ctx context.Context, id session.ID, edit func(Note) Note) (Note, error) {
	if s.dir == "" {
		n := edit(s.notes[id])
		s.notes[id] = n
		return n, nil
	}
	if err := s.fs.MkdirAll(s.dir, 0o700); err != nil {
		return Note{}, err
	}
	lock, err := s.lock(ctx, partOf(id))
	if err != nil {
		return Note{}, err
	}
	n, err := s.editLocked(s.path(partOf(id)), id, edit)
	if err = errors.Join(err, lock.Unlock()); err != nil {
		return Note{}, err
	}
	s.notes[id] = n
	return n, nil
}

func (s *Store) editLocked(path string, id session.ID, edit func(Note) Note) (Note, error) {
	f, err := readFile(s.fs, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f = newFile()
	case errors.Is(err, errDamaged):
		s.damaged = append(s.damaged, s.setAside(path))
		f = newFile()
	case err != nil:
		return Note{}, err
	}
	old, err := f.note(id.Native)
	if err != nil {
		return Note{}, fmt.Errorf("notes %q, session %q: %w", path, id.Native, err)
	}
	n := edit(old)
	same, err := f.set(id.Native, n)
	if err != nil || same {
		return n, err
	}
	b, err := f.encode()
	if err != nil {
		return Note{}, err
	}
	return n, s.replace(path, b)
}

// replace writes a file so that a crash leaves the old or the new one.
func (s *Store) replace(path string, b []byte) error {
	tmp := path + ".tmp"
	if err := s.fs.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // left by a crash; the lock is ours
	}
	f, err := s.fs.Create(tmp, 0o600)
	if err != nil {
		return err
	}
	n, err := f.WriteOnce(b)
	if err == nil && n < len(b) {
		err = fmt.Errorf("write %q: only %d of %d bytes", tmp, n, len(b))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, s.fs.Remove(tmp))
	}
	if err := s.fs.Rename(tmp, path); err != nil {
		return errors.Join(err, s.fs.Remove(tmp))
	}
	return s.fs.SyncDir(s.dir)
}
