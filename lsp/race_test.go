//go:build race

package lsp_test

// raced: the race detector makes work ten times as long.
const raced = true
