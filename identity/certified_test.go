package identity

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// fleet is an authority, and a store in which its word counts.
type fleet struct {
	t      testing.TB
	signer ssh.Signer
	corp   Authority
	store  *TrustStore
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	f := &fleet{t: t, store: NewMemoryTrustStore()}
	f.signer, f.corp = newTestAuthority(t, "corp", newEd25519(t))
	f.store.SetAuthorities([]Authority{f.corp})
	return f
}

func (f *fleet) newID() ID {
	f.t.Helper()
	return ID(newEd25519(f.t).Public().(ed25519.PublicKey))
}

// certify certifies a key with principals, and other changes.
func (f *fleet) certify(id ID, change func(*ssh.Certificate), principals ...string) (Peer, error) {
	f.t.Helper()
	return f.store.Certify(signTestCertificate(f.t, f.signer, id, func(c *ssh.Certificate) {
		if c.ValidPrincipals = principals; change != nil {
			change(c)
		}
	}), id, testNow, allIdle)
}

func allIdle(ID) bool { return true }

func (f *fleet) mustEnd(want ...ID) {
	f.t.Helper()
	if ended, _ := f.store.TakeDecertified(testNow); !slices.Equal(ended, want) {
		f.t.Errorf("ended: %v, expected %v", ended, want)
	}
}

