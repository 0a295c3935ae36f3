package peer

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
)

// probeResult says what a probe found out about an address.
type probeResult int

const (
	probeSilent   probeResult = iota // no answer: nothing is known
	probeAnswered                    // a QUIC server answered
	probeRefused                     // the host says that nothing listens there
	probeNoRoute                     // this host has no way there
)

var (
	errRefused = ownwords.New("connection refused")
	errNoRoute = ownwords.New("no route")
)

// prober finds out whether anybody is at an address of a link.
type prober interface {
	// probeAddr probes during a dial. It blocks until something is known or ctx ends.
	probeAddr(ctx context.Context, addr net.Addr) probeResult

	// probeConn probes during a proof of c. It blocks until something is known or ctx ends.
	probeConn(ctx context.Context, c *conn, p *proof) probeResult

	// askHost does so while calls wait on c and no packet comes, and closes c if nobody is
	// there. In the end it calls c.stopAsking. It blocks for proofTime at most.
	askHost(c *conn)
}

// hostProber asks the host at an address.
type hostProber func(ctx context.Context, addr net.Addr) probeResult

func (ask hostProber) probeAddr(ctx context.Context, addr net.Addr) probeResult {
	return ask(ctx, addr)
}

func (ask hostProber) probeConn(ctx context.Context, c *conn, _ *proof) probeResult {
	return ask(ctx, c.qc.RemoteAddr())
}

// askHost closes the connection if the host says that nothing listens at the port. A silent host
// proves nothing.
func (ask hostProber) askHost(c *conn) {
	defer c.stopAsking()
	ctx, cancel := context.WithTimeout(c.qc.Context(), proofTime)
	defer cancel()
	if isRefusalCredible(c.qc.RemoteAddr()) && ask(ctx, c.qc.RemoteAddr()) == probeRefused {
		c.close(closeDead, "nothing listens there any more")
	}
}

// probeAddr asks addr, from a socket of its own, for a version negotiation packet
// (RFC 9000, section 6), which any QUIC server sends to a client of an unknown
// version; a connected socket also gets the host's ICMP refusal, which the
// daemon's own socket cannot. It sends at 0, 0.5 and 1.5 s and ends with ctx.
// A refusal is believed only for hosts on loopback or an attached prefix:
// elsewhere anybody on the way may say so.
func probeAddr(ctx context.Context, addr net.Addr) probeResult {
	udp, ok := addr.(*net.UDPAddr)
	if !ok {
		return probeSilent
	}
	s, err := net.DialUDP("udp", nil, udp)
	if err != nil {
		for _, no := range []error{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.EADDRNOTAVAIL} {
			if errors.Is(err, no) {
				return probeNoRoute
			}
		}
		return probeSilent
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	packet := newVersionProbe()
	buf := make([]byte, 64)
	for _, wait := range probeWaits {
		if ctx.Err() != nil {
			return probeSilent
		}
		if _, err := s.Write(packet); err != nil {
			return classifyRefusal(err, udp)
		}
		s.SetReadDeadline(time.Now().Add(wait))
		if ctx.Err() != nil { // the deadline just set may have replaced the one of ctx
			return probeSilent
		}
		n, err := s.Read(buf)
		switch {
		case err == nil && n >= 7 && buf[0]&0x80 != 0 && [4]byte(buf[1:5]) == [4]byte{}:
			return probeAnswered
		case err != nil && !errors.Is(err, syscall.ECONNREFUSED):
			continue
		case err != nil:
			return classifyRefusal(err, udp)
		}
	}
	return probeSilent
}

// CheckAnswers returns an error if the node's socket does not answer a packet of this machine
// before ctx ends: nobody reads it, or the address on which it listens is gone. It returns nil if
// that cannot be found out, as without a loopback interface.
func (n *Node) CheckAnswers(ctx context.Context) error {
	udp, ok := n.Addr().(*net.UDPAddr)
	if !ok || n.udp.prober == nil {
		return nil
	}
	at := *udp
	if at.IP.IsUnspecified() {
		at.IP, at.Zone = net.IPv4(127, 0, 0, 1), ""
	}
	switch n.udp.prober.probeAddr(ctx, &at) {
	case probeAnswered, probeNoRoute:
		return nil
	}
	return ownwords.Errorf("UDP %s does not answer: is the address still one of this machine (setting listen), and does a firewall let loopback pass? If so, start acpd again", udp)
}

func classifyRefusal(err error, addr *net.UDPAddr) probeResult {
	if errors.Is(err, syscall.ECONNREFUSED) && isOnLocalNetwork(addr.AddrPort().Addr()) {
		return probeRefused
	}
	return probeSilent
}

// isRefusalCredible reports whether a refusal from addr would be believed.
func isRefusalCredible(addr net.Addr) bool {
	udp, ok := addr.(*net.UDPAddr)
	return ok && isOnLocalNetwork(udp.AddrPort().Addr())
}

// isOnLocalNetwork reports whether ip is this host's or on a prefix of its interfaces.
func isOnLocalNetwork(ip netip.Addr) bool {
	ip = ip.Unmap()
	if ip.IsLoopback() || ip.IsLinkLocalUnicast() {
		return true
	}
	prefixes, _ := listPrefixes()
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// newVersionProbe makes a long-header packet of a version that nobody speaks
// (RFC 9000, sections 15 and 17.2), of the least size that a server answers.
func newVersionProbe() []byte {
	p := make([]byte, 1200)
	rand.Read(p[:64])
	p[0] |= 0xc0
	copy(p[1:], []byte{0x1a, 0x2a, 0x3a, 0x4a, 8})
	p[14] = 8
	return p
}
