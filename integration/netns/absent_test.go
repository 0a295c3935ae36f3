//go:build netns

package netns

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

// limitUDPSend has the system keep no more for the daemon's UDP socket until it is sent than for that of
// a user, who is no administrator.
func (d *daemon) limitUDPSend() {
	t := d.T
	t.Helper()
	const ofUser = 212_992 // net.core.wmem_max, as it comes; the system doubles it
	process, err := unix.PidfdOpen(d.Acpd.Cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(process)
	for theirs := range 256 {
		fd, err := unix.PidfdGetfd(process, theirs, 0)
		if err != nil {
			continue
		}
		addr, err := unix.Getsockname(fd)
		if ip, is := addr.(*unix.SockaddrInet6); is && err == nil && ip.Port == 7117 {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, ofUser); err != nil {
				t.Error(err)
			}
		}
		unix.Close(fd)
	}
	if s, err := d.Client.Status(t.Context()); err != nil || s.Process.UDPSendBytes != 2*ofUser {
		t.Fatalf("the daemon's UDP socket may send %d bytes, want %d: %v", s.Process.UDPSendBytes, 2*ofUser, err)
	}
}

// mac is the hardware address of one of the host's devices.
func (h *host) mac(dev string) (mac string) {
	h.l.t.Helper()
	if err := h.in(func() error {
		i, err := net.InterfaceByName(dev)
		if err == nil {
			mac = i.HardwareAddr.String()
		}
		return err
	}); err != nil {
		h.l.t.Fatal(err)
	}
	return mac
}

// listenAbsent opens sockets at addresses of the link where nobody answers: the host tells nobody its
// hardware address, and need not ask for that of the one at 10.77.0.1.
func (h *host) listenAbsent(count int, mac string) (conns []*net.UDPConn) {
	h.l.t.Helper()
	h.sysctl("net/ipv4/conf/eth0/arp_ignore", "8")
	h.ip("neigh replace 10.77.0.1 lladdr " + mac + " dev eth0 nud permanent")
	for i := range count {
		addr := fmt.Sprintf("10.77.0.%d", 100+i)
		h.addrs("eth0", addr+"/24")
		conns = append(conns, h.udp(addr+":0"))
	}
	return conns
}

// makeInitials returns packets of which each begins another handshake.
func (h *host) makeInitials(count int) (initials [][]byte) {
	t := h.l.t
	t.Helper()
	caller, sink := h.udp("127.0.0.1:0"), h.udp("127.0.0.1:0")
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{identity.ALPN}}
	for range count {
		ctx, cancel := context.WithCancel(t.Context())
		var dial sync.WaitGroup
		dial.Go(func() { quic.Dial(ctx, caller, sink.LocalAddr(), conf, nil) })
		buf := make([]byte, 2048)
		sink.SetReadDeadline(time.Now().Add(await.Patience))
		n, _, err := sink.ReadFrom(buf)
		cancel()
		dial.Wait()
		if err != nil {
			t.Fatal(err)
		}
		initials = append(initials, buf[:n])
	}
	return initials
}

// TestAnswersToAbsentHostsDelayNobody: who forges packets that come from addresses of the link where
// nobody is has the daemon answer there. The system keeps such answers for seconds, and they take no
// room from what peers are sent.
// holds: security.md#against-strangers
func TestAnswersToAbsentHostsDelayNobody(t *testing.T) {
	ofNoConn := make([]byte, 100) // which is answered by a stateless reset
	ofNoConn[0] = 0x40
	for name, packets := range map[string]func(h *host) [][]byte{
		"handshakes":               func(h *host) [][]byte { return h.makeInitials(200) },
		"packets of no connection": func(*host) [][]byte { return [][]byte{ofNoConn} },
	} {
		t.Run(name, func(t *testing.T) {
			_, h := lan(t, ipv4, "desk", "laptop", "forger")
			desk, laptop := h[0].daemon("desk"), h[1].daemon("laptop")
			desk.start()
			desk.limitUDPSend()
			laptop.start()
			befriend(desk, laptop)
			packets, forgers := packets(h[2]), h[2].listenAbsent(100, h[0].mac("eth0"))
			to := net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.77.0.1:7117"))

			var forging sync.WaitGroup
			const lasts, each = 4 * time.Second, 2 * time.Millisecond
			began := time.Now()
			forging.Go(func() {
				n := 0
				for tick := time.NewTicker(each); time.Since(began) < lasts; <-tick.C {
					for range 4 {
						forgers[n%len(forgers)].WriteTo(packets[n%len(packets)], to)
						n++
					}
				}
			})
			defer forging.Wait()
			calls, longest := 0, time.Duration(0)
			for time.Since(began) < lasts {
				asked := time.Now()
				if _, err := desk.Client.Ping(t.Context(), client.PingParams{To: laptop.ID.String()}); err != nil {
					t.Fatal(err)
				}
				calls, longest = calls+1, max(longest, time.Since(asked))
			}
			t.Logf("%d calls, the longest took %s", calls, longest)
			if longest > time.Second {
				t.Errorf("a call took %s", longest)
			}
		})
	}
}
