package relays

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/statedir"
)

// readFile returns the relays in relays.yaml, none without that file.
func (r *Service) readFile() ([]config.Relay, error) {
	path := filepath.Join(r.Dir, statedir.RelaysName)
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

// changeKept writes to relays.yaml what change returns. It does not overwrite a file that could not be read. The caller
// calls apply.
func (r *Service) changeKept(change func(kept []config.Relay) ([]config.Relay, error)) error {
	r.keeping.Lock()
	defer r.keeping.Unlock()
	kept := r.kept.Load()
	if kept.failure != nil {
		return ownwords.Errorf("%s: %w: fix or remove the file, then acpctl reload", statedir.RelaysName, kept.failure)
	}
	next, err := change(slices.Clone(kept.all))
	if err != nil {
		return err
	}
	data, err := config.RenderKeptRelays(next)
	if err != nil {
		return err
	}
	if err := durable.ReplaceFile(filepath.Join(r.Dir, statedir.RelaysName), filepath.Join(r.Dir, statedir.RelaysTemp), data, durable.PrivateMode); err != nil {
		return err
	}
	r.kept.Store(&keptRelays{all: next})
	return nil
}

// loadKept reads relays.yaml again. If it cannot be read, its relays are not used, and the
// status has a warning.
func (r *Service) loadKept() {
	r.keeping.Lock()
	defer r.keeping.Unlock()
	kept, failure := r.readFile()
	r.kept.Store(&keptRelays{kept, failure})
	if failure != nil {
		r.Log.Error("relays.yaml: none of its relays is used", "err", failure)
	}
}
