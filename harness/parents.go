package harness

import (
	"errors"
	"net"
	"os"
	"slices"

	"github.com/acpd/acpd/internal/ownwords"
)

// process is what the kernel says of a process.
type process struct {
	pid, parent int
	program     string   // the path of its executable; empty if it may not be read
	args        []string // its command line; empty unless all of it may be read
}

// processes reads what the kernel reports about processes. Tests replace its functions.
type processes struct {
	self    int
	read    func(pid int) (process, error)
	peerOf  func(*net.UnixConn) (pid int, err error)
	portsOf func(pid int) (ports []int, err error) // which it listens on, on loopback or everywhere
}

// newProcesses returns the processes of this machine, as seen from one of them; 0: this one.
func newProcesses(self int) *processes {
	if self == 0 {
		self = os.Getpid()
	}
	return &processes{self: self, read: readProcess, peerOf: readPeer, portsOf: listPorts}
}

// listParents returns the parents of this process, the nearest first.
func (ps *processes) listParents() (parents []process) {
	seen := []int{ps.self}
	self, err := ps.read(ps.self)
	for pid := self.parent; err == nil && pid > 0 && !slices.Contains(seen, pid); {
		var p process
		if p, err = ps.read(pid); err == nil {
			parents = append(parents, p)
			seen, pid = append(seen, pid), p.parent
		}
	}
	return parents
}

// findParent returns the parent with that pid. It returns an error if no parent has it, and if a
// nearer parent runs the same program: then that one has started this process, and the other
// is another session's.
func (ps *processes) findParent(pid int) (process, error) {
	parents := ps.listParents()
	at := slices.IndexFunc(parents, func(p process) bool { return p.pid == pid })
	if at < 0 {
		return process{}, ownwords.Errorf("process %d has not started this one", pid)
	}
	for _, nearer := range parents[:at] {
		if nearer.program != "" && nearer.program == parents[at].program {
			return process{}, ownwords.Errorf("process %d is nearer than process %d, and the same program", nearer.pid, pid)
		}
	}
	return parents[at], nil
}

// errNotParent: a process has not started this one, or a nearer parent runs the same program.
var errNotParent = ownwords.New("not of this session")

// dialParent connects to a socket that one of this process's parents listens on.
func (ps *processes) dialParent(path string) (*net.UnixConn, process, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, process{}, err
	}
	pid, err := ps.peerOf(conn)
	var parent process
	if err == nil {
		parent, err = ps.findParent(pid)
	}
	if err != nil {
		return nil, process{}, errors.Join(ownwords.Errorf("the socket %s is %w: %w", path, errNotParent, err), conn.Close())
	}
	return conn, parent, nil
}
