//go:build !linux && !darwin

package main

import _ "embed"

// The go command looks for the files to embed before it compiles anything. No file matches
// this pattern, so the go command prints only the pattern.
//
//go:embed "acpd runs on Linux and macOS, not on this system"
var unsupported string
