package harness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// countClients counts the connections of a server through its unix socket at path that come
// from processes which the server has not started. What the server has started, such as other
// sessions' acpctl, is no terminal.
func countClients(server int, path string) (n int, err error) {
	accepted, err := listSockets(server)
	if err != nil {
		return 0, err
	}
	before, err := listClients(path, accepted)
	if err != nil {
		return 0, err
	}
	started, err := listSocketsOfFamily(server)
	if err != nil {
		return 0, err
	}
	// What came or went in between is not counted: nobody knows whose it was.
	after, err := listClients(path, accepted)
	if err != nil {
		return 0, err
	}
	for socket, client := range before {
		if after[socket] == client && !started[client] {
			n++
		}
	}
	return n, nil
}

// listSocketsOfFamily returns the inodes of the sockets that a process and its descendants have
// open. Processes whose files cannot be read are left out.
func listSocketsOfFamily(root int) (map[string]bool, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := make(map[int][]int)
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil {
			children[p.parent] = append(children[p.parent], pid)
		}
	}
	all := make(map[string]bool)
	for next := []int{root}; len(next) > 0; next = next[1:] {
		if open, err := listSockets(next[0]); err == nil {
			maps.Copy(all, open)
		}
		next = append(next, children[next[0]]...)
	}
	return all, nil
}

// What sock_diag(7) says of unix sockets.
const (
	diagShowName, diagShowPeer = 1 << 0, 1 << 2 // of a request
	diagName, diagPeer         = 0, 2           // attributes of an answer
	diagConnected              = 1              // a state
)

// diagRequest is struct unix_diag_req after the head of a message.
type diagRequest struct {
	unix.NlMsghdr
	family, protocol uint8
	_                uint16
	states           uint32
	inode            uint32
	show             uint32
	cookie           [2]uint32
}

const (
	diagAnswer  = 16       // bytes of struct unix_diag_msg, which attributes follow
	maxDiagText = 16 << 20 // bytes of all answers
)

// listClients returns the other ends of the connected sockets that bear a path and are among
// some: the inode of each client by that of its server's end.
func listClients(path string, among map[string]bool) (map[string]string, error) {
	fail := func(err error) (map[string]string, error) {
		return nil, fmt.Errorf("the kernel does not say who is connected to %s: %w", path, err)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(fd)
	patience := unix.Timeval{Sec: 1}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		return fail(err)
	}
	r := diagRequest{
		NlMsghdr: unix.NlMsghdr{Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST | unix.NLM_F_DUMP},
		family:   unix.AF_UNIX, states: 1 << diagConnected, show: diagShowName | diagShowPeer,
	}
	r.Len = uint32(unsafe.Sizeof(r))
	if err := unix.Sendto(fd, unsafe.Slice((*byte)(unsafe.Pointer(&r)), r.Len), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fail(err)
	}
	clients, buf := make(map[string]string), make([]byte, 64<<10)
	for left := maxDiagText; left > 0; {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return fail(err)
		}
		left -= n
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return fail(err)
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return clients, nil
			case unix.NLMSG_ERROR:
				return fail(errors.ErrUnsupported)
			}
			if socket, client, ok := readDiagAnswer(m.Data, path); ok && among[socket] {
				clients[socket] = client
			}
		}
	}
	return fail(errors.New("there are too many"))
}

// readDiagAnswer reads what the kernel says of one socket. It reports whether that bears the path
// and has another end.
func readDiagAnswer(text []byte, path string) (socket, client string, ok bool) {
	if len(text) < diagAnswer {
		return "", "", false
	}
	number := func(b []byte) string { return strconv.FormatUint(uint64(binary.NativeEndian.Uint32(b)), 10) }
	socket = number(text[4:])
	for rest := text[diagAnswer:]; len(rest) >= unix.SizeofRtAttr; {
		size, kind := int(binary.NativeEndian.Uint16(rest)), binary.NativeEndian.Uint16(rest[2:])
		if size < unix.SizeofRtAttr || size > len(rest) {
			break
		}
		switch value := rest[unix.SizeofRtAttr:size]; {
		case kind == diagName:
			ok = strings.TrimRight(string(value), "\x00") == path
		case kind == diagPeer && len(value) == 4:
			client = number(value)
		}
		const align = 4
		rest = rest[min((size+align-1)&^(align-1), len(rest)):]
	}
	const gone = "0" // the client has ended, which the server has not seen yet
	return socket, client, ok && client != "" && client != gone
}
