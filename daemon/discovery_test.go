package daemon

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
)

// discovering runs a daemon that announces itself, on loopback: to this host alone.
func discovering(t testing.TB, dir, name string) *running {
	t.Helper()
	return startWith(t, Options{Home: dir, Listen: "127.0.0.1:0", Name: name})
}

// ownName is one that no other test on this host uses at the same time.
func ownName(role string) string { return role + "-" + strings.ToLower(rand.Text()[:12]) }

// row returns another daemon as this one sees it; zero if it does not.
func (d *running) row(of *running) client.Peer {
	d.t.Helper()
	return d.dial().row(of)
}

func (l *program) row(of *running) client.Peer {
	l.t.Helper()
	all := get[client.Peers](l, "peers", nil)
	i := slices.IndexFunc(all.Peers, func(p client.Peer) bool { return p.ID == of.ID() })
	if i < 0 {
		return client.Peer{}
	}
	return all.Peers[i]
}

func (d *running) becomes(state client.PeerState, of *running) client.Peer {
	d.t.Helper()
	var p client.Peer
	l := d.dial()
	await.Until(d.t, d.name+" has "+of.name+" as "+string(state), func() bool { p = l.row(of); return p.State == state })
	return p
}

// events collects what a daemon tells about another, in order.
func (d *running) events(of *running) <-chan client.Event {
	d.t.Helper()
	got := make(chan client.Event, 64)
	l := d.dialWith(func(_ context.Context, r *jsonrpc.Request) {
		e := new(client.Event)
		if err := r.ReadParams(e); err != nil {
			d.t.Error(err)
		} else if e.Peer == of.ID() {
			got <- *e
		}
	})
	l.must("subscribe", client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventDiscovered, client.EventLost}}}, nil)
	return got
}

// Two daemons that know nothing of each other, a name typed on both: they talk.
func TestDiscoveredPeersTrustByName(t *testing.T) {
	t.Parallel()
	desk := discovering(t, stateDir(t), ownName("desk"))
	laptop := discovering(t, stateDir(t), ownName("laptop"))
	p := desk.becomes(client.PeerDiscovered, laptop)
	if p.Name != "" || p.Claim != laptop.name || p.Source != client.SourceMDNS || p.NameConflict || time.Since(p.LastSeen.Time) > await.Patience ||
		!slices.Equal(p.Addrs, []string{laptop.node.Addr().String()}) {
		t.Errorf("%+v", p)
	}
	laptop.becomes(client.PeerDiscovered, desk)

	var named client.NamedPeer
	desk.dial().refused(kinds.UnknownPeer, "ping", client.PingParams{To: laptop.name}, "acpctl trust "+laptop.name)
	desk.dial().must("trust", client.TrustParams{Peer: laptop.name}, &named)
	if named.Name != laptop.name || named.ID != laptop.ID() {
		t.Errorf("%+v", named)
	}
	if known, _ := desk.trust.FindPeer(laptop.ID()); len(known.Addrs) != 0 {
		t.Errorf("what the network said became a configured address: %v", known.Addrs)
	}
	desk.dial().refused(kinds.NotTrusted, "ping", client.PingParams{To: laptop.name})
	if p := laptop.becomes(client.PeerPending, desk); p.Claim != desk.name || p.Source != client.SourceCall {
		t.Errorf("%+v", p)
	}
	laptop.dial().must("trust", client.TrustParams{Peer: desk.name}, nil)
	known, _ := laptop.trust.FindPeer(desk.ID())
	if addr, _ := laptop.addresses.FindLast(desk.ID()); len(known.Addrs) != 0 || addr != desk.node.Addr().String() {
		t.Errorf("where a stranger called from: configured %v, remembered %q", known.Addrs, addr)
	}
	laptop.dial().must("ping", client.PingParams{To: desk.name}, nil)
	desk.becomes(client.PeerConnected, laptop)
	desk.dial().must("ping", client.PingParams{To: laptop.name}, nil)

	// Who goes is lost, and who comes back is found and connected.
	told := desk.events(laptop)
	laptop.stop()
	if e := await.Receive(t, "lost", told); e.Type != client.EventLost || e.Name != laptop.name {
		t.Errorf("%+v", e)
	}
	laptop = discovering(t, laptop.dir, laptop.name)
	if e := await.Receive(t, "discovered", told); e.Type != client.EventDiscovered || e.Name != laptop.name || !strings.Contains(string(e.Details), laptop.node.Addr().String()) {
		t.Errorf("%+v: %s", e, e.Details)
	}
	desk.becomes(client.PeerConnected, laptop)
}

