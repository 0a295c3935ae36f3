package daemon

import "golang.org/x/sys/unix"

const (
	// ownDescriptors are kept for what the daemon itself opens: about 20 are always
	// open, each reader of the store has three, and files that are being replaced
	// have one. A process that may have less than twice as many keeps half.
	ownDescriptors = 64

	// localListeners share what is left to programs of this machine: acp.sock and
	// http.sock, the same two of agents, channels.listen, and metrics.listen.
	localListeners = 6
)

// descriptors says how many of this process's descriptors may serve others.
type descriptors struct {
	peers int // what peers cause to be open, all together: at most half
	local int // connections of one listener
}

// divideFileDescriptors divides a limit so that neither peers nor programs of this machine take
// the descriptors that the daemon needs.
func divideFileDescriptors(limit int) descriptors {
	free := limit - min(ownDescriptors, limit/2)
	return descriptors{peers: free / 2, local: max(free/2/localListeners, 1)}
}

// readFileDescriptorLimit returns how many descriptors this process may have. Go has raised
// the soft limit to the hard one when it started.
func readFileDescriptorLimit() int {
	const most = 1 << 20 // what the kernel gives without a word of its administrator
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return ownDescriptors
	}
	return int(min(uint64(limit.Cur), most))
}
