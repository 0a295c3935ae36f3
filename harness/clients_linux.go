package harness

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/internal/ownwords"
)

// findTerminal finds the process that listens on a TCP port of 127.0.0.1 and is connected to a server
// through its unix socket at path. What the server has started, such as other sessions' acpctl, is
// no terminal. ended reports whether the process has ended since.
func findTerminal(server int, path string, port int) (ended func() bool, err error) {
	none := ownwords.New("the terminal that has started its thread is not connected to it")
	accepted, err := listSockets(server)
	if err != nil {
		return nil, err
	}
	clients, err := listClients(path, accepted)
	if err != nil {
		return nil, err
	}
	all, started, err := listProcesses(server)
	if err != nil {
		return nil, err
	}
	for _, pid := range all {
		open, err := listSockets(pid)
		if err != nil || started[pid] || !hasAny(open, clients) {
			continue
		}
		if ports, err := listPorts(pid); err != nil || !slices.Contains(ports, port) {
			continue
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			return nil, none
		}
		// The number may be another process's by now.
		if again, err := listSockets(pid); err != nil || !hasAny(again, clients) {
			return nil, none
		}
		return func() bool { return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) }, nil
	}
	return nil, none
}

// hasAny reports whether one of the clients is among open sockets.
func hasAny(open map[string]bool, clients map[string]string) bool {
	for _, client := range clients {
		if open[client] {
			return true
		}
	}
	return false
}

// listProcesses returns all processes, and which of them are one or its descendants.
func listProcesses(root int) (all []int, family map[int]bool, err error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, nil, err
	}
	children := make(map[int][]int)
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil {
			all, children[p.parent] = append(all, pid), append(children[p.parent], pid)
		}
	}
	family = make(map[int]bool)
	for next := []int{root}; len(next) > 0; next = next[1:] {
		if !family[next[0]] {
			family[next[0]] = true
			next = append(next, children[next[0]]...)
		}
	}
	return all, family, nil
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

// listClients returns the inode of each client's socket by the inode of its server's end. It lists the
// connected sockets that bear a path and whose server's end is in among.
func listClients(path string, among map[string]bool) (map[string]string, error) {
	fail := func(err error) (map[string]string, error) {
		return nil, ownwords.Errorf("the kernel does not say who is connected to %s: %w", path, err)
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
	return fail(ownwords.New("there are too many"))
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
