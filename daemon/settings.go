package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/config"
)

// settingsAtOnce are the settings that count on reload; all others count from the next start.
var settingsAtOnce = []string{"peers", "policy", "limits.rate", "discovery.mdns", "discovery.include", "discovery.exclude", "channels.open_to", "log.level"}

// settingsAtNextStart are the settings that have changed and do not count yet.
func settingsAtNextStart(old, next *config.Config) []string {
	return slices.DeleteFunc(next.Changed(old), func(name string) bool { return slices.Contains(settingsAtOnce, name) })
}

// maxNamed bounds the names in a warning.
const maxNamed = 8

// reloadFailure is why and when a reload has failed.
type reloadFailure struct {
	at  time.Time
	why error
}

// maxWhy bounds the reason in a warning, in bytes.
const maxWhy = 1024

func (r *reloadFailure) String() string {
	why := strings.Join(strings.FieldsFunc(r.why.Error(), func(c rune) bool { return c == '\n' }), "; ")
	if len(why) > maxWhy {
		why = strings.ToValidUTF8(why[:maxWhy], "") + " …"
	}
	return fmt.Sprintf("config.yaml was not taken over at %s (%s): the settings of before count, and acpd will not start with this file; mend it and reload it",
		r.at.UTC().Format(time.RFC3339), why)
}

// listWarnings are what a person should know of this daemon while it runs.
func (d *Daemon) listWarnings() []string {
	all := []string{}
	if d.noTrust && d.trust.Len() == 0 && len(d.trust.Blocks()) == 0 {
		all = append(all, trustIsGone)
	}
	if full := d.warnFull(); full != "" {
		all = append(all, full)
	}
	if r := d.refused.Load(); r != nil {
		all = append(all, r.String())
	}
	if later := settingsAtNextStart(d.begun, d.config.Load()); len(later) > 0 {
		all = append(all, "settings in config.yaml that have changed count from the next start: "+strings.Join(later, ", ")+"; start acpd again for them")
	}
	return append(all, d.listDoubts()...)
}

const trustIsGone = "neither trust.yaml nor trust.copy.yaml was there at the start, but identity.key was: nobody is trusted, and no key is blocked; " +
	"if somebody was, stop acpd and restore them from a backup, or trust, and untrust, anew"

// listDoubts are warnings about the settings in force: names of which nothing follows,
// since nobody who is trusted has them.
func (d *Daemon) listDoubts() []string {
	known := make(map[string]bool)
	for _, p := range d.trust.Peers() {
		known[p.Name], known[p.ID.String()] = true, true
	}
	unmatched := d.config.Load().Unmatched(func(ref string) bool { return known[ref] })
	all := []string{}
	for _, setting := range slices.Sorted(maps.Keys(unmatched)) {
		refs := slices.Compact(slices.Sorted(slices.Values(unmatched[setting])))
		more := ""
		if len(refs) > maxNamed {
			more = fmt.Sprintf(" and %d more", len(refs)-maxNamed)
			refs = refs[:maxNamed]
		}
		all = append(all, fmt.Sprintf("%s in config.yaml names %s%s: no trusted peer has that name or id, so nothing follows from it; acpctl peers lists those that are",
			setting, strings.Join(refs, ", "), more))
	}
	return all
}

// warnDoubts tells the log of them.
func (d *Daemon) warnDoubts() {
	for _, doubt := range d.listDoubts() {
		d.log.Warn("settings without effect", "warning", doubt)
	}
}
