package discovery

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/acpd/acpd/internal/ownwords"
)

const (
	mdnsPort  = 5353
	hopLimit  = 255     // RFC 6762, section 11
	buffered  = 1 << 20 // bytes; the system may give less. Hundreds may answer one question at the same moment
	maxFailed = 3       // questions in a row that could not be sent before it is reported: a new IPv6 address is not usable at once
	maxSilent = 2       // questions in a row that were not heard here before the sockets are taken for deaf
)

var (
	group4 = net.IPv4(224, 0, 0, 251)
	group6 = net.ParseIP("ff02::fb")
)

// link is an interface in use: for each family the sockets to ask, to answer, to
// announce and to listen.
type link struct {
	nic      nic
	pairs    []*familySockets
	lacking  bool // something could not be opened
	reopened bool // with the interface unchanged
}

// familySockets is the two sockets of a family on an interface; one that could not be opened
// is nil. The group's has port 5353 and receives all multicast; answers and announcements
// must come from it (RFC 6762, section 6). The other has a port of its own, for answers that
// are sent only to it: the system gives each of those to port 5353 to only one of the
// sockets that share it.
type familySockets struct {
	to           *net.UDPAddr
	group, query *socket
	heard        atomic.Uint64 // packets on the group's socket, those from here among them
	broken       atomic.Bool   // reading failed

	// The rest belongs to the goroutine that asks.
	asked  bool   // since the last look at heard
	before uint64 // heard at that look
	silent int    // looks in a row that found a question unheard
	failed int    // questions in a row that could not be sent
}

// socket hides in which family it is.
type socket struct {
	*net.UDPConn
	index int                                              // the only interface to listen on; 0 for any
	read  func([]byte) (n, index int, _ net.Addr, _ error) // index: where it came in, 0: not known
	write func(data []byte, to *net.UDPAddr) error
}

// openLink opens what can be opened on an interface; errs says what could not.
func openLink(n nic) (l *link, errs []error) {
	l = &link{nic: n}
	for _, group := range []net.IP{group4, group6} {
		v4 := group.To4() != nil
		if !n.hasFamily(v4) || n.isLoopback() && !v4 {
			continue // hosts have no route for IPv6 multicast on loopback
		}
		p := &familySockets{to: &net.UDPAddr{IP: group, Port: mdnsPort}}
		network := "udp4"
		if !v4 {
			network, p.to.Zone = "udp6", n.Name
		}
		conn, err := net.ListenMulticastUDP(network, &n.Interface, &net.UDPAddr{IP: group, Port: mdnsPort})
		if p.group, err = newMulticastSocket(conn, err, n, v4); err != nil {
			errs = append(errs, err)
		} else {
			// A socket receives the groups that any socket of the host joined, on all interfaces.
			p.group.index = n.Index
		}
		conn, err = net.ListenUDP(network, nil)
		if p.query, err = newMulticastSocket(conn, err, n, v4); err != nil {
			errs = append(errs, err)
		}
		l.pairs = append(l.pairs, p)
	}
	l.lacking = len(errs) > 0
	return l, errs
}

