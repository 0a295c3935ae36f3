package daemon

import (
	"reflect"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
)

// applyCertificates notifies the services that the certificates or their settings have changed.
func (d *Daemon) applyCertificates() {
	raw, _ := d.organisation.Certificate()
	d.node.SetCertificate(raw)
	d.addresses.UpdateConfigured()
	d.relays.UpdateNames()
}

// prepareSettings is Prepare of [settings.Deps].
func (d *Daemon) prepareSettings(next *config.Config) (apply func(old *config.Config) []client.SettingChange, err error) {
	files, err := d.organisation.Read(next)
	if err != nil {
		return nil, err
	}
	return func(old *config.Config) []client.SettingChange {
		changes := d.organisation.ListChanges(files)
		d.permissions.ReplaceConfig(next)
		d.organisation.Apply(files)
		d.applyCertificates()
		d.applySettings(old, next)
		return changes
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
	d.addresses.Reload(old, next)
	d.peers.Pipes.RetryFailed()
	if changed := d.peers.Pipes.ListChanged(); len(changed) > 0 {
		drained := d.node.DrainOpened(changed)
		d.calls.Go(func() {
			<-drained
			d.peers.Pipes.EndChanged() // also one that was being dialled
		})
	}
	d.relays.Reload()
}

// listSettingsWarnings is ListWarnings of [settings.Deps].
func (d *Daemon) listSettingsWarnings() []string {
	all := d.relays.ListWarnings()
	if notice := d.organisation.CheckOwn(time.Now()); notice != "" {
		all = append(all, notice)
	}
	return all
}
