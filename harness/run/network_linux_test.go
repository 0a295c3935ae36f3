package run

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attempt runs the program "try" and returns what came of each attempt.
func attempt(t *testing.T, s Spec, attempts ...string) map[string]string {
	t.Helper()
	s.Argv = append(s.Argv[:2:2], append([]string{"try"}, attempts...)...)
	var out bytes.Buffer
	s.Stdout = &out
	if exit, err := Run(t.Context(), s); err != nil || exit.Code != 0 {
		t.Fatalf("%+v, %v", exit, err)
	}
	became := make(map[string]string)
	for line := range strings.Lines(out.String()) {
		what, outcome, _ := strings.Cut(strings.TrimSpace(line), ": ")
		became[what] = outcome
	}
	if len(became) != len(attempts)/2 {
		t.Fatalf("%d attempts: %s", len(attempts)/2, out.String())
	}
	return became
}

// listenTCP listens at an address and returns it.
func listenTCP(t *testing.T, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func portOf(l net.Listener) uint16 { return uint16(l.Addr().(*net.TCPAddr).Port) }

// listenBelowFreePorts listens at a port that the system gives to nobody who does not name it, as
// services do, and returns it.
func listenBelowFreePorts(t *testing.T) net.Listener {
	t.Helper()
	first, _, err := readFreePorts()
	if err != nil {
		t.Fatal(err)
	}
	for port := first - 1; port > first-1000 && port > 0; port-- {
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			t.Cleanup(func() { l.Close() })
			return l
		}
	}
	t.Fatal("no port below those that the system gives is free")
	return nil
}

// A run reaches what listens on this machine only at the ports that it is given, however it connects,
// and takes no port at which a service of the user's could be.
// holds: security.md#headless-runs
func TestLoopbackIsClosed(t *testing.T) {
	each(t, func(t *testing.T, c Confinement) {
		if c.Confines() && !c.ClosesLoopback() {
			if t.Logf("not tested: it needs Linux 6.7"); os.Getenv("CI") != "" {
				t.Fail()
			}
			return
		}
		free, service := listenTCP(t, "127.0.0.1:0"), listenBelowFreePorts(t)
		six := listenTCP(t, "[::1]:0")
		gone := listenBelowFreePorts(t)
		gone.Close()
		other := listenTCP(t, "127.0.0.1:0")
		other.Close()
		at := func(l net.Listener) string { return l.Addr().String() }
		attempts := []string{"bind", "127.0.0.1:0", "bind", at(other), "bind", at(gone), "tcp", at(six)}
		for _, l := range []net.Listener{free, service} {
			for _, how := range []string{"tcp", "mptcp", "fast sendto", "fast sendmsg", "fast sendmmsg"} {
				attempts = append(attempts, how, at(l))
			}
		}
		for _, given := range []struct {
			what  string
			ports []uint16
			free  bool
			open  []string // what works
		}{
			{"nothing", nil, false, []string{"bind 127.0.0.1:0"}},
			{"a port", []uint16{portOf(service)}, false, []string{"bind 127.0.0.1:0", "tcp " + at(service)}},
			{"free ports", nil, true, []string{"bind 127.0.0.1:0", "bind " + at(other), "tcp " + at(free), "tcp " + at(six)}},
		} {
			t.Run(given.what, func(t *testing.T) {
				s, _ := spec(t, c)
				s.Ports, s.FreePorts = given.ports, given.free
				became := attempt(t, s, attempts...)
				if !c.Confines() {
					if became["tcp "+at(service)] != "yes" || became["tcp "+at(free)] != "yes" || strings.HasSuffix(became["bind "+at(gone)], unix.EACCES.Error()) {
						t.Errorf("the test finds nothing where nothing confines: %v", became)
					}
					return
				}
				for _, what := range given.open {
					// A port that was free may be another process's by now.
					if became[what] != "yes" && !strings.HasSuffix(became[what], unix.EADDRINUSE.Error()) {
						t.Errorf("%s: %s", what, became[what])
					}
					delete(became, what)
				}
				for what, outcome := range became {
					if outcome == "yes" {
						t.Errorf("%s: %s", what, outcome)
					}
				}
			})
		}
	})
}

