package run

import "golang.org/x/sys/unix"

// What seccomp tells a filter about a system call, by its place.
const (
	dataCall = 0  // its number
	dataArch = 4  // the processor whose numbers these are
	dataArg0 = 16 // the low half of the first argument; both processors are little-endian
	dataArg1 = 24 // that of the second
)

// makeFilter returns the filter of system calls that the rules need, nil if they need none. A
// forbidden call fails with EPERM; what a library only tries fails with ENOSYS.
func makeFilter(r *rules) []unix.SockFilter {
	if seccompArch == 0 || !r.NoSockets && !r.NoModes {
		return nil
	}
	denied, unknown := uint32(unix.SECCOMP_RET_ERRNO|unix.EPERM), uint32(unix.SECCOMP_RET_ERRNO|unix.ENOSYS)
	f := []unix.SockFilter{
		load(dataArch),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: seccompArch, Jt: 1},
		answer(denied), // a call of another processor's, which goes by other numbers
		load(dataCall),
	}
	if seccompX32 != 0 {
		f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: seccompX32, Jf: 1}, answer(denied))
	}
	// What makes a ring does calls for the program that no filter sees; the keys of the
	// user's session are not the run's.
	f = appendAnswerTo(f, unknown, unix.SYS_IO_URING_SETUP, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY)
	if r.NoModes {
		f = appendAnswerTo(f, denied, seccompModes...)
	}
	if r.NoSockets {
		f = appendPairRule(f, denied)
		f = append(f,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SOCKET, Jf: 3},
			load(dataArg0),
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.AF_UNIX, Jf: 1},
			answer(denied),
		)
	}
	return append(f, answer(unix.SECCOMP_RET_ALLOW))
}

// sockTypeMask takes the flags off the type of a socket.
const sockTypeMask = 0xf

// appendPairRule forbids pairs of sockets for datagrams. A socket of such a pair can send to any other
// socket, and connect to it; a socket of a pair for a stream cannot. A raw socket is one for datagrams
// too.
func appendPairRule(f []unix.SockFilter, denied uint32) []unix.SockFilter {
	return append(f,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SOCKETPAIR, Jf: 6},
		load(dataArg1),
		unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: sockTypeMask},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SOCK_STREAM, Jt: 1},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SOCK_SEQPACKET, Jf: 1},
		answer(unix.SECCOMP_RET_ALLOW),
		answer(denied),
	)
}

func appendAnswerTo(f []unix.SockFilter, with uint32, calls ...uint32) []unix.SockFilter {
	for _, call := range calls {
		f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1}, answer(with))
	}
	return f
}

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func answer(with uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with}
}
