//go:build netns

package netns

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// unheard is how long a test waits for a packet that must not come, where nothing else that comes
// later tells.
const unheard = 300 * time.Millisecond

// The NATs of the lab do what their names say, as seen by plain sockets: how they map, whom they
// let in, and so whether two hosts behind them can open a way to each other.
func TestNATs(t *testing.T) {
	t.Parallel()
	for _, kind := range []natKind{keepsPort, symmetric} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			n := newInternet(t, kind, keepsPort)
			desk := n.desk.udp(deskAddr + ":7117")
			hub, other := n.hub.udp(hubAddr+":3478"), n.other.udp(otherAddr+":3478")
			hub2 := n.hub.udp(hubAddr + ":3479")

			// How it maps.
			seen := make(map[string]bool)
			var outer net.Addr
			for _, server := range []*net.UDPConn{other, hub2, hub} {
				send(t, desk, server.LocalAddr(), "hello")
				outer = receive(t, server, "hello")
				seen[outer.String()] = true
			}
			switch at := natAAddr + ":7117"; kind {
			case keepsPort:
				if len(seen) != 1 || !seen[at] {
					t.Errorf("three servers see it at %v, want all at %s", seen, at)
				}
			case symmetric:
				if len(seen) != 3 || seen[at] {
					t.Errorf("three servers see it at %v, want three ports", seen)
				}
			}

			// Whom it lets in: who was called, from the port that was called. What others send
			// before comes not before that, nor later.
			stranger := n.hub.udp(hubAddr + ":9")
			for range 5 {
				send(t, stranger, outer, "stranger")
				send(t, stranger, &net.UDPAddr{IP: net.ParseIP(natAAddr), Port: 7117}, "stranger")
			}
			send(t, hub, outer, "answer")
			receive(t, desk, "answer")

			// Two hosts that each know what the hub sees of the other open a way at once, unless
			// the address that the hub sees is not for others.
			laptop := n.laptop.udp(laptopAddr + ":7117")
			send(t, laptop, hub.LocalAddr(), "hello")
			laptopAt := receive(t, hub, "hello")
			send(t, desk, laptopAt, "opens")
			send(t, laptop, outer, "opens")
			send(t, desk, laptopAt, "passes")
			if kind == keepsPort {
				if from := receive(t, desk, "opens"); from.String() != laptopAt.String() {
					t.Errorf("from %s, want %s", from, laptopAt)
				}
				receive(t, laptop, "passes")
			} else {
				hears(t, laptop, false)
				hears(t, desk, false)
			}
		})
	}
}

// Where UDP is dropped no packet leaves, and TCP does.
func TestNATThatDropsUDP(t *testing.T) {
	t.Parallel()
	n := newInternet(t, dropsUDP, keepsPort)
	desk, hub := n.desk.udp(deskAddr+":7117"), n.hub.udp(hubAddr+":3478")
	for range 3 {
		send(t, desk, hub.LocalAddr(), "hello")
	}
	hears(t, hub, false)
	n.hub.serveText(hubAddr+":443", "hub")
	if err := n.desk.dialText(hubAddr+":443", "hub", await.Patience); err != nil {
		t.Errorf("TCP: %v", err)
	}
	if err := n.hub.dialText(natAAddr+":443", "hub", unheard); err == nil {
		t.Error("somebody outside has connected to it")
	}

	// A change counts at once, also for what has passed before.
	n.natA.setNAT(keepsPort)
	send(t, desk, hub.LocalAddr(), "again")
	outer := receive(t, hub, "again")
	n.natA.setNAT(dropsUDP)
	send(t, hub, outer, "late")
	send(t, desk, hub.LocalAddr(), "late")
	hears(t, desk, false)
	hears(t, hub, false)
}

