//go:build !linux && !darwin

package main

import _ "embed"

// The go command looks for the files to embed before it compiles anything. So this pattern,
// which matches none, is all that it prints.
//
//go:embed "acpctl runs on Linux and macOS, not on this system"
var unsupported string
