// Package watcher turns file-system notices into updates of sessions: a
// Notifier gives hints, a Tail gives growth, the Hub gives updates.
//
// It is the first package that knows that files change, and it knows no
// protocol. Invariant: a lost or false hint delays an update, it never loses,
// repeats or reorders one.
package watcher
