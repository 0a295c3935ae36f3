package daemon

import (
	"context"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/admin"
	"github.com/acpd/acpd/identity"
)

// reloadOnSignal reads config.yaml again whenever reload says so, until ctx ends.
func (d *Daemon) reloadOnSignal(ctx context.Context, reload <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reload:
			d.reloadConfig() // logs what is wrong
		}
	}
}

// reloadConfig reads config.yaml again, and returns what has changed. If the file is not valid,
// the old configuration stays, and the status says so until a later call succeeds.
// [immediateSettings] count at once, all others from the next start; the log and the status name
// those.
func (d *Daemon) reloadConfig() (*client.Reloaded, error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	d.systemd.Tell(admin.StateReloading())
	defer d.systemd.Tell(admin.StateReady)
	next, err := d.loadConfig()
	if err != nil {
		d.reloadFailure.Store(&reloadFailure{time.Now(), err})
		d.log.Error("the old configuration stays", "err", err)
		return nil, err
	}
	authorities, own, err := d.readOrganisation(next)
	if err != nil {
		d.reloadFailure.Store(&reloadFailure{time.Now(), err})
		d.log.Error("the old configuration stays", "err", err)
		return nil, err
	}
	d.reloadFailure.Store(nil)
	old := d.config.Swap(next)
	d.permissions.ReplaceConfig(next)
	files := d.listFileChanges(authorities, own)
	d.applyOrganisation(next, authorities, own)
	d.channels.CancelStreamsUnless(func(id identity.ID) bool {
		p, ok := d.trust.FindPeer(id)
		return ok && d.permissions.Decide(p, config.PolicyChannel, "").Allowed
	})
	d.setLogLevel(next)
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
	r := d.describeReload(old, next)
	changed := next.ListChangedSettings(old)
	if later := slices.DeleteFunc(slices.Clone(r.Deferred), func(name string) bool { return !slices.Contains(changed, name) }); len(later) > 0 {
		d.log.Warn("settings have changed that take effect at the next start: start acpd again", "settings", strings.Join(later, ", "))
	}
	d.logSettingsWithoutEffect()
	d.log.Info("configuration reloaded", "changed", strings.Join(changed, ", "))
	r.Changed = append(r.Changed, files...)
	return r, nil
}
