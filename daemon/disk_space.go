package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/kinds"
)

// diskSpace refuses peers if a disk on which this daemon writes is almost full.
type diskSpace struct {
	state   *disk.Floor // of the state directory
	mail    *disk.Floor // of the mailboxes
	reserve *disk.Reserve
	refused *budget.Account
}

// openDiskSpace makes the floors and the reserve. The state directory is locked.
func (d *Daemon) openDiskSpace(least uint64) {
	measure := d.options.measure
	d.space = diskSpace{
		state:   disk.NewFloor(string(d.home), least, measure),
		mail:    disk.NewFloor(d.mailHome, least, measure),
		reserve: disk.OpenReserve(d.home.filePath(statedir.ReserveName), measure),
		refused: d.budget.OpenAccount(budget.FreeSpace),
	}
}

// checkRoom returns an error if the state directory has no space for what a peer sends.
func (s *diskSpace) checkRoom(from identity.ID) error {
	if !s.state.IsLow() {
		return nil
	}
	return s.refusePeer(from)
}

// checkMailRoom returns an error if there is no space for a peer's mail.
func (s *diskSpace) checkMailRoom(from identity.ID) error {
	if !s.mail.IsLow() {
		return s.checkRoom(from)
	}
	return s.refusePeer(from)
}

const (
	measurePause     = time.Second            // between measurements
	fullDiskLogPause = time.Minute            // for so long there is enough space before the log says so
	measureWait      = 100 * time.Millisecond // for a measurement that a caller waits for
)

// watchDiskSpace measures the disks until ctx ends, and logs when one has become too full for
// what peers send, and when it has space again.
func (d *Daemon) watchDiskSpace(ctx context.Context) error {
	ticker := time.NewTicker(measurePause)
	defer ticker.Stop()
	var full bool // the log says so
	var seen time.Time
	for ctx.Err() == nil {
		d.space.mail.Measure()
		d.space.state.Measure()
		switch warning := d.describeFullDisk(); {
		case warning != "":
			seen = time.Now()
			if !full {
				d.log.Warn("the disk has no room for what peers send", "warning", warning)
			}
			full = true
		case full && time.Since(seen) >= fullDiskLogPause:
			full = false
			d.log.Info("the disk has space again: what peers send is taken")
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return nil
}

// measureDiskSpace measures the disks. It blocks for measureWait at most, because a disk may
// stand still.
func (d *Daemon) measureDiskSpace(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, measureWait)
	d.calls.Go(func() {
		defer cancel()
		d.space.mail.Measure()
		d.space.state.Measure()
	})
	<-ctx.Done()
}

// describeFullDisk returns a warning if a disk had too little room for what peers send
// when it was measured last, else "". It never blocks.
func (d *Daemon) describeFullDisk() string {
	path, what := string(d.home), "what peers send"
	short, free, bound := d.space.state.LastMeasured()
	if short == disk.NoShortage {
		path, what = d.mailHome, "mail of peers"
		short, free, bound = d.space.mail.LastMeasured()
	}
	switch short {
	case disk.NoShortage:
		return ""
	case disk.OfFiles:
		return fmt.Sprintf("the disk of %s has almost no inodes free: %s is refused; remove files there (df -i counts them)", path, what)
	case disk.OfWrites:
		return fmt.Sprintf("the disk of %s is read-only: %s is refused; mount it for writing, and if an error made it so, look at the disk", path, what)
	}
	return fmt.Sprintf("the disk of %s has %s free: %s is refused below %s (limits.min_free); free some space", path, formatMiB(free), what, formatMiB(bound))
}

// formatMiB returns a number of bytes as text, rounded down.
func formatMiB(n uint64) string { return fmt.Sprintf("%d MiB", n>>20) }

// refusePeer counts a refusal, and returns the error for it.
func (s *diskSpace) refusePeer(from identity.ID) error {
	s.refused.CountRefusal(from)
	e := kinds.Errorf(kinds.Overloaded, "budget: %s: the disk of this daemon is almost full, or read-only: its owner has to free some space, or find out why it is read-only; try again later", budget.FreeSpace.Name)
	e.RetryAfterMS = 60_000
	return e
}
