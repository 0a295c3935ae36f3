package relay

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/quic-go/quic-go"
)

// BenchmarkEcho measures 200 bytes there and back, with everything in one process: QUIC over
// the link, QUIC over UDP, and a bare request of NATS.
func BenchmarkEcho(b *testing.B) {
	data := randomBytes(200)
	report := func(b *testing.B, once func() error) {
		var took []time.Duration
		for b.Loop() {
			began := time.Now()
			if err := once(); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	}
	over := func(b *testing.B, server, client net.PacketConn, addr net.Addr) *quic.Conn {
		serveEcho(b, server)
		return dial(b, client, addr)
	}
	b.Run("relay", func(b *testing.B) {
		c := overRelay(b, over)
		report(b, func() error { return echo(c, data) })
	})
	b.Run("udp", func(b *testing.B) {
		server, client := listenUDP(b), listenUDP(b)
		c := over(b, server, client, server.LocalAddr())
		report(b, func() error { return echo(c, data) })
	})
	b.Run("nats", func(b *testing.B) {
		url := urlOf(startServer(b, "listen: 127.0.0.1:-1"))
		server, client := connect(b, url), connect(b, url)
		server.Subscribe("echo", func(m *nats.Msg) { m.Respond(m.Data) })
		server.Flush()
		report(b, func() error {
			_, err := client.Request("echo", data, patience)
			return err
		})
	})
	b.Run("relay 1 MiB", func(b *testing.B) {
		c := overRelay(b, over)
		big := randomBytes(1 << 20)
		b.SetBytes(2 << 20)
		report(b, func() error { return echo(c, big) })
	})
	b.Run("udp 1 MiB", func(b *testing.B) {
		server, client := listenUDP(b), listenUDP(b)
		c := over(b, server, client, server.LocalAddr())
		big := randomBytes(1 << 20)
		b.SetBytes(2 << 20)
		report(b, func() error { return echo(c, big) })
	})
}

func overRelay(b *testing.B, over func(*testing.B, net.PacketConn, net.PacketConn, net.Addr) *quic.Conn) *quic.Conn {
	url := urlOf(startServer(b, "listen: 127.0.0.1:-1\nauthorization { token: s3cret }"))
	x, y := newDaemon(b, url), newDaemon(b, url)
	x.Credentials.Token, y.Credentials.Token = "s3cret", "s3cret"
	lx, ly := start(b, x.Config), start(b, y.Config)
	lx.awaitConnected(b)
	ly.awaitConnected(b)
	b.Cleanup(func() {
		s, r := lx.State(), ly.State()
		b.Logf("packets out %d, dropped in %d, out %d", s.Out.Packets+r.Out.Packets, s.DroppedIn+r.DroppedIn, s.DroppedOut+r.DroppedOut)
	})
	return over(b, ly, lx, lx.Addr(y.Self))
}

func listenUDP(b *testing.B) net.PacketConn {
	b.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

func connect(b *testing.B, url string) *nats.Conn {
	b.Helper()
	c, err := nats.Connect(url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}
