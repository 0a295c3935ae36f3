package web

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
)

const (
	// maxAsked bounds the connections that one reading of a table looks for. Reading takes the longer the more
	// sockets this machine has, and other users can open very many: so one reading serves many connections.
	maxAsked = 512

	maxTable = 64 << 20 // bounds what is read of a table, in bytes
)

// newTableFinder returns a finder that reads the tables in a folder, once for all connections that are looked for
// together. Without such a folder it finds nothing.
func newTableFinder(dir string) *callerFinder {
	return &callerFinder{most: maxAsked, find: func(conns []net.Conn) ([]callerCheck, error) {
		return findInTables(dir, conns, callerUnknown)
	}}
}

// findInTables returns what the tables in a folder say of connections, in their order; without is what it says
// of one where there is no such folder. An error is why it says callerOther of some that may be the owner's.
func findInTables(dir string, conns []net.Conn, without callerCheck) (checks []callerCheck, err error) {
	asked := make([]connEnds, len(conns))
	for i, c := range conns {
		asked[i] = findEnds(c)
	}
	owners, err := findConnOwners(dir, asked)
	others := callerOther
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		others = without // there is no proc here
	}
	checks = make([]callerCheck, len(conns))
	for i := range conns {
		checks[i] = others
		if uid, ok := owners[asked[i]]; ok {
			checks[i] = checkOwner(uid)
		}
	}
	if others == callerUnknown {
		err = nil
	}
	return checks, err
}

// findConnOwners returns the users of sockets, by the ends of their connections, for those that a table has and
// that their program has not closed. dir has the tables. A client's socket may be of IPv6, with an IPv4
// address in IPv6 form. With an error it returns what it found before.
func findConnOwners(dir string, asked []connEnds) (owners map[connEnds]int, err error) {
	owners = make(map[connEnds]int, len(asked))
	for _, table := range []struct {
		name   string
		format func(netip.AddrPort) string
	}{{"tcp", formatAddr4}, {"tcp6", formatAddr6}} {
		wanted := make(map[string]connEnds, len(asked)) // by what begins their rows
		for _, ends := range asked {
			if _, ok := owners[ends]; !ok {
				wanted[table.format(ends.from)+" "+table.format(ends.to)+" "] = ends
			}
		}
		if len(wanted) == 0 {
			break
		}
		f, err := os.Open(dir + table.name)
		if err != nil {
			if table.name == "tcp6" && errors.Is(err, fs.ErrNotExist) {
				break // a system without IPv6
			}
			return owners, err
		}
		err = findInTable(io.LimitReader(f, maxTable), wanted, owners)
		f.Close()
		if err != nil {
			return owners, err
		}
	}
	return owners, nil
}

// findInTable takes out of wanted what has a row, and adds its user to owners. A row without an inode is of a
// socket that its program has closed, and says nothing of whose it was.
func findInTable(r io.Reader, wanted map[string]connEnds, owners map[connEnds]int) error {
	size := 0
	for begin := range wanted { // all as long as each other
		size = len(begin)
	}
	lines := bufio.NewScanner(r)
	for len(wanted) > 0 && lines.Scan() {
		_, row, _ := bytes.Cut(lines.Bytes(), []byte(": ")) // behind its number
		if len(row) < size {
			continue
		}
		ends, ok := wanted[string(row[:size])]
		if !ok {
			continue
		}
		delete(wanted, string(row[:size]))
		f := bytes.Fields(row)
		if len(f) < 9 || string(f[8]) == "0" {
			continue
		}
		if uid, err := strconv.Atoi(string(f[6])); err == nil {
			owners[ends] = uid
		}
	}
	return lines.Err()
}

// formatAddr4 returns an address as /proc/net/tcp writes it: words of 32 bits in the machine's order.
func formatAddr4(a netip.AddrPort) string {
	ip := a.Addr().As4()
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), a.Port())
}

// formatAddr6 returns an address of IPv4 as /proc/net/tcp6 writes it.
func formatAddr6(a netip.AddrPort) string {
	ip := a.Addr().As16()
	var b []byte
	for i := 0; i < len(ip); i += 4 {
		b = fmt.Appendf(b, "%08X", binary.NativeEndian.Uint32(ip[i:]))
	}
	return fmt.Sprintf("%s:%04X", b, a.Port())
}
