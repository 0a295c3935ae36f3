package doctor

import (
	"io/fs"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/internal/statedir"
)

// ThisMachine returns the machine on which this process runs.
func ThisMachine() Machine {
	return Machine{
		OS: runtime.GOOS, UID: os.Geteuid(), OwnerOf: ownerOf, Now: time.Now, MeasureSpace: disk.MeasureSpace, ListInterfaces: net.Interfaces,
		HearMulticast: hearMulticast, IsClockSynced: isClockSynced, ListenUDP: listenUDP,
		MaxDescriptors: readMaxDescriptors, MaxSocketPath: statedir.MaxSocketPath,
	}
}

// readMaxDescriptors returns how many descriptors this process may have, 0 if that is not known.
func readMaxDescriptors() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Max), 1<<20))
}

func ownerOf(info fs.FileInfo) int {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(stat.Uid)
}
