//go:build netns

package netns

import (
	"io"
	"log"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/mdns"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

const acpService = "_acp._udp"

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
