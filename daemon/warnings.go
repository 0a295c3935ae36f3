package daemon

import (
	"fmt"
	"time"

	"github.com/acpd/acpd/daemon/settings"
)

// listWarnings returns what the owner should know of this daemon while it runs.
func (d *Daemon) listWarnings() []string {
	all := []string{}
	if d.trustWasLost && d.trust.Len() == 0 && len(d.trust.Blocks()) == 0 {
		all = append(all, trustLostWarning)
	}
	all = append(all, d.listAbsentAddrs()...)
	if full := d.space.DescribeShortage(); full != "" {
		all = append(all, full)
	}
	if notice := d.organisation.DescribeOwn(time.Now()); notice != "" {
		all = append(all, notice)
	}
	all = append(all, d.config.DescribeProblems()...)
	if failure := d.relays.DescribeFailure(); failure != "" {
		all = append(all, failure)
	}
	failures := d.peers.Pipes.Failures()
	for _, f := range failures[:min(len(failures), settings.MaxNamesInWarning)] {
		all = append(all, fmt.Sprintf("%s led nowhere at %s: %s", f.Addr, f.At.UTC().Format(time.RFC3339), f.Why.Message))
	}
	all = append(all, d.sessions.DescribeProblems()...)
	all = append(all, d.spending.DescribeUsedUp()...)
	all = append(all, d.peers.ListKeptNames()...)
	return append(all, d.config.ListWithoutEffect()...)
}

const trustLostWarning = "neither trust.yaml nor trust.copy.yaml was there at the start, but identity.key was: nobody is trusted, and no key is blocked; " +
	"if somebody was, stop acpd and restore them from a backup, or trust, and untrust, anew"

// describeStatus returns one line for systemctl status. It holds no name and no text of a peer.
func (d *Daemon) describeStatus() string {
	line := fmt.Sprintf("%d peers connected; UDP %s", d.peers.CountConnected(), d.udpAddr)
	if d.drain.IsEnding() {
		line = "draining; " + line
	}
	if full := d.space.DescribeShortage(); full != "" {
		line += "; " + full
	}
	if len(d.listAbsentAddrs()) > 0 {
		line += "; an address to listen on is not there: see acpctl status"
	}
	if d.config.HasFailed() {
		line += "; config.yaml was not taken over: see acpctl status"
	}
	return line
}
