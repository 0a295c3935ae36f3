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

// TestOtherUser: a connection of another user is closed before anything is read of it.
// holds: security.md#the-page-of-acpctl-web
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("only root can be another user")
		}
		t.Skip("only root can be another user")
	}
	f := newFixture(t, nil)
	if f.listener.isOwner == nil {
		t.Fatal("the kernel does not answer")
	}
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
}

// TestOwnerCheck: the kernel names the user of a connection, also of a client of IPv6, and nobody for a connection that is
// none, or that its program has closed.
// holds: security.md#the-page-of-acpctl-web
func TestOwnerCheck(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	check := newOwnerCheck(l)
	for _, network := range []string{"tcp4", "tcp6"} {
		client, accepted := connect(t, l, network)
		if isOwner, err := check(accepted); err != nil || !isOwner {
			t.Errorf("%s: my own connection: %v, %v", network, isOwner, err)
		}
		client.Close() // the server's end is still open
		if isOwner, err := check(accepted); err != nil || isOwner {
			t.Errorf("%s: a socket that is closed: %v, %v", network, isOwner, err)
		}
	}
	// No connection begins at the port where the server listens.
	listening, nobody := l.Addr().(*net.TCPAddr).AddrPort(), netip.MustParseAddrPort("127.0.0.1:1")
	if uid, err := askConnOwner(connEnds{listening, nobody}); err != errNoCaller {
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

// TestKernelDoesNotAnswer: only if the kernel never tells whose a connection is, everybody is let in to the cookie. If it does
// not answer now, nobody is.
// holds: security.md#the-page-of-acpctl-web
func TestKernelDoesNotAnswer(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, accepted := connect(t, l, "tcp4")
	const other = 65_534
	for how, c := range map[string]struct {
		answers []error // of the kernel: about the listener, and then about the connection; nil is the user uid
		uid     int
		checks  bool // the kernel is asked about connections
		isOwner bool
		err     string
	}{
		"it never answers":                    {answers: []error{syscall.EPERM}},
		"it does not know tcp":                {answers: []error{errNoSocket}},
		"it does not answer at first":         {answers: []error{syscall.EMFILE, nil}, uid: os.Getuid(), checks: true, isOwner: true},
		"it answers":                          {answers: []error{errNoCaller, nil}, uid: os.Getuid(), checks: true, isOwner: true},
		"it names another user":               {answers: []error{errNoCaller, nil}, uid: other, checks: true},
		"it does not answer once":             {answers: []error{errNoCaller, syscall.ENOBUFS, nil}, uid: os.Getuid(), checks: true, isOwner: true},
		"it does not answer":                  {answers: []error{errNoCaller, syscall.ENOBUFS, syscall.EMFILE}, checks: true, err: "sock_diag: too many open files"},
		"no such connection":                  {answers: []error{errNoCaller, errNoCaller}, checks: true},
		"no socket, and the listener is one":  {answers: []error{errNoCaller, errNoSocket, errNoCaller}, checks: true},
		"no socket, and the listener is none": {answers: []error{errNoCaller, errNoSocket, errNoSocket, errNoSocket, errNoSocket}, checks: true, err: "sock_diag: the kernel names no socket there"},
	} {
		check := askForOwners(l, func(connEnds) (int, error) {
			answer := c.answers[0]
			c.answers = c.answers[1:]
			return c.uid, answer
		})
		if (check != nil) != c.checks {
			t.Errorf("%s: the kernel is asked: %v", how, check != nil)
		}
		if check == nil {
			continue
		}
		isOwner, err := check(accepted)
		if said := fmt.Sprint(err); isOwner != c.isOwner || err == nil != (c.err == "") || err != nil && said != c.err || len(c.answers) > 0 {
			t.Errorf("%s: %v, %v; %d answers are left", how, isOwner, err, len(c.answers))
		}
	}
}

// TestSilenceIsTold: whose connection the kernel does not tell any more is refused, and the terminal is told why.
func TestSilenceIsTold(t *testing.T) {
	inner, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	answers := []error{syscall.EMFILE, syscall.EMFILE, nil}
	l := &guardedListener{Listener: inner, tell: func(line string) { told = append(told, line) }, isOwner: func(net.Conn) (bool, error) {
		err := answers[0]
		answers = answers[1:]
		return err == nil, err
	}}
	defer l.Close()
	var last net.Conn
	for range len(answers) {
		if last, err = net.Dial("tcp4", inner.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer last.Close()
	}
	got, err := l.Accept()
	if err != nil || got.RemoteAddr().String() != last.LocalAddr().String() {
		t.Error(got, err)
	}
	if want := "the system does not say whose a connection is, and nobody is let in without that: too many open files: load the page again; if it stays away, run acpctl web again"; !slices.Equal(told, []string{want}) {
		t.Errorf("told: %q", told)
	}
}
