package identity

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func BenchmarkResolve(b *testing.B) {
	r := fill(maxPeers, 2, 0)
	rand.Shuffle(len(r.Peers), func(i, j int) { r.Peers[i].ID, r.Peers[j].ID = r.Peers[j].ID, r.Peers[i].ID })
	s, err := newSnapshot(r)
	if err != nil {
		b.Fatal(err)
	}
	store := NewMemoryTrustStore()
	store.current.Store(s)
	for name, ref := range map[string]string{"name": "peer-02000", "prefix": testID(2000).String()[:10], "unknown": "per-02000"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				store.Resolve(ref)
			}
		})
	}
}

func BenchmarkTrust(b *testing.B) {
	for _, peers := range []int{4, maxPeers - 1} {
		b.Run(fmt.Sprint(peers), func(b *testing.B) {
			dir := b.TempDir()
			filled, err := newSnapshot(fill(peers, 2, 0))
			if err != nil {
				b.Fatal(err)
			}
			if err := openTrust(b, dir).files.Write(filled); err != nil {
				b.Fatal(err)
			}
			store := openTrust(b, dir)
			for b.Loop() {
				trust(b, store, Peer{ID: testID(60000), Name: "desk"})
				untrust(b, store, testID(60000))
			}
		})
	}
}
