package doctor

import (
	"fmt"
	"os"
	"time"

	"github.com/acpd/acpd/internal/statedir"
)

// certificateEnd is when certificates of daemons end: package identity makes them so.
var certificateEnd = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// clockSlack is how far a file may be ahead of the clock: file systems have clocks of their own.
const clockSlack = time.Minute

// examineClock compares the clock with what must lie before it, and asks the kernel whether
// anything keeps it right.
func (x *examination) examineClock() {
	now := x.Machine.Now()
	info, err := os.Stat(x.filePath(statedir.KeyName))
	synced, known := x.Machine.IsClockSynced()
	shows := "the clock shows " + now.UTC().Format(time.RFC3339)
	switch {
	case now.Unix() < 0 || now.After(certificateEnd):
		x.add("clock.wrong", "clock", shows+", at which no daemon's certificate is valid", "set the clock, and keep it synchronised")
	case err == nil && info.ModTime().After(now.Add(clockSlack)):
		x.add("clock.wrong", "clock", fmt.Sprintf("%s, before identity.key was written (%s)", shows, info.ModTime().UTC().Format(time.RFC3339)), "set the clock, and keep it synchronised")
	case known && !synced:
		x.add("clock.unsynchronised", "clock", shows+", and the kernel says that nothing synchronises it: deadlines of delegations and times in lists may be wrong", "run chrony, ntpd or systemd-timesyncd, here or on the host of this container")
	case known:
		x.add("clock.ok", "clock", shows+", and is synchronised", "")
	default:
		x.add("clock.ok", "clock", shows+"; this system does not say whether it is synchronised", "")
	}
}
