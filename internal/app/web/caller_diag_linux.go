package web

import (
	"encoding/binary"
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var (
	// errNoDiag says that what answers is not what the kernel answers.
	errNoDiag = errors.New("the answer names no socket")

	// errNoSocket: the kernel knows no socket at that address, or has lost the module that answers
	// for TCP (tcp_diag).
	errNoSocket = errors.New("the kernel names no socket there")

	// errNoCaller says that the kernel answers, and that there is no such connection, or its program has closed it.
	errNoCaller = errors.New("the kernel names no such connection")
)

// diagID is struct inet_diag_sockid of linux/inet_diag.h: numbers in the network's order.
type diagID struct {
	sport, dport [2]byte
	src, dst     [16]byte
	device       uint32
	cookie       [2]uint32
}

// diagRequest is struct inet_diag_req_v2 after the head of a message.
type diagRequest struct {
	unix.NlMsghdr
	family, protocol, ext, _ uint8
	states                   uint32
	id                       diagID
}

// diagAnswer is struct inet_diag_msg after the head of a message.
type diagAnswer struct {
	unix.NlMsghdr
	family, state, timer, retrans uint8
	id                            diagID
	expires, rqueue, wqueue       uint32
	uid, inode                    uint32
}

// askConnOwner asks the kernel for the user of the socket at the beginning of a connection.
// It costs the same however many sockets there are. A socket of IPv6 with such an address is found too.
// A socket that its program has closed has no inode, and says nothing of whose it was: errNoCaller, as
// for one that is not connected to to.
func askConnOwner(ends connEnds) (uid int, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	patience := unix.Timeval{Sec: 1}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		return 0, err
	}
	r := diagRequest{
		NlMsghdr: unix.NlMsghdr{Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST},
		family:   unix.AF_INET, protocol: unix.IPPROTO_TCP, states: ^uint32(0), id: newDiagID(ends),
	}
	r.Len = uint32(unsafe.Sizeof(r))
	if err := unix.Sendto(fd, unsafe.Slice((*byte)(unsafe.Pointer(&r)), r.Len), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	var a diagAnswer
	buf := make([]byte, 4<<10) // attributes may follow the answer
	n, _, err := unix.Recvfrom(fd, buf, 0)
	switch {
	case err != nil:
		return 0, err
	case n >= unix.SizeofNlMsghdr+4 && binary.NativeEndian.Uint16(buf[4:]) == unix.NLMSG_ERROR: // struct nlmsgerr of linux/netlink.h
		if errno := syscall.Errno(-int32(binary.NativeEndian.Uint32(buf[unix.SizeofNlMsghdr:]))); errno != unix.ENOENT {
			return 0, errno
		}
		return 0, errNoSocket
	case n < int(unsafe.Sizeof(a)):
		return 0, errNoDiag
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&a)), unsafe.Sizeof(a)), buf)
	switch {
	case a.Type != unix.SOCK_DIAG_BY_FAMILY:
		return 0, errNoDiag
	case !isSameConn(&a, ends): // without that connection, the kernel returns a socket that listens at from
		return 0, errNoCaller
	case a.inode == 0:
		return 0, errNoCaller
	}
	return int(a.uid), nil
}

// isSameConn reports whether an answer is about the beginning of a connection.
func isSameConn(a *diagAnswer, ends connEnds) bool {
	id := newDiagID(ends)
	if a.family == unix.AF_INET6 {
		id.src, id.dst = ends.from.Addr().As16(), ends.to.Addr().As16() // the form that IPv4 addresses have in IPv6
	}
	return a.id.sport == id.sport && a.id.dport == id.dport && a.id.src == id.src && a.id.dst == id.dst
}

// newDiagID returns what the kernel calls a connection, as its beginning has it.
func newDiagID(ends connEnds) (id diagID) {
	binary.BigEndian.PutUint16(id.sport[:], ends.from.Port())
	binary.BigEndian.PutUint16(id.dport[:], ends.to.Port())
	src, dst := ends.from.Addr().As4(), ends.to.Addr().As4()
	copy(id.src[:], src[:])
	copy(id.dst[:], dst[:])
	id.cookie = [2]uint32{^uint32(0), ^uint32(0)} // none (INET_DIAG_NOCOOKIE)
	return id
}
