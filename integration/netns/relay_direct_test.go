//go:build netns

package netns

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// becomesDirect waits until a daemon that has come up on a relay is connected to another one directly, at
// an address of that one. An event must say so as soon as is promised, and acpctl peers then too.
func becomesDirect(d, to *daemon, addr string) {
	t := d.T
	t.Helper()
	const promised = 3 * time.Second
	type detail struct {
		Addr   string `json:"addr"`
		Detail string `json:"detail"`
	}
	read := func(e event) (said detail) {
		t.Helper()
		if err := json.Unmarshal(e.Details, &said); err != nil {
			t.Fatal(err)
		}
		return said
	}
	up := d.awaitEvent(client.EventUp, to.ID, d.Acpd.Begun, await.Patience)
	if said := read(up); said.Detail != string(client.PathRelay) {
		t.Errorf("%s came up on %s at %+v", to.Name, d.Name, said)
	}
	moved := d.awaitEvent(client.EventMoved, to.ID, up.at, promised+slack)
	if want := (detail{addr, string(client.PathDirect)}); read(moved) != want {
		t.Errorf("on %s %s moved to %+v, want %+v", d.Name, to.Name, read(moved), want)
	}
	await.CheckDuration(t, fmt.Sprintf("direct path from %s to %s", d.Name, to.Name), moved.At.Sub(up.At), promised+slack)
	var listed client.Peers
	if err := json.Unmarshal([]byte(d.MustOutput("peers", "--json")), &listed); err != nil {
		t.Fatal(err)
	}
	if len(listed.Peers) != 1 || listed.Peers[0].ID != to.ID || listed.Peers[0].State != client.PeerConnected || listed.Peers[0].Path != client.PathDirect {
		t.Errorf("peers on %s: %+v", d.Name, listed.Peers)
	}
}

// A daemon that reaches the relay through a proxy tells its peers its own addresses, and not the one at
// which the relay sees the proxy: nobody there waits for packets of theirs.
func TestProxyAddressIsNotTold(t *testing.T) {
	t.Parallel()
	n := newInternet(t, keepsPort, keepsPort)
	s := n.hub.nats(hubAddr)
	const told = "198.51.100.1" // an address of the desk, which the other host has too
	p := n.other.proxy(otherAddr+":3128", "desk:first")
	n.desk.ip("addr add " + told + "/32 dev eth0")
	n.other.ip("addr add " + told + "/32 dev lo")
	n.natB.ip("route add " + told + " via " + otherAddr)
	atProxy, atTold := n.other.trap(otherAddr+":7117"), n.other.trap(told+":7117")

	laptop := n.laptop.relayed("laptop", s, "")
	desk := n.desk.relayed("desk", s, fmt.Sprintf("reach: {proxy: %q}\n", "http://desk:first@"+otherAddr+":3128"))
	joinOverRelay(laptop, desk, s, s.wss) // so the laptop has the desk's addresses from paths alone
	if tunnels, refused := p.counts(); tunnels == 0 || refused != 0 {
		t.Errorf("%d tunnels, %d refused", tunnels, refused)
	}
	await.Until(t, "the laptop dials what it was told, and repeats its packets", func() bool {
		_, packets := atTold.calls()
		return packets >= 4 // a dial begins with two
	})
	// What the relay sees comes first in paths, and is dialled first.
	if dials, packets := atProxy.calls(); packets > 0 {
		t.Errorf("%d dials and %d packets at the address of the proxy", len(dials), packets)
	}
}
