package catalog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agent-ls/agent-ls/session/vfs"
)

// cache keeps rows on disk, so that a later start shows them at once and the
// first scan opens only what has changed. It is a log:
//
//	"agent-ls rows 1\n" length version      what made the rows
//	length crc32c record                    one transcript; later records win
//	...
//
// Lengths and checksums are 4 bytes, little endian. Several processes append
// to it under a lock; a tail that was not written whole is cut off by the
// next one. When half of it is out of date it is written anew and renamed.
// Nothing in it is needed: it is not synced, and what cannot be used is made
// anew. See docs/design/0001-catalog-cache.md.
//
// use is held by whoever reads or writes it; Catalog.mu is taken behind it,
// never before it.
type cache struct {
	fs      vfs.FS
	path    string
	version string // of the program: another one may make other rows
	report  func(error)
	off     atomic.Bool   // it cannot be used, and that was reported
	use     chan struct{} // capacity 1; guards what follows
	told    bool          // that rows were lost
	broken  bool          // it has a whole record that is none
	id      vfs.FileID    // of the file that was read
	end     int64         // behind the last whole record
	live    int64         // bytes of records that are not out of date
	rows    int64         // records written, for tests of work done
}

const (
	cacheMagic  = "agent-ls rows "
	cacheFormat = 1
	recordHead  = 8
	maxRecord   = 64 << 20
	// typicalRecord is about the length of a record; what is made for that
	// many records grows where the guess is wrong.
	typicalRecord = 512
	cacheGarbage  = 1 << 20 // below this, nothing is written anew
	cacheWait     = time.Second
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	// errOtherCache: the file is none of ours or damaged; it may be replaced.
	errOtherCache = errors.New("it is damaged or of another program")
	// errOtherBuild: another build of ours made the file; it may be replaced.
	errOtherBuild = errors.New("another version writes it")
	// errDamage: what follows the records that were read is none of ours, nor
	// the beginning of a record.
	errDamage = errors.New("it is damaged")
	// errNewerCache: the file is of a newer format and is left alone.
	errNewerCache = errors.New("it is of a newer version")
)

// disable reports once that there is no cache, and works on without.
func (c *cache) disable(err error) {
	if c.off.CompareAndSwap(false, true) {
		c.report(fmt.Errorf("cache %q is not used: %w", c.path, err))
	}
}

// anew reports once that rows were lost; they are made from the stores again.
func (c *cache) anew(err error) {
	if !c.told {
		c.told = true
		c.report(fmt.Errorf("cache %q is made anew: %w", c.path, err))
	}
}

func (c *cache) header() []byte {
	b := fmt.Appendf(nil, "%s%d\n", cacheMagic, cacheFormat)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.version)))
	return append(b, c.version...)
}

// readHeader checks that h was made by this version. It gives where records
// begin.
func (c *cache) readHeader(h vfs.File) (int64, error) {
	want := c.header()
	got := make([]byte, len(want))
	n, err := h.ReadAt(got, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if got = got[:n]; bytes.Equal(got, want) {
		return int64(n), nil
	}
	rest, ours := strings.CutPrefix(string(got), cacheMagic)
	number, _, whole := strings.Cut(rest, "\n")
	if v, err := strconv.Atoi(number); ours && whole && err == nil {
		switch {
		case v > cacheFormat:
			return 0, errNewerCache
		case len(got) == len(want) || v < cacheFormat:
			return 0, errOtherBuild
		}
	}
	return 0, errOtherCache
}

// readRecords gives every record from off on, in order, and the end of the
// last whole one, which is also right with errDamage. Records of one window
// share memory.
func readRecords(h vfs.File, off, size int64, yield func(record string) error) (end int64, err error) {
	const window = 1 << 20
	var buf []byte
	kept := 0 // bytes of a record that began in the last window, at the start of buf
	for at, need := off, recordHead; ; {
		have := at + int64(kept)
		if have >= size {
			return at, nil
		}
		want := int(min(int64(max(window, need)), size-at))
		buf = slices.Grow(buf[:kept], want-kept)[:want]
		n, err := h.ReadAt(buf[kept:], have)
		if n == 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return at, err
		}
		rest := buf[:kept+n]
		text := string(rest)
		for need = recordHead; len(rest) >= recordHead; rest, text, need = rest[need:], text[need:], recordHead {
			length := binary.LittleEndian.Uint32(rest)
			if length > maxRecord {
				return at, errDamage
			}
			if need = recordHead + int(length); len(rest) < need {
				break
			}
			if crc32.Checksum(rest[recordHead:need], castagnoli) != binary.LittleEndian.Uint32(rest[4:]) {
				return at, errDamage
			}
			if err := yield(text[recordHead:need]); err != nil {
				return at, err
			}
			at += int64(need)
		}
		kept = copy(buf, rest)
	}
}

// guess is about the number of records.
func (c *cache) guess() int {
	info, err := c.fs.Stat(c.path)
	if err != nil {
		return 0
	}
	return int(info.Size / typicalRecord)
}

// load gives every record to take, which returns the length of the record
// that it makes out of date, 0 for none.
func (c *cache) load(take func(saved) (outdated int32)) {
	h, err := c.fs.Open(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		c.disable(err)
		return
	}
	defer h.Close() //nolint:errcheck // only read
	switch err := c.loadFrom(h, take); {
	case errors.Is(err, errOtherBuild): // the next save makes it anew
		c.id, c.end = vfs.FileID{}, 0
	case errors.Is(err, errOtherCache):
		c.id, c.end = vfs.FileID{}, 0
		c.anew(err)
	case err != nil:
		c.disable(err)
	}
}

