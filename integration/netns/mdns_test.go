//go:build netns

package netns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"

	"github.com/acpd/acpd/identity"
)

const service = "_acp._udp.local."

// mostMemory bounds the memory of a daemon in KiB, whatever is said on the network.
const mostMemory = 64 << 10

var group = &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353}

// invented is an id without a key.
func invented(kind byte, n int) identity.ID {
	id := identity.ID{kind}
	binary.BigEndian.PutUint32(id[1:], uint32(n+1))
	return id
}

// announcement returns the announcement of a daemon, or with ttl 0 its goodbye.
func announcement(t *testing.T, id identity.ID, name string, ttl uint32, addrs ...string) []byte {
	t.Helper()
	instance, host := id.String()[:32]+"."+service, "acp-"+id.Label()+".local."
	head := func(name string, rrtype uint16) dns.RR_Header {
		return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
	}
	txt := []string{"v=1", "id=" + id.String(), "name=" + name}
	msg := dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Authoritative: true}, Compress: true}
	for _, a := range addrs {
		ap := netip.MustParseAddrPort(a)
		txt = append(txt, "a="+a)
		msg.Extra = append(msg.Extra, &dns.A{Hdr: head(host, dns.TypeA), A: ap.Addr().AsSlice()})
	}
	port := netip.MustParseAddrPort(addrs[0]).Port()
	msg.Answer = []dns.RR{
		&dns.PTR{Hdr: head(service, dns.TypePTR), Ptr: instance},
		&dns.SRV{Hdr: head(instance, dns.TypeSRV), Port: port, Target: host},
		&dns.TXT{Hdr: head(instance, dns.TypeTXT), Txt: txt},
	}
	data, err := msg.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// udp is a socket on a host, open until the test ends, at a port that others may
// share.
func (h *host) udp(addr string) *net.UDPConn {
	h.l.t.Helper()
	var conn *net.UDPConn
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) }), err)
	}}
	if err := h.in(func() error {
		c, err := shared.ListenPacket(context.Background(), "udp4", addr)
		if err == nil {
			conn = c.(*net.UDPConn)
		}
		return err
	}); err != nil {
		h.l.t.Fatal(err)
	}
	h.l.t.Cleanup(func() { conn.Close() })
	return conn
}

// memory returns the resident memory of the daemon in KiB.
func (d *daemon) memory() (kib int) {
	d.T.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.Acpd.Cmd.Process.Pid))
	if err != nil {
		d.T.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	kib, _ = strconv.Atoi(strings.Fields(after)[0])
	return kib
}
