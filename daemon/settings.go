package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// immediateSettings are the settings that count on reload. All others count from the next
// start.
var immediateSettings = []string{"peers", "policy", "limits.rate", "discovery.mdns", "discovery.include", "discovery.exclude", "reach.relays", "reach.proxy", "channels.open_to", "agents", "owner.notify", "log.level",
	"history", "spending.runs", "spending.tokens", "spending.usd", "spending.usd_all", "organisation.certificate", "organisation.authorities"}

// listDeferredSettings returns the settings that have changed and count from the next start.
func listDeferredSettings(old, next *config.Config) []string {
	return slices.DeleteFunc(next.ListChangedSettings(old), func(name string) bool { return slices.Contains(immediateSettings, name) })
}

// serveReload reads config.yaml again. An error has a line for each thing that is wrong in it.
func (d *Daemon) serveReload(context.Context, *local.Conn, *local.NoParams) (any, error) {
	r, err := d.reloadConfig()
	if err == nil {
		return r, nil
	}
	lines := []string{"reload: the old configuration stays in force, since this is wrong:"}
	for _, e := range config.ListErrors(err) {
		lines = append(lines, strings.TrimPrefix(e.Error(), "config: "))
	}
	if len(lines) == 1 { // the file cannot be read
		lines = append(lines, ownwords.Of(err))
	}
	return nil, kinds.Errorf(kinds.Invalid, "%s", strings.Join(lines, "\n"))
}

// describeReload returns in what a configuration that counts now differs from the one before.
func (d *Daemon) describeReload(old, next *config.Config) *client.Reloaded {
	r := &client.Reloaded{Changed: []client.SettingChange{}, Deferred: append([]string{}, listDeferredSettings(d.startConfig, next)...), Warnings: append(d.listSettingsWithoutEffect(), d.relays.ListWarnings()...)}
	if notice := d.checkOwnCertificate(time.Now()); notice != "" {
		r.Warnings = append(r.Warnings, notice)
	}
	for _, c := range next.ListChanges(old) {
		r.Changed = append(r.Changed, client.SettingChange{Setting: c.Key, From: c.From, To: c.To, Deferred: slices.Contains(r.Deferred, c.Setting)})
	}
	return r
}

// maxNamesInWarning bounds the names in a warning.
const maxNamesInWarning = 8

// reloadFailure holds the time and the reason of a failed reload.
type reloadFailure struct {
	at  time.Time
	why error
}

// maxReasonBytes bounds the reason in a warning, in bytes.
const maxReasonBytes = 1024

func (r *reloadFailure) String() string {
	why := ownwords.Of(r.why)
	if len(why) > maxReasonBytes {
		why = strings.ToValidUTF8(why[:maxReasonBytes], "") + " …"
	}
	return fmt.Sprintf("config.yaml was not taken over at %s (%s): the settings of before stay in effect, and acpd will not start with this file; fix it and reload it",
		r.at.UTC().Format(time.RFC3339), why)
}

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
	if notice := d.describeOwnCertificate(time.Now()); notice != "" {
		all = append(all, notice)
	}
	if r := d.reloadFailure.Load(); r != nil {
		all = append(all, r.String())
	}
	if failure := d.relays.DescribeFailure(); failure != "" {
		all = append(all, failure)
	}
	failures := d.pipes.Failures()
	for _, f := range failures[:min(len(failures), maxNamesInWarning)] {
		all = append(all, fmt.Sprintf("%s led nowhere at %s: %s", f.Addr, f.At.UTC().Format(time.RFC3339), f.Why.Message))
	}
	if later := listDeferredSettings(d.startConfig, d.config.Load()); len(later) > 0 {
		all = append(all, "settings in config.yaml that have changed take effect at the next start: "+strings.Join(later, ", ")+"; start acpd again for them")
	}
	var attached []string
	for _, a := range d.agents.ListAgents() {
		attached = append(attached, a.Name)
		if a.Session != nil {
			all = append(all, d.sessions.Waker.Notices(a.Name)...)
			if why := a.Session.Unwakeable; why != "" && d.sessions.Waker.MayAnyWake(a.Name) {
				all = append(all, a.Name+" cannot be woken: "+why)
			}
		}
	}
	agents := &d.config.Load().Agents
	for _, name := range slices.Sorted(maps.Keys(agents.Named)) {
		if near := agents.FindMisnamed(name, attached); near != "" {
			all = append(all, fmt.Sprintf("agents in config.yaml names %s: no such agent is attached, so nothing follows from it; did you mean %s?", name, near))
		}
	}
	all = append(all, d.spending.DescribeUsedUp()...)
	all = append(all, d.listKeptNames()...)
	return append(all, d.listSettingsWithoutEffect()...)
}

const trustLostWarning = "neither trust.yaml nor trust.copy.yaml was there at the start, but identity.key was: nobody is trusted, and no key is blocked; " +
	"if somebody was, stop acpd and restore them from a backup, or trust, and untrust, anew"

// listSettingsWithoutEffect returns warnings about settings from which nothing follows: those that
// are gone, and those that name peers which nobody trusts.
func (d *Daemon) listSettingsWithoutEffect() []string {
	known := make(map[string]bool)
	for _, p := range d.trust.Peers() {
		known[p.Name], known[p.ID.String()] = true, true
	}
	fleet, cfg := d.trust.HasAuthorities(), d.config.Load()
	unmatched := cfg.FindPeerRefs(func(ref string) bool {
		if fleet { // a key may show a certificate at any time
			if id, err := identity.ParseID(ref); err == nil && !d.trust.IsBlocked(id) {
				return false
			}
		}
		return !known[ref]
	})
	all := append([]string{}, cfg.Skipped...)
	for _, setting := range slices.Sorted(maps.Keys(unmatched)) {
		var peers, certified []string
		for _, ref := range slices.Compact(slices.Sorted(slices.Values(unmatched[setting]))) {
			if strings.Contains(ref, ".") {
				certified = append(certified, ref)
			} else {
				peers = append(peers, ref)
			}
		}
		all = appendUnmatched(all, setting, peers, "no trusted peer has that name or id, so nothing follows from it; acpctl peers lists those that are")
		all = appendUnmatched(all, setting, certified, "organisation has no authority of the name behind the dot, so nothing follows from it; acpctl cert show lists those that it has")
	}
	return all
}

// appendUnmatched appends a warning to all, if there are refs.
func appendUnmatched(all []string, setting string, refs []string, why string) []string {
	if len(refs) == 0 {
		return all
	}
	more := ""
	if len(refs) > maxNamesInWarning {
		more = fmt.Sprintf(" and %d more", len(refs)-maxNamesInWarning)
		refs = refs[:maxNamesInWarning]
	}
	return append(all, fmt.Sprintf("%s in config.yaml names %s%s: %s", setting, strings.Join(refs, ", "), more, why))
}

// logSettingsWithoutEffect logs these warnings.
func (d *Daemon) logSettingsWithoutEffect() {
	for _, doubt := range d.listSettingsWithoutEffect() {
		d.log.Warn("settings without effect", "warning", doubt)
	}
}

// describeStatus returns one line for systemctl status. It holds no name and no text of a peer.
func (d *Daemon) describeStatus() string {
	line := fmt.Sprintf("%d peers connected; UDP %s", d.connected.count(), d.udpAddr)
	if d.drain.IsEnding() {
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
