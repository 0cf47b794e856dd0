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

// Store is the directory of notes: one file for each agent,
//
//	overlay/<agent>.json  {"version":1,"notes":{"<native id>":{...}}}
//
// With an empty directory notes are kept in memory only. A Store is not safe
// for concurrent use; the catalog serializes it. Several processes may use
// one directory.
type Store struct {
	fs    vfs.FS
	dir   string
	notes map[session.ID]Note
	stamp map[string]stamp // by file, as of the last read
}

type stamp struct {
	size int64
	mod  time.Time
	id   vfs.FileID
}

// onDisk is a file of notes. Unknown members of a newer version are kept.
type onDisk struct {
	Version int                        `json:"version"`
	Notes   map[string]json.RawMessage `json:"notes"`
}

type noteOnDisk struct {
	Title    string    `json:"title,omitempty"`
	Tags     []string  `json:"tags,omitempty"`
	Archived *bool     `json:"archived,omitempty"`
	ReadTo   string    `json:"readTo,omitempty"`
	ReadAt   time.Time `json:"readAt,omitzero"`
	Resumed  time.Time `json:"resumedAt,omitzero"`
}

// version of the files.
const version = 1

// New gives the store in dir (state directory of the program), without
// reading it.
func New(fsys vfs.FS, dir string) *Store {
	if dir != "" {
		dir = filepath.Join(dir, "overlay")
	}
	return &Store{fs: fsys, dir: dir, notes: map[session.ID]Note{}, stamp: map[string]stamp{}}
}

// Dir is the directory to watch; "" where notes are in memory only.
func (s *Store) Dir() string { return s.dir }

// Note gives what is known of id.
func (s *Store) Note(id session.ID) Note { return s.notes[id] }

// Load reads what other processes have written since the last time and gives
// the sessions whose notes changed. A file that cannot be understood is set
// aside (renamed to <name>.corrupt-<n>), and told of in the error; the other
// files count all the same.
func (s *Store) Load(_ context.Context) ([]session.ID, error) {
	if s.dir == "" {
		return nil, nil
	}
	list, err := s.fs.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var changed []session.ID
	var errs []error
	for _, e := range list {
		agent, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || strings.HasPrefix(agent, ".") {
			continue
		}
		ids, err := s.load(agent)
		changed = append(changed, ids...)
		errs = append(errs, err)
	}
	return changed, errors.Join(errs...)
}

func (s *Store) path(agent string) string { return filepath.Join(s.dir, agent+".json") }

func (s *Store) load(agent string) ([]session.ID, error) {
	path := s.path(agent)
	info, err := s.fs.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	now := stamp{info.Size, info.ModTime, info.ID}
	if s.stamp[agent] == now {
		return nil, nil
	}
	file, err := s.read(path, info.Size)
	if err != nil {
		return nil, err
	}
	s.stamp[agent] = now
	var changed []session.ID
	seen := map[session.ID]bool{}
	for native, raw := range file.Notes {
		var d noteOnDisk
		if err := json.Unmarshal(raw, &d); err != nil {
			continue // of a newer version; it stays in the file
		}
		id := session.ID{Agent: agent, Native: native}
		seen[id] = true
		n := Note(d)
		if !s.notes[id].Equal(n) {
			s.notes[id] = n
			changed = append(changed, id)
		}
	}
	for id := range s.notes {
		if id.Agent == agent && !seen[id] {
			delete(s.notes, id)
			changed = append(changed, id)
		}
	}
	return changed, nil
}

func (s *Store) read(path string, size int64) (onDisk, error) {
	f, err := s.fs.Open(path)
	if err != nil {
		return onDisk{}, err
	}
	defer f.Close() //nolint:errcheck // only read
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if n < len(b) {
		return onDisk{}, err
	}
	var d onDisk
	if err := json.Unmarshal(b, &d); err != nil || d.Notes == nil {
		return onDisk{}, s.setAside(path)
	}
	return d, nil
}

// setAside keeps a damaged file under another name.
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
// there, applies edit, and replaces the file.
func (s *Store) Edit(ctx context.Context, id session.ID, edit func(Note) Note) (Note, error) {
	if s.dir == "" {
		n := edit(s.notes[id])
		s.notes[id] = n
		return n, nil
	}
	if err := s.fs.MkdirAll(s.dir, 0o700); err != nil {
		return Note{}, err
	}
	path := s.path(id.Agent)
	lock, err := s.fs.Lock(ctx, filepath.Join(s.dir, "."+id.Agent+".lock"))
	if err != nil {
		return Note{}, err
	}
	n, err := s.editLocked(path, id, edit)
	return n, errors.Join(err, lock.Unlock())
}

func (s *Store) editLocked(path string, id session.ID, edit func(Note) Note) (Note, error) {
	if _, err := s.load(id.Agent); err != nil {
		if _, serr := s.fs.Stat(path); serr == nil { // it was not set aside: do not write over it
			return Note{}, err
		}
	}
	file := onDisk{Version: version, Notes: map[string]json.RawMessage{}}
	if info, err := s.fs.Stat(path); err == nil {
		if file, err = s.read(path, info.Size); err != nil {
			return Note{}, err
		}
	}
	n := edit(s.notes[id])
	if n.IsZero() {
		delete(file.Notes, id.Native)
	} else {
		raw, err := json.Marshal(noteOnDisk(n))
		if err != nil {
			return Note{}, err
		}
		file.Notes[id.Native] = raw
	}
	b, err := json.MarshalIndent(file, "", " ")
	if err != nil {
		return Note{}, err
	}
	if err := s.replace(path, append(b, '\n')); err != nil {
		return Note{}, err
	}
	if info, err := s.fs.Stat(path); err == nil {
		s.stamp[id.Agent] = stamp{info.Size, info.ModTime, info.ID}
	}
	s.notes[id] = n
	return n, nil
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
		return err
	}
	return s.fs.SyncDir(s.dir)
}