// A run has sockets for TCP and UDP and those by which it asks for the addresses of this machine, and
// no other: such as connect without that the kernel looks at their port.
// holds: security.md#headless-runs
func TestSocketsOfARun(t *testing.T) {
	each(t, func(t *testing.T, c Confinement) {
		socket := func(family, kind, protocol int) string { return fmt.Sprintf("%d,%d,%d", family, kind, protocol) }
		const familySMC = 43
		wanted := map[string]string{
			socket(unix.AF_INET, unix.SOCK_STREAM, 0): "yes", socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP): "yes",
			socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDP): "yes", socket(unix.AF_INET6, unix.SOCK_DGRAM, 0): "yes",
			socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE):     "yes",
			socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG): unix.EPROTONOSUPPORT.Error(),
			socket(unix.AF_UNIX, unix.SOCK_STREAM, 0):                      unix.EAFNOSUPPORT.Error(),
			socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0):                     unix.EAFNOSUPPORT.Error(),
			socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0):                    unix.EAFNOSUPPORT.Error(),
			socket(unix.AF_PACKET, unix.SOCK_RAW, 0):                       unix.EAFNOSUPPORT.Error(),
			socket(familySMC, unix.SOCK_STREAM, 0):                         unix.EAFNOSUPPORT.Error(),
			socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP):     unix.EPROTONOSUPPORT.Error(),
			socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP):      unix.EPROTONOSUPPORT.Error(),
			socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP):          unix.EPROTONOSUPPORT.Error(),
			socket(unix.AF_INET, unix.SOCK_SEQPACKET, 0):                   unix.EPROTONOSUPPORT.Error(),
			socket(unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6):    unix.EPROTONOSUPPORT.Error(),
			socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE):    unix.EPROTONOSUPPORT.Error(),
			socket(unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP):    unix.EPROTONOSUPPORT.Error(),
			socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 1000): unix.EPROTONOSUPPORT.Error(),
		}
		if c == Landlock && landlockVersion() >= landlockSockets { // which closes each by itself
			delete(wanted, socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))
		}
		attempts := []string{"ulp", "smc"}
		for what := range wanted {
			attempts = append(attempts, "socket", what)
		}
		s, _ := spec(t, c)
		became := attempt(t, s, attempts...)
		if !c.Confines() {
			return
		}
		for what, want := range wanted {
			if got := became["socket "+what]; strings.TrimPrefix(got, "no: ") != want {
				t.Errorf("socket %s: %s, want %s", what, got, want)
			}
		}
		if got := became["ulp smc"]; got != "no: "+unix.ENOPROTOOPT.Error() {
			t.Errorf("a socket becomes one of SMC: %s", got)
		}
	})
}

// A run that has some unix sockets is kept from all else as another one is.
// holds: security.md#headless-runs
func TestGivenSocketsOpenNothingElse(t *testing.T) {
	each(t, func(t *testing.T, c Confinement) {
		if !c.Confines() || !c.HasSockets() {
			return
		}
		l := listenTCP(t, "127.0.0.1:0")
		dir := realDir(t)
		given := listenUnix(t, filepath.Join(dir, "given.sock"))
		s, _ := spec(t, c)
		s.Sockets = dir
		became := attempt(t, s, "connect", given, "ring", "", "keys", "", "tcp", l.Addr().String(), "mptcp", l.Addr().String())
		for what, outcome := range became {
			if (outcome == "yes") != strings.HasPrefix(what, "connect ") {
				t.Errorf("%s: %s", what, outcome)
			}
		}
	})
}

