package web

import (
	"fmt"
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
func newCallerFinder(l net.Listener) *callerFinder {
	return chooseCallerFinder(l, askConnOwner, "/proc/net/")
}

// chooseCallerFinder is newCallerFinder with what asks the kernel, and the folder of the tables.
func chooseCallerFinder(l net.Listener, ask func(connEnds) (uid int, err error), tables string) *callerFinder {
	at := l.Addr().(*net.TCPAddr).AddrPort()
	answers := func() bool {
		_, err := ask(connEnds{at, at})
		return err == errNoCaller // who answers knows that socket, and that it only listens
	}
	if !answers() {
		return newTableFinder(tables)
	}
	return newKernelFinder(ask, answers, tables)
}

// newKernelFinder returns a finder that asks the kernel about a connection. If the kernel has answered once and answers
// no more, the finder reads the tables until the kernel answers again. If they have no
// answer either, a connection is another user's. answers reports whether the kernel answers.
func newKernelFinder(ask func(connEnds) (uid int, err error), answers func() bool, tables string) *callerFinder {
	f := &callerFinder{most: 1}
	f.find = func(conns []net.Conn) ([]callerCheck, error) {
		checks := make([]callerCheck, 0, len(conns))
		for i, c := range conns {
			check, err := askOfCaller(findEnds(c), ask, answers)
			if err != nil {
				f.most = maxAsked
				rest, unread := findInTables(tables, conns[i:], callerOther)
				if unread != nil {
					unread = fmt.Errorf("sock_diag: %w; %w", err, unread)
				}
				return append(checks, rest...), unread
			}
			checks = append(checks, check)
		}
		f.most = 1
		return checks, nil
	}
	return f
}

// askTries is how often the kernel is asked of a connection before the tables tell.
const askTries = 2

// askOfCaller asks the kernel of a connection. An error says that it does not answer.
func askOfCaller(ends connEnds, ask func(connEnds) (uid int, err error), answers func() bool) (check callerCheck, err error) {
	for range askTries {
		var uid int
		uid, err = ask(ends)
		switch {
		case err == nil:
			return checkOwner(uid), nil
		case err == errNoCaller, err == errNoSocket && answers():
			return callerOther, nil
		}
	}
	return callerOther, err
}

// checkOwner returns what it says of a connection that its other end is a user's.
func checkOwner(uid int) callerCheck {
	if uid == os.Getuid() || uid == 0 {
		return callerOwner
	}
	return callerOther
}
