package run

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
)

func listConfinements() []Confinement { return []Confinement{Bubblewrap, Landlock} }

// systemFiles are what programs need of the system, without what is about its users.
var systemFiles = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/current-system",
	"/etc/alternatives", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies", "/etc/fonts", "/etc/gai.conf",
	"/etc/group", "/etc/host.conf", "/etc/hosts", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/locale.alias",
	"/etc/locale.conf", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/pki/ca-trust", "/etc/pki/tls/certs",
	"/etc/pki/tls/cert.pem", "/etc/protocols", "/etc/resolv.conf", "/etc/services", "/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf", "/etc/terminfo", "/etc/timezone",
	"/etc/static/ssl", "/etc/static/nsswitch.conf",
	"/sys/devices/system/cpu", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage",
}

// deviceFiles are the devices that a run under Landlock may use.
var deviceFiles = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

func checkConfinement(c Confinement) error {
	if c == Bubblewrap {
		_, err := findBubblewrap()
		return err
	}
	return checkLandlock()
}

// checkSockets returns an error if a run under c cannot be given some unix sockets.
func (c Confinement) checkSockets() error { return c.checkSocketsAt(landlockVersion()) }

// checkSocketsAt does what checkSockets does, for a kernel with a version of Landlock. Bubblewrap
// hides the sockets that are files; abstract ones, as that of a desktop's X11 server, only Landlock does.
func (c Confinement) checkSocketsAt(landlock int) error {
	switch {
	case c == Landlock && landlock < landlockSockets:
		return errors.New("landlock of this kernel cannot let a run have some unix sockets without letting it have all: install bubblewrap, on Linux 6.12 or later")
	case c == Bubblewrap && landlock < landlockScope:
		return errors.New("this kernel cannot keep abstract unix sockets, as that of X11, from a run that has some unix sockets: use Linux 6.12 or later with Landlock, or leave out --acp")
	}
	return nil
}

// findBubblewrap returns the program bwrap of the system.
func findBubblewrap() (string, error) {
	for _, dir := range filepath.SplitList(SystemPath) {
		if path, err := exec.LookPath(filepath.Join(dir, "bwrap")); err == nil {
			return path, nil
		}
	}
	return "", errors.New("the program bwrap is not installed: install bubblewrap")
}

// confine puts into o what keeps the run to its files.
func (s *Spec) confine(o *order, keep []string) error {
	switch s.Confinement {
	case Bubblewrap:
		bwrap, err := findBubblewrap()
		if err != nil {
			return err
		}
		o.Argv = append(s.makeBubblewrapArgs(bwrap, keep), s.Argv...)
		o.Dir = "/"
		// Under these rules a bwrap with setuid does not become root: it needs a namespace of users.
		o.Rules = rules{Scope: true, NoSockets: s.Sockets == ""}
		s.closeNetwork(&o.Rules)
	case Landlock:
		if err := checkLandlock(); err != nil {
			return err
		}
		o.Rules = rules{
			Files: true, Scope: true, DropCapabilities: true, FilesAlone: true,
			NoSockets: s.Sockets == "" && landlockVersion() < landlockSockets,
			Read:      append(append([]string{"/proc"}, systemFiles...), s.Read...),
			Write:     s.Write, Devices: deviceFiles, Sockets: s.Sockets,
		}
		s.closeNetwork(&o.Rules)
	case Outside, None:
	default:
		return fmt.Errorf("%q is no confinement of this system", s.Confinement)
	}
	return nil
}

// closeNetwork closes to a run what listens on this machine, as far as the kernel can.
func (s *Spec) closeNetwork(r *rules) {
	r.Network, r.FreePorts = true, s.FreePorts
	r.Ports = slices.Concat(PortsOfAll, s.Ports)
}

// ClosesLoopback reports whether runs under c reach only those TCP ports of this machine that their
// Spec names.
func (c Confinement) ClosesLoopback() bool {
	return (c == Bubblewrap || c == Landlock) && landlockVersion() >= landlockTCP && seccompArch != 0
}

// makeBubblewrapArgs returns the command line of bwrap up to the program.
func (s *Spec) makeBubblewrapArgs(bwrap string, keep []string) []string {
	args := []string{bwrap,
		"--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--die-with-parent", "--new-session", "--cap-drop", "ALL",
		"--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/dev/shm",
	}
	for _, path := range systemFiles {
		args = append(args, "--ro-bind-try", path, path)
	}
	for _, path := range s.Read {
		args = append(args, "--ro-bind-try", path, path)
	}
	for _, path := range s.Write {
		args = append(args, "--bind", path, path)
	}
	for _, path := range keep { // a place where something is mounted cannot be renamed or removed either
		args = append(args, "--ro-bind", path, path)
	}
	if s.Sockets != "" {
		args = append(args, "--ro-bind", s.Sockets, s.Sockets)
	}
	return append(args, "--remount-ro", "/", "--chdir", s.Dir, "--")
}
