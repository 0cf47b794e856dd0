// Package chain has the machines to which all stores reduce: a linear log with
// replace marks, a tree of parents, and a fold of events.
//
// It does not know any agent; what differs between them is handed in.
// Invariant: adding entries one at a time gives the same as adding them all.
package chain
