package organisation

import (
	"context"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
)

// ReadPins returns the post-quantum keys of peers with certificates.
func ReadPins(tx *store.Tx) (all []identity.CertifiedPin, err error) {
	return all, tx.EachRow("SELECT peer, pq, authority, seen FROM daemon_certified_pin", func(scan func(...any) error) error {
		var pin identity.CertifiedPin
		var seen int64
		err := scan(store.Blob(pin.ID[:]), store.Blob(pin.PQ[:]), &pin.Authority, &seen)
		pin.Seen = time.Unix(seen, 0)
		all = append(all, pin)
		return err
	})
}

// writePin writes a pin; one without a key is deleted.
func writePin(tx *store.Tx, pin identity.CertifiedPin) error {
	if pin.PQ.IsZero() {
		_, err := tx.Exec("DELETE FROM daemon_certified_pin WHERE peer = ?", pin.ID[:])
		return err
	}
	_, err := tx.Exec(`INSERT INTO daemon_certified_pin (peer, pq, authority, seen) VALUES (?, ?, ?, ?)
		ON CONFLICT (peer) DO UPDATE SET pq = excluded.pq, authority = excluded.authority, seen = excluded.seen`, pin.ID[:], pin.PQ[:], pin.Authority, pin.Seen.Unix())
	return err
}

// pinsPause is the time in which further keys may come before all are written.
const pinsPause = time.Second

// Close writes the keys that Run has left. The caller calls it when no connection brings another one, and
// before it closes the database.
func (s *Service) Close() {
	if err := s.savePins(context.Background()); err != nil {
		s.Log.Warn("post-quantum keys of peers with certificates are not on disk", "err", err)
	}
}

// savePins writes what has changed since the last call, and what could not be written then.
func (s *Service) savePins(ctx context.Context) error {
	left := s.unsavedPins
	written, deleted := s.Trust.TakeUnsavedPins()
	for _, pin := range written {
		left[pin.ID] = pin
	}
	for _, id := range deleted {
		left[id] = identity.CertifiedPin{ID: id}
	}
	if len(left) == 0 {
		return nil
	}
	err := s.DB.Write(ctx, false, func(tx *store.Tx) error {
		for _, pin := range left {
			if err := writePin(tx, pin); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		clear(left)
	}
	return err
}
