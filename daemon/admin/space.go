package admin

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/statedir"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/metrics"
)

// Space refuses peers if a disk on which this daemon writes is almost full.
type Space struct {
	*disk.Reserve // for what frees space
	SpaceConfig
	state, mail *disk.Floor
	refused     *budget.Account
}

// SpaceConfig names the disks that a [Space] measures.
type SpaceConfig struct {
	Home     string // the state directory
	MailHome string // of the mailboxes
	MinFree  uint64
	Budget   *budget.Book
	Log      *slog.Logger
	Calls    *sync.WaitGroup                       // waits for the goroutines of Measure
	Look     func(path string) (disk.Space, error) // nil for the system's
}

// OpenSpace makes the floors and the reserve. The state directory is locked.
func OpenSpace(c SpaceConfig) *Space {
	return &Space{
		SpaceConfig: c,
		state:       disk.NewFloor(c.Home, c.MinFree, c.Look),
		mail:        disk.NewFloor(c.MailHome, c.MinFree, c.Look),
		Reserve:     disk.OpenReserve(filepath.Join(c.Home, statedir.ReserveName), c.Look),
		refused:     c.Budget.OpenAccount(budget.FreeSpace),
	}
}

// IsLow reports whether the state directory has no space for what peers send.
func (s *Space) IsLow() bool { return s.state.IsLow() }

// MeasureFree returns the free space of the state directory, and the least that stays free.
func (s *Space) MeasureFree() (free, floor uint64) {
	_, free, floor = s.state.Measure()
	return free, floor
}

// ListFamilies returns the metrics of both disks when they were measured last. It never blocks.
func (s *Space) ListFamilies() []metrics.Family {
	_, stateFree, stateFloor := s.state.LastMeasured()
	_, mailFree, mailFloor := s.mail.LastMeasured()
	ofDisks := func(state, mail uint64) func(*metrics.Text) {
		return func(t *metrics.Text) {
			t.Add(float64(state), metrics.Label{Name: "of", Value: "state"})
			t.Add(float64(mail), metrics.Label{Name: "of", Value: "mail"})
		}
	}
	return []metrics.Family{
		{Name: "acpd_disk_free_bytes", Type: metrics.Gauge, Help: "Space that is free on the disk of the state directory and of the mailboxes.", Write: ofDisks(stateFree, mailFree)},
		{Name: "acpd_disk_floor_bytes", Type: metrics.Gauge, Help: "Free space below which peers are refused what would be kept on that disk.", Write: ofDisks(stateFloor, mailFloor)},
	}
}

// CheckRoom returns an error if the state directory has no space for what a peer sends.
func (s *Space) CheckRoom(from identity.ID) error {
	if !s.state.IsLow() {
		return nil
	}
	return s.refusePeer(from)
}

// CheckMailRoom returns an error if there is no space for a peer's mail.
func (s *Space) CheckMailRoom(from identity.ID) error {
	if !s.mail.IsLow() {
		return s.CheckRoom(from)
	}
	return s.refusePeer(from)
}

// CheckFileRoom returns an error if the state directory has no space for a file of size bytes of a peer.
func (s *Space) CheckFileRoom(from identity.ID, size uint64) error {
	short, free, bound := s.state.Measure()
	switch {
	case short != disk.NoShortage:
		return s.refusePeer(from)
	case free == 0 || free >= bound+size: // 0: the system does not say
		return nil
	}
	s.refused.CountRefusal(from)
	e := kinds.Errorf(kinds.Overloaded, "budget: %s: the disk of this daemon has no room for a file of %d bytes: its owner has to free some space", budget.FreeSpace.Name, size)
	e.RetryAfterMS = 60_000
	return e
}

const (
	measurePause     = time.Second            // between measurements
	fullDiskLogPause = time.Minute            // how long there must be enough space again before it is logged
	measureWait      = 100 * time.Millisecond // for a measurement that a caller waits for
)

// Run measures the disks until ctx ends, and logs when one has become too full for
// what peers send, and when it has space again.
func (s *Space) Run(ctx context.Context) error {
	ticker := time.NewTicker(measurePause)
	defer ticker.Stop()
	var full bool // as was logged last
	var seen time.Time
	for ctx.Err() == nil {
		s.mail.Measure()
		s.state.Measure()
		switch warning := s.DescribeShortage(); {
		case warning != "":
			seen = time.Now()
			if !full {
				s.Log.Warn("the disk has no room for what peers send", "warning", warning)
			}
			full = true
		case full && time.Since(seen) >= fullDiskLogPause:
			full = false
			s.Log.Info("the disk has space again: what peers send is taken")
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return nil
}

// Measure measures the disks. It blocks for measureWait at most, because a disk may
// stand still.
func (s *Space) Measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, measureWait)
	s.Calls.Go(func() {
		defer cancel()
		s.mail.Measure()
		s.state.Measure()
	})
	<-ctx.Done()
}

// DescribeShortage returns a warning if a disk had too little room for what peers send
// when it was measured last, else "". It never blocks.
func (s *Space) DescribeShortage() string {
	path, what := s.Home, "what peers send"
	short, free, bound := s.state.LastMeasured()
	if short == disk.NoShortage {
		path, what = s.MailHome, "mail of peers"
		short, free, bound = s.mail.LastMeasured()
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

// refusePeer counts the refusal, and returns its error.
func (s *Space) refusePeer(from identity.ID) error {
	s.refused.CountRefusal(from)
	e := kinds.Errorf(kinds.Overloaded, "budget: %s: the disk of this daemon is almost full, or read-only: its owner has to free some space, or find out why it is read-only; try again later", budget.FreeSpace.Name)
	e.RetryAfterMS = 60_000
	return e
}

// CheckRoomForCopy returns an error if a copy of state.db would take the disk below the floor.
// op is what the copy is for.
func (s *Space) CheckRoomForCopy(op string) error {
	size := uint64(0)
	for _, name := range []string{statedir.StateName, statedir.StateLogName} {
		if info, err := os.Stat(filepath.Join(s.Home, name)); err == nil {
			size += uint64(info.Size())
		}
	}
	if short, free, bound := s.state.Measure(); short == disk.OfBytes || free > 0 && free < bound+size { // 0 and not short: the system does not say
		return kinds.Errorf(kinds.Overloaded, "%s: the disk of %s has %s free, and a copy of state.db needs %s beyond the %s that stay free (limits.min_free): free some space; a backup while acpd is stopped needs no copy",
			op, s.Home, formatMiB(free), formatMiB(size+1<<20-1), formatMiB(bound))
	}
	return nil
}

// CheckRoomBesideCopy returns an error if the disk has become too full while a copy is written.
func (s *Space) CheckRoomBesideCopy(op string) error {
	if !s.state.IsLow() {
		return nil
	}
	return kinds.Errorf(kinds.Overloaded, "%s: the disk of %s has become almost full meanwhile: free some space, then repeat this", op, s.Home)
}
