// Package overlay keeps what the user said about sessions in files of our
// own: names, tags, archive marks, read marks. The agents' stores are not
// touched by it.
//
// It does not know what sessions exist. Invariant: a file is replaced
// atomically, and two processes that annotate at the same time both survive.
package overlay