// newMulticastSocket makes a socket send multicast to the interface, and to this host too, for
// the other daemons on it. It closes one that cannot.
func newMulticastSocket(conn *net.UDPConn, err error, n nic, v4 bool) (*socket, error) {
	if err != nil {
		return nil, err
	}
	conn.SetReadBuffer(buffered)
	s := &socket{UDPConn: conn}
	if v4 {
		c := ipv4.NewPacketConn(conn)
		err = errors.Join(c.SetMulticastInterface(&n.Interface), c.SetMulticastTTL(hopLimit), c.SetMulticastLoopback(true), c.SetControlMessage(ipv4.FlagInterface, true))
		s.read = func(b []byte) (size, index int, src net.Addr, err error) {
			size, cm, src, err := c.ReadFrom(b)
			if cm != nil {
				index = cm.IfIndex
			}
			return size, index, src, err
		}
		var from *ipv4.ControlMessage
		if n.isLoopback() { // else the system takes another address, or none
			from = &ipv4.ControlMessage{IfIndex: n.Index, Src: n.firstIPv4()}
		}
		s.write = func(data []byte, to *net.UDPAddr) error { _, err := c.WriteTo(data, from, to); return err }
	} else {
		c := ipv6.NewPacketConn(conn)
		err = errors.Join(c.SetMulticastInterface(&n.Interface), c.SetMulticastHopLimit(hopLimit), c.SetMulticastLoopback(true), c.SetControlMessage(ipv6.FlagInterface, true))
		s.read = func(b []byte) (size, index int, src net.Addr, err error) {
			size, cm, src, err := c.ReadFrom(b)
			if cm != nil {
				index = cm.IfIndex
			}
			return size, index, src, err
		}
		s.write = func(data []byte, to *net.UDPAddr) error { _, err := c.WriteTo(data, nil, to); return err }
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// explainOpenError returns the kind of a failure to open sockets, and the failure with the
// remedy.
func explainOpenError(n nic, err error) (kind string, _ error) {
	if errors.Is(err, syscall.EADDRINUSE) {
		return "port", ownwords.Errorf("on %s: %w: a program holds UDP port %d and does not share it, so others do not discover this daemon: stop that program; configured addresses work without", n.Name, err, mdnsPort)
	}
	return "open", ownwords.Errorf("on %s: %w: the interface cannot do multicast: exclude it; configured addresses work without", n.Name, err)
}

// sendAnnouncement sends a packet to the group from its own port. Its failures are those of
// questions too, and are reported there.
func (l *link) sendAnnouncement(data []byte) {
	for _, p := range l.pairs {
		if p.group != nil {
			p.group.write(data, p.to)
		}
	}
}

// sendQuestion sends a question to the group. The error is one that has lasted.
func (l *link) sendQuestion(data []byte) (err error) {
	for _, p := range l.pairs {
		if p.query == nil {
			continue
		}
		if failure := p.query.write(data, p.to); failure != nil {
			if p.failed++; p.failed >= maxFailed {
				err = failure
			}
			continue
		}
		p.failed, p.asked = 0, true
	}
	return err
}

// checkSockets looks whether the sockets work: whether they are there, and whether they
// heard the questions that were sent from here.
func (l *link) checkSockets() (broken, deaf bool) {
	broken = l.lacking
	for _, p := range l.pairs {
		heard := p.heard.Load()
		if p.asked && p.group != nil && heard == p.before {
			p.silent++
		} else {
			p.silent = 0
		}
		p.asked, p.before = false, heard
		broken = broken || p.broken.Load()
		deaf = deaf || p.silent >= maxSilent
	}
	return broken, deaf
}

// readPackets answers the questions of a socket from z, and hands the packets that matter
// to take, until the socket is closed or take returns false. It heeds only who is on
// the link: an answer to anybody else would go where a forged address says.
func (p *familySockets) readPackets(s *socket, n nic, z *zone, take func(packet) bool) {
	buf := make([]byte, maxPacket+1)
	for {
		size, index, src, err := s.read(buf)
		if err != nil {
			p.broken.Store(true)
			return
		}
		if s.index != 0 && index != 0 && index != s.index {
			continue
		}
		if s == p.group {
			p.heard.Add(1)
		}
		udp, ok := src.(*net.UDPAddr)
		if !ok {
			continue
		}
		data, at := buf[:size], udp.AddrPort()
		from := netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
		if !n.isOnLink(from.Addr()) {
			continue
		}
		if s == p.group {
			if answer := z.answerPacket(data, from); answer != nil {
				s.write(answer, udp)
			}
		}
		if from.Port() == mdnsPort && isServicePacket(data) && !take(packet{append([]byte(nil), data...), from.Addr(), n}) {
			return
		}
	}
}

// close closes the sockets. Their readers end by that.
func (l *link) close() {
	for _, p := range l.pairs {
		for _, s := range []*socket{p.group, p.query} {
			if s != nil {
				s.Close()
			}
		}
	}
}
