package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// space is what is left where this daemon writes.
type space struct {
	state   *disk.Floor // where the state directory is
	mail    *disk.Floor // where the mailboxes are
	reserve *disk.Reserve
	refused *budget.Account
	ask     chan chan struct{} // runSpace looks, and closes what it got
}

// openSpace looks after the disks; the state directory is locked.
func (d *Daemon) openSpace(least uint64) {
	look := d.options.look
	d.space = space{
		state:   disk.NewFloor(string(d.home), least, look),
		mail:    disk.NewFloor(d.mailHome, least, look),
		reserve: disk.OpenReserve(d.home.reserve(), look),
		refused: d.budget.Open(budget.FreeSpace),
		ask:     make(chan chan struct{}),
	}
}

// checkRoom returns why what a peer sends may not be kept, nil if it may.
func (s *space) checkRoom(from identity.ID) error {
	if !s.state.Low() {
		return nil
	}
	return s.refuse(from)
}

// checkMailRoom is room where mail goes.
func (s *space) checkMailRoom(from identity.ID) error {
	if !s.mail.Low() {
		return s.checkRoom(from)
	}
	return s.refuse(from)
}

// How often the disks are looked at, and for how long there must be enough space before
// the log says so: a disk on the edge makes few lines.
const (
	spaceEvery  = time.Second
	spaceSteady = time.Minute
	spaceWait   = 100 * time.Millisecond // for a look that was asked for
)

// runSpace looks at the disks until ctx ends, and tells the log when one has become too
// full for what peers send, and when no longer.
func (d *Daemon) runSpace(ctx context.Context) error {
	ticker := time.NewTicker(spaceEvery)
	defer ticker.Stop()
	var full bool // the log says so
	var seen time.Time
	var asked chan struct{}
	for ctx.Err() == nil {
		d.space.mail.Low()
		d.space.state.Low()
		if asked != nil {
			close(asked)
			asked = nil
		}
		switch warning := d.warnFull(); {
		case warning != "":
			seen = time.Now()
			if !full {
				d.log.Warn("the disk is almost full", "warning", warning)
			}
			full = true
		case full && time.Since(seen) >= spaceSteady:
			full = false
			d.log.Info("the disk has space again: what peers send is taken")
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case asked = <-d.space.ask:
		}
	}
	return nil
}

// requestLook has the disks looked at. It waits for that a moment, and no longer: a disk may
// stand still.
func (s *space) requestLook(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, spaceWait)
	defer cancel()
	done := make(chan struct{})
	select {
	case s.ask <- done:
		select {
		case <-done:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
}

// warnFull is a warning about a disk that has not the space which peers have to leave; ""
// without one. It does not wait for a disk, but tells what the last look has seen.
func (d *Daemon) warnFull() string {
	path, what := string(d.home), "what peers send"
	low, free, bound := d.space.state.Seen()
	if !low {
		path, what = d.mailHome, "mail of peers"
		if low, free, bound = d.space.mail.Seen(); !low {
			return ""
		}
	}
	return fmt.Sprintf("the disk of %s has %s free: %s is refused below %s (limits.min_free); free some space", path, mebibytes(free), what, mebibytes(bound))
}

// mebibytes rounds down.
func mebibytes(n uint64) string { return fmt.Sprintf("%d MiB", n>>20) }

func (s *space) refuse(from identity.ID) error {
	s.refused.Refuse(from)
	e := kinds.Errorf(kinds.Overloaded, "budget: %s: the disk of this daemon is almost full: its owner has to free some space; try again later", budget.FreeSpace.Name)
	e.RetryAfterMS = 60_000
	return e
}

// explainFull is err, but overloaded where a disk has no room for what was asked: it may
// work later, and nothing was done.
func explainFull(err error) error {
	if !disk.IsFull(err) {
		return err
	}
	return kinds.Errorf(kinds.Overloaded, "%v", err)
}

// spendReserve serves what frees space, or takes it from somebody, with the reserve to
// write on. It is for what waits for this daemon's disk alone.
func spendReserve(f methodFunc) methodFunc {
	return func(ctx context.Context, s *localConn, r *jsonrpc.Request) (result any, err error) {
		err = s.daemon.space.reserve.Spend(func() (err error) {
			result, err = f(ctx, s, r)
			return err
		})
		return result, err
	}
}
