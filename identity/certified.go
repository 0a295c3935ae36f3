package identity

import (
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
)

// maxCertified bounds the certified peers of all authorities together. Those of
// one authority are half of them at most, and keysOfName of them can have one name.
const (
	maxCertified = 4096
	keysOfName   = 4
)

// ErrCertifiedFull says that as many peers of an authority, or keys with one name, are connected as
// there can be at a time.
var ErrCertifiedFull = ownwords.Errorf("certificate: %d peers of its authority are connected, or %d of all, or %d with its name: try again later", maxCertified/2, maxCertified, keysOfName)

// certifiedPeers are the peers that only have a certificate, in memory. A
// [TrustStore] shows them together with those that the owner trusted.
type certifiedPeers struct {
	number     atomic.Int64 // of entries of byID: without any, nobody takes the lock
	configured atomic.Bool  // there is an authority
	changed    pace.Signal  // set if a certificate has come or gone

	mu          sync.RWMutex // guards what follows
	authorities []Authority
	byID        map[ID]Peer
	byName      map[string][]ID
	byAuthority map[string]int // how many of byID
	ended       map[ID]bool    // they were in byID, and TakeDecertified has not returned them
	pins        certifiedPins
}

func newCertifiedPeers() certifiedPeers {
	return certifiedPeers{changed: pace.NewSignal(), byID: make(map[ID]Peer), byName: make(map[string][]ID), byAuthority: make(map[string]int), ended: make(map[ID]bool), pins: newCertifiedPins()}
}

// Authorities returns the authorities whose certificates are valid. The caller does not modify the slice.
func (t *TrustStore) Authorities() []Authority {
	t.certified.mu.RLock()
	defer t.certified.mu.RUnlock()
	return t.certified.authorities
}

// HasAuthorities reports whether any certificate can be valid.
func (t *TrustStore) HasAuthorities() bool { return t.certified.configured.Load() }

// SetAuthorities makes certificates of these authorities valid, and of no others. Peers that lose their
// certificate by that are peers no more when it returns; [TrustStore.TakeDecertified] returns them.
func (t *TrustStore) SetAuthorities(authorities []Authority) {
	c := &t.certified
	c.mu.Lock()
	defer c.mu.Unlock()
	c.authorities = authorities
	c.configured.Store(len(authorities) > 0)
	for id, p := range c.byID {
		i := slices.IndexFunc(authorities, func(a Authority) bool { return a.Key == p.Certificate.signer && a.Name == p.Certificate.Authority })
		if i < 0 || p.Certificate.isRevokedBy(authorities[i].Revoked) {
			c.end(id)
		}
	}
}

// Certify makes a key a peer for as long as its certificate is valid, or renews what is known of it.
// raw is the certificate in its binary form. A key or a name that is blocked gets an error, also if
// Untrust is called meanwhile. A key that the owner trusts stays what it is.
//
// If there is no room, the peer gives up its place that has shown its certificate longest ago, among those
// that isIdle reports as not connected. If all are connected, the error is
// [ErrCertifiedFull]. isIdle must not block, nor call t.
func (t *TrustStore) Certify(raw []byte, id ID, now time.Time, isIdle func(ID) bool) (Peer, error) {
	c := &t.certified
	authorities := t.Authorities()
	for {
		checked, err := CheckCertificate(raw, id, authorities, now)
		if err != nil {
			return Peer{}, err
		}
		c.mu.Lock()
		if !slices.Equal(c.authorities, authorities) { // they were replaced meanwhile, or what they have revoked
			authorities = c.authorities
			c.mu.Unlock()
			continue
		}
		defer c.mu.Unlock()
		if t.isNameOrKeyBlocked(checked.Name, id) {
			return Peer{}, ownwords.Errorf("certificate: %s was untrusted here", checked.Name)
		}
		return c.add(checked, now, isIdle)
	}
}

// isNameOrKeyBlocked reports whether a key is blocked, or another one under that name of a
// certificate.
func (t *TrustStore) isNameOrKeyBlocked(name string, id ID) bool {
	s := t.current.Load()
	if _, blocked := s.blocked[id]; blocked {
		return true
	}
	return slices.ContainsFunc(s.Blocked, func(b Block) bool { return b.Name == name })
}

// add enters a peer, or replaces what is known of it. Callers hold mu.
func (c *certifiedPeers) add(cert *Certificate, now time.Time, isIdle func(ID) bool) (Peer, error) {
	old, known := c.byID[cert.ID]
	sameAuthority := func(p Peer) bool { return p.Certificate.Authority == cert.Authority }
	if !slices.Contains(c.byName[cert.Name], cert.ID) && len(c.byName[cert.Name]) >= keysOfName && !c.makeRoom(isIdle, func(p Peer) bool { return p.Name == cert.Name }) ||
		(!known || !sameAuthority(old)) && c.byAuthority[cert.Authority] >= maxCertified/2 && !c.makeRoom(isIdle, sameAuthority) ||
		!known && len(c.byID) >= maxCertified && !c.makeRoom(isIdle, c.isOfLargestAuthority) {
		return Peer{}, ErrCertifiedFull
	}
	c.remove(cert.ID)
	p := Peer{ID: cert.ID, Name: cert.Name, Since: now.UTC(), Certificate: cert}
	if p.PQ = cert.PQ; p.PQ.IsZero() {
		p.PQ = c.pins.use(cert.ID, now)
	}
	c.byID[cert.ID] = p
	c.byName[p.Name] = append(c.byName[p.Name], cert.ID)
	c.byAuthority[cert.Authority]++
	c.number.Store(int64(len(c.byID)))
	c.changed.Set()
	return p, nil
}

