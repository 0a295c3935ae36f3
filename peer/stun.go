package peer

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// The node asks STUN servers (RFC 8489) at which address the world sees its UDP socket: that
// is where the other side of a NAT dials. It asks from the socket on which QUIC runs, since a
// NAT gives every socket an address of its own. A STUN message begins with two bits of zero,
// by which QUIC's socket tells it apart (RFC 9443).

const (
	stunTime   = 1200 * time.Millisecond // for the answers of all servers
	stunGrace  = 200 * time.Millisecond  // for the other answers, after the first one
	stunMemory = 10 * time.Second        // how long answers are used in other rounds

	stunHeader    = 20         // bytes
	stunCookie    = 0x2112A442 // RFC 8489, section 5
	stunRequest   = 0x0001     // a Binding request
	stunSuccess   = 0x0101     // the answer to it
	stunXORMapped = 0x0020     // the attribute XOR-MAPPED-ADDRESS
)

// stunWaits is how long a query waits for answers after each time that it has sent its
// requests (RFC 8489, section 6.2.1).
var stunWaits = [...]time.Duration{500 * time.Millisecond, 700 * time.Millisecond}

// STUNAnswer is at which address a STUN server sees the UDP socket.
type STUNAnswer struct{ Server, Mapped netip.AddrPort }

// stunID is a transaction id (RFC 8489, section 5). Only who saw the request can know it.
type stunID [12]byte

// newSTUNRequest returns a Binding request without attributes.
func newSTUNRequest(id stunID) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 0, stunHeader), stunRequest)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, stunCookie)
	return append(b, id[:]...)
}

// parseSTUNResponse returns the id and the XOR-MAPPED-ADDRESS of a Binding success response.
// It reports false for anything else. Other attributes are passed over.
func parseSTUNResponse(b []byte) (id stunID, mapped netip.AddrPort, ok bool) {
	if len(b) < stunHeader || binary.BigEndian.Uint16(b) != stunSuccess ||
		int(binary.BigEndian.Uint16(b[2:])) != len(b)-stunHeader || binary.BigEndian.Uint32(b[4:]) != stunCookie {
		return id, mapped, false
	}
	copy(id[:], b[8:])
	mask := b[4:stunHeader] // the cookie and the id
	for rest := b[stunHeader:]; len(rest) >= 4; {
		typ, n := binary.BigEndian.Uint16(rest), int(binary.BigEndian.Uint16(rest[2:]))
		if n > len(rest)-4 {
			return id, mapped, false
		}
		value := rest[4 : 4+n]
		if typ == stunXORMapped {
			mapped, ok = parseXORMapped(value, mask)
			return id, mapped, ok
		}
		rest = rest[min(4+(n+3)&^3, len(rest)):] // padded to four bytes (section 14)
	}
	return id, mapped, false
}

// parseXORMapped reads the value of XOR-MAPPED-ADDRESS (RFC 8489, section 14.2).
func parseXORMapped(value, mask []byte) (netip.AddrPort, bool) {
	if len(value) < 4 {
		return netip.AddrPort{}, false
	}
	family, bytes := value[1], slices.Clone(value[4:])
	if family != 1 && family != 2 || family == 1 && len(bytes) != 4 || family == 2 && len(bytes) != 16 {
		return netip.AddrPort{}, false
	}
	for i := range bytes {
		bytes[i] ^= mask[i]
	}
	ip, _ := netip.AddrFromSlice(bytes)
	port := binary.BigEndian.Uint16(value[2:]) ^ binary.BigEndian.Uint16(mask)
	return netip.AddrPortFrom(ip.Unmap(), port), port != 0 && !ip.IsUnspecified()
}

// stunClient asks the servers of [Config.STUN], one query at a time, and remembers the answers
// for stunMemory.
type stunClient struct {
	servers []string // host:port
	socket  stunSocket

	mu    sync.Mutex // held during a query, as only one may read from socket; guards what follows
	known []STUNAnswer
	asked time.Time
}

// stunSocket is the part of quic.Transport that a query uses. One goroutine at a time may call
// ReadNonQUICPacket.
type stunSocket interface {
	WriteTo(b []byte, to net.Addr) (int, error)
	ReadNonQUICPacket(ctx context.Context, b []byte) (int, net.Addr, error)
}

