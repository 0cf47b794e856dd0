package catalog

import (
	"strings"
	"unicode"
)

// textIndex is what text queries look at, for the rows of one chunk: their
// folded texts, and for each row the set of its trigrams as a signature. The
// signatures are stored by bit and not by row, so that a word of n letters
// looks at n-2 bit rows and leaves few texts to be searched.
type textIndex struct {
	rows  [chunkSize]*row
	texts [chunkSize]string
	bits  [signatureBits]rowSet
}

// rowSet is a set of rows of a chunk.
type rowSet [chunkSize / 64]uint64

// signatureBits is the length of a signature. Rows have about 250 trigrams,
// so that one in five bits is set.
const signatureBits = 1024

func trigramBit(s string) uint32 {
	h := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16
	return h * 2654435761 >> 22 // Fibonacci hashing to 10 bits
}

// indexed gives the texts of the rows in c, taking over what an earlier index
// knew of the same rows.
func (c *chunk) indexed() *textIndex {
	old := c.text.Load()
	if old != nil && old.rows == c.rows {
		return old
	}
	x := &textIndex{}
	if old != nil {
		*x = *old
	}
	x.rows = c.rows
	for i, r := range c.rows {
		var was *row
		if old != nil {
			was = old.rows[i]
		}
		if r == was {
			continue
		}
		word, bit := i/64, uint64(1)<<(i%64)
		if was != nil {
			for j := range x.bits {
				x.bits[j][word] &^= bit
			}
		}
		x.texts[i] = ""
		if r == nil {
			continue
		}
		text := haystack(&r.Row)
		x.texts[i] = text
		for j := 0; j+3 <= len(text); j++ {
			x.bits[trigramBit(text[j:j+3])][word] |= bit
		}
	}
	c.text.Store(x)
	return x
}

// narrow takes from set the rows whose text does not contain all words (folded).
func (x *textIndex) narrow(set *rowSet, words []string) {
	for _, w := range words {
		for j := 0; j+3 <= len(w); j++ {
			b := &x.bits[trigramBit(w[j:j+3])]
			for i := range set {
				set[i] &= b[i]
			}
		}
	}
	set.each(func(i int) {
		for _, w := range words {
			if !strings.Contains(x.texts[i], w) {
				set[i/64] &^= 1 << (i % 64)
				return
			}
		}
	})
}

// haystack is the folded text in which queries look.
func haystack(r *Row) string {
	return fold(strings.Join(append([]string{
		r.Title, r.FirstPrompt, r.LastPrompt, r.ID.String(), r.GitBranch, r.Tag,
	}, r.Note.Tags...), "\n"))
}

// fold makes equal what differs in case only, also where lower and upper case
// do not form pairs (Greek sigma, Kelvin sign).
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 {
			if r >= 'A' && r <= 'Z' {
				return r + 'a' - 'A'
			}
			return r
		}
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		if least >= 'A' && least <= 'Z' {
			return least + 'a' - 'A'
		}
		return least
	}, s)
}
