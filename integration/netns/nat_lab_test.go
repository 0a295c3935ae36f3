//go:build netns

package netns

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// Where the machines of an internet are. The network is one for documentation (RFC 5737).
const (
	hubAddr   = "203.0.113.1"
	otherAddr = "203.0.113.2"
	natAAddr  = "203.0.113.10"
	natBAddr  = "203.0.113.20"

	innerAAddr = "10.1.0.1" // of natA, where its host can see it
	deskAddr   = "10.1.0.2"
	innerBAddr = "10.2.0.1"
	laptopAddr = "10.2.0.2"
)

// natKind is what a NAT does with packets. Behaviours are named as in RFC 4787.
type natKind string

const (
	// keepsPort maps an inner address to the same outer port for all whom it talks to, and lets
	// in only those (endpoint-independent mapping, address- and port-dependent filtering).
	keepsPort natKind = "keeps the port"
	// symmetric maps it to another outer port for each of those (address- and port-dependent
	// mapping).
	symmetric natKind = "symmetric"
	// dropsUDP lets TCP out, and no UDP.
	dropsUDP natKind = "drops UDP"
	// onlyProxy lets nothing out. What wants to must ask a proxy on the NAT itself.
	onlyProxy natKind = "only a proxy"
)

// internet is a hub and another host, which everybody reaches, and two hosts, each alone behind a
// NAT, which nobody reaches unless they have called first. All have IPv4 alone.
type internet struct {
	*lab
	hub, other   *host
	natA, natB   *host
	desk, laptop *host // behind natA and natB
}

func newInternet(t *testing.T, a, b natKind) *internet {
	t.Helper()
	l := newLab(t, "wan", "lana", "lanb")
	n := &internet{lab: l, hub: l.ipv4Host("hub"), other: l.ipv4Host("other")}
	n.hub.wire("eth0", "wan", hubAddr+"/24")
	n.other.wire("eth0", "wan", otherAddr+"/24")
	n.natA, n.desk = l.nat("nata", a, natAAddr, "lana", innerAAddr, "desk", deskAddr)
	n.natB, n.laptop = l.nat("natb", b, natBAddr, "lanb", innerBAddr, "laptop", laptopAddr)
	return n
}

// ipv4Host makes a host that has no IPv6.
func (l *lab) ipv4Host(name string) *host {
	l.t.Helper()
	return l.host(name).withoutIPv6()
}

// withoutIPv6 takes IPv6 away from the host, and returns the host.
func (h *host) withoutIPv6() *host {
	h.l.t.Helper()
	h.sysctl("net/ipv6/conf/all/disable_ipv6", "1")
	h.sysctl("net/ipv6/conf/default/disable_ipv6", "1")
	return h
}

// nat makes a NAT between wan and a LAN, and the host behind it.
func (l *lab) nat(name string, kind natKind, outer, bridge, inner, behind, addr string) (nat, inside *host) {
	l.t.Helper()
	nat = l.ipv4Host(name)
	nat.wire("eth0", "wan", outer+"/24")
	nat.wire("eth1", bridge, inner+"/24")
	nat.sysctl("net/ipv4/ip_forward", "1")
	nat.setNAT(kind)
	inside = l.ipv4Host(behind)
	inside.wire("eth0", bridge, addr+"/24")
	inside.ip("route add default via " + inner)
	return nat, inside
}

// setNAT sets what the host does as a NAT, instead of what it did. It forgets all mappings that no
// rule allows any more: their packets are dropped.
func (h *host) setNAT(kind natKind) {
	h.l.t.Helper()
	masquerade, drop := "masquerade", "# nothing else"
	switch kind {
	case symmetric:
		masquerade = "masquerade random,fully-random"
	case dropsUDP:
		drop = "meta l4proto udp drop"
	case onlyProxy:
		drop = "drop"
	}
	h.nft(fmt.Sprintf(`
table ip nat
delete table ip nat
table ip nat {
	chain leaving {
		type nat hook postrouting priority 100
		oifname "eth0" %s
	}
}
table ip filter
delete table ip filter
table ip filter {
	chain arriving {
		type filter hook input priority 0
		iifname "eth0" ct state new drop
	}
	chain passing {
		type filter hook forward priority 0
		iifname "eth0" ct state new drop
		%s
	}
}
`, masquerade, drop))
}

