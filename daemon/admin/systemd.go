package admin

import (
	"fmt"
	"log/slog"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// States of a service of systemd's Type=notify, sd_notify(3).
const (
	StateReady    = systemd.SdNotifyReady
	StateStopping = systemd.SdNotifyStopping
	stateFed      = systemd.SdNotifyWatchdog
)

// StateReloading returns the state of a service that reads its configuration again, with the
// time by which Type=notify-reload tells it from the one before.
func StateReloading() string {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return systemd.SdNotifyReloading
	}
	return fmt.Sprintf("%s\nMONOTONIC_USEC=%d", systemd.SdNotifyReloading, now.Nano()/1000)
}

// Systemd tells systemd about the daemon.
type Systemd struct {
	Log      *slog.Logger
	Describe func() string // returns one line about what the daemon does
}

// Tell tells systemd the state of the service, and on one line what it does. It does
// nothing if systemd did not start the daemon.
func (s *Systemd) Tell(state string) {
	if _, err := systemd.SdNotify(false, state+"\nSTATUS="+s.Describe()); err != nil {
		s.Log.Warn("systemd was not told", "state", state, "err", err)
	}
}