// What Landlock does not decide on is closed: times, modes and attributes of files that the run may
// read, and what all processes of the user share by number.
// holds: security.md#headless-runs
func TestWhatLandlockDoesNotSee(t *testing.T) {
	each(t, func(t *testing.T, c Confinement) {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		s, _ := spec(t, c)
		file := filepath.Join(realDir(t), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.Read = append(s.Read, file)
		shared := strconv.Itoa(id)
		attempts := []string{"chmod", file, "fchmod", file, "fchown", file, "utimes", file, "futimes", file, "setxattr", file, "fsetxattr", file,
			"shmat", shared, "shmget", "", "msgget", "", "semget", ""}
		became := attempt(t, s, attempts...)
		for what, outcome := range became {
			private := c == Bubblewrap && (strings.HasPrefix(what, "shmget") || strings.HasPrefix(what, "msgget") || strings.HasPrefix(what, "semget"))
			if c.Confines() && outcome == "yes" && !private { // under bubblewrap they are the run's own
				t.Errorf("%s: %s", what, outcome)
			}
		}
		if !c.Confines() && (became["fchmod "+file] != "yes" || became["futimes "+file] != "yes" || became["shmat "+shared] != "yes") {
			t.Errorf("the test finds nothing where nothing confines: %v", became)
		}
	})
}

// trySystem tries a system call of which no file is written.
func trySystem(what, with string) error {
	var errno syscall.Errno
	switch what {
	case "ring": // which makes calls that no filter sees
		var params [120]byte
		var fd uintptr
		if fd, _, errno = unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0); errno == 0 {
			unix.Close(int(fd))
		}
	case "keys": // of the user's session
		_, _, errno = unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2), 0) // KEY_SPEC_SESSION_KEYRING
	case "socket": // by family, type and protocol
		var family, kind, protocol int
		fmt.Sscanf(with, "%d,%d,%d", &family, &kind, &protocol)
		fd, err := unix.Socket(family, kind, protocol)
		unix.Close(fd)
		return err
	case "ulp":
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.SetsockoptString(fd, unix.SOL_TCP, unix.TCP_ULP, with)
	case "mptcp", "fast sendto", "fast sendmsg", "fast sendmmsg":
		return tryToConnect(what, with)
	case "fchmod", "fchown", "futimes", "fsetxattr", "utimes", "setxattr":
		return tryToChange(what, with)
	case "shmget":
		_, err := unix.SysvShmGet(1, 4096, unix.IPC_CREAT|0o600)
		return err
	case "shmat":
		id, _ := strconv.Atoi(with)
		_, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
		return err
	case "msgget":
		_, _, errno = unix.Syscall(unix.SYS_MSGGET, unix.IPC_PRIVATE, unix.IPC_CREAT|0o600, 0)
	case "semget":
		_, _, errno = unix.Syscall(unix.SYS_SEMGET, unix.IPC_PRIVATE, 1, unix.IPC_CREAT|0o600)
	default:
		return fmt.Errorf("what is %q?", what)
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// tryToConnect connects by TCP in a way of which Landlock does not know the port.
func tryToConnect(how, addr string) error {
	protocol := 0
	if how == "mptcp" {
		protocol = unix.IPPROTO_MPTCP
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	to, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return err
	}
	sockaddr := &unix.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())}
	text := []byte("x")
	switch how {
	case "mptcp":
		return unix.Connect(fd, sockaddr)
	case "fast sendto":
		return unix.Sendto(fd, text, unix.MSG_FASTOPEN, sockaddr)
	case "fast sendmsg":
		return unix.Sendmsg(fd, text, nil, sockaddr, unix.MSG_FASTOPEN)
	}
	raw := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: uint16(to.Port>>8 | to.Port<<8), Addr: sockaddr.Addr}
	part := unix.Iovec{Base: &text[0]}
	part.SetLen(1)
	var message struct {
		unix.Msghdr
		sent uint32
	}
	message.Name, message.Namelen = (*byte)(unsafe.Pointer(&raw)), uint32(unsafe.Sizeof(raw))
	message.Iov = &part
	message.SetIovlen(1)
	if _, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&message)), 1, unix.MSG_FASTOPEN, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// tryToChange changes what is about a file, for which it is open to be read, or which it only names.
func tryToChange(what, path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	switch what {
	case "fchmod":
		return unix.Fchmod(fd, 0o777)
	case "fchown":
		return unix.Fchown(fd, unix.Getuid(), unix.Getgid())
	case "futimes":
		return unix.Futimes(fd, []unix.Timeval{{}, {}})
	case "fsetxattr":
		return unix.Fsetxattr(fd, "user.acpd", []byte("x"), 0)
	case "utimes":
		return unix.Utimes(path, []unix.Timeval{{}, {}})
	}
	return unix.Setxattr(path, "user.acpd", []byte("x"), 0)
}
