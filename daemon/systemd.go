package daemon

import (
	"fmt"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// States of a service of systemd's Type=notify, sd_notify(3).
const (
	stateReady    = systemd.SdNotifyReady
	stateStopping = systemd.SdNotifyStopping
	stateFed      = systemd.SdNotifyWatchdog
)

// stateReloading returns the state of a service that reads its configuration again, with the
// time by which Type=notify-reload tells it from the one before.
func stateReloading() string {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return systemd.SdNotifyReloading
	}
	return fmt.Sprintf("%s\nMONOTONIC_USEC=%d", systemd.SdNotifyReloading, now.Nano()/1000)
}

// tellSystemd tells systemd the state of the service, and on one line what it does. It does
// nothing if systemd did not start the daemon.
func (d *Daemon) tellSystemd(state string) {
	if _, err := systemd.SdNotify(false, state+"\nSTATUS="+d.describeStatus()); err != nil {
		d.log.Warn("systemd was not told", "state", state, "err", err)
	}
}

// describeStatus returns one line for systemctl status. It holds no name and no text of a peer.
func (d *Daemon) describeStatus() string {
	line := fmt.Sprintf("%d peers connected; UDP %s", d.connected.count(), d.udpAddr)
	if d.draining.Load() {
		line = "draining; " + line
	}
	if full := d.space.DescribeShortage(); full != "" {
		line += "; " + full
	}
	if len(d.listAbsentAddrs()) > 0 {
		line += "; an address to listen on is not there: see acpctl status"
	}
	if d.reloadFailure.Load() != nil {
		line += "; config.yaml was not taken over: see acpctl status"
	}
	return line
}
