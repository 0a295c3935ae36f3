package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openUDPSocket opens one on addr, until the test ends.
func openUDPSocket(t *testing.T, addr *net.UDPAddr) *udpSocket {
	t.Helper()
	conn, err := net.ListenUDP("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s, err := newUDPSocket(conn)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*udpSocket)
}

func (s *udpSocket) port() int { return s.LocalAddr().(*net.UDPAddr).Port }

// hears fails the test unless want is the next datagram, and says who sent it.
func (s *udpSocket) hears(t *testing.T, want string) (from *net.UDPAddr) {
	t.Helper()
	if err := s.SetReadDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 100)
	n, from, err := s.ReadFromUDP(got)
	if err != nil || string(got[:n]) != want {
		t.Fatalf("heard %q, %v, want %q", got[:n], err, want)
	}
	return from
}

var (
	loopback4 = net.IPv4(127, 0, 0, 1)
	loopback6 = net.IPv6loopback
)

func hasIPv6() bool {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: loopback6})
	return err == nil && conn.Close() == nil
}

func TestUDPSocketSendsToEachFamily(t *testing.T) {
	for name, c := range map[string]struct{ from, to, as *net.UDPAddr }{
		"IPv4":                   {&net.UDPAddr{IP: loopback4}, &net.UDPAddr{IP: loopback4}, nil},
		"IPv6":                   {&net.UDPAddr{IP: loopback6}, &net.UDPAddr{IP: loopback6}, nil},
		"both, to IPv4":          {nil, &net.UDPAddr{IP: loopback4}, nil},
		"both, to IPv6":          {nil, &net.UDPAddr{IP: loopback6}, nil},
		"IPv4, in 16 bytes":      {&net.UDPAddr{IP: loopback4}, &net.UDPAddr{IP: loopback4}, &net.UDPAddr{IP: loopback4.To16()}},
		"IPv6, by its interface": {nil, &net.UDPAddr{IP: loopback6}, &net.UDPAddr{IP: loopback6, Zone: "lo"}},
		"IPv6, by its number":    {nil, &net.UDPAddr{IP: loopback6}, &net.UDPAddr{IP: loopback6, Zone: "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.to.IP.To4() == nil && !hasIPv6() {
				t.Skip("this machine has no IPv6")
			}
			sender, reader := openUDPSocket(t, c.from), openUDPSocket(t, c.to)
			to := reader.LocalAddr().(*net.UDPAddr)
			if c.as != nil {
				to = &net.UDPAddr{IP: c.as.IP, Port: to.Port, Zone: c.as.Zone}
			}
			if n, _, err := sender.WriteMsgUDP([]byte("a question"), nil, to); err != nil || n != len("a question") {
				t.Fatal(n, err)
			}
			if from := reader.hears(t, "a question"); from.Port != sender.port() {
				t.Errorf("it came from port %d, want %d", from.Port, sender.port())
			}
		})
	}
}

func TestUDPSocketSendsAsControlMessagesSay(t *testing.T) {
	sender, reader := openUDPSocket(t, &net.UDPAddr{IP: loopback4}), openUDPSocket(t, &net.UDPAddr{IP: loopback4})
	oob := make([]byte, unix.CmsgSpace(2))
	binary.NativeEndian.PutUint64(oob, uint64(unix.CmsgLen(2)))
	binary.NativeEndian.PutUint32(oob[8:], unix.IPPROTO_UDP)
	binary.NativeEndian.PutUint32(oob[12:], unix.UDP_SEGMENT)
	binary.NativeEndian.PutUint16(oob[16:], 4)
	if n, oobn, err := sender.WriteMsgUDP([]byte("one.two.end"), oob, reader.LocalAddr().(*net.UDPAddr)); err != nil || n != 11 || oobn != len(oob) {
		t.Fatal(n, oobn, err)
	}
	for _, want := range []string{"one.", "two.", "end"} {
		reader.hears(t, want)
	}
}

