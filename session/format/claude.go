package format

import (
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/chain"
)

// Claude Code keeps all sessions in its configuration directory, which is the
// root here ($CLAUDE_CONFIG_DIR or ~/.claude):
//
//	projects/<cwd with - for what is no letter or digit>/
//	    <uuid>.jsonl                       a session
//	    <uuid>/custom-title.json           its side files
//	    <uuid>/archived.json
//	    <uuid>/subagents/**/agent-*.jsonl  a helper's session, with .meta.json
//	    <uuid>/tool-results/*              outputs moved out of the log
//	sessions/<pid>.json                    what runs now
//
// A line is an object with a type. Lines of the conversation have uuid and
// parentUuid and form a tree; all others are bookkeeping. Versions seen:
// 2.1.300 to 2.1.332. See docs/formats/claude.md for the facts, the loading
// rules, and where the agent's own two readers disagree.
type claude struct{}

func init() { register(claude{}) }

const (
	claudeName     = "claude"
	claudeProjects = "projects"
	claudeLive     = "sessions"
	claudeHelpers  = "subagents"
	claudeSpills   = "tool-results"
)

func (claude) Name() string { return claudeName }

// Depth: projects/<dir>/<uuid>/subagents/workflows/<run>/, and room for more.
func (claude) Depth() int { return 8 }

func (claude) Roots(env session.Env) []string {
	var out []string
	for _, r := range env.Roots[claudeName] {
		// Either directory may be configured.
		if filepath.Base(r) == claudeProjects {
			r = filepath.Dir(r)
		}
		out = append(out, r)
	}
	if len(out) > 0 {
		return out
	}
	if env.Getenv != nil {
		if dir := env.Getenv("CLAUDE_CONFIG_DIR"); dir != "" {
			return []string{dir}
		}
	}
	if env.Home == "" {
		return nil
	}
	return []string{filepath.Join(env.Home, ".claude")}
}

// Enter implements session.Scoped: the root also holds caches, plugins and
// file backups.
func (claude) Enter(dir string) bool {
	parts := strings.Split(dir, "/")
	switch {
	case dir == "." || dir == "":
		return true
	case parts[0] == claudeLive:
		return len(parts) == 1
	case parts[0] != claudeProjects:
		return false
	case len(parts) <= 2:
		return true
	case !isUUID(parts[2]):
		return false
	}
	return len(parts) == 3 || parts[3] == claudeHelpers
}

func (claude) Identify(p string) (string, bool) {
	parts := strings.Split(p, "/")
	stem, isLog := strings.CutSuffix(parts[len(parts)-1], ".jsonl")
	if !isLog || len(parts) < 3 || parts[0] != claudeProjects {
		return "", false
	}
	if len(parts) == 3 {
		return stem, isUUID(stem)
	}
	if len(parts) < 5 || !isUUID(parts[2]) || parts[3] != claudeHelpers || !strings.HasPrefix(stem, "agent-") {
		return "", false
	}
	// The name of a helper need not be unique, so its session is part of the
	// id, behind it: a prefix of a session id shall not mean its helpers.
	native := stem + "@" + parts[2]
	if deep := parts[4 : len(parts)-1]; len(deep) > 0 {
		native += "/" + strings.Join(deep, "/")
	}
	return native, true
}

// claudeParent gives the session that a helper's native id belongs to.
func claudeParent(native string) (parent string, ok bool) {
	_, rest, ok := strings.Cut(native, "@")
	parent, _, _ = strings.Cut(rest, "/")
	return parent, ok
}

func (f claude) Owner(p string) (string, bool) {
	parts := strings.Split(p, "/")
	if len(parts) < 4 || parts[0] != claudeProjects || !isUUID(parts[2]) {
		return "", false
	}
	if _, own := f.Identify(p); own {
		return "", false
	}
	if stem, ok := strings.CutSuffix(p, ".meta.json"); ok && parts[3] == claudeHelpers {
		if _, ok := f.Identify(stem + ".jsonl"); ok {
			return stem + ".jsonl", true
		}
	}
	return path.Join(parts[:3]...) + ".jsonl", true
}

func (claude) Replay(native string) session.Replayer {
	rules := chain.TreeRules{Bridge: true, Session: native}
	if parent, helper := claudeParent(native); helper {
		rules.Whole, rules.Session = true, parent
	}
	return chain.Tree(rules)
}

// Command implements session.Resumer.
func (claude) Command(s session.Session) ([]string, string, map[string]string) {
	native := s.Native
	if parent, helper := claudeParent(native); helper {
		native = parent
	}
	return []string{"claude", "--resume", native}, s.CWD, nil
}

// isUUID reports whether s has the shape of a UUID, in either case.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F':
		default:
			return false
		}
	}
	return true
}

// claudeDirMax is the longest name of a project directory, in UTF-16 units;
// a longer path is cut there and gets a hash.
const claudeDirMax = 200

// claudeProjectDir gives the name of the directory that Claude Code uses for
// a working directory. The mapping loses information: it serves to find a
// directory, never to tell the path from it.
func claudeProjectDir(cwd string) string {
	units := utf16.Encode([]rune(cwd))
	var b strings.Builder
	for i, u := range units {
		if i == claudeDirMax {
			break
		}
		if u < 128 && (u >= '0' && u <= '9' || u >= 'a' && u <= 'z' || u >= 'A' && u <= 'Z') {
			b.WriteByte(byte(u))
		} else {
			b.WriteByte('-')
		}
	}
	if len(units) <= claudeDirMax {
		return b.String()
	}
	var h int32
	for _, u := range units {
		h = h*31 + int32(u)
	}
	abs := int64(h)
	if abs < 0 {
		abs = -abs
	}
	return b.String() + "-" + strconv.FormatInt(abs, 36)
}
