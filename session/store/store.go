// Package store is agent-ls as a library for Go agents: make a session,
// write every message durably, list, resume and prune.
//
// It joins a format, the journal and a conversation; it holds no state of its
// own beyond the open writer. Go packages of this module carry no
// compatibility promise.
package store
