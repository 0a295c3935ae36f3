package web

import (
	"fmt"
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
	if got := findCaller(accepted); got != callerOwner {
		t.Errorf("my own connection: %d", got)
	}
	if _, err := findConnOwner(t.TempDir()+"/", netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")); !os.IsNotExist(err) {
		t.Errorf("without tables: %v", err)
	}
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