func (f *fleet) mustCertify(id ID, principals ...string) Peer {
	f.t.Helper()
	p, err := f.certify(id, nil, principals...)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func (f *fleet) mustResolve(ref string, want ID) {
	f.t.Helper()
	if p, err := f.store.Resolve(ref); err != nil || p.ID != want {
		f.t.Errorf("%s: %s, %v", ref, p.ID.Label(), err)
	}
}

// holds: security.md#fleets
func TestCertifiedPeersAreFound(t *testing.T) {
	f := newFleet(t)
	id := f.newID()
	if _, ok := f.store.FindPeer(id); ok {
		t.Fatal("found before it had a certificate")
	}
	p := f.mustCertify(id, "acp:build-7", "acp:group:ci")
	if p.Name != "build-7.corp" || !slices.Equal(p.Certificate.Groups, []string{"ci.corp"}) || !p.Since.Equal(testNow) || f.store.CertifiedPeers()[0].ID != id {
		t.Errorf("%+v", p)
	}
	if found, ok := f.store.FindPeer(id); !ok || found.Name != "build-7.corp" {
		t.Errorf("%+v, %v", found, ok)
	}
	f.mustResolve("build-7.corp", id)
	f.mustResolve(id.String()[:8], id)
	f.mustResolve(strings.ToUpper(id.String()), id)
	for _, ref := range []string{"build-7", "build-7.lab", "corp"} {
		if _, err := f.store.Resolve(ref); err == nil {
			t.Errorf("%s is found", ref)
		}
	}
	if len(f.store.Peers()) != 0 || f.store.Len() != 0 || len(f.store.CertifiedPeers()) != 1 {
		t.Errorf("%v, %v", f.store.Peers(), f.store.CertifiedPeers())
	}

	// A petname of the owner outranks it, and takes its place.
	if _, err := f.store.Trust(Peer{ID: id, Name: "desk"}); err != nil {
		t.Fatal(err)
	}
	if found, _ := f.store.FindPeer(id); found.Name != "desk" || found.Certificate != nil {
		t.Errorf("%+v", found)
	}
	if _, err := f.store.Resolve("build-7.corp"); err == nil || len(f.store.CertifiedPeers()) != 0 {
		t.Errorf("it still counts by its certificate: %v", err)
	}
}

func TestTwoKeysWithOneName(t *testing.T) {
	f := newFleet(t)
	a, b := f.newID(), f.newID()
	f.mustCertify(a, "acp:build-7")
	f.mustCertify(b, "acp:build-7")
	_, err := f.store.Resolve("build-7.corp")
	shared, ok := errors.AsType[*SharedNameError](err)
	if !ok || len(shared.IDs) != 2 || !strings.Contains(err.Error(), a.String()) || !strings.Contains(err.Error(), b.String()) {
		t.Fatal(err)
	}
	f.mustResolve(a.String(), a)
	f.mustResolve(b.String()[:10], b)
	f.store.Decertify(a)
	f.mustResolve("build-7.corp", b)
}

func TestCertificatesAreRenewed(t *testing.T) {
	f := newFleet(t)
	id := f.newID()
	f.mustCertify(id, "acp:build-7")
	ended, next := f.store.TakeDecertified(testNow)
	if len(ended) > 0 || !next.Equal(testNow.Add(time.Hour+ClockTolerance)) {
		t.Fatalf("%v, next %v", ended, next)
	}
	p, err := f.certify(id, func(c *ssh.Certificate) { c.ValidBefore += 3600 }, "acp:build-8")
	if err != nil || p.Name != "build-8.corp" {
		t.Fatalf("%+v, %v", p, err)
	}
	f.mustResolve("build-8.corp", id)
	if _, err := f.store.Resolve("build-7.corp"); err == nil {
		t.Error("the old name is found")
	}
	if ended, _ := f.store.TakeDecertified(testNow.Add(2*time.Hour + ClockTolerance - 1)); len(ended) > 0 {
		t.Errorf("ended too early: %v", ended)
	}
	if ended, next := f.store.TakeDecertified(testNow.Add(2*time.Hour + ClockTolerance)); !slices.Equal(ended, []ID{id}) || !next.IsZero() {
		t.Errorf("%v, next %v", ended, next)
	}
	if _, ok := f.store.FindPeer(id); ok {
		t.Error("found after its end")
	}
}

// holds: security.md#fleets
func TestUntrustBlocksKeyAndName(t *testing.T) {
	dir := t.TempDir()
	store, _, err := OpenTrustStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t)
	f.store = store
	store.SetAuthorities([]Authority{f.corp})
	a, b, other := f.newID(), f.newID(), f.newID()
	f.mustCertify(a, "acp:build-7")
	f.mustCertify(b, "acp:build-7")
	f.mustCertify(other, "acp:build-8")
	if err := store.Untrust(a); err != nil {
		t.Fatal(err)
	}
	for _, id := range []ID{a, b} {
		if _, ok := store.FindPeer(id); ok {
			t.Errorf("%s is found", id.Label())
		}
		if _, err := f.certify(id, nil, "acp:build-7"); err == nil {
			t.Errorf("%s is certified again", id.Label())
		}
	}
	if _, err := f.certify(a, nil, "acp:build-9"); err == nil {
		t.Error("the blocked key is certified under another name")
	}
	f.mustResolve("build-8.corp", other)
	if err := store.Save(); err != nil {
		t.Fatal(err)
	}

	// The name stays blocked over a restart, until the key is trusted.
	if f.store, _, err = OpenTrustStore(dir); err != nil {
		t.Fatal(err)
	}
	f.store.SetAuthorities([]Authority{f.corp})
	if _, err := f.certify(b, nil, "acp:build-7"); err == nil {
		t.Error("certified after a restart")
	}
	if p, err := f.store.Trust(Peer{ID: a}); err != nil || p.Name != "build-7" {
		t.Errorf("%+v, %v", p, err)
	}
	f.mustCertify(b, "acp:build-7")
	f.mustResolve("build-7.corp", b)
}

func TestAuthoritiesAreReplaced(t *testing.T) {
	f := newFleet(t)
	a, b := f.newID(), f.newID()
	f.mustCertify(a, "acp:build-7")
	f.mustCertify(b, "acp:build-8")
	revoked, err := ParseRevocations([]byte("name build-8"))
	if err != nil {
		t.Fatal(err)
	}
	f.store.SetAuthorities([]Authority{{Name: "corp", Key: f.corp.Key, Revoked: revoked}})
	f.mustEnd(b)
	if _, err := f.certify(b, nil, "acp:build-8"); err == nil {
		t.Error("a revoked name is certified")
	}
	f.mustResolve("build-7.corp", a)
	f.store.SetAuthorities([]Authority{{Name: "firm", Key: f.corp.Key}})
	f.mustEnd(a)
	f.mustCertify(a, "acp:build-7")
	f.mustResolve("build-7.firm", a)
	f.store.SetAuthorities(nil)
	f.mustEnd(a)
	if _, err := f.certify(a, nil, "acp:build-7"); err == nil || f.store.HasAuthorities() {
		t.Error("certified without an authority")
	}

	// One that has come back is not told of.
	f.store.SetAuthorities([]Authority{f.corp})
	f.mustCertify(a, "acp:build-7")
	f.store.Decertify(a)
	f.mustCertify(a, "acp:build-7")
	f.mustEnd()
	f.mustResolve("build-7.corp", a)
}

