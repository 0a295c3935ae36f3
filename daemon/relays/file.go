package relays

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/statedir"
)

// readFile reads relays.yaml. Without that file there are none.
func (r *Service) readFile() ([]config.Relay, error) {
	path := r.filePath(statedir.RelaysName)
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

// writeFile replaces relays.yaml. The file is on disk when it returns.
func (r *Service) writeFile(relays []config.Relay) error {
	data, err := config.RenderKeptRelays(relays)
	if err != nil {
		return err
	}
	return durable.ReplaceFile(r.filePath(statedir.RelaysName), r.filePath(statedir.RelaysTemp), data, durable.PrivateMode)
}

// changeKept writes relays.yaml as change makes it, and uses it from then on. A file that could
// not be read is not written over. The caller calls apply.
func (r *Service) changeKept(change func(kept []config.Relay) ([]config.Relay, error)) error {
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
	if err := r.writeFile(next); err != nil {
		return err
	}
	r.setKept(next, nil)
	return nil
}

// loadKept reads relays.yaml again. If it cannot be read, none of its relays is used, and the
// status says so.
func (r *Service) loadKept() {
	r.keeping.Lock()
	defer r.keeping.Unlock()
	kept, failure := r.readFile()
	r.setKept(kept, failure)
	if failure != nil {
		r.Log.Error("relays.yaml: none of its relays is used", "err", failure)
	}
}
