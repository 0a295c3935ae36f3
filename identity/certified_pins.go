package identity

import (
	"maps"
	"time"

	"github.com/acpd/acpd/internal/pace"
)

// How long the post-quantum key of a certified peer stays pinned after it was last seen, and how many
// are at a time; those of one authority are half of them at most.
const (
	pinTTL  = 90 * 24 * time.Hour
	maxPins = 16384

	pinRefresh = 24 * time.Hour // a pin is written again if it was last seen so long ago
	pinSweep   = time.Hour      // between two looks for pins that are too old
)

// CertifiedPin is the post-quantum key of a peer with a certificate that does not name it, taken at
// the first contact. It outlasts the certificate, which is renewed often.
type CertifiedPin struct {
	ID        ID
	PQ        PQHash
	Authority string
	Seen      time.Time
}

// certifiedPins are the pins of certified peers. Changes are kept until they are saved.
type certifiedPins struct {
	unsaved     pace.Signal
	byID        map[ID]CertifiedPin
	byAuthority map[string]int
	changed     map[ID]bool
	swept       time.Time
}

func newCertifiedPins() certifiedPins {
	return certifiedPins{unsaved: pace.NewSignal(), byID: make(map[ID]CertifiedPin), byAuthority: make(map[string]int), changed: make(map[ID]bool)}
}

// use returns the pin of a peer that has come, or zero.
func (s *certifiedPins) use(id ID, now time.Time) PQHash {
	pin, ok := s.byID[id]
	if !ok || now.Sub(pin.Seen) > pinTTL {
		s.forget(id)
		return PQHash{}
	}
	if now.Sub(pin.Seen) > pinRefresh {
		pin.Seen = now
		s.set(pin)
	}
	return pin.PQ
}

// set enters a pin. If its authority has as many as there can be, that which was seen longest ago goes;
// if all have, that of all.
func (s *certifiedPins) set(pin CertifiedPin) {
	s.forget(pin.ID)
	if own := s.byAuthority[pin.Authority] >= maxPins/2; own || len(s.byID) >= maxPins {
		var oldest CertifiedPin
		for _, p := range s.byID {
			if (!own || p.Authority == pin.Authority) && (oldest.ID.IsZero() || p.Seen.Before(oldest.Seen)) {
				oldest = p
			}
		}
		s.forget(oldest.ID)
	}
	s.byID[pin.ID] = pin
	s.byAuthority[pin.Authority]++
	s.mark(pin.ID)
}

func (s *certifiedPins) forget(id ID) {
	pin, ok := s.byID[id]
	if !ok {
		return
	}
	delete(s.byID, id)
	if s.byAuthority[pin.Authority]--; s.byAuthority[pin.Authority] == 0 {
		delete(s.byAuthority, pin.Authority)
	}
	s.mark(id)
}

// sweep forgets the pins that were last seen too long ago, but for those in use, unless it has done so
// lately.
func (s *certifiedPins) sweep(now time.Time, inUse func(ID) bool) {
	if now.Sub(s.swept).Abs() < pinSweep {
		return
	}
	s.swept = now
	for id, pin := range s.byID {
		if now.Sub(pin.Seen) > pinTTL && !inUse(id) {
			s.forget(id)
		}
	}
}

func (s *certifiedPins) mark(id ID) {
	s.changed[id] = true
	s.unsaved.Set()
}

// LoadCertifiedPins enters pins that were saved. It is called before any certificate has come.
func (t *TrustStore) LoadCertifiedPins(pins []CertifiedPin) {
	t.certified.mu.Lock()
	defer t.certified.mu.Unlock()
	for _, pin := range pins {
		t.certified.pins.set(pin)
	}
	maps.DeleteFunc(t.certified.pins.changed, func(id ID, _ bool) bool { _, there := t.certified.pins.byID[id]; return there })
}

// UnsavedPinsSignal returns a channel on which a value comes when [TrustStore.TakeUnsavedPins] may have
// something to return. It has room for one, and is for one receiver.
func (t *TrustStore) UnsavedPinsSignal() <-chan struct{} { return t.certified.pins.unsaved }

// TakeUnsavedPins returns what has changed since the last call: pins to be written, and the keys
// whose pins are to be deleted.
func (t *TrustStore) TakeUnsavedPins() (written []CertifiedPin, deleted []ID) {
	t.certified.mu.Lock()
	defer t.certified.mu.Unlock()
	s := &t.certified.pins
	for id := range s.changed {
		if pin, ok := s.byID[id]; ok {
			written = append(written, pin)
		} else {
			deleted = append(deleted, id)
		}
	}
	clear(s.changed)
	return written, deleted
}