// holds: security.md#fleets
func TestCertifiedPeersAreBounded(t *testing.T) {
	f := newFleet(t)
	signer, lab := newTestAuthority(t, "lab", newEd25519(t))
	f.store.SetAuthorities([]Authority{f.corp, lab})
	c := &f.store.certified
	key := func(i int) ID { return ID{1, byte(i), byte(i >> 8)} }
	busy := func(ID) bool { return false }
	add := func(i int, name string, isIdle func(ID) bool) error {
		_, err := c.add(&Certificate{ID: key(i), Name: name, Authority: "corp"}, testNow.Add(time.Duration(i)), isIdle)
		return err
	}
	for i := range maxCertified / 2 {
		if err := add(i, fmt.Sprintf("build-%d.corp", i), busy); err != nil {
			t.Fatal(err)
		}
	}
	id := f.newID()
	if err := add(maxCertified, "desk.corp", busy); !errors.Is(err, ErrCertifiedFull) {
		t.Errorf("%v", err)
	}
	if err := add(7, "build-7.corp", busy); err != nil {
		t.Errorf("renewed: %v", err)
	}
	if _, err := f.store.Certify(signTestCertificate(t, signer, id, nil), id, testNow, busy); err != nil {
		t.Errorf("of another authority: %v", err)
	}
	if err := add(maxCertified, "desk.corp", func(id ID) bool { return id != key(0) }); err != nil {
		t.Errorf("where others are idle: %v", err)
	}
	f.mustEnd(key(1)) // the oldest that is idle

	// One name has four keys.
	for i := range keysOfName {
		if err := add(2+i, "shared.corp", busy); err != nil {
			t.Fatal(err)
		}
	}
	if err := add(10, "shared.corp", busy); !errors.Is(err, ErrCertifiedFull) {
		t.Errorf("%v", err)
	}
	if err := add(2, "shared.corp", busy); err != nil {
		t.Errorf("renewed: %v", err)
	}
	if err := add(10, "shared.corp", allIdle); err != nil {
		t.Errorf("where others are idle: %v", err)
	}
	f.mustEnd(key(3 - 1))
}

// All authorities together have room for so many; what comes beyond takes the place of an idle one of
// that which has most, and of no other.
// holds: security.md#fleets
func TestCertifiedPeersOfAllAuthoritiesAreBounded(t *testing.T) {
	f := newFleet(t)
	c := &f.store.certified
	n := 0
	add := func(authority string, isIdle func(ID) bool) error {
		n++
		_, err := c.add(&Certificate{ID: ID{1, byte(n), byte(n >> 8)}, Name: fmt.Sprintf("build-%d.%s", n, authority), Authority: authority}, testNow.Add(time.Duration(n)), isIdle)
		return err
	}
	busy := func(ID) bool { return false }
	for _, some := range []struct {
		authority string
		n         int
	}{{"small", 10}, {"corp", maxCertified / 2}, {"lab", maxCertified/2 - 10}} {
		for range some.n {
			if err := add(some.authority, busy); err != nil {
				t.Fatal(some.authority, err)
			}
		}
	}
	if err := add("late", busy); !errors.Is(err, ErrCertifiedFull) {
		t.Errorf("beyond the bound of all: %v", err)
	}
	for range 100 {
		if err := add("late", allIdle); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.byID) != maxCertified || c.byAuthority["small"] != 10 || c.byAuthority["late"] != 100 {
		t.Errorf("%d in all, %v", len(c.byID), c.byAuthority)
	}
}

