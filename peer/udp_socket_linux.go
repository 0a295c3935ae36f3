package peer

import (
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// udpSocket is a UDP socket of the system. It sends without Go's scheduler being told.
//
// Go gives the processor of a thread that is in a system call for 20 µs to another thread. Sending
// takes about as long, as the system carries a packet to a reader on the same machine within the
// call. So sends moved the work of a daemon that computes on one processor from thread to thread,
// and a query of 200 B by itself took 7 % more time. The socket does not block, so the call soon
// ends.
type udpSocket struct {
	*net.UDPConn
	raw    syscall.RawConn
	family int

	mu  sync.Mutex
	out datagram // guarded by mu
}

// A datagram is what one call of sendmsg reads, and what came of it.
type datagram struct {
	header   unix.Msghdr
	payload  unix.Iovec
	addr4    unix.RawSockaddrInet4
	addr6    unix.RawSockaddrInet6
	sent     int
	errno    syscall.Errno
	sendOnce func(fd uintptr) bool // false: the socket is full
}

// newUDPSocket takes conn over.
func newUDPSocket(conn *net.UDPConn) (net.PacketConn, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &udpSocket{UDPConn: conn, raw: raw}
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

// WriteMsgUDP sends as [net.UDPConn.WriteMsgUDP] does. It blocks while the socket is full.
func (s *udpSocket) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b) == 0 || !s.out.setAddr(addr, s.family) {
		return s.UDPConn.WriteMsgUDP(b, oob, addr)
	}
	s.out.setContent(b, oob)
	defer s.out.setContent(nil, nil) // whose memory is the caller's
	if err := s.raw.Write(s.out.sendOnce); err != nil {
		return 0, 0, err
	}
	if s.out.errno != 0 {
		return 0, 0, &net.OpError{Op: "write", Net: "udp", Source: s.LocalAddr(), Addr: addr, Err: os.NewSyscallError("sendmsg", s.out.errno)}
	}
	return s.out.sent, len(oob), nil
}

// setAddr reports whether it could; it leaves interface names and addresses of the other family to
// the net package.
func (d *datagram) setAddr(addr *net.UDPAddr, family int) bool {
	if addr == nil || addr.Zone != "" {
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

// send reports whether something came of the datagram; false means that the socket is full.
func (d *datagram) send(fd uintptr) bool {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&d.header)), 0)
		if errno != unix.EINTR {
			d.sent, d.errno = int(n), errno
			return errno != unix.EAGAIN
		}
	}
}
