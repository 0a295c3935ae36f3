package daemon

import (
	"context"
	"maps"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/store"
)

// readCertifiedPins returns the post-quantum keys of peers with certificates.
func readCertifiedPins(tx *store.Tx) (all []identity.CertifiedPin, err error) {
	return all, tx.EachRow("SELECT peer, pq, authority, seen FROM daemon_certified_pin", func(scan func(...any) error) error {
		var pin identity.CertifiedPin
		var seen int64
		err := scan(store.Blob(pin.ID[:]), store.Blob(pin.PQ[:]), &pin.Authority, &seen)
		pin.Seen = time.Unix(seen, 0)
		all = append(all, pin)
		return err
	})
}

// writeCertifiedPin writes a pin; one without a key is deleted.
func writeCertifiedPin(tx *store.Tx, pin identity.CertifiedPin) error {
	if pin.PQ.IsZero() {
		_, err := tx.Exec("DELETE FROM daemon_certified_pin WHERE peer = ?", pin.ID[:])
		return err
	}
	_, err := tx.Exec(`INSERT INTO daemon_certified_pin (peer, pq, authority, seen) VALUES (?, ?, ?, ?)
		ON CONFLICT (peer) DO UPDATE SET pq = excluded.pq, authority = excluded.authority, seen = excluded.seen`, pin.ID[:], pin.PQ[:], pin.Authority, pin.Seen.Unix())
	return err
}

// runPinSaver writes the post-quantum keys of peers with certificates that are not on disk yet, until
// ctx ends, and once more then. It tries again what the disk does not take.
func (d *Daemon) runPinSaver(ctx context.Context) error {
	left := make(map[identity.ID]identity.CertifiedPin)
	for failing := false; ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-d.trust.UnsavedPins():
			_ = pace.Sleep(ctx, pinsPause)
		}
		written, deleted := d.trust.TakeUnsavedPins()
		for _, pin := range written {
			left[pin.ID] = pin
		}
		for _, id := range deleted {
			left[id] = identity.CertifiedPin{ID: id}
		}
		if len(left) == 0 {
			continue
		}
		err := d.store.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error {
			for pin := range maps.Values(left) {
				if err := writeCertifiedPin(tx, pin); err != nil {
					return err
				}
			}
			return nil
		})
		switch {
		case err == nil:
			clear(left)
			failing = false
		case !failing:
			failing = true
			d.log.Warn("post-quantum keys of peers with certificates are not on disk, and will be tried again with the next one", "err", err)
		}
	}
	return nil
}