// nft runs commands of nft.
func (h *host) nft(commands string) {
	h.l.t.Helper()
	cmd := exec.Command("ip", "netns", "exec", h.ns, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(commands)
	if out, err := cmd.CombinedOutput(); err != nil {
		h.l.t.Fatalf("%s: nft: %v\n%s\n%s", h.name, err, out, commands)
	}
}

// httpsProxy is an HTTP proxy that opens tunnels (RFC 9110, section 9.3.6) for those who know its
// name and password.
type httpsProxy struct {
	host *host
	url  string // without name and password

	mu      sync.Mutex
	login   string // NAME:PASSWORD
	tunnels int    // that were opened
	refused int    // requests with another login, or none
	conns   map[net.Conn]bool
}

// listenTCP takes connections at an address of the host.
func (h *host) listenTCP(addr string) (listener net.Listener) {
	h.l.t.Helper()
	if err := h.in(func() (err error) {
		listener, err = net.Listen("tcp4", addr)
		return err
	}); err != nil {
		h.l.t.Fatal(err)
	}
	return listener
}

// proxy serves a proxy on a host until the test ends.
func (h *host) proxy(addr, login string) *httpsProxy {
	h.l.t.Helper()
	p := &httpsProxy{host: h, url: "http://" + addr, login: login, conns: make(map[net.Conn]bool)}
	listener := h.listenTCP(addr)
	var running sync.WaitGroup
	h.l.t.Cleanup(func() {
		listener.Close()
		p.cutTunnels()
		running.Wait()
	})
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.serve(conn) })
		}
	})
	return p
}

// setLogin changes name and password. Tunnels that are open stay.
func (p *httpsProxy) setLogin(login string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.login = login
}

// cutTunnels ends all tunnels.
func (p *httpsProxy) cutTunnels() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		conn.Close()
	}
}

// counts returns how many tunnels were opened, and how many requests refused.
func (p *httpsProxy) counts() (tunnels, refused int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tunnels, p.refused
}

// serve answers one request.
func (p *httpsProxy) serve(conn net.Conn) {
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	from := bufio.NewReader(conn)
	r, err := http.ReadRequest(from)
	if err != nil {
		return
	}
	conn.SetReadDeadline(time.Time{})
	if r.Method != http.MethodConnect {
		io.WriteString(conn, "HTTP/1.1 405 Method Not Allowed\r\n\r\n")
		return
	}
	if !p.admits(r.Header.Get("Proxy-Authorization")) {
		io.WriteString(conn, "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"lab\"\r\n\r\n")
		return
	}
	var to net.Conn
	if err := p.host.in(func() (err error) {
		to, err = net.DialTimeout("tcp4", r.Host, 5*time.Second)
		return err
	}); err != nil {
		io.WriteString(conn, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
		return
	}
	defer to.Close()
	defer p.hold(conn, to)()
	io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	var back sync.WaitGroup
	back.Go(func() {
		io.Copy(conn, to)
		conn.Close()
	})
	io.Copy(to, from)
	to.Close()
	back.Wait()
}

// admits reports whether a request has the login that counts now, and counts it.
func (p *httpsProxy) admits(authorization string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if authorization != formatLogin(p.login) {
		p.refused++
		return false
	}
	p.tunnels++
	return true
}

// formatLogin returns NAME:PASSWORD as a header has it (RFC 7617, section 2).
func formatLogin(login string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(login))
}

// hold keeps the two ends of a tunnel for cutTunnels until the returned function is called.
func (p *httpsProxy) hold(ends ...net.Conn) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, end := range ends {
		p.conns[end] = true
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, end := range ends {
			delete(p.conns, end)
		}
	}
}
