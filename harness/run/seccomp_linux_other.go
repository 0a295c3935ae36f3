//go:build linux && !amd64 && !arm64

package run

// No filter is made for these processors.
const (
	seccompArch = 0
	seccompX32  = 0
)

var seccompFiles, seccompShared []uint32
