package web

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// maxTable bounds what is read of a table of connections, in bytes.
const maxTable = 64 << 20

var errNoCaller = errors.New("the connection is in no table of the system")

// newCallerFinder returns what asks the system whose the other end of a loopback connection is, which l has
// accepted. It asks the kernel (sock_diag(7)) or, where that does not answer, reads the table of all connections
// (proc(5), /proc/net/tcp), which takes longer the more there are.
func newCallerFinder(l net.Listener) func(net.Conn) callerCheck {
	at, ok := l.Addr().(*net.TCPAddr)
	find := findByTable
	if ok && canAsk(at.AddrPort()) {
		find = findByKernel
	}
	return func(c net.Conn) callerCheck {
		from, ok1 := c.RemoteAddr().(*net.TCPAddr)
		to, ok2 := c.LocalAddr().(*net.TCPAddr)
		if !ok1 || !ok2 {
			return callerUnknown
		}
		return find(from.AddrPort(), to.AddrPort())
	}
}

func findByKernel(from, to netip.AddrPort) callerCheck {
	if uid, err := askConnOwner(from, to); err == nil && isOwner(uid) {
		return callerOwner
	}
	return callerOther
}

func findByTable(from, to netip.AddrPort) callerCheck {
	uid, err := findConnOwner("/proc/net/", from, to)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return callerUnknown // there is no proc here
	case err == nil && isOwner(uid):
		return callerOwner
	}
	return callerOther
}

func isOwner(uid int) bool { return uid == os.Getuid() || uid == 0 }

// findConnOwner returns the user of the socket at from that is connected to to. dir has the tables. A
// client's socket may be of IPv6, with an address that stands for one of IPv4.
func findConnOwner(dir string, from, to netip.AddrPort) (uid int, err error) {
	from, to = netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	for _, table := range []struct {
		name   string
		format func(netip.AddrPort) string
	}{{"tcp", formatAddr4}, {"tcp6", formatAddr6}} {
		f, err := os.Open(dir + table.name)
		if err != nil {
			if table.name == "tcp6" && errors.Is(err, fs.ErrNotExist) {
				break // a system without IPv6
			}
			return 0, err
		}
		uid, err := findInTable(io.LimitReader(f, maxTable), table.format(from), table.format(to))
		f.Close()
		if err != errNoCaller {
			return uid, err
		}
	}
	return 0, errNoCaller
}

// findInTable returns the user in the row of the socket with these addresses. A row without an inode is
// of a socket that its program has closed, and says nothing of whose it was.
func findInTable(r io.Reader, local, remote string) (uid int, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[1] != local || f[2] != remote {
			continue
		}
		if f[9] == "0" {
			return 0, errNoCaller
		}
		return strconv.Atoi(f[7])
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, errNoCaller
}

// formatAddr4 returns an address as /proc/net/tcp writes it: words of 32 bits in the machine's order.
func formatAddr4(a netip.AddrPort) string {
	ip := a.Addr().As4()
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), a.Port())
}

// formatAddr6 returns an address of IPv4 as /proc/net/tcp6 writes it.
func formatAddr6(a netip.AddrPort) string {
	ip := a.Addr().As16()
	var b strings.Builder
	for i := 0; i < len(ip); i += 4 {
		fmt.Fprintf(&b, "%08X", binary.NativeEndian.Uint32(ip[i:]))
	}
	return fmt.Sprintf("%s:%04X", b.String(), a.Port())
}