// QUIC tells some errors of the system from others by these types.
func TestUDPSocketFailsAsNetDoes(t *testing.T) {
	s := openUDPSocket(t, &net.UDPAddr{IP: loopback4})
	here := s.LocalAddr().(*net.UDPAddr)
	for name, send := range map[string]func(write func(b, oob []byte, to *net.UDPAddr) (int, int, error)) error{
		"too long": func(write func(b, oob []byte, to *net.UDPAddr) (int, int, error)) error {
			_, _, err := write(make([]byte, 70_000), nil, here)
			return err
		},
		"with control messages that are none": func(write func(b, oob []byte, to *net.UDPAddr) (int, int, error)) error {
			_, _, err := write([]byte("a"), make([]byte, 16), here)
			return err
		},
	} {
		got, want := send(s.WriteMsgUDP), send(s.UDPConn.WriteMsgUDP)
		if got == nil || want == nil || got.Error() != want.Error() {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		var g, w *os.SyscallError
		if errors.As(got, &g) != errors.As(want, &w) || (w != nil && *g != *w) {
			t.Errorf("%s: of the system %v, want %v", name, g, w)
		}
	}
	if err := s.SetWriteDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.WriteMsgUDP([]byte("a"), nil, here); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after its deadline: %v", err)
	}
	s.Close()
	if _, _, err := s.WriteMsgUDP([]byte("a"), nil, here); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestDatagramTellsOfAFullSocket(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) // which waits for room by itself
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	var d datagram
	d.setContent(make([]byte, 1000), nil)
	for d.errno == 0 {
		if !d.send(uintptr(ends[0])) {
			t.Fatal("who sends would wait until half of the socket is empty")
		}
	}
	if d.errno != unix.EAGAIN {
		t.Fatal(d.errno)
	}
	if _, err := unix.Read(ends[1], make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if d.send(uintptr(ends[0])); d.errno != 0 || d.sent != 1000 {
		t.Errorf("with room: sent %d, %v", d.sent, d.errno)
	}
}

// fullConn has no room for the next sends, -1: for none.
type fullConn struct {
	syscall.RawConn
	s     *udpSocket
	full  int
	sends int
}

func (c *fullConn) Write(send func(fd uintptr) (done bool)) error {
	c.sends++
	if c.full == 0 {
		return c.RawConn.Write(send)
	}
	c.full--
	c.s.out.errno = unix.EAGAIN
	return nil
}

// A socket that stays full is waited for once. To QUIC an error would be the end of the connection.
func TestFullUDPSocketLosesDatagrams(t *testing.T) {
	s, reader := openUDPSocket(t, &net.UDPAddr{IP: loopback4}), openUDPSocket(t, &net.UDPAddr{IP: loopback4})
	full := &fullConn{RawConn: s.raw, s: s}
	s.raw = full
	send := func(text string, sendsFull int, dropped int64, sends int) {
		t.Helper()
		full.full, full.sends = sendsFull, 0
		n, oobn, err := s.WriteMsgUDP([]byte(text), nil, reader.LocalAddr().(*net.UDPAddr))
		if n != len(text) || oobn != 0 || err != nil {
			t.Fatalf("%q: %d, %d, %v", text, n, oobn, err)
		}
		if got := s.dropped.Load(); got != dropped || full.sends > sends {
			t.Errorf("%q: %d are lost, want %d; it was tried %d times, want at most %d", text, got, dropped, full.sends, sends)
		}
	}
	most := int(roomWait/roomLook) + 1
	send("with room soon", 1, 0, 2)
	reader.hears(t, "with room soon")
	send("lost after a wait", -1, 1, most)
	send("lost at once", -1, 2, 1)
	send("with room again", 0, 2, 1)
	reader.hears(t, "with room again")
	send("with room soon again", 1, 2, 2)
	reader.hears(t, "with room soon again")
}

// Nothing is left to the net package, which waits until half of a full socket is empty, and lets nobody
// else send meanwhile.
func TestFullUDPSocketLosesAnyDatagram(t *testing.T) {
	if !hasIPv6() {
		t.Skip("this machine has no IPv6")
	}
	s := openUDPSocket(t, nil)
	s.raw, s.full = &fullConn{RawConn: s.raw, s: s, full: -1}, true
	to := func(ip net.IP, zone string) *net.UDPAddr { return &net.UDPAddr{IP: ip, Port: s.port(), Zone: zone} }
	for name, c := range map[string]struct {
		text string
		to   *net.UDPAddr
	}{
		"to an interface by its number":     {"a question", to(loopback6, "1")},
		"to an interface that there is not": {"a question", to(loopback6, "gone")},
		"of nothing":                        {"", to(loopback6, "")},
	} {
		before := s.dropped.Load()
		if n, _, err := s.WriteMsgUDP([]byte(c.text), nil, c.to); n != len(c.text) || err != nil || s.dropped.Load() != before+1 {
			t.Errorf("%s: %d, %v; %d are lost, want 1", name, n, err, s.dropped.Load()-before)
		}
	}
	ofIPv4 := openUDPSocket(t, &net.UDPAddr{IP: loopback4})
	for name, addr := range map[string]*net.UDPAddr{"of the other family": to(loopback6, ""), "that is none": to(nil, ""), "of nobody": nil} {
		if _, _, err := ofIPv4.WriteMsgUDP([]byte("a question"), nil, addr); !strings.Contains(fmt.Sprint(err), "not of the socket's family") {
			t.Errorf("to an address %s: %v", name, err)
		}
	}
}

// What may be an answer to anybody is told apart by its form, which is quic-go's.
func TestStatelessResetsAreForAnybody(t *testing.T) {
	n := newSide(t, loopback(nil)).serve()
	s := openUDPSocket(t, &net.UDPAddr{IP: loopback4})
	ofNoConn := make([]byte, 100)
	ofNoConn[0] = 0x40
	if _, err := s.WriteTo(ofNoConn, n.Addr()); err != nil {
		t.Fatal(err)
	}
	if err := s.SetReadDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2000)
	length, _, err := s.ReadFrom(got)
	if err != nil || !isForAnybody(got[:length]) {
		t.Errorf("a reset of %d bytes is not for anybody: %v", length, err)
	}
	if isForAnybody(ofNoConn) {
		t.Error("a packet of a connection is for anybody")
	}
}

func TestUDPSocketKeepsNothing(t *testing.T) {
	s := openUDPSocket(t, &net.UDPAddr{IP: loopback4})
	here, text := s.LocalAddr().(*net.UDPAddr), []byte("a question")
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := s.WriteMsgUDP(text, nil, here); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a send takes %v allocations", n)
	}
	if s.out.payload.Base != nil || s.out.header.Control != nil {
		t.Error("it still has what it sent")
	}
}