// AskSTUN returns the answers of the servers of [Config.STUN], one of each that has answered and of each
// of its address families. They are at most 10 s old. It blocks for 1.2 s at most, and that long again if
// another query is under way.
func (n *Node) AskSTUN(ctx context.Context) []STUNAnswer { return n.stun.ask(ctx) }

// listReflexiveAddrs returns the addresses at which the servers see the socket, each once. It
// blocks as ask does.
func (s *stunClient) listReflexiveAddrs(ctx context.Context) (addrs []netip.AddrPort) {
	for _, a := range s.ask(ctx) {
		if !slices.Contains(addrs, a.Mapped) {
			addrs = append(addrs, a.Mapped)
		}
	}
	return addrs
}

// ask returns the servers' answers. It blocks for stunTime at most, and that long again if another
// query is under way.
func (s *stunClient) ask(ctx context.Context) []STUNAnswer {
	if len(s.servers) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked.IsZero() || time.Since(s.asked) >= stunMemory {
		limited, cancel := context.WithTimeout(ctx, stunTime)
		defer cancel()
		found := s.query(limited, resolveServers(limited, s.servers))
		if ctx.Err() != nil {
			return found // for other callers it may be too little
		}
		s.known, s.asked = found, time.Now()
	}
	return slices.Clone(s.known)
}

// forget has the next call ask anew.
func (s *stunClient) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Time{}
}

// stunQuery is a request that waits for its answer.
type stunQuery struct {
	server netip.AddrPort
	id     stunID
}

// query asks each server, again after each of stunWaits, and returns the answers when all are
// in, stunGrace after the first, or at the end of ctx. An answer is valid if it comes from the
// server that was asked and has the id of the request.
func (s *stunClient) query(ctx context.Context, servers []netip.AddrPort) (found []STUNAnswer) {
	open := make([]stunQuery, len(servers))
	for i := range servers {
		open[i].server = servers[i]
		rand.Read(open[i].id[:])
	}
	for _, wait := range stunWaits {
		for _, q := range open {
			s.socket.WriteTo(newSTUNRequest(q.id), net.UDPAddrFromAddrPort(q.server)) // what is lost, an error too, is sent again
		}
		for until := time.Now().Add(wait); len(open) > 0; {
			from, id, mapped, err := s.readResponse(ctx, until)
			if err != nil {
				break
			}
			at := slices.Index(open, stunQuery{from, id})
			if at < 0 {
				continue
			}
			open = slices.Delete(open, at, at+1)
			if len(found) == 0 {
				until = time.Now().Add(stunGrace)
			}
			found = append(found, STUNAnswer{from, mapped})
		}
		if len(open) == 0 || len(found) > 0 || ctx.Err() != nil {
			break
		}
	}
	return found
}

// readResponse returns the next packet that is a response, with its sender. The error is that
// of ctx or of the socket, or context.DeadlineExceeded at the time given.
func (s *stunClient) readResponse(ctx context.Context, until time.Time) (from netip.AddrPort, id stunID, mapped netip.AddrPort, err error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	buf := make([]byte, 1500)
	for {
		n, addr, err := s.socket.ReadNonQUICPacket(ctx, buf)
		if err != nil {
			return from, id, mapped, err
		}
		if id, mapped, ok := parseSTUNResponse(buf[:n]); ok {
			return toAddrPort(addr), id, mapped, nil
		}
	}
}

// resolveServers returns the addresses of servers, the first of each family. It looks host
// names up, and returns at the end of ctx what it has by then.
func resolveServers(ctx context.Context, servers []string) []netip.AddrPort {
	found := make([][]netip.AddrPort, len(servers))
	var looking sync.WaitGroup
	for i, server := range servers {
		looking.Go(func() {
			udp, _ := resolveAddr(ctx, server)
			for _, a := range udp {
				addr := toAddrPort(a)
				if !slices.ContainsFunc(found[i], func(o netip.AddrPort) bool { return o.Addr().Is4() == addr.Addr().Is4() }) {
					found[i] = append(found[i], addr)
				}
			}
		})
	}
	looking.Wait()
	return slices.Concat(found...)
}
