package run

import (
	"slices"

	"golang.org/x/sys/unix"
)

// The offsets of what seccomp passes to a filter about a system call.
const (
	dataCall = 0  // its number
	dataArch = 4  // the processor whose numbers these are
	dataArg0 = 16 // the low half of the first argument; both processors are little-endian
	dataArg1 = 24
	dataArg2 = 32
	dataArg3 = 40
)

const allowed = unix.SECCOMP_RET_ALLOW

// failed is the answer to a call that fails with an error.
func failed(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// makeFilter returns the filter of system calls that the rules need, or nil. A call that a
// library only tries fails with the error for a kernel that does not have it.
func makeFilter(r *rules) []unix.SockFilter {
	if seccompArch == 0 || !r.Network {
		return nil
	}
	f := []unix.SockFilter{load(dataArch)}
	f = append(f, unless(failed(unix.EPERM), seccompArch)...) // a call of another processor, whose numbers differ
	f = append(f, load(dataCall))
	if seccompX32 != 0 {
		f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: seccompX32, Jf: 1}, answer(failed(unix.EPERM)))
	}
	// A ring would make calls for the program that no filter sees; the keys of the
	// user's session are not the run's.
	f = append(f, when(failed(unix.ENOSYS), unix.SYS_IO_URING_SETUP, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY)...)
	if r.FilesAlone {
		f = append(f, when(failed(unix.EPERM), slices.Concat(seccompFiles, seccompShared)...)...)
	}
	f = appendFor(f, unix.SYS_SOCKET, filterSocket(!r.NoSockets))
	if r.NoSockets {
		f = appendFor(f, unix.SYS_SOCKETPAIR, filterPair())
	}
	// A send with this flag connects, and Landlock does not see it.
	f = appendFor(f, unix.SYS_SENDTO, filterFastOpen(dataArg3))
	f = appendFor(f, unix.SYS_SENDMSG, filterFastOpen(dataArg2))
	f = appendFor(f, unix.SYS_SENDMMSG, filterFastOpen(dataArg3))
	f = appendFor(f, unix.SYS_SETSOCKOPT, filterOption())
	return append(f, answer(allowed))
}

// filterSocket allows sockets for TCP, whose ports Landlock decides on, and for UDP, those by which a
// program asks for the addresses of this machine, and perhaps unix sockets. Others may connect by TCP
// without Landlock, as those of MPTCP and SMC do, or reach the host of a virtual machine.
func filterSocket(withUnix bool) []unix.SockFilter {
	var families []uint32
	if withUnix {
		families = append(families, unix.AF_UNIX)
	}
	addresses := slices.Concat([]unix.SockFilter{load(dataArg2)}, when(allowed, unix.NETLINK_ROUTE), []unix.SockFilter{answer(failed(unix.EPROTONOSUPPORT))})
	return slices.Concat(
		[]unix.SockFilter{load(dataArg0)},
		when(allowed, families...),
		appendFor(nil, unix.AF_NETLINK, addresses),
		unless(failed(unix.EAFNOSUPPORT), unix.AF_INET, unix.AF_INET6),
		[]unix.SockFilter{load(dataArg1), withoutFlags},
		unless(failed(unix.EPROTONOSUPPORT), unix.SOCK_STREAM, unix.SOCK_DGRAM),
		[]unix.SockFilter{load(dataArg2)},
		unless(failed(unix.EPROTONOSUPPORT), 0, unix.IPPROTO_TCP, unix.IPPROTO_UDP),
		[]unix.SockFilter{answer(allowed)},
	)
}

// filterPair forbids pairs of sockets for datagrams. A socket of such a pair can send to any other
// socket, and connect to it; a socket of a pair for a stream cannot. A raw socket is one for datagrams
// too.
func filterPair() []unix.SockFilter {
	return slices.Concat(
		[]unix.SockFilter{load(dataArg1), withoutFlags},
		unless(failed(unix.EPERM), unix.SOCK_STREAM, unix.SOCK_SEQPACKET),
		[]unix.SockFilter{answer(allowed)},
	)
}

// filterFastOpen forbids to connect by sending.
func filterFastOpen(flags uint32) []unix.SockFilter {
	return []unix.SockFilter{
		load(flags),
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.MSG_FASTOPEN, Jf: 1},
		answer(failed(unix.EOPNOTSUPP)),
		answer(allowed),
	}
}

// filterOption forbids to make a socket for TCP one of another protocol.
func filterOption() []unix.SockFilter {
	return slices.Concat(
		[]unix.SockFilter{load(dataArg1)},
		unless(allowed, unix.SOL_TCP),
		[]unix.SockFilter{load(dataArg2)},
		when(failed(unix.ENOPROTOOPT), unix.TCP_ULP),
		[]unix.SockFilter{answer(allowed)},
	)
}

// withoutFlags takes the flags off the type of a socket.
var withoutFlags = unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf}

// appendFor adds what answers one call, in each case.
func appendFor(f []unix.SockFilter, call uint32, block []unix.SockFilter) []unix.SockFilter {
	f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: uint8(len(block))})
	return append(f, block...)
}

// when answers if what was loaded is one of the values.
func when(with uint32, values ...uint32) (f []unix.SockFilter) {
	for _, v := range values {
		f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: v, Jf: 1}, answer(with))
	}
	return f
}

// unless answers if what was loaded is none of the values.
func unless(with uint32, values ...uint32) (f []unix.SockFilter) {
	for i, v := range values {
		f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: v, Jt: uint8(len(values) - i)})
	}
	return append(f, answer(with))
}

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func answer(with uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with}
}
