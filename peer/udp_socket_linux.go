package peer

import (
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// udpSocket is a UDP socket of the system. It sends without Go's scheduler being told.
//
// Go gives the processor of a thread that is in a system call for 20 µs to another thread. Sending
// takes about as long, as the system carries a packet to a reader on the same machine within the
// call. So sends moved the work of a daemon that computes on one processor from thread to thread,
// and a query of 200 B by itself took 7 % more time. The socket does not block, so the call soon
// ends.
//
// The system keeps packets for a host on the link whose hardware address it does not find for some
// seconds, and all of them take room of the socket. So a full socket loses packets, as a
// network does: if writers waited, packets for others would wait for absent hosts.
type udpSocket struct {
	*net.UDPConn
	raw    syscall.RawConn
	family int

	dropped atomic.Int64 // datagrams that were taken and not sent

	mu      sync.Mutex // guards the rest
	out     datagram
	room    int           // bytes that the system keeps; 0: not read yet
	full    bool          // there was no room for the last one, and waiting gave none
	answers *rate.Limiter // of answers to anybody, while the socket is half full
	zones   map[string]zone
}

const (
	// How long a datagram waits for room, and how often it looks. A line of 2 Mbit/s takes a packet
	// every 5 ms.
	roomWait = 10 * time.Millisecond
	roomLook = time.Millisecond

	// Answers to anybody that leave in a second while the socket is half full. The system keeps those
	// to absent hosts for 3 s: 80 of them, of 2.3 KB with what it adds, have place in the other half
	// of 416 KiB, the most that it gives a user's socket as it comes. A handshake needs five.
	answersPerSecond = 20
)

// A datagram is what one call of sendmsg reads, and what came of it.
type datagram struct {
	header   unix.Msghdr
	payload  unix.Iovec
	addr4    unix.RawSockaddrInet4
	addr6    unix.RawSockaddrInet6
	sent     int
	errno    syscall.Errno
	sendOnce func(fd uintptr) bool
}

// newUDPSocket takes conn over.
func newUDPSocket(conn *net.UDPConn) (net.PacketConn, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &udpSocket{UDPConn: conn, raw: raw, answers: rate.NewLimiter(answersPerSecond, answersPerSecond), zones: make(map[string]zone)}
	var errno error
	if err := raw.Control(func(fd uintptr) {
		s.family, errno = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
	}); err != nil {
		return nil, err
	}
	if errno != nil {
		return nil, os.NewSyscallError("getsockopt", errno)
	}
	s.out.sendOnce = s.out.send
	return s, nil
}

func (s *udpSocket) countDropped() int64 { return s.dropped.Load() }

// WriteMsgUDP sends as [net.UDPConn.WriteMsgUDP] does, but a socket that stays full loses the datagram
// and reports no error: QUIC would end the connection, and sends again what is lost.
func (s *udpSocket) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.setAddr(addr) {
		return 0, 0, &net.OpError{Op: "write", Net: "udp", Source: s.LocalAddr(), Addr: addr, Err: &net.AddrError{Err: "not of the socket's family: listen on an address of that family", Addr: addr.String()}}
	}
	if isForAnybody(b) && s.isHalfFull() && !s.answers.Allow() {
		s.dropped.Add(1)
		return len(b), len(oob), nil
	}
	s.out.setContent(b, oob)
	defer s.out.setContent(nil, nil) // whose memory is the caller's
	if err := s.raw.Write(s.out.sendOnce); err != nil {
		return 0, 0, err
	}
	if s.out.errno == unix.EAGAIN {
		if sent, err := s.sendWhenRoom(); !sent {
			return len(b), len(oob), err
		}
	}
	s.full = false
	if s.out.errno != 0 {
		return 0, 0, &net.OpError{Op: "write", Net: "udp", Source: s.LocalAddr(), Addr: addr, Err: os.NewSyscallError("sendmsg", s.out.errno)}
	}
	return s.out.sent, len(oob), nil
}

// sendWhenRoom sends the datagram when the full socket has room for it. If it gets none in time, or the
// datagram before got none, the datagram is lost, and sent is false.
func (s *udpSocket) sendWhenRoom() (sent bool, err error) {
	for began := time.Now(); !s.full && time.Since(began) < roomWait; {
		time.Sleep(roomLook)
		if err := s.raw.Write(s.out.sendOnce); err != nil {
			return false, err
		}
		if s.out.errno != unix.EAGAIN {
			return true, nil
		}
	}
	s.full = true
	s.dropped.Add(1)
	return false, nil
}

