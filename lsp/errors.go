package lsp

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-ls/agent-ls/lsp/rpc"
	"github.com/agent-ls/agent-ls/session"
	"github.com/agent-ls/agent-ls/session/journal"
)

// Codes of docs/protocol.md, section 9, besides those of rpc.
const (
	codeNotInitialized = -32002
	codeModified       = -32801
	codeNotFound       = -32011
	codeUnsupported    = -32012
	codeLocked         = -32013
	codeStorage        = -32014
	codeUnreadable     = -32015
)

func isNotFound(err error) bool { return errors.Is(err, session.ErrNotFound) }

// toError is the one place that knows which error has which code.
func toError(err error) error {
	var (
		own         *rpc.Error
		invalid     *session.InvalidError
		ambiguous   *session.AmbiguousError
		unsupported *session.UnsupportedError
		locked      *session.LockedError
		stale       *journal.StaleError
		storage     *journal.StorageError
		path        *fs.PathError
		missing     *session.NotFoundError
		unreadable  *session.ReadError
	)
	data := func(code int64, data map[string]any) error {
		return &rpc.Error{Code: code, Message: err.Error(), Data: data}
	}
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, context.Canceled):
		return err // rpc knows
	case errors.As(err, &ambiguous):
		return data(rpc.CodeInvalidParams, map[string]any{"field": "sessionId", "candidates": ambiguous.Candidates})
	case errors.As(err, &invalid):
		return data(rpc.CodeInvalidParams, map[string]any{"field": invalid.Field})
	case errors.As(err, &missing) && missing.What != "session":
		return data(rpc.CodeInvalidParams, map[string]any{"field": missing.What, "value": missing.Name})
	case errors.Is(err, session.ErrNotFound):
		return data(codeNotFound, nil)
	case errors.As(err, &unsupported):
		d := map[string]any{"why": unsupported.Why}
		if unsupported.Instead != "" {
			d["instead"] = unsupported.Instead
		}
		return data(codeUnsupported, d)
	case errors.As(err, &locked):
		d := map[string]any{}
		if locked.PID != 0 {
			d["pid"] = locked.PID
		}
		return data(codeLocked, d)
	case errors.As(err, &stale):
		return data(codeModified, map[string]any{"revision": string(stale.Current)})
	case errors.As(err, &unreadable):
		return data(codeUnreadable, map[string]any{
			"line": unreadable.Pos.Line, "offset": unreadable.Pos.Offset, "errno": errno(unreadable.Err),
		})
	case errors.As(err, &storage):
		return data(codeStorage, map[string]any{"errno": errno(err), "path": storage.Path})
	case errors.Is(err, fs.ErrNotExist):
		return data(codeNotFound, nil)
	case errors.As(err, &path):
		return data(codeStorage, map[string]any{"errno": errno(err), "path": path.Path})
	}
	return &rpc.Error{Code: rpc.CodeInternal, Message: err.Error()}
}

// errno names the system's error, or says what happened in words.
func errno(err error) string {
	var n syscall.Errno
	if errors.As(err, &n) {
		if name := errnoName(n); name != "" {
			return name
		}
	}
	return err.Error()
}

// errnoName gives the symbolic name of the errors that storage shows.
func errnoName(n syscall.Errno) string {
	switch n { //nolint:exhaustive // the others are told in words
	case syscall.ENOSPC:
		return "ENOSPC"
	case syscall.EIO:
		return "EIO"
	case syscall.EACCES:
		return "EACCES"
	case syscall.EPERM:
		return "EPERM"
	case syscall.EROFS:
		return "EROFS"
	case syscall.ENOENT:
		return "ENOENT"
	case syscall.ENOTDIR:
		return "ENOTDIR"
	case syscall.EISDIR:
		return "EISDIR"
	case syscall.EMFILE:
		return "EMFILE"
	case syscall.EFBIG:
		return "EFBIG"
	}
	return ""
}

// decoding are the options of everything that is read.
var decoding = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// decode reads the params of a request. Params that are missing are an empty
// object; a member of the wrong type is named in data.field.
func decode(r *rpc.Request, p any) error {
	if len(r.Params) == 0 || string(r.Params) == "null" {
		return nil
	}
	if r.Params[0] == '[' {
		if isEmptyArray(r.Params) {
			return nil
		}
		return &rpc.Error{Code: rpc.CodeInvalidParams, Message: r.Method + ": params are by name, not by position", Data: map[string]any{"field": "params"}}
	}
	err := json.Unmarshal(r.Params, p, decoding)
	if err == nil {
		return nil
	}
	field := "params"
	var sem *json.SemanticError
	if errors.As(err, &sem) && sem.JSONPointer != "" {
		field = fieldOf(sem.JSONPointer)
	}
	return &rpc.Error{
		Code: rpc.CodeInvalidParams, Message: r.Method + ": " + field + " is of the wrong type",
		Data: map[string]any{"field": field},
	}
}

// isEmptyArray reports whether raw is [], as which Lua and PHP clients encode
// an empty object.
func isEmptyArray(raw []byte) bool {
	return len(raw) > 1 && raw[0] == '[' && len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
}

// fieldOf writes a pointer as the other messages name fields: messages[0].role.
func fieldOf(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		switch _, err := strconv.ParseUint(token, 10, 32); {
		case err == nil && b.Len() > 0:
			b.WriteString("[" + token + "]")
		case b.Len() > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	return b.String()
}

func decodeLoose(raw []byte, p any) error {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	return json.Unmarshal(raw, p, decoding)
}
