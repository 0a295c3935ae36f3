package measures

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/metrics"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// Only so many peers have series of their own, and those that are no longer trusted lose them.
func TestFewPeersHaveSeries(t *testing.T) {
	m := New(true)
	var trusted []identity.Peer
	for i := range maxMeasuredPeers + 3 {
		trusted = append(trusted, identity.Peer{ID: identity.ID{1, byte(i)}, Name: "peer-" + strconv.Itoa(i)})
	}
	first := trusted[0].ID
	for _, p := range trusted {
		m.ListPeerFamilies([]identity.Peer{p}, func(identity.ID) (peer.Peer, bool) { return peer.Peer{}, false })
	}
	if len(m.peers.single) != 1 {
		t.Errorf("%d peers have series, and one is trusted", len(m.peers.single))
	}
	text := string(metrics.AppendFamilies(nil, m.ListPeerFamilies(trusted, func(id identity.ID) (peer.Peer, bool) { return peer.Peer{}, id == first })))
	if n := strings.Count(text, "\nacpd_peer_connected{"); n != maxMeasuredPeers+1 || strings.Count(text, "} 1\n") != 1 {
		t.Errorf("%d peers and the others have series:\n%s", n, text)
	}
}

// What counting one call costs a daemon.
func BenchmarkCountCall(b *testing.B) {
	m := New(false)
	row, _ := kinds.FindKind(kinds.KindQuery)
	p := &peer.Passing{Checked: kinds.Checked{Envelope: &wire.Envelope{Kind: kinds.KindQuery}, Spec: row}, Inbound: true, Began: time.Now()}
	for b.Loop() {
		m.Ended(p)
	}
}
