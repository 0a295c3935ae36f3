package budget

import (
	"fmt"
	"maps"
	"testing"

	"github.com/acpd/acpd/identity"
)

// fleetBook trusts some peers, and all others have a certificate with the name that names gives.
func fleetBook(trusted int, name func(identity.ID) string) *Book {
	b := trusting(trusted)
	b.Certified = func(who identity.ID) (string, bool) { return name(who), who[0] >= 0x80 }
	return b
}

// certifiedID returns an id of a peer with a certificate.
func certifiedID(n int) identity.ID { return identity.ID{0x80 | byte(n>>8), byte(n)} }

// holds: security.md#fleets
func TestAThousandCertifiedPeersLeaveTheTrustedTheirHalf(t *testing.T) {
	b := fleetBook(4, func(who identity.ID) string { return fmt.Sprintf("build-%x.corp", who[:2]) })
	a := b.OpenAccount(Inbox)
	var sum int64
	for n := range 1000 {
		sum += fill(t, a, certifiedID(n))
	}
	if half := Inbox.All - Inbox.All/2; sum != half {
		t.Errorf("they hold %d, expected half of the sum, %d", sum, half)
	}
	for n := range 4 {
		if got := fill(t, a, id(n)); got < Inbox.All/8 {
			t.Errorf("trusted peer %d got %d", n, got)
		}
	}

	// What they give back is free for others.
	for n := range 1000 {
		a.Release(certifiedID(n), a.HeldBy(certifiedID(n)))
	}
	if len(a.names) != 0 || len(a.byName) != 0 {
		t.Errorf("left: %v, %v", a.names, a.byName)
	}
	if got := fill(t, a, certifiedID(1)); got != Inbox.Peer {
		t.Errorf("a certified peer that comes later got %d", got)
	}
}

// A sum of which trusted peers hold more than half leaves certified ones nothing of what is set aside.
func TestCertifiedPeersHaveNoPart(t *testing.T) {
	b := fleetBook(10, func(identity.ID) string { return "build-7.corp" })
	a := b.OpenAccount(Inbox)
	for n := range 2 {
		fill(t, a, id(n))
	}
	if got := fill(t, a, certifiedID(1)); got > Inbox.All/2 {
		t.Errorf("it got %d", got)
	}
	for n := range 8 {
		if got := fill(t, a, id(2+n)); got < Inbox.All/20 {
			t.Errorf("trusted peer %d got %d", 2+n, got)
		}
	}
}

// holds: security.md#fleets
func TestKeysOfOneNameShareWhatOnePeerMayHave(t *testing.T) {
	b := fleetBook(1, func(identity.ID) string { return "build-7.corp" })
	a := b.OpenAccount(Inbox)
	first, second := fill(t, a, certifiedID(1)), fill(t, a, certifiedID(2))
	if first != Inbox.Peer || second != 0 {
		t.Errorf("%d and %d", first, second)
	}
	a.Release(certifiedID(1), 3)
	if got := fill(t, a, certifiedID(2)); got != 3 {
		t.Errorf("of three that are free it got %d", got)
	}
}

// What a peer holds counts under the name that it has now, or had last.
func TestNamesThatChangeMeanwhile(t *testing.T) {
	name, certified := "build-7.corp", true
	b := trusting(1)
	b.Certified = func(identity.ID) (string, bool) { return name, certified }
	a := b.OpenAccount(Inbox)
	reserve := func(want map[string]int64) {
		t.Helper()
		if err := a.Reserve(id(1), 1); err != nil || !maps.Equal(a.byName, want) {
			t.Errorf("%v, expected %v; %v", a.byName, want, err)
		}
	}
	reserve(map[string]int64{"build-7.corp": 1})
	name = "build-8.corp"
	reserve(map[string]int64{"build-8.corp": 2})
	name = "" // it has no certificate any more
	reserve(map[string]int64{"build-8.corp": 3})
	certified = false // the owner trusts it
	reserve(nil)
	if len(a.names) != 0 || a.sum != 4 {
		t.Errorf("%v, %d in all", a.names, a.sum)
	}
	name, certified = "build-7.corp", true
	reserve(map[string]int64{"build-7.corp": 5})
	a.Release(id(1), 5)
	if len(a.names) != 0 || len(a.byName) != 0 || a.sum != 0 {
		t.Errorf("%v, %v, %d in all", a.names, a.byName, a.sum)
	}
}

// What certified peers have left on the disk counts as theirs after a restart too, when their
// certificates have not come yet.
// holds: security.md#fleets
func TestWhatCertifiedPeersLeftCountsAfterARestart(t *testing.T) {
	name := ""
	b := fleetBook(4, func(identity.ID) string { return name })
	a := b.OpenAccount(Inbox)
	half := Inbox.All - Inbox.All/2
	for n := range 1000 {
		a.AddUnchecked(certifiedID(n), half/1000)
	}
	name = "build-7.corp"
	for n := range 2000 {
		if got := fill(t, a, certifiedID(n)); got != 0 {
			t.Fatalf("key %d got %d beyond the half", n, got)
		}
	}
	for n := range 4 {
		if got := fill(t, a, id(n)); got < Inbox.All/8 {
			t.Errorf("trusted peer %d got %d", n, got)
		}
	}
}