// resetSize is the size of the packet with which quic-go answers one of a connection that it does not
// know (RFC 9000, section 10.3).
const resetSize = 42

// isForAnybody reports whether a datagram may be an answer to a host that has proved nothing: a packet
// of a handshake, or a stateless reset.
func isForAnybody(b []byte) bool {
	const longHeader = 0x80
	return len(b) > 0 && b[0]&longHeader != 0 || len(b) == resetSize
}

// isHalfFull reports whether packets that have not left take half of the socket's room.
func (s *udpSocket) isHalfFull() (is bool) {
	s.raw.Control(func(fd uintptr) {
		if s.room == 0 { // quic-go sets it before it sends anything
			s.room, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
		}
		var held int32
		_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, fd, unix.SIOCOUTQ, uintptr(unsafe.Pointer(&held)))
		is = errno == 0 && int(held) >= s.room/2
	})
	return is
}

// setAddr reports whether it could: there is an address, and it is of the socket's family. The net
// package must send nothing here: it waits until half of a full socket is empty, and all others with it.
func (s *udpSocket) setAddr(addr *net.UDPAddr) bool {
	if !s.out.setAddr(addr, s.family) {
		return false
	}
	if addr.Zone != "" && s.family == unix.AF_INET6 {
		s.out.addr6.Scope_id = s.findZone(addr.Zone)
	}
	return true
}

// zone is the index of a network interface, as it was then.
type zone struct {
	index uint32
	at    time.Time
}

const zoneLasts = time.Minute // as in the net package

// findZone returns the index of the interface, or else the number that the name is, or else 0, as the
// net package does.
func (s *udpSocket) findZone(name string) (index uint32) {
	if z, known := s.zones[name]; known && time.Since(z.at) < zoneLasts {
		return z.index
	}
	delete(s.zones, name)
	i, err := net.InterfaceByName(name)
	if err != nil {
		number, _ := strconv.ParseUint(name, 10, 32)
		return uint32(number)
	}
	s.zones[name] = zone{uint32(i.Index), time.Now()}
	return uint32(i.Index)
}

// setAddr reports whether it could. It leaves the interface out.
func (d *datagram) setAddr(addr *net.UDPAddr, family int) bool {
	if addr == nil {
		return false
	}
	switch family {
	case unix.AF_INET:
		ip := addr.IP.To4()
		if ip == nil {
			return false
		}
		d.addr4 = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: toNetworkOrder(addr.Port), Addr: [4]byte(ip)}
		d.header.Name, d.header.Namelen = (*byte)(unsafe.Pointer(&d.addr4)), unix.SizeofSockaddrInet4
	case unix.AF_INET6:
		ip := addr.IP.To16()
		if ip == nil {
			return false
		}
		d.addr6 = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: toNetworkOrder(addr.Port), Addr: [16]byte(ip)}
		d.header.Name, d.header.Namelen = (*byte)(unsafe.Pointer(&d.addr6)), unix.SizeofSockaddrInet6
	default:
		return false
	}
	return true
}

func toNetworkOrder(port int) (order uint16) {
	*(*[2]byte)(unsafe.Pointer(&order)) = [2]byte{byte(port >> 8), byte(port)}
	return order
}

func (d *datagram) setContent(b, oob []byte) {
	d.payload.Base = unsafe.SliceData(b)
	d.payload.SetLen(len(b))
	d.header.Iov = &d.payload
	d.header.SetIovlen(1)
	d.header.Control = unsafe.SliceData(oob)
	d.header.SetControllen(len(oob))
}

// send sends the datagram, or leaves EAGAIN in errno if the socket is full. It is always true: the
// system would say that there is room only when half of the socket is empty. It never waits, in whatever mode
// the socket is: such a call keeps its processor from all other goroutines.
func (d *datagram) send(fd uintptr) bool {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&d.header)), unix.MSG_DONTWAIT)
		if errno != unix.EINTR {
			d.sent, d.errno = int(n), errno
			return true
		}
	}
}