// A name is a claim: two may make it, also that of a trusted peer, and the id decides.
func TestNamesOfDiscoveredPeersClash(t *testing.T) {
	t.Parallel()
	name := ownName("reviewer")
	desk := discovering(t, stateDir(t), ownName("desk"))
	first, second := discovering(t, stateDir(t), name), discovering(t, stateDir(t), name)
	desk.becomes(client.PeerDiscovered, first)
	desk.becomes(client.PeerDiscovered, second)
	e := desk.dial().refused(kinds.UnknownPeer, "trust", client.TrustParams{Peer: name})
	if !strings.Contains(e.Message, first.ID().String()) || !strings.Contains(e.Message, second.ID().String()) {
		t.Errorf("%v", e)
	}
	named := get[client.NamedPeer](desk.dial(), "trust", client.TrustParams{Peer: first.ID().String()})
	if named.Name != name {
		t.Errorf("%+v", named)
	}
	if p := desk.becomes(client.PeerDiscovered, second); !p.NameConflict || p.Claim != name {
		t.Errorf("%+v", p)
	}
	if !desk.trust.IsNameTaken(strings.ToUpper(name)+" ") || desk.trust.IsNameTaken(name+"x") {
		t.Error("what reads like a trusted peer's name is not marked, or more is")
	}
	desk.dial().must("trust", client.TrustParams{Peer: second.ID().String()}, &named)
	if named.Name != name+"-2" {
		t.Errorf("%+v", named)
	}

	// Who is blocked is not offered again.
	desk.dial().must("untrust", client.UntrustParams{Peer: name + "-2"}, nil)
	desk.becomes(client.PeerBlocked, second)
	desk.dial().refused(kinds.UnknownPeer, "trust", client.TrustParams{Peer: second.ID().String()[:12]})
}

// SIGHUP switches it off and on.
func TestDiscoveryIsReloaded(t *testing.T) {
	t.Parallel()
	desk, laptop := discovering(t, stateDir(t), ownName("desk")), discovering(t, stateDir(t), ownName("laptop"))
	desk.becomes(client.PeerDiscovered, laptop)
	laptop.becomes(client.PeerDiscovered, desk)
	told, own := desk.events(laptop), laptop.events(desk)
	set := func(text string) {
		t.Helper()
		laptop.configure(text)
	}
	set("discovery: {mdns: off}")
	for await.Receive(t, "lost", told).Type != client.EventLost { // the event of the discovery may come after its row
	}
	for await.Receive(t, "lost", own).Type != client.EventLost {
	}
	if p := laptop.row(desk); p.State != "" {
		t.Errorf("%+v", p)
	}
	set("discovery: {include: [no-such-interface]}")
	set("discovery: {mdns: on}")
	if e := await.Receive(t, "discovered", told); e.Type != client.EventDiscovered {
		t.Errorf("%+v", e)
	}
	laptop.becomes(client.PeerDiscovered, desk)
}

// An invitation needs no address where its daemon is found, and what was found does
// not become a configured one.
func TestJoinFindsTheInviter(t *testing.T) {
	t.Parallel()
	desk, laptop := discovering(t, stateDir(t), ownName("desk")), discovering(t, stateDir(t), ownName("laptop"))
	laptop.becomes(client.PeerDiscovered, desk)
	inv := get[client.Invitation](desk.dial(), "invite", nil)
	parsed, err := identity.ParseInvitation(inv.URI)
	if err != nil {
		t.Fatal(err)
	}
	parsed.Addrs = nil
	laptop.dial().must("join", client.JoinParams{URI: parsed.String()}, nil)
	laptop.dial().must("ping", client.PingParams{To: desk.name}, nil)
	if p, _ := laptop.trust.FindPeer(desk.ID()); len(p.Addrs) > 0 {
		t.Errorf("configured: %v", p.Addrs)
	}
}