// holds: security.md#fleets
func TestPinsOfCertifiedPeers(t *testing.T) {
	f := newFleet(t)
	id, said, hash, other := f.newID(), f.newID(), HashPQ([]byte("a")), HashPQ([]byte("b"))
	f.mustCertify(id, "acp:build-7")
	if err := f.store.PinPQ(id, hash); err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*PinMismatchError](f.store.PinPQ(id, other)); !ok {
		t.Error("another key is pinned")
	}
	if p, err := f.certify(said, func(c *ssh.Certificate) { c.Extensions = map[string]string{pqExtension: other.String()} }, "acp:build-8"); err != nil || p.PQ != other {
		t.Errorf("%+v, %v", p, err)
	}
	written, deleted := f.store.TakeUnsavedPins()
	if len(written) != 1 || written[0].ID != id || written[0].PQ != hash || len(deleted) != 0 {
		t.Fatalf("%+v, %v", written, deleted)
	}

	// It outlasts the certificate and a restart, for 90 days.
	next := newFleet(t)
	next.signer, next.corp = f.signer, f.corp
	next.store.SetAuthorities([]Authority{f.corp})
	const ninetyDays = 90 * 24 * time.Hour
	written[0].Seen = testNow.Add(-ninetyDays + time.Hour)
	next.store.LoadCertifiedPins(written)
	if p := next.mustCertify(id, "acp:build-7"); p.PQ != hash {
		t.Errorf("%+v", p)
	}
	written[0].Seen = testNow.Add(-ninetyDays - 1)
	next.store.LoadCertifiedPins(written)
	if p := next.mustCertify(id, "acp:build-7"); !p.PQ.IsZero() {
		t.Errorf("after 90 days: %+v", p)
	}
	if _, deleted := next.store.TakeUnsavedPins(); !slices.Equal(deleted, []ID{id}) {
		t.Errorf("%v", deleted)
	}

	// Also if the peer does not come again; but not of one that is there.
	gone := f.newID()
	written[0].Seen = testNow.Add(-ninetyDays - 1)
	next.store.LoadCertifiedPins([]CertifiedPin{written[0], {ID: gone, PQ: other, Authority: "corp", Seen: written[0].Seen}})
	next.store.TakeDecertified(testNow)
	if _, deleted := next.store.TakeUnsavedPins(); !slices.Equal(deleted, []ID{gone}) {
		t.Errorf("swept: %v", deleted)
	}

	// An authority has half of the pins, and all together twice as many.
	pins := newCertifiedPins()
	for i := range maxPins/2 + 1 {
		pins.set(CertifiedPin{ID: ID{1, byte(i), byte(i >> 8)}, PQ: hash, Authority: "corp", Seen: testNow.Add(time.Duration(i))})
	}
	pins.set(CertifiedPin{ID: id, PQ: hash, Authority: "lab", Seen: testNow})
	if len(pins.byID) != maxPins/2+1 || !pins.use(ID{1, 0, 0}, testNow).IsZero() || pins.use(ID{1, 1, 0}, testNow) != hash {
		t.Errorf("%d pins", len(pins.byID))
	}
	for i := range maxPins/2 + 3 {
		pins.set(CertifiedPin{ID: ID{2, byte(i), byte(i >> 8)}, PQ: hash, Authority: fmt.Sprintf("of-%d", i%16), Seen: testNow.Add(time.Hour)})
	}
	if len(pins.byID) != maxPins || !pins.use(id, testNow).IsZero() {
		t.Errorf("%d pins of all", len(pins.byID))
	}
}

// No order of calls lets a key count that was untrusted, or whose authority has gone.
// holds: security.md#fleets
func TestCertifyWhileUntrusted(t *testing.T) {
	f := newFleet(t)
	for i := range 50 {
		id, gone := f.newID(), f.newID()
		raw := signTestCertificate(t, f.signer, id, func(c *ssh.Certificate) { c.ValidPrincipals = []string{fmt.Sprintf("acp:build-%d", i)} })
		late := signTestCertificate(t, f.signer, gone, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"acp:desk-8"} })
		revoked, err := ParseRevocations(fmt.Appendf(nil, "id %s", gone))
		if err != nil {
			t.Fatal(err)
		}
		var calls sync.WaitGroup
		calls.Go(func() { _, _ = f.store.Certify(raw, id, testNow, allIdle) })
		calls.Go(func() { _, _ = f.store.Certify(late, gone, testNow, allIdle) })
		calls.Go(func() { _ = f.store.Untrust(id) })
		calls.Go(func() { f.store.SetAuthorities([]Authority{{Name: "corp", Key: f.corp.Key, Revoked: revoked}}) })
		calls.Wait()
		for _, key := range []ID{id, gone} {
			if p, ok := f.store.FindPeer(key); ok {
				t.Fatalf("%+v", p)
			}
		}
	}
}
