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

// pinSaver has the post-quantum keys of peers with certificates that the disk has not taken yet. The goroutine
// of runPinSaver alone uses it, and Close after that.
type pinSaver struct {
	left    map[identity.ID]identity.CertifiedPin
	failing bool
}

// runPinSaver writes the post-quantum keys of peers with certificates that are not on disk yet, until
// ctx ends. Close then writes the rest. It tries again what the disk does not take.
func (d *Daemon) runPinSaver(ctx context.Context) error {
	for pace.Gather(ctx, d.trust.UnsavedPins(), pinsPause) == nil {
		d.savePins()
	}
	return nil
}

// savePins writes what has changed since the last call, and what could not be written then.
func (d *Daemon) savePins() {
	s := &d.pins
	if s.left == nil {
		s.left = make(map[identity.ID]identity.CertifiedPin)
	}
	written, deleted := d.trust.TakeUnsavedPins()
	for _, pin := range written {
		s.left[pin.ID] = pin
	}
	for _, id := range deleted {
		s.left[id] = identity.CertifiedPin{ID: id}
	}
	if len(s.left) == 0 {
		return
	}
	err := d.store.Write(context.Background(), false, func(tx *store.Tx) error {
		for pin := range maps.Values(s.left) {
			if err := writeCertifiedPin(tx, pin); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err == nil:
		clear(s.left)
		s.failing = false
	case !s.failing:
		s.failing = true
		d.log.Warn("post-quantum keys of peers with certificates are not on disk, and will be tried again with the next one", "err", err)
	}
}
