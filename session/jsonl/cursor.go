package jsonl

// Cursor walks one JSON value from its first byte to its last, looking at
// every byte once and validating it on the way: objects and arrays are
// entered with Object and Array, what is of no interest is passed over with
// Value. It allocates nothing. A walk that was not finished by Done says
// nothing about the bytes behind it.
//
//	c := NewCursor(raw)
//	for ok := c.Object(); ok; {
//		key, more := c.Member()
//		…
//	}
type Cursor struct {
	b     []byte
	i     int
	depth int
	fresh bool // a container was entered, and nothing of it was visited yet
	bad   bool
	known bool
}

// NewCursor stands before the value of raw.
func NewCursor(raw []byte) Cursor { return Cursor{b: raw, i: space(raw, 0)} }

// NewKnownCursor is NewCursor for a value that is known to be valid. It looks
// for quotes only, which is several times faster; on anything else it visits
// nonsense, but ends.
func NewKnownCursor(raw []byte) Cursor { return Cursor{b: raw, i: space(raw, 0), known: true} }

// Peek is the first byte of the next value, 0 at the end: '"' for a string,
// '{', '[', or what else begins it.
func (c *Cursor) Peek() byte {
	if c.i >= len(c.b) {
		return 0
	}
	return c.b[c.i]
}

// Object enters the next value if it is an object; otherwise it stays.
func (c *Cursor) Object() bool { return c.enter('{') }

// Array enters the next value if it is an array; otherwise it stays.
func (c *Cursor) Array() bool { return c.enter('[') }

func (c *Cursor) enter(open byte) bool {
	if c.bad || c.Peek() != open {
		return false
	}
	c.i = space(c.b, c.i+1)
	c.depth++
	c.fresh = true
	return true
}

// Member gives the key of the next member of the object entered last, without
// quotes and with escapes as written, and stands before its value then. ok is
// false behind the last one, which leaves the object, and where it is damaged.
func (c *Cursor) Member() (key []byte, ok bool) {
	if !c.next('}') {
		return nil, false
	}
	start := c.i
	end := start
	if ok = c.Peek() == '"'; ok && c.known {
		end = knownString(c.b, start)
	} else if ok {
		end, ok = str(c.b, start)
	}
	if c.i = space(c.b, end); !ok || c.Peek() != ':' {
		c.bad = true
		return nil, false
	}
	c.i = space(c.b, c.i+1)
	return c.b[start+1 : end-1], true
}

// Element reports whether the array entered last has a further element, and
// stands before it then; otherwise it leaves the array.
func (c *Cursor) Element() bool { return c.next(']') }

// next passes the comma before a further part of a container, or its end.
func (c *Cursor) next(end byte) bool {
	fresh := c.fresh
	c.fresh = false
	switch b := c.Peek(); {
	case c.bad:
		return false
	case b == end:
		c.i = space(c.b, c.i+1)
		c.depth--
		return false
	case fresh && b != 0:
		return true
	case b == ',':
		c.i = space(c.b, c.i+1)
		return true
	}
	c.bad = true
	return false
}

// Value passes over the next value and gives it as written; nil where it is
// damaged.
func (c *Cursor) Value() []byte {
	c.fresh = false
	if c.bad {
		return nil
	}
	var end int
	var ok bool
	if c.known {
		end = knownValue(c.b, c.i)
		ok = end > c.i
	} else {
		end, ok = valueIn(c.b, c.i, c.depth)
	}
	if !ok {
		c.bad = true
		return nil
	}
	v := c.b[c.i:end]
	c.i = space(c.b, end)
	return v
}

// Pos is the index of the next byte that is looked at. The bytes between two
// of them, without white space at the end, are what was walked in between.
func (c *Cursor) Pos() int { return c.i }

// Since gives what was walked since Pos was from, without the white space
// behind it.
func (c *Cursor) Since(from int) []byte {
	end := c.i
	for end > from && (c.b[end-1] == ' ' || c.b[end-1] == '\n' || c.b[end-1] == '\t' || c.b[end-1] == '\r') {
		end--
	}
	return c.b[from:end]
}

// Done reports whether the whole of raw is one valid value that was walked to
// its end.
func (c *Cursor) Done() bool { return !c.bad && c.depth == 0 && c.i == len(c.b) && c.i > 0 }