// isOfLargestAuthority reports whether no authority has more peers than that of p: so one takes no room
// from another that has fewer. Callers hold mu.
func (c *certifiedPeers) isOfLargestAuthority(p Peer) bool {
	most := slices.Max(slices.Collect(maps.Values(c.byAuthority)))
	return c.byAuthority[p.Certificate.Authority] == most
}

// makeRoom ends the certificate of the idle peer that matches and has shown its own longest ago, and
// reports whether there was one. Callers hold mu.
func (c *certifiedPeers) makeRoom(isIdle func(ID) bool, match func(Peer) bool) bool {
	var oldest Peer
	for id, p := range c.byID {
		if match(p) && (oldest.ID.IsZero() || p.Since.Before(oldest.Since)) && isIdle(id) {
			oldest = p
		}
	}
	if oldest.ID.IsZero() {
		return false
	}
	c.end(oldest.ID)
	return true
}

// end removes a peer, if it is there, and makes TakeDecertified return it. Callers hold mu.
func (c *certifiedPeers) end(id ID) {
	if _, ok := c.byID[id]; ok {
		c.remove(id)
		c.ended[id] = true
		c.changed.Set()
	}
}

// remove removes a peer, if it is there. Callers hold mu.
func (c *certifiedPeers) remove(id ID) {
	p, ok := c.byID[id]
	if !ok {
		return
	}
	delete(c.byID, id)
	c.number.Store(int64(len(c.byID)))
	if c.byName[p.Name] = slices.DeleteFunc(c.byName[p.Name], func(o ID) bool { return o == id }); len(c.byName[p.Name]) == 0 {
		delete(c.byName, p.Name)
	}
	if c.byAuthority[p.Certificate.Authority]--; c.byAuthority[p.Certificate.Authority] == 0 {
		delete(c.byAuthority, p.Certificate.Authority)
	}
}

// Decertify ends the certificate of a key, if it has one.
func (t *TrustStore) Decertify(id ID) {
	c := &t.certified
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(id)
}

// TakeDecertified ends the certificates that have expired. It returns the keys that have lost their
// certificate since the last call, in whatever way, and have no new one: the caller closes their
// connections. next is when another certificate expires; zero: none does.
func (t *TrustStore) TakeDecertified(now time.Time) (ended []ID, next time.Time) {
	c := &t.certified
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, p := range c.byID {
		switch at := p.Certificate.NotAfter; {
		case p.Certificate.HasEndedAt(now):
			c.end(id)
		case !at.IsZero() && (next.IsZero() || at.Add(ClockTolerance).Before(next)):
			next = at.Add(ClockTolerance)
		}
	}
	for id := range c.ended {
		if _, again := c.byID[id]; !again {
			ended = append(ended, id)
		}
	}
	clear(c.ended)
	c.pins.sweep(now, func(id ID) bool { _, ok := c.byID[id]; return ok })
	return ended, next
}

// CertifiedSignal returns a channel on which a value comes when [TrustStore.TakeDecertified] may
// return something else than before. It has room for one, and is for one receiver.
func (t *TrustStore) CertifiedSignal() <-chan struct{} { return t.certified.changed }

// HasCertified reports whether there are peers with certificates.
func (t *TrustStore) HasCertified() bool { return t.certified.number.Load() > 0 }

// CertifiedPeers returns the peers that only have a certificate, sorted by name and id.
func (t *TrustStore) CertifiedPeers() []Peer {
	c := &t.certified
	if c.number.Load() == 0 {
		return nil
	}
	c.mu.RLock()
	all := slices.Collect(maps.Values(c.byID))
	c.mu.RUnlock()
	all = slices.DeleteFunc(all, func(p Peer) bool {
		_, counts := t.findCertified(p.ID)
		return !counts
	})
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return a.Name < b.Name || a.Name == b.Name && a.ID.Compare(b.ID) < 0
	})
	return all
}

// IsCertified reports whether a key is a peer only by its certificate, and the name in it.
func (t *TrustStore) IsCertified(id ID) (name string, ok bool) {
	p, ok := t.findCertified(id)
	return p.Name, ok
}

// findCertified returns the peer with that id, if it is a peer only by its certificate.
func (t *TrustStore) findCertified(id ID) (Peer, bool) {
	c := &t.certified
	if c.number.Load() == 0 {
		return Peer{}, false
	}
	s := t.current.Load()
	if _, trusted := s.byID[id]; trusted {
		return Peer{}, false
	}
	if _, blocked := s.blocked[id]; blocked {
		return Peer{}, false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	p, ok := c.byID[id]
	return p, ok
}

// untrustCertified ends the certificates of a key that is blocked now, and of all others with the
// name under which it is blocked.
func (t *TrustStore) untrustCertified(b Block) {
	c := &t.certified
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(b.ID)
	c.pins.forget(b.ID)
	if strings.Contains(b.Name, ".") {
		for _, id := range slices.Clone(c.byName[b.Name]) {
			c.end(id)
		}
	}
}

// pinCertified pins the hash of a certified peer's post-quantum key, as PinPQ does.
func (t *TrustStore) pinCertified(id ID, hash PQHash, now time.Time) error {
	c := &t.certified
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.byID[id]
	switch {
	case !ok:
		return ownwords.Errorf("pin: %w", &UnknownPeerError{Ref: id.String()})
	case hash.IsZero():
		return ownwords.New("pin: no hash given")
	case p.PQ == hash:
		return nil
	case !p.PQ.IsZero():
		return ownwords.Errorf("pin: %w", &PinMismatchError{Name: p.Name})
	}
	p.PQ = hash
	c.byID[id] = p
	c.pins.set(CertifiedPin{ID: id, PQ: hash, Authority: p.Certificate.Authority, Seen: now})
	return nil
}
