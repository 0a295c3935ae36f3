package harness

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/internal/ownwords"
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
		return process{}, ownwords.Errorf("%sstat: not as proc(5) has it", dir)
	}
	p := process{pid: pid}
	if p.parent, err = strconv.Atoi(fields[1]); err != nil {
		return process{}, ownwords.Errorf("%sstat: %w", dir, err)
	}
	// An updated program is still the same one, although its old file is gone.
	program, _ := os.Readlink(dir + "exe")
	p.program = strings.TrimSuffix(program, " (deleted)")
	if line, err := os.ReadFile(dir + "cmdline"); err == nil && len(line) > 0 {
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
// of its network whose inode is one of its open files. A port on which another process listens
// too is left out: 127.0.0.1 may reach that one.
func listPorts(pid int) (ports []int, err error) {
	open, err := listSockets(pid)
	if err != nil {
		return nil, err
	}
	var tables strings.Builder
	for _, name := range []string{"tcp", "tcp6"} {
		table, err := readNetTable(pid, name)
		if err != nil {
			continue // a kernel without IPv6 has no tcp6
		}
		tables.WriteString(table)
	}
	return findPorts(tables.String(), open), nil
}

// findPorts returns the ports on which only sockets of these inodes listen.
func findPorts(table string, open map[string]bool) []int {
	isOurs := make(map[int]bool)
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		const listens = "0A"
		if len(fields) < 10 || fields[3] != listens {
			continue
		}
		addr, hex, _ := strings.Cut(fields[1], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		if err != nil || !slices.Contains(loopbackOrAny, addr) {
			continue
		}
		ours, seen := isOurs[int(port)]
		isOurs[int(port)] = open[fields[9]] && (ours || !seen)
	}
	maps.DeleteFunc(isOurs, func(_ int, ours bool) bool { return !ours })
	return slices.Sorted(maps.Keys(isOurs))
}

// loopbackOrAny are the addresses through which a program on this machine reaches 127.0.0.1,
// as the kernel's table writes them on machines of either byte order.
var loopbackOrAny = []string{
	"0100007F", "7F000001", "00000000", strings.Repeat("0", 32), // 127.0.0.1, 0.0.0.0, ::
	"0000000000000000FFFF00000100007F", "00000000000000000000FFFF7F000001", // ::ffff:127.0.0.1
}

// listSockets returns the inodes of the sockets that a process has open.
func listSockets(pid int) (map[string]bool, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	open := make(map[string]bool)
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil {
			if inode, ok := strings.CutPrefix(to, "socket:["); ok {
				open[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	return open, nil
}

// readNetTable reads a table of the sockets in a process's network.
func readNetTable(pid int, name string) (string, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	table, err := io.ReadAll(io.LimitReader(f, 4<<20))
	return string(table), err
}
