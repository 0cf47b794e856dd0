package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/agent-ls/agent-ls/session/vfs"
)

// version of the files that this program writes.
const version = 1

// errDamaged: the bytes are no file of notes.
var errDamaged = errors.New("not a file of notes")

// errNewer: the file is of a version that cannot be understood.
var errNewer = errors.New("of a newer version")

// file is a file of notes. What this version does not know, in the file or in
// a note, is kept as it is.
type file struct {
	members map[string]json.RawMessage
	notes   map[string]json.RawMessage
}

func newFile() *file {
	return &file{map[string]json.RawMessage{"version": json.RawMessage(fmt.Sprint(version))}, map[string]json.RawMessage{}}
}

// readFile reads a file of notes. Errors: those of the disk, errDamaged, and
// errNewer, with which the file must be left alone.
func readFile(fsys vfs.FS, path string) (*file, error) {
	h, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer h.Close() //nolint:errcheck // only read
	info, err := h.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, info.Size)
	if n, err := h.ReadAt(b, 0); n < len(b) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("notes %q: %w", path, err)
	}
	f := &file{}
	if json.Unmarshal(b, &f.members) != nil || f.members == nil {
		return nil, errDamaged
	}
	v := 0
	verr := json.Unmarshal(f.members["version"], &v)
	if json.Unmarshal(f.members["notes"], &f.notes) != nil || f.notes == nil {
		if verr == nil && v > version {
			return nil, fmt.Errorf("notes %q: %w (%d; this program knows %d)", path, errNewer, v, version)
		}
		return nil, errDamaged
	}
	return f, nil
}

// note gives the note of a session.
func (f *file) note(native string) (Note, error) {
	raw, ok := f.notes[native]
	if !ok {
		return Note{}, nil
	}
	var d noteOnDisk
	if err := json.Unmarshal(raw, &d); err != nil {
		return Note{}, fmt.Errorf("its note is of a newer version: %w", err)
	}
	return Note(d), nil
}

// known are the names of the members of noteOnDisk.
var known = []string{"title", "tags", "archived", "readTo", "readAt", "resumedAt"}

// set puts the note of a session in; same tells that this changes nothing.
func (f *file) set(native string, n Note) (same bool, err error) {
	old, err := f.note(native)
	if err != nil || old.Equal(n) {
		return true, err
	}
	members := map[string]json.RawMessage{}
	if raw, ok := f.notes[native]; ok {
		if err := json.Unmarshal(raw, &members); err != nil {
			return false, err
		}
	}
	for _, name := range known {
		delete(members, name)
	}
	b, err := json.Marshal(noteOnDisk(n))
	if err == nil {
		err = json.Unmarshal(b, &members)
	}
	if err != nil {
		return false, err
	}
	if len(members) == 0 {
		delete(f.notes, native)
		return false, nil
	}
	f.notes[native], err = json.Marshal(members)
	return false, err
}

// encode gives the bytes of the file, one note a line. It does not go through
// MarshalIndent, which would take notes apart that only have to be copied.
func (f *file) encode() ([]byte, error) {
	b := []byte("{")
	object := func(m map[string]json.RawMessage, indent string) error {
		for i, name := range slices.Sorted(maps.Keys(m)) {
			if i > 0 {
				b = append(b, ',')
			}
			key, err := json.Marshal(name)
			if err != nil {
				return err
			}
			b = append(append(append(append(b, indent...), key...), ": "...), m[name]...)
		}
		return nil
	}
	rest := maps.Clone(f.members)
	delete(rest, "notes")
	if err := object(rest, "\n "); err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		b = append(b, ',')
	}
	b = append(b, "\n \"notes\": {"...)
	if err := object(f.notes, "\n  "); err != nil {
		return nil, err
	}
	return append(b, "\n }\n}\n"...), nil
}
