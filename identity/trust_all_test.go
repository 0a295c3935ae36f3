package identity

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// describePeers returns names and addresses, in the order of the names.
func describePeers(store *TrustStore) string {
	var b strings.Builder
	for _, p := range store.Peers() {
		b.WriteString(p.Name + "=" + p.ID.String()[:4] + strings.Join(p.Addrs, ",") + " ")
	}
	return b.String()
}

// A list is trusted by one write: new peers, new names and new addresses. Fields that are left
// out stay. The same list again writes nothing.
func TestTrustAll(t *testing.T) {
	dir := t.TempDir()
	store := openTrust(t, dir)
	for i, name := range []string{"desk", "laptop", "tablet"} {
		trust(t, store, Peer{ID: testID(i + 1), Name: name, Addrs: []string{name + ".example:7117"}, PQ: PQHash{byte(i + 1)}})
	}
	list := []Peer{
		{ID: testID(1), Name: "laptop"}, // the two swap names
		{ID: testID(2), Name: "desk", Addrs: []string{}},
		{ID: testID(4), Name: "build", Addrs: []string{"build.example:7117"}},
		{ID: testID(3)},
	}
	sequence := store.files.Newest.Sequence
	stored, err := store.TrustAll(list)
	if err != nil || len(stored) != 4 || stored[0].PQ != (PQHash{1}) || stored[3].Name != "tablet" || stored[2].Since.IsZero() {
		t.Fatalf("%+v, %v", stored, err)
	}
	const want = "build=0004build.example:7117 desk=0002 laptop=0001desk.example:7117 tablet=0003tablet.example:7117 "
	if got := describePeers(store); got != want {
		t.Errorf("trusted %s, want %s", got, want)
	}
	if !same(store, openTrust(t, dir)) || store.files.Newest.Sequence != sequence+1 {
		t.Errorf("the files differ, or were written %d times", store.files.Newest.Sequence-sequence)
	}
	list[2].Addrs[0] = "elsewhere.example:7117" // is the caller's own
	if got := describePeers(store); got != want {
		t.Errorf("a caller has changed it to %s", got)
	}
	list[2].Addrs[0] = "build.example:7117"
	if again, err := store.TrustAll(list); err != nil || !slices.EqualFunc(again, stored, Peer.isEqual) || store.files.Newest.Sequence != sequence+1 {
		t.Errorf("the same again: %+v, %v", again, err)
	}
}

// One entry that cannot be trusted keeps all others out, and each is told what is in its way.
func TestTrustAllOrNone(t *testing.T) {
	store := NewMemoryTrustStore()
	trust(t, store, Peer{ID: testID(1), Name: "desk"})
	trust(t, store, Peer{ID: testID(2), Name: "laptop"})
	untrust(t, store, testID(3))
	before := describePeers(store)
	list := []Peer{
		{ID: testID(4), Name: "build"},
		{ID: testID(3), Name: "thief"},
		{ID: testID(5), Name: "desk"},
		{ID: testID(6), Name: "build"},
		{ID: testID(4), Name: "build-2"},
		{ID: ID{}, Name: "nobody"},
		{ID: testID(7), Name: "Tablet"},
		{ID: testID(8)},
		{ID: testID(9), Name: "tablet", Addrs: []string{"nowhere"}},
		{ID: testID(2), Name: "notebook"},
		{ID: testID(10), Name: "laptop"}, // which is free then
	}
	got := store.FindObstacles(list)
	for i, want := range []string{"", "was untrusted here", `"desk" is taken by`, `"build" is taken by`, "is listed twice", "only zeros", "lower-case", "empty", "host:port", "", ""} {
		if (got[i] == nil) != (want == "") || got[i] != nil && !strings.Contains(got[i].Error(), want) {
			t.Errorf("%+v: %v, want %q", list[i], got[i], want)
		}
	}
	if blocked, ok := errors.AsType[*BlockedError](got[1]); !ok || blocked.ID != testID(3) {
		t.Errorf("%v", got[1])
	}
	if err := second(store.TrustAll(list)); err == nil {
		t.Error("all are trusted")
	}
	for _, i := range []int{1, 2, 5, 6, 7, 8} { // wrong without the others too
		if stored, err := store.TrustAll([]Peer{{ID: testID(2), Name: "notebook"}, list[i]}); err == nil || stored != nil {
			t.Errorf("%+v is trusted: %v", list[i], stored)
		}
	}
	if after := describePeers(store); after != before {
		t.Errorf("before %s, after %s", before, after)
	}
}

// What does not fit is told so, and nothing of the list is trusted.
func TestTrustAllBounds(t *testing.T) {
	store := NewMemoryTrustStore()
	filled, err := newSnapshot(fill(maxPeers-1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	store.current.Store(filled)
	list := []Peer{{ID: testID(60000), Name: "desk"}, {ID: filled.Peers[7].ID, Name: "renamed"}, {ID: testID(60001), Name: "laptop"}}
	if got := store.FindObstacles(list); got[0] != nil || got[1] != nil || got[2] != ErrTrustFull {
		t.Errorf("%v", got)
	}
	if err := second(store.TrustAll(list)); !errors.Is(err, ErrTrustFull) || store.Len() != maxPeers-1 {
		t.Errorf("%v, and %d are trusted", err, store.Len())
	}
	if err := second(store.TrustAll(list[:2])); err != nil || store.Len() != maxPeers {
		t.Errorf("%v, and %d are trusted", err, store.Len())
	}
}
