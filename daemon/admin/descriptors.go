package admin

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

// Descriptors is how many of this process's descriptors may serve others.
type Descriptors struct {
	Peers int // what peers cause to be open, all together: at most half
	Local int // connections of one listener
}

// DivideDescriptors divides a limit so that neither peers nor programs of this machine take
// the descriptors that the daemon needs.
func DivideDescriptors(limit int) Descriptors {
	free := limit - min(ownDescriptors, limit/2)
	return Descriptors{Peers: free / 2, Local: max(free/2/localListeners, 1)}
}

// ReadDescriptorLimit returns how many descriptors this process may have. Go has raised
// the soft limit to the hard one when it started.
func ReadDescriptorLimit() int {
	const most = 1 << 20 // what the kernel allows unless its administrator raises it
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return ownDescriptors
	}
	return int(min(uint64(limit.Cur), most))
}