// Where only a proxy leads out it asks for its login, which may change: tunnels that are open stay.
func TestNATWithAProxy(t *testing.T) {
	t.Parallel()
	n := newInternet(t, onlyProxy, keepsPort)
	n.hub.serveText(hubAddr+":443", "hub")
	if err := n.desk.dialText(hubAddr+":443", "hub", unheard); err == nil {
		t.Error("it connects without the proxy")
	}
	p := n.natA.proxy(innerAAddr+":3128", "desk:first")
	open, err := n.desk.tunnel(p, "desk:first", hubAddr+":443")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	p.setLogin("desk:second")
	if got, err := io.ReadAll(open); string(got) != "hub" {
		t.Errorf("the tunnel that was open: %q, %v", got, err)
	}
	for login, want := range map[string]int{"desk:first": 407, "": 407, "desk:second": 200} {
		conn, err := n.desk.tunnel(p, login, hubAddr+":443")
		if refused, ok := errors.AsType[proxyError](err); want == 200 && err != nil || want != 200 && (!ok || int(refused) != want) {
			t.Errorf("%q: %v, want %d", login, err, want)
		}
		if conn != nil {
			conn.Close()
		}
	}
	if tunnels, refused := p.counts(); tunnels != 2 || refused != 2 {
		t.Errorf("%d tunnels and %d refused requests", tunnels, refused)
	}
}

// send sends a packet.
func send(t *testing.T, from *net.UDPConn, to net.Addr, text string) {
	t.Helper()
	if _, err := from.WriteTo([]byte(text), to); err != nil {
		t.Fatal(err)
	}
}

// receive waits for a packet, which must say text, and returns from where it came.
func receive(t *testing.T, at *net.UDPConn, text string) net.Addr {
	t.Helper()
	at.SetReadDeadline(time.Now().Add(await.Patience))
	buf := make([]byte, 64)
	n, from, err := at.ReadFrom(buf)
	if err != nil || string(buf[:n]) != text {
		t.Fatalf("%s: got %q from %v (%v), want %q", at.LocalAddr(), buf[:n], from, err, text)
	}
	return from
}

// hears fails the test unless a packet comes, or does not.
func hears(t *testing.T, at *net.UDPConn, want bool) {
	t.Helper()
	at.SetReadDeadline(time.Now().Add(unheard))
	buf := make([]byte, 64)
	n, from, err := at.ReadFrom(buf)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) || (err == nil) != want {
		t.Errorf("%s: got %q from %v (%v)", at.LocalAddr(), buf[:n], from, err)
	}
}

// serveText answers each TCP connection with a text, until the test ends.
func (h *host) serveText(addr, text string) {
	h.l.t.Helper()
	listener := h.listenTCP(addr)
	h.l.t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, text)
			conn.Close()
		}
	}()
}

// dialText connects to an address within a time, and returns an error unless that answers with text.
func (h *host) dialText(addr, text string, within time.Duration) error {
	return h.in(func() error {
		conn, err := net.DialTimeout("tcp4", addr, within)
		if err != nil {
			return err
		}
		defer conn.Close()
		if got, err := io.ReadAll(conn); err != nil || string(got) != text {
			return fmt.Errorf("it says %q, %v", got, err)
		}
		return nil
	})
}

// proxyError is a status with which a proxy has refused a tunnel.
type proxyError int

func (e proxyError) Error() string { return fmt.Sprintf("the proxy says %d", int(e)) }

// tunnel opens a tunnel through a proxy.
func (h *host) tunnel(p *httpsProxy, login, to string) (net.Conn, error) {
	at, err := url.Parse(p.url)
	if err != nil {
		return nil, err
	}
	var conn net.Conn
	if err := h.in(func() (err error) {
		conn, err = net.DialTimeout("tcp4", at.Host, await.Patience)
		return err
	}); err != nil {
		return nil, err
	}
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Host: to}, Host: to, Header: make(http.Header)}
	if login != "" {
		r.Header.Set("Proxy-Authorization", formatLogin(login))
	}
	from := bufio.NewReader(conn)
	if err := r.Write(conn); err != nil {
		conn.Close()
		return nil, err
	}
	answer, err := http.ReadResponse(from, r)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = proxyError(answer.StatusCode)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &tunnelled{conn, from}, nil
}

// tunnelled reads what the proxy's answer was read with.
type tunnelled struct {
	net.Conn
	from *bufio.Reader
}

func (c *tunnelled) Read(b []byte) (int, error) { return c.from.Read(b) }
