package identity

import (
	"testing"
)

// A pin takes effect at once, and is in the files with the next change or with Save.
func TestPinWaits(t *testing.T) {
	dir := t.TempDir()
	store := openTrust(t, dir)
	pinned := func(s *TrustStore, n int) bool {
		p, _ := s.FindPeer(testID(n))
		return p.PQ == PQHash{byte(n)}
	}
	pin := func(n int) {
		t.Helper()
		if err := store.PinPQ(testID(n), PQHash{byte(n)}); err != nil {
			t.Fatal(err)
		}
		if !pinned(store, n) || pinned(openTrust(t, dir), n) {
			t.Errorf("%d: in memory %v, in the files %v", n, pinned(store, n), pinned(openTrust(t, dir), n))
		}
	}
	for n := range 3 {
		trust(t, store, Peer{ID: testID(n + 1)})
	}

	pin(1)
	pin(2)
	saveUnsaved(t, store)
	if saved := openTrust(t, dir); !pinned(saved, 1) || !pinned(saved, 2) || !same(store, saved) {
		t.Error("Save left something out")
	}

	before := read(t, dir, trustName)
	if err := store.Save(); err != nil || string(before) != string(read(t, dir, trustName)) {
		t.Errorf("Save wrote what was written: %v", err)
	}

	pin(3)
	untrust(t, store, testID(1))
	if saved := openTrust(t, dir); !pinned(saved, 3) || !saved.IsBlocked(testID(1)) || !same(store, saved) {
		t.Error("the next change left the pin out")
	}
}
