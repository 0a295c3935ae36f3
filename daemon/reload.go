package daemon

import (
	"reflect"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
)

// prepareSettings is Prepare of [settings.Deps].
func (d *Daemon) prepareSettings(next *config.Config) (apply func(old *config.Config) []client.SettingChange, err error) {
	authorities, own, err := d.readOrganisation(next)
	if err != nil {
		return nil, err
	}
	return func(old *config.Config) []client.SettingChange {
		files := d.listFileChanges(authorities, own)
		d.permissions.ReplaceConfig(next)
		d.applyOrganisation(next, authorities, own)
		d.applySettings(old, next)
		return files
	}, nil
}

// applySettings makes the parts of the daemon obey the settings that have changed.
func (d *Daemon) applySettings(old, next *config.Config) {
	d.channels.CancelStreamsUnless(func(id identity.ID) bool {
		p, ok := d.trust.FindPeer(id)
		return ok && d.permissions.Decide(p, config.PolicyChannel, "").Allowed
	})
	d.watch.KeepHistory(next.History != config.Off)
	if !reflect.DeepEqual(old.Agents.Named, next.Agents.Named) {
		d.sessions.Waker.ReadSettings()
	}
	for _, p := range d.trust.Peers() {
		if !reflect.DeepEqual(old.Peers[p.Name], next.Peers[p.Name]) || !reflect.DeepEqual(old.Peers[p.ID.String()], next.Peers[p.ID.String()]) {
			d.updateAddrTable(p.ID)
			d.node.Connect(p.ID)
		}
	}
	d.pipes.RetryFailed()
	if changed := d.pipes.ListChanged(); len(changed) > 0 {
		drained := d.node.DrainOpened(changed)
		d.calls.Go(func() {
			<-drained
			d.pipes.EndChanged() // also one that was being dialled
		})
	}
	if !reflect.DeepEqual(old.Discovery, next.Discovery) {
		d.rediscover.Set()
	}
	d.relays.Reload()
}

// listSettingsWarnings is ListWarnings of [settings.Deps].
func (d *Daemon) listSettingsWarnings() []string {
	all := d.relays.ListWarnings()
	if notice := d.checkOwnCertificate(time.Now()); notice != "" {
		all = append(all, notice)
	}
	return all
}
