package web

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// TestOtherUser: a connection of another user is closed before anything is read of it.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("only root can be another user")
		}
		t.Skip("only root can be another user")
	}
	f := newFixture(t, nil)
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
		if err != nil {
			said <- err.Error()
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(await.Patience))
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", strings.TrimPrefix(link, "http://"+address), address)
		b := make([]byte, 64)
		n, err := c.Read(b)
		said <- fmt.Sprintf("%d bytes, %v", n, err != nil)
	}()
	if got := await.Receive(t, "the other user is answered", said); got != "0 bytes, true" {
		t.Errorf("another user got %s", got)
	}
	f.letIn() // the link was not used
}

func TestFindCaller(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	if got := newCallerFinder(l)(accepted); got != callerOwner {
		t.Errorf("my own connection: %d", got)
	}
	if _, err := findConnOwner(t.TempDir()+"/", netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")); !os.IsNotExist(err) {
		t.Errorf("without tables: %v", err)
	}
}

// TestAskConnOwner: the kernel names the user of a connection as the table does, also of a client of IPv6,
// and nobody for a connection that is none, or that its program has closed.
func TestAskConnOwner(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, network := range []string{"tcp4", "tcp6"} {
		client, accepted := connect(t, l, network)
		from, to := accepted.RemoteAddr().(*net.TCPAddr).AddrPort(), accepted.LocalAddr().(*net.TCPAddr).AddrPort()
		uid, err := askConnOwner(from, to)
		if err != nil || uid != os.Getuid() {
			t.Errorf("%s: the kernel says %d, %v", network, uid, err)
		}
		if told, err := findConnOwner("/proc/net/", from, to); err != nil || told != uid {
			t.Errorf("%s: the table says %d, %v", network, told, err)
		}
		if findByKernel(from, to) != callerOwner || findByTable(from, to) != callerOwner {
			t.Errorf("%s: my own connection is another's", network)
		}
		client.Close() // the server's end is open still
		if uid, err := askConnOwner(from, to); err == nil {
			t.Errorf("%s: a socket that is closed is %d's", network, uid)
		}
		for how, find := range map[string]func(from, to netip.AddrPort) callerCheck{"kernel": findByKernel, "table": findByTable} {
			if got := find(from, to); got != callerOther {
				t.Errorf("%s: a socket that is closed, by the %s: %d", network, how, got)
			}
		}
	}
	// No connection begins at the port where the server listens.
	listening, nobody := l.Addr().(*net.TCPAddr).AddrPort(), netip.MustParseAddrPort("127.0.0.1:1")
	if uid, err := askConnOwner(listening, nobody); err != errNoCaller || !canAsk(listening) {
		t.Errorf("a socket that listens: %d, %v", uid, err)
	}
	if uid, err := askConnOwner(nobody, listening); err != errNoDiag || canAsk(nobody) {
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
	from, to := accepted.RemoteAddr().(*net.TCPAddr).AddrPort(), accepted.LocalAddr().(*net.TCPAddr).AddrPort()
	b.Run("kernel", func(b *testing.B) {
		for b.Loop() {
			if _, err := askConnOwner(from, to); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("table", func(b *testing.B) {
		for b.Loop() {
			if _, err := findConnOwner("/proc/net/", from, to); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestTable(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 51234 1 0000000000000000 100 0 0 10 0
   1: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 51235 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:9C41 0100007F:1F90 06 00000000:00000000 03:00001768 00000000     0        0 0 3 0000000000000000
   3: short
`
	for local, want := range map[string]int{"0100007F:9C40": 1000, "0100007F:9C41": -1, "0100007F:9C42": -1} {
		uid, err := findInTable(strings.NewReader(table), local, "0100007F:1F90")
		if (err != nil) != (want < 0) || err == nil && uid != want {
			t.Errorf("%s: %d, %v", local, uid, err)
		}
	}
}
