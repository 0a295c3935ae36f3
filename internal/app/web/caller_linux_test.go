package web

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// TestOtherUser: a connection of another user is closed before anything is read of it, by the kernel's word and
// by the table's.
// holds: security.md#the-page-of-acpctl-web
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("only root can be another user")
		}
		t.Skip("only root can be another user")
	}
	for how, ask := range map[string]func(connEnds) (int, error){"kernel": askConnOwner, "table": answersFirst(), "table, after the kernel": answersFirst(errNoCaller)} {
		t.Run(how, func(t *testing.T) {
			f := newFixture(t, func(s *Server) { s.listener.callers = chooseCallerFinder(s.listener, ask, "/proc/net/") })
			address, link := fmt.Sprintf("127.0.0.1:%d", f.Port()), f.Link()
			said := make(chan string)
			go func() {
				// The thread that has another user from now on ends with this goroutine.
				runtime.LockOSThread()
				if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
					said <- errno.Error()
					return
				}
				c, err := net.Dial("tcp", address)
				switch {
				case errors.Is(err, syscall.ECONNRESET): // so soon
					said <- "0 bytes, true"
					return
				case err != nil:
					said <- err.Error()
					return
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(await.Patience))
				fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", strings.TrimPrefix(link, "http://"+address), address)
				b := make([]byte, 64)
				n, err := c.Read(b)
				said <- fmt.Sprintf("%d bytes, %v", n, err != nil && !errors.Is(err, os.ErrDeadlineExceeded))
			}()
			if got := await.Receive(t, "the other user is answered", said); got != "0 bytes, true" {
				t.Errorf("another user got %s", got)
			}
			f.letIn() // the link was not used
		})
	}
}

func TestFindCaller(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, accepted := connect(t, l, "tcp4")
	for how, c := range map[string]struct {
		callers *callerFinder
		want    callerCheck
	}{"as it is": {newCallerFinder(l), callerOwner}, "table": {newTableFinder("/proc/net/"), callerOwner}, "without tables": {newTableFinder(t.TempDir() + "/"), callerUnknown}} {
		if got, err := c.callers.find([]net.Conn{accepted}); err != nil || len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: my own connection: %d, %v", how, got, err)
		}
	}
}

// TestAskConnOwner: the kernel names the user of a connection as the table does, also of a client of IPv6,
// and nobody for a connection that is none, or that its program has closed.
// holds: security.md#the-page-of-acpctl-web
func TestAskConnOwner(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	finders := map[string]*callerFinder{"kernel": newCallerFinder(l), "table": newTableFinder("/proc/net/")}
	for _, network := range []string{"tcp4", "tcp6"} {
		client, accepted := connect(t, l, network)
		ends := findEnds(accepted)
		uid, err := askConnOwner(ends)
		if err != nil || uid != os.Getuid() {
			t.Errorf("%s: the kernel says %d, %v", network, uid, err)
		}
		if told, err := findConnOwners("/proc/net/", []connEnds{ends}); err != nil || len(told) != 1 || told[ends] != uid {
			t.Errorf("%s: the table says %v, %v", network, told, err)
		}
		for how, callers := range finders {
			if got, err := callers.find([]net.Conn{accepted}); err != nil || !slices.Equal(got, []callerCheck{callerOwner}) {
				t.Errorf("%s: my own connection, by the %s: %d, %v", network, how, got, err)
			}
		}
		client.Close() // the server's end is open still
		if uid, err := askConnOwner(ends); err == nil {
			t.Errorf("%s: a socket that is closed is %d's", network, uid)
		}
		for how, callers := range finders {
			if got, err := callers.find([]net.Conn{accepted}); err != nil || !slices.Equal(got, []callerCheck{callerOther}) {
				t.Errorf("%s: a socket that is closed, by the %s: %d, %v", network, how, got, err)
			}
		}
	}
	// No connection begins at the port where the server listens.
	listening, nobody := l.Addr().(*net.TCPAddr).AddrPort(), netip.MustParseAddrPort("127.0.0.1:1")
	if uid, err := askConnOwner(connEnds{listening, nobody}); err != errNoCaller || finders["kernel"].most != 1 {
		t.Errorf("a socket that listens: %d, %v", uid, err)
	}
	if uid, err := askConnOwner(connEnds{nobody, listening}); err != errNoSocket {
		t.Errorf("no socket: %d, %v", uid, err)
	}
}

// connect returns both ends of a connection to l. A client of IPv6 has an address that stands for one of IPv4.
func connect(t testing.TB, l net.Listener, network string) (client io.Closer, accepted net.Conn) {
	t.Helper()
	if network == "tcp4" {
		c, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		client = c
	} else {
		fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Skip("this system has no IPv6: ", err)
		}
		client = os.NewFile(uintptr(fd), "client")
		addr := l.Addr().(*net.TCPAddr).AddrPort()
		if err := syscall.Connect(fd, &syscall.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { client.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return client, accepted
}

// BenchmarkFindCaller asks whose a connection is while there are 2,000 others.
func BenchmarkFindCaller(b *testing.B) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	_, accepted := connect(b, l, "tcp4")
	for range 2000 {
		connect(b, l, "tcp4")
	}
	ends := findEnds(accepted)
	b.Run("kernel", func(b *testing.B) {
		for b.Loop() {
			if _, err := askConnOwner(ends); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, many := range []int{1, maxAsked} {
		asked := []connEnds{ends}
		for len(asked) < many { // others that are in no table
			asked = append(asked, connEnds{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 9, 9, 9}), uint16(len(asked))), ends.to})
		}
		b.Run(fmt.Sprint("table/", many), func(b *testing.B) {
			for b.Loop() {
				if owners, err := findConnOwners("/proc/net/", asked); err != nil || len(owners) != 1 {
					b.Fatal(owners, err)
				}
			}
		})
	}
}

func TestTable(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 51234 1 0000000000000000 100 0 0 10 0
   1: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 51235 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:9C41 0100007F:1F90 06 00000000:00000000 03:00001768 00000000     0        0 0 3 0000000000000000
   3: short
`
	to := netip.MustParseAddrPort("127.0.0.1:8080")
	for port, want := range map[uint16]int{40_000: 1000, 40_001: -1, 40_002: -1} { // -1: nobody
		ends := connEnds{netip.AddrPortFrom(to.Addr(), port), to}
		wanted, owners := map[string]connEnds{formatAddr4(ends.from) + " " + formatAddr4(to) + " ": ends}, make(map[connEnds]int)
		err := findInTable(strings.NewReader(table), wanted, owners)
		if uid, ok := owners[ends]; err != nil || ok != (want >= 0) || ok && uid != want {
			t.Errorf("%d: %v, %v", port, owners, err)
		}
	}
}
