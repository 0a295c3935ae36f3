//go:build !linux

package peer

import "syscall"

// ListenEarly has nothing to do: this system knows no such option.
func ListenEarly(_, _ string, _ syscall.RawConn) error { return nil }
