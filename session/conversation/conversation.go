// Package conversation is the message sequence that an agent keeps in memory
// and shows to its model, with hooks that make every change durable.
//
// It does not know how or where messages are kept. Invariant: a change that a
// hook refused has not happened.
package conversation
