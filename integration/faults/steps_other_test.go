//go:build faults && !amd64

package faults

// olderCalls: this processor has none, and no older way to open a file.
var olderCalls []uint32

const olderOpen = 0
