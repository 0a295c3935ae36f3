//go:build faults && !amd64

package faults

// clockCode: nobody has written it for this processor.
var clockCode []byte
