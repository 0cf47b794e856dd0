// Package format holds one file for each agent whose sessions we know.
//
// The folder is the registry: a file registers its format in init, and All
// gives them sorted by name. Formats have no state and see the disk only
// through the fs.FS they are handed.
package format

import (
	"slices"
	"strings"

	"github.com/agent-ls/agent-ls/session"
)

var registry []session.Format

func register(f session.Format) {
	for _, g := range registry {
		if g.Name() == f.Name() {
			panic("format " + f.Name() + " registered twice")
		}
	}
	registry = append(registry, f)
}

// All gives every known format, sorted by name.
func All() []session.Format {
	out := slices.Clone(registry)
	slices.SortFunc(out, func(a, b session.Format) int { return strings.Compare(a.Name(), b.Name()) })
	return out
}
