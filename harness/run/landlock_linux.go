package run

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rules are what a process takes upon itself before it becomes the program. They hold for all
// that it starts, for ever.
type rules struct {
	Files            bool     `json:"files,omitzero"` // Landlock: Read, Write, Devices and Sockets, and no other file
	Read             []string `json:"read,omitzero"`
	Write            []string `json:"write,omitzero"`
	Devices          []string `json:"devices,omitzero"`
	Sockets          string   `json:"sockets,omitzero"`
	Scope            bool     `json:"scope,omitzero"`             // Landlock: no signals to, and no abstract sockets of, processes outside
	Network          bool     `json:"network,omitzero"`           // TCP only to Ports, UDP, and of other sockets only unix ones
	Ports            []uint16 `json:"ports,omitzero"`             // to which it may connect, by TCP
	FreePorts        bool     `json:"free_ports,omitzero"`        // and to those that the kernel gives to who names none; and to take them
	NoSockets        bool     `json:"no_sockets,omitzero"`        // no unix sockets
	FilesAlone       bool     `json:"files_alone,omitzero"`       // of files only what Landlock decides on; nothing that processes of one user share
	DropCapabilities bool     `json:"drop_capabilities,omitzero"` // none, though the user is root
}

// Landlock versions in which something came.
const (
	landlockTruncate = 3 // without it a file that may not be written can be emptied
	landlockTCP      = 4 // connecting to a TCP port, and taking one
	landlockIoctl    = 5
	landlockScope    = 6
	landlockSockets  = 9 // connecting to a unix socket by its path
)

const (
	accessRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR

	// accessFile are the rights that a file can have; the others are of folders.
	accessFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
)

// handledAccess returns the rights that Landlock of a version decides on.
func handledAccess(version int) uint64 {
	access := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1) // those of version 1
	access |= unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	if version >= landlockIoctl {
		access |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= landlockSockets {
		access |= unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	}
	return access
}

// landlockVersion returns the version of Landlock that the kernel has, or 0.
func landlockVersion() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// checkLandlock returns an error if Landlock here does not confine a run.
func checkLandlock() error {
	switch v := landlockVersion(); {
	case v == 0:
		return errors.New("the kernel does not have it: install bubblewrap, or use a kernel with Landlock")
	case v < landlockTruncate:
		return fmt.Errorf("the kernel has version %d of it, and %d is needed: install bubblewrap", v, landlockTruncate)
	case v < landlockSockets && seccompArch == 0:
		return errors.New("unix sockets cannot be closed to a run on this processor: install bubblewrap")
	}
	return nil
}

// apply makes the rules hold for the calling thread, which has to become the program by exec.
func (r *rules) apply() error {
	if r.DropCapabilities {
		if err := dropCapabilities(); err != nil {
			return fmt.Errorf("capabilities: %w", err)
		}
	}
	filter := makeFilter(r)
	if !r.Files && !r.Scope && !r.Network {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := r.restrictByLandlock(); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	if len(filter) > 0 {
		prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
			return fmt.Errorf("seccomp: %w", errno)
		}
	}
	return nil
}

func (r *rules) restrictByLandlock() error {
	version := landlockVersion()
	attr := unix.LandlockRulesetAttr{}
	if r.Files {
		attr.Handled_access_fs = handledAccess(version)
	}
	if r.Network && version >= landlockTCP {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP | unix.LANDLOCK_ACCESS_NET_BIND_TCP
	}
	if r.Scope && version >= landlockScope {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	if attr.Handled_access_fs == 0 && attr.Handled_access_net == 0 && attr.Scoped == 0 {
		return nil
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("create: %w", errno)
	}
	defer unix.Close(int(fd))
	if r.Files {
		all := attr.Handled_access_fs
		for _, path := range r.Read {
			if err := addPathRule(int(fd), path, accessRead, false); err != nil {
				return err
			}
		}
		for _, path := range r.Write {
			if err := addPathRule(int(fd), path, all&^unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX, true); err != nil {
				return err
			}
		}
		for _, path := range r.Devices {
			device := uint64(unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
			if err := addPathRule(int(fd), path, device&all, false); err != nil {
				return err
			}
		}
		if r.Sockets != "" {
			if err := addPathRule(int(fd), r.Sockets, unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX&all, true); err != nil {
				return err
			}
		}
	}
	if attr.Handled_access_net != 0 {
		if err := r.addPortRules(int(fd)); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("restrict: %w", errno)
	}
	return nil
}

// addPortRules allows TCP ports. A run takes no port but a free one: a port of the owner's that is not
// in use at the moment would get what is meant for the owner's service.
func (r *rules) addPortRules(ruleset int) error {
	const connect, bind = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, unix.LANDLOCK_ACCESS_NET_BIND_TCP
	if err := addPortRule(ruleset, 0, bind); err != nil { // the kernel chooses a free one
		return err
	}
	for _, port := range r.Ports {
		if err := addPortRule(ruleset, int(port), connect); err != nil {
			return err
		}
	}
	if !r.FreePorts {
		return nil
	}
	first, last, err := readFreePorts()
	if err != nil {
		return err
	}
	for port := first; port <= last; port++ {
		if err := addPortRule(ruleset, port, connect|bind); err != nil {
			return err
		}
	}
	return nil
}

// readFreePorts returns the first and the last port that the kernel gives to programs that name none.
func readFreePorts() (first, last int, err error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, 0, fmt.Errorf("free ports: %w", err)
	}
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
		return 0, 0, fmt.Errorf("free ports: %q: %w", text, err)
	}
	return first, last, nil
}

// addPortRule allows access to a TCP port, whatever the address.
func addPortRule(ruleset, port int, access uint64) error {
	attr := struct{ access, port uint64 }{access, uint64(port)} // struct landlock_net_port_attr
	const ruleNetPort = 2                                       // LANDLOCK_RULE_NET_PORT
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), ruleNetPort, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("port %d: %w", port, errno)
	}
	return nil
}

// addPathRule allows access to a file, or to all below a folder. A path that is missing is an
// error if it is needed.
func addPathRule(ruleset int, path string, access uint64, needed bool) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		if !needed && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOTDIR)) {
			return nil
		}
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= accessFile
	}
	if access == 0 {
		return nil
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("%s: %w", path, errno)
	}
	return nil
}

// dropCapabilities makes the process keep none over an exec, although its user is root.
func dropCapabilities() error {
	const noRoot = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 // NOROOT and NO_SETUID_FIXUP, locked, and KEEP_CAPS locked off
	if os.Geteuid() != 0 && !hasCapabilities() {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot, 0, 0, 0); err != nil {
		return fmt.Errorf("securebits: %w", err)
	}
	for c := uintptr(0); c < 64; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("drop %d: %w", c, err)
		}
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&head, &none[0])
}

// hasCapabilities reports whether the process has capabilities. It is true if the system does not say,
// so that they are dropped.
func hasCapabilities() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if unix.Capget(&head, &has[0]) != nil {
		return true
	}
	return has[0].Permitted|has[1].Permitted|has[0].Inheritable|has[1].Inheritable != 0
}
