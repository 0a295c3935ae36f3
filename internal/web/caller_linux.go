package web

import (
	"net"
	"net/netip"
	"os"
)

// connEnds is the addresses of a connection, of IPv4: it begins with who is asked about, at from.
type connEnds struct{ from, to netip.AddrPort }

// findEnds returns the ends of a connection that a listener of IPv4 has accepted.
func findEnds(c net.Conn) connEnds {
	unmap := func(a net.Addr) netip.AddrPort {
		at := a.(*net.TCPAddr).AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	return connEnds{unmap(c.RemoteAddr()), unmap(c.LocalAddr())}
}

// newCallerFinder returns what asks the kernel (sock_diag(7)) or, where that does not answer, reads the tables of
// all connections (proc(5), /proc/net/tcp).
func newCallerFinder(l net.Listener) callerFinder {
	return chooseCallerFinder(l, askConnOwner, "/proc/net/")
}

// chooseCallerFinder is newCallerFinder with what asks the kernel, and the folder of the tables.
func chooseCallerFinder(l net.Listener, ask func(connEnds) (uid int, err error), tables string) callerFinder {
	at := l.Addr().(*net.TCPAddr).AddrPort()
	if _, err := ask(connEnds{at, at}); err != errNoCaller { // who answers knows that socket, and that it only listens
		return newTableFinder(tables)
	}
	return newKernelFinder(ask)
}

// newKernelFinder returns what asks the kernel of a connection.
func newKernelFinder(ask func(connEnds) (uid int, err error)) callerFinder {
	return callerFinder{most: 1, find: func(conns []net.Conn) []callerCheck {
		checks := make([]callerCheck, len(conns))
		for i, c := range conns {
			checks[i] = callerOther
			if uid, err := ask(findEnds(c)); err == nil {
				checks[i] = checkOwner(uid)
			}
		}
		return checks
	}}
}

// checkOwner returns what it says of a connection that its other end is a user's.
func checkOwner(uid int) callerCheck {
	if uid == os.Getuid() || uid == 0 {
		return callerOwner
	}
	return callerOther
}
