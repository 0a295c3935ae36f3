//go:build !linux

package web

import "net"

// newCallerFinder returns what does not know: this system does not say whose a connection is.
func newCallerFinder(net.Listener) *callerFinder {
	return &callerFinder{most: 1, find: func(conns []net.Conn) ([]callerCheck, error) { return make([]callerCheck, len(conns)), nil }}
}
