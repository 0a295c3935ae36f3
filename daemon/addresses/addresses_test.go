package addresses

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/discovery"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/peer"
)

// Whatever the network says how often: one dial in 5 s for each peer.
func TestHintsAreLimited(t *testing.T) {
	h, now := make(dialHints), time.Now()
	dials := map[identity.ID]int{}
	for ms := range 20_000 {
		for _, id := range []identity.ID{{1}, {2}} {
			if h.allowDial(id, now.Add(time.Duration(ms)*time.Millisecond)) {
				dials[id]++
			}
		}
	}
	if dials[identity.ID{1}] != 4 || dials[identity.ID{2}] != 4 {
		t.Errorf("dials in 20 s: %v", dials)
	}
}

// Hints cause dials only of trusted peers.
func TestStrangersAreNotDialled(t *testing.T) {
	dir := t.TempDir()
	trust, _, err := identity.OpenTrustStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := identity.LoadOrCreateKey(filepath.Join(dir, "identity.key"))
	if err != nil {
		t.Fatal(err)
	}
	node, err := peer.Listen(peer.Config{Key: key, Trust: trust, Name: "desk", Software: "test", Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	s := &Service{
		Deps: Deps{
			Trust: trust, Node: func() *peer.Node { return node }, Log: slog.New(slog.DiscardHandler),
			Publish: func(client.EventType, identity.ID, string, time.Time, any) {},
		},
		dialHints: make(dialHints),
	}
	id := identity.ID{0xaa, 31: 2}
	expect := func(c discovery.Event, dials int) {
		t.Helper()
		if s.handleChange(discovery.Change{Event: c, Entry: discovery.Entry{ID: id, Claim: "stranger"}}); len(s.dialHints) != dials {
			t.Errorf("%d dials, expected %d", len(s.dialHints), dials)
		}
	}
	expect(discovery.Discovered, 0)
	if _, err := trust.Trust(identity.Peer{ID: id, Name: "planner"}); err != nil {
		t.Fatal(err)
	}
	expect(discovery.Lost, 0)
	expect(discovery.Moved, 1)
}

// What was remembered of a peer from when it was trusted before is forgotten when it is connected again.
func TestOldAddressGoesWithANewOne(t *testing.T) {
	id := identity.ID{1}
	l := newLastConnections(nil, make(map[identity.ID]lastConnection))
	l.record(id, "192.0.2.1:7117", time.Now())
	l.forgetPeer(id)
	l.record(id, "192.0.2.2:7117", time.Now())
	if addr := l.takeOldAddr(id); addr != "" {
		t.Errorf("%s is kept as the address of a peer that is trusted no more", addr)
	}
}