// Where a peer was last connected is remembered: it leads there where nobody
// announces anything and no address was given.
func TestAddressThatWorkedOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	desk, laptop := start(t, stateDir(t), "desk"), start(t, stateDir(t), "laptop")
	addr := laptop.node.Addr().String()
	desk.dial().must("trust", client.TrustParams{Peer: laptop.ID().String(), Name: "laptop"}, nil)
	laptop.dial().must("trust", client.TrustParams{Peer: desk.ID().String(), Name: "desk", Addrs: []string{desk.node.Addr().String()}}, nil)
	laptop.becomes(client.PeerConnected, desk)
	desk.becomes(client.PeerConnected, laptop)
	laptop.stop()
	desk.stop()
	desk = start(t, desk.dir, "desk")
	if p := desk.row(laptop); !slices.Equal(p.Addrs, []string{addr}) || p.Source != client.SourceWorked {
		t.Errorf("%+v", p)
	}
	laptop = start(t, laptop.dir, "laptop")
	desk.becomes(client.PeerConnected, laptop)
	laptop.stop()

	desk.dial().must("untrust", client.UntrustParams{Peer: "laptop"}, nil)
	desk.stop()
	desk = start(t, desk.dir, "desk")
	desk.dial().must("trust", client.TrustParams{Peer: laptop.ID().String(), Name: "laptop"}, nil)
	if addrs := desk.addresses.TakeDialAddrs(laptop.ID()); len(addrs) > 0 {
		t.Errorf("the address of a blocked key was kept: %v", addrs)
	}
}

// The end of a connection is news of where the peer was, and comes after the untrust
// that brought it about: nothing of it is kept.
func TestUntrustForgetsWhereAConnectedPeerIs(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	l := desk.dialWith(nil)
	down := make(chan struct{})
	watch := desk.dialWith(func(_ context.Context, r *jsonrpc.Request) {
		e := new(client.Event)
		if r.ReadParams(e) == nil && e.Type == client.EventDown {
			close(down)
		}
	})
	watch.must("subscribe", client.SubscribeParams{Events: client.EventFilter{All: true}}, nil)
	l.must("untrust", client.UntrustParams{Peer: "laptop"}, nil)
	await.Receive(t, "down", down)
	if addr, at := desk.addresses.FindLast(laptop.ID()); addr != "" || !at.IsZero() {
		t.Errorf("kept: %q, %v", addr, at)
	}
}

// A peer that is connected a second time, from elsewhere, is there from now on: the
// first connection may be dead and nobody know it yet.
func TestPeerThatMovesIsRemembered(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	id := identity.ID{0xaa, 31: 3}
	desk.dial().must("trust", client.TrustParams{Peer: id.String()}, nil)
	var last string
	for _, e := range []peer.Event{
		{Type: peer.EventUp, Addr: "192.0.2.1:7117"}, {Type: peer.EventMoved, Addr: "192.0.2.2:7117"},
		{Type: peer.EventMoved, Addr: "relay:corp/" + id.String(), Detail: string(peer.ViaRelay)},
	} {
		e.Peer, e.At = id, time.Now()
		if e.Detail == "" {
			e.Detail, last = string(peer.Direct), e.Addr
		}
		desk.handlePeerEvent(e)
		if got := desk.addresses.TakeDialAddrs(id); !slices.Equal(got, []string{last}) {
			t.Errorf("%s by %s: %v", e.Type, e.Detail, got)
		}
	}
}

// Of a connected peer the address comes first that the connection has now.
func TestConnectedPeerIsWhereItsConnectionIs(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	desk.addresses.RecordConnection(laptop.ID(), "192.0.2.1:7117", time.Now())
	if p := desk.becomes(client.PeerConnected, laptop); p.Source != client.SourceWorked || p.Path != client.PathDirect || !slices.Equal(p.Addrs, []string{laptop.node.Addr().String(), "192.0.2.1:7117"}) {
		t.Errorf("%+v", p)
	}
}

// Configured addresses are those of config.yaml and of the trust store, by id and by
// name, and follow both.
func TestConfiguredAddressesFollow(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	id := identity.ID{0xaa, 31: 1}
	expect := func(want ...string) {
		t.Helper()
		if got := desk.addresses.TakeDialAddrs(id); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	desk.configure("peers: {planner: {addrs: [planner.example:1]}, " + id.String() + ": {addrs: [planner.example:2]}}")
	expect()
	desk.dial().must("trust", client.TrustParams{Peer: id.String(), Name: "reviewer", Addrs: []string{"planner.example:3"}}, nil)
	expect("planner.example:2", "planner.example:3")
	desk.dial().must("trust", client.TrustParams{Peer: "reviewer", Name: "planner"}, nil)
	expect("planner.example:2", "planner.example:1", "planner.example:3")
	desk.configure("peers: {planner: {addrs: [planner.example:4]}}")
	expect("planner.example:4", "planner.example:3")
	desk.dial().must("untrust", client.UntrustParams{Peer: "planner"}, nil)
	expect()
}