func (c *cache) loadFrom(h vfs.File, take func(saved) (outdated int32)) error {
	info, err := h.Stat()
	if err != nil {
		return err
	}
	start, err := c.readHeader(h)
	if err != nil {
		return err
	}
	live := start
	var memory slabs
	end, err := readRecords(h, start, info.Size, func(p string) error {
		s, err := decodeSaved(p, memory.row)
		if err != nil {
			c.broken = true // what follows it would never be read
			return errDamage
		}
		s.length = int32(recordHead + len(p))
		live -= int64(take(s))
		if !s.gone {
			live += int64(s.length)
		}
		return nil
	})
	switch {
	case errors.Is(err, errDamage):
		c.anew(err)
	case err != nil:
		return err
	}
	c.id, c.end, c.live = info.ID, end, live
	return nil
}

// save appends records. all gives those of all transcripts, for a file that
// has to be made anew. It reports false if another process kept the lock: then
// they are to be saved the next time.
func (c *cache) save(list []saved, all func() []saved) bool {
	c.use <- struct{}{}
	defer func() { <-c.use }()
	ctx, cancel := context.WithTimeout(context.Background(), cacheWait)
	defer cancel()
	if err := c.fs.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		c.disable(err)
		return true
	}
	lock, err := c.fs.Lock(ctx, c.path+".lock")
	if err != nil {
		var held *vfs.LockHeldError
		if errors.As(err, &held) {
			return false
		}
		c.disable(err)
		return true
	}
	if err := errors.Join(c.saveLocked(list, all), lock.Unlock()); err != nil {
		c.disable(err)
	}
	return true
}

func (c *cache) saveLocked(list []saved, all func() []saved) error {
	h, err := c.fs.OpenAppend(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return c.replace(all())
	}
	if err != nil {
		return err
	}
	if c.broken {
		return errors.Join(h.Close(), c.replace(all()))
	}
	err = c.appendTo(h, list)
	if cerr := h.Close(); err == nil {
		err = cerr
	}
	if errors.Is(err, errOtherCache) || errors.Is(err, errOtherBuild) {
		if c.end > 0 { // it was ours: the file of another version is not fought over
			return err
		}
		return c.replace(all())
	}
	if err == nil && c.end-c.live > c.live+cacheGarbage {
		err = c.compact()
	}
	return err
}

// appendTo writes records behind the last whole one.
func (c *cache) appendTo(h vfs.File, list []saved) error {
	info, err := h.Stat()
	if err != nil {
		return err
	}
	start, err := c.readHeader(h)
	if err != nil {
		return err
	}
	if info.ID != c.id || info.Size < c.end {
		c.id, c.end, c.live = info.ID, start, info.Size // written anew by another process
	}
	// What others have added counts as out of date with ours, or is the same.
	if c.end, err = endOfRecords(h, c.end, info.Size); err == nil && c.end < info.Size {
		// Not written whole, or damaged; or another file got the number of ours
		// and c.end was inside of a record.
		c.end, err = endOfRecords(h, start, info.Size)
	}
	if err == nil && c.end < info.Size {
		err = h.Truncate(c.end)
	}
	if err != nil {
		return err
	}
	return c.write(h, list)
}

func endOfRecords(h vfs.File, off, size int64) (int64, error) {
	end, err := readRecords(h, off, size, func(string) error { return nil })
	if errors.Is(err, errDamage) {
		err = nil
	}
	return end, err
}

// write appends records to h, whose end is c.end.
func (c *cache) write(h vfs.File, list []saved) error {
	const part = 4 << 20
	var b []byte
	for i, s := range list {
		head := len(b)
		b = s.encode(append(b, make([]byte, recordHead)...))
		payload := b[head+recordHead:]
		binary.LittleEndian.PutUint32(b[head:], uint32(len(payload)))
		binary.LittleEndian.PutUint32(b[head+4:], crc32.Checksum(payload, castagnoli))
		if len(b) < part && i < len(list)-1 {
			continue
		}
		n, err := h.WriteOnce(b)
		if err == nil && n < len(b) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return errors.Join(err, h.Truncate(c.end))
		}
		c.end += int64(n)
		b = b[:0]
	}
	c.rows += int64(len(list))
	return nil
}

// replace makes the file anew with some records.
func (c *cache) replace(list []saved) error {
	tmp := c.path + ".tmp"
	if err := c.fs.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	h, err := c.fs.Create(tmp, 0o600)
	if err != nil {
		return err
	}
	head := c.header()
	n, err := h.WriteOnce(head)
	if err == nil && n < len(head) {
		err = io.ErrShortWrite
	}
	if err == nil {
		c.end = int64(n)
		err = c.write(h, list)
	}
	info, serr := h.Stat()
	if err = errors.Join(err, serr, h.Close()); err == nil {
		err = c.fs.Rename(tmp, c.path)
	}
	if err != nil {
		return errors.Join(err, c.fs.Remove(tmp))
	}
	c.id, c.live, c.broken = info.ID, c.end, false
	return nil
}

// compact writes the file anew without what is out of date, and without
// transcripts that are there no more. Rows of other processes stay.
func (c *cache) compact() error {
	h, err := c.fs.Open(c.path)
	if err != nil {
		return err
	}
	list := map[string]saved{}
	err = c.loadFrom(h, func(s saved) int32 {
		old := list[s.path].length
		if list[s.path] = s; s.gone {
			delete(list, s.path)
		}
		return old
	})
	if err = errors.Join(err, h.Close()); err != nil {
		return err
	}
	there := make([]saved, 0, len(list))
	for _, s := range list {
		path := s.path
		if s.stamp == (stamp{}) { // its directory waits for it
			path = filepath.Dir(path)
		}
		if _, err := c.fs.Stat(path); !isMissing(err) {
			there = append(there, s)
		}
	}
	rows := c.rows
	err = c.replace(there)
	c.rows = rows
	return err
}
