package harness

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// readProcess reads what /proc says (proc(5)).
func readProcess(pid int) (process, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return process{}, err
	}
	// The name, in parentheses, may hold anything.
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return process{}, fmt.Errorf("%sstat: not as proc(5) has it", dir)
	}
	p := process{pid: pid}
	if p.parent, err = strconv.Atoi(fields[1]); err != nil {
		return process{}, fmt.Errorf("%sstat: %w", dir, err)
	}
	// An updated program is still the same one, although its old file is gone.
	program, _ := os.Readlink(dir + "exe")
	p.program = strings.TrimSuffix(program, " (deleted)")
	if f, err := os.Open(dir + "cmdline"); err == nil {
		defer f.Close()
		line, _ := io.ReadAll(io.LimitReader(f, maxCommandLine))
		p.args = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	}
	return p, nil
}

// readPeer asks the kernel which process listens on, or connected, the other end.
func readPeer(c *net.UnixConn) (pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = cmp.Or(err, failed); err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}

// listPorts returns the TCP ports that a process listens on, on loopback or everywhere: those
// of its network whose inode is one of its open files.
func listPorts(pid int) (ports []int, err error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	files, err := os.ReadDir(dir + "fd")
	if err != nil {
		return nil, err
	}
	open := make(map[string]bool)
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join(dir, "fd", f.Name())); err == nil {
			if inode, ok := strings.CutPrefix(to, "socket:["); ok {
				open[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(dir + "net/" + name)
		if err != nil {
			continue
		}
		table, err := io.ReadAll(io.LimitReader(f, 4<<20))
		f.Close()
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(table)) {
			fields := strings.Fields(line)
			const listens = "0A"
			if len(fields) < 10 || fields[3] != listens || !open[fields[9]] {
				continue
			}
			addr, hex, _ := strings.Cut(fields[1], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			if err == nil && slices.Contains(loopbackOrAny, addr) {
				ports = append(ports, int(port))
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports), nil
}

// loopbackOrAny are the addresses through which a program on this machine reaches 127.0.0.1,
// as the kernel's table writes them on machines of either byte order.
var loopbackOrAny = []string{
	"0100007F", "7F000001", "00000000", strings.Repeat("0", 32), // 127.0.0.1, 0.0.0.0, ::
	"0000000000000000FFFF00000100007F", "00000000000000000000FFFF7F000001", // ::ffff:127.0.0.1
}
