package harness

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"net"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/internal/ownwords"
)

// readProcess asks sysctl(3).
func readProcess(pid int) (process, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return process{}, err
	}
	p := process{pid: pid, parent: int(info.Eproc.Ppid)}
	if raw, err := unix.SysctlRaw("kern.procargs2", pid); err == nil {
		p.program, p.args = parseArgs(raw)
	}
	return p, nil
}

// parseArgs reads the number of arguments, the path of the program, zeros, and the arguments,
// which end with a zero each. The environment follows, and is not read.
func parseArgs(raw []byte) (program string, args []string) {
	if len(raw) < 4 {
		return "", nil
	}
	n := int(binary.NativeEndian.Uint32(raw))
	path, rest, _ := bytes.Cut(raw[4:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	for range n {
		arg, after, found := bytes.Cut(rest, []byte{0})
		if !found {
			args = nil // not all of it
			break
		}
		args, rest = append(args, string(arg)), after
	}
	return strings.ToValidUTF8(string(path), "?"), args
}

// readPeer asks the kernel which process listens on, or connected, the other end.
func readPeer(c *net.UnixConn) (pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { pid, failed = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID) })
	return pid, cmp.Or(err, failed)
}

// listPorts fails: macOS tells the ports of a process only to lsof.
func listPorts(int) ([]int, error) {
	return nil, ownwords.New("macOS does not say which program listens on a port")
}
