//go:build netns

package netns

import (
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/mdns"
	"github.com/miekg/dns"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

const acpService = "_acp._udp"

// questions is a packet that asks for the service, that often; the name is compressed.
func questions(t *testing.T, count int) []byte {
	t.Helper()
	msg := dns.Msg{Compress: true}
	for range count {
		msg.Question = append(msg.Question, dns.Question{Name: acpService + ".local.", Qtype: dns.TypePTR, Qclass: dns.ClassINET})
	}
	data, err := msg.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// answers sends a packet under an id of its own and returns how long the packets are that come back to that one
// (RFC 6762, section 6.7).
func answers(t *testing.T, from *net.UDPConn, to net.Addr, data []byte, wait time.Duration) (sizes []int) {
	t.Helper()
	id := dns.Id()
	binary.BigEndian.PutUint16(data, id)
	if _, err := from.WriteTo(data, to); err != nil {
		t.Fatal(err)
	}
	from.SetReadDeadline(time.Now().Add(wait))
	for buf := make([]byte, 1<<16); ; {
		n, _, err := from.ReadFrom(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return sizes
		}
		if err != nil {
			t.Fatal(err)
		}
		if n >= 2 && binary.BigEndian.Uint16(buf) == id {
			sizes = append(sizes, n)
		}
	}
}

// TestReflector: who is not on the link gets nothing, whether it asks the group or the
// host; who is gets one packet of at most 1,232 bytes for a packet, however much that
// asks.
func TestReflector(t *testing.T) {
	t.Parallel()
	_, h := lan(t, both, "desk", "laptop")
	// The laptop's host is also the way to everywhere else.
	h[1].ip("addr add 198.51.100.1/32 dev lo")
	h[0].ip("route add default via 10.77.0.2")
	h[0].acpd("desk")
	near, far := h[1].udp("10.77.0.2:0"), h[1].udp("198.51.100.1:0")
	host := &net.UDPAddr{IP: net.IPv4(10, 77, 0, 1), Port: 5353}
	eventually(t, time.Now(), await.Patience, "an answer", func() bool {
		return len(answers(t, near, host, questions(t, 1), 100*time.Millisecond)) == 1
	})
	for _, to := range []net.Addr{host, group} {
		for _, count := range []int{1, 200} {
			asked := questions(t, count)
			if got := answers(t, near, to, asked, 3*time.Second); len(got) != 1 || got[0] > 1232 {
				t.Errorf("%d bytes from the link to %s are answered by %v bytes", len(asked), to, got)
			} else {
				t.Logf("%d bytes from the link to %s are answered by %d", len(asked), to, got[0])
			}
			if got := answers(t, far, to, asked, time.Second); len(got) != 0 {
				t.Errorf("%d bytes from another network to %s are answered by %v bytes", len(asked), to, got)
			}
		}
	}
}

// TestForeignLibrary: hashicorp/mdns finds acpd, and acpd what its server announces.
func TestForeignLibrary(t *testing.T) {
	t.Parallel()
	_, h := lan(t, ipv4, "desk", "laptop")
	h[1].ip("route add 224.0.0.0/4 dev eth0") // its client joins by the way there
	desk := h[0].acpd("desk")
	var nic *net.Interface
	quiet := log.New(io.Discard, "", 0)
	if err := h[1].in(func() (err error) {
		nic, err = net.InterfaceByName("eth0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	found := make(chan *mdns.ServiceEntry, 64)
	eventually(t, time.Now(), await.Patience, "acpd is found", func() bool {
		err := h[1].in(func() error {
			return mdns.Query(&mdns.QueryParam{Service: acpService, Interface: nic, Timeout: time.Second, DisableIPv6: true, Entries: found, Logger: quiet})
		})
		if err != nil {
			t.Fatal(err)
		}
		for {
			select {
			case e := <-found:
				if strings.Contains(e.Info, "id="+desk.ID.String()) && e.AddrV4.Equal(net.IPv4(10, 77, 0, 1)) && e.Port != 0 {
					return true
				}
			default:
				return false
			}
		}
	})

	id := identity.ID{0xf0, 31: 1}
	service, err := mdns.NewMDNSService("foreign", acpService, "local.", "tablet.local.", 7117, []net.IP{net.IPv4(10, 77, 0, 2)}, []string{"v=1", "id=" + id.String(), "name=tablet"})
	if err != nil {
		t.Fatal(err)
	}
	var server *mdns.Server
	if err := h[1].in(func() (err error) {
		server, err = mdns.NewServer(&mdns.Config{Zone: service, Iface: nic, Logger: quiet})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	begun := time.Now()
	// It announces nothing by itself: it answers what acpd asks everybody.
	desk.sees(id, "10.77.0.2:7117", begun, await.Patience)
}
