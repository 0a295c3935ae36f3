package daemon

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/statedir"
)

// readKeptRelays reads relays.yaml. Without that file there are none.
func (h home) readKeptRelays() ([]config.Relay, error) {
	path := h.filePath(statedir.RelaysName)
	data, err := durable.ReadPrivateFile(path, config.MaxKeptRelays)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	relays, err := config.ParseKeptRelays(path, data)
	if all := config.ListErrors(err); len(all) > 0 {
		return nil, ownwords.Errorf("%s:%d: %s: %s", path, all[0].Line, all[0].Problem, all[0].Remedy)
	}
	return relays, err
}

// writeKeptRelays replaces relays.yaml. The file is on disk when it returns.
func (h home) writeKeptRelays(relays []config.Relay) error {
	data, err := config.RenderKeptRelays(relays)
	if err != nil {
		return err
	}
	return durable.ReplaceFile(h.filePath(statedir.RelaysName), h.filePath(statedir.RelaysTemp), data, durable.PrivateMode)
}

// changeKeptRelays writes relays.yaml as change makes it, and uses it from then on. A file that could
// not be read is not written over. The caller calls applyRelays.
func (d *Daemon) changeKeptRelays(change func(kept []config.Relay) ([]config.Relay, error)) error {
	r := d.relays
	r.keeping.Lock()
	defer r.keeping.Unlock()
	kept, failure := r.getKept()
	if failure != nil {
		return ownwords.Errorf("%s: %w: fix or remove the file, then acpctl reload", statedir.RelaysName, failure)
	}
	next, err := change(slices.Clone(kept))
	if err != nil {
		return err
	}
	if err := d.home.writeKeptRelays(next); err != nil {
		return err
	}
	r.setKept(next, nil)
	return nil
}

// loadKeptRelays reads relays.yaml again. If it cannot be read, none of its relays is used, and the
// status says so.
func (d *Daemon) loadKeptRelays() {
	r := d.relays
	r.keeping.Lock()
	defer r.keeping.Unlock()
	kept, failure := d.home.readKeptRelays()
	r.setKept(kept, failure)
	if failure != nil {
		d.log.Error("relays.yaml: none of its relays is used", "err", failure)
	}
}
