package web

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
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

// newOwnerCheck returns a function that asks the kernel (sock_diag(7)) whether the other end of an accepted connection is a
// program of this user, or of root, who can read everything anyway. It is nil if this kernel does not say it, as in some
// sandboxes.
func newOwnerCheck(l net.Listener) ownerCheck { return askForOwners(l, askConnOwner) }

// askTries is how often the kernel is asked about a connection.
const askTries = 2

// askForOwners is newOwnerCheck with the function that asks the kernel.
func askForOwners(l net.Listener, ask func(connEnds) (uid int, err error)) ownerCheck {
	at := l.Addr().(*net.TCPAddr).AddrPort()
	askListener := func() error {
		_, err := ask(connEnds{at, at})
		return err
	}
	if err := askListener(); isUnsupported(err) {
		return nil
	}
	answers := func() bool { return askListener() == errNoCaller } // the kernel knows that socket, and that it only listens
	return func(c net.Conn) (isOwner bool, err error) {
		ends := findEnds(c)
		for range askTries {
			var uid int
			uid, err = ask(ends)
			switch {
			case err == nil:
				return uid == os.Getuid() || uid == 0, nil
			case err == errNoCaller, err == errNoSocket && answers():
				return false, nil
			}
		}
		return false, fmt.Errorf("sock_diag: %w", err)
	}
}

// isUnsupported reports whether an error about the listener's own socket says that this kernel never tells whose a
// connection is. Any other error may pass: until then, no connection is let in.
func isUnsupported(err error) bool {
	for _, never := range []error{errNoDiag, errNoSocket, unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, unix.EOPNOTSUPP, unix.EINVAL, unix.EPERM, unix.EACCES} {
		if errors.Is(err, never) {
			return true
		}
	}
	return false
}
