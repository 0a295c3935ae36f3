package ui

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readerCheck is how often a reader is checked whose end the system does not report.
const readerCheck = time.Second

// WatchReader returns a channel that is closed when standard output is a pipe that nobody reads any more,
// before anything is written to it: as tail -f of GNU does it, so that a pipe to head ends. It watches until
// ctx ends. Where standard output is no pipe the channel is nil.
func (t *Terminal) WatchReader(ctx context.Context) <-chan struct{} {
	f, ok := t.outFile()
	if !ok {
		return nil
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return nil
	}
	gone := make(chan struct{})
	go func() {
		fds := []unix.PollFd{{Fd: int32(f.Fd())}} // poll(2) always reports an end that nobody reads
		for ctx.Err() == nil {
			n, err := unix.Poll(fds, int(readerCheck.Milliseconds()))
			if err != nil && err != unix.EINTR {
				return
			}
			if n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
				close(gone)
				return
			}
		}
	}()
	return gone
}
