package live

import (
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// PickAddr returns a free UDP address on loopback. No system gives its port to sockets that ask for any, and until
// the test ends neither PickAddr nor PickTCPAddr gives it to anybody else on this machine. So no other process takes
// it before a daemon starts there, nor while it is started again. A daemon that is told a port keeps none in its
// state.db.
func PickAddr(t testing.TB) string {
	t.Helper()
	return pickAddr(t, listenTCP, listenUDP)
}

// PickTCPAddr is PickAddr for TCP.
func PickTCPAddr(t testing.TB) string {
	t.Helper()
	return pickAddr(t, listenUDP, listenTCP)
}

// pickAddr picks an address that is free for use, and holds its port by the other protocol until the test ends: that
// leaves it free, and keeps others from picking it.
func pickAddr(t testing.TB, hold, use func(addr string) (io.Closer, error)) string {
	t.Helper()
	const first, number = 10_000, 20_000
	var last error
	for range 100 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.N(number)))
		held, err := hold(addr)
		if err != nil {
			last = err
			continue
		}
		free, err := use(addr)
		if err != nil {
			last = err
			held.Close()
			continue
		}
		free.Close()
		t.Cleanup(func() { held.Close() })
		return addr
	}
	t.Fatalf("of 100 ports none is free: %v", last)
	return ""
}

func listenTCP(addr string) (io.Closer, error) { return net.Listen("tcp", addr) }

func listenUDP(addr string) (io.Closer, error) { return net.ListenPacket("udp", addr) }
