package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// TestProbe: each address says what is there: the peer, another key, nothing. The connection in use
// stays, and nobody becomes pending.
func TestProbe(t *testing.T) {
	desk, laptop := pair(t)
	other := start(t, stateDir(t), "other")
	at := func(r *running) string { return r.node.Addr().String() }
	l := desk.dial()
	const nothing, nowhere = "127.0.0.1:9", "no-such-host.invalid:7117"
	l.must(client.MethodTrust, &client.TrustParams{Peer: laptop.ID().String(), Addrs: []string{at(laptop), at(other), nothing, nowhere}}, new(client.NamedPeer))
	await.Until(t, "they are connected", func() bool { _, ok := desk.node.Peer(laptop.ID()); return ok })
	before, _ := desk.node.Peer(laptop.ID())

	var got client.Probe
	l.must(client.MethodProbe, &client.ProbeParams{Peer: "laptop"}, &got)
	found := make(map[string]client.ProbedAddr)
	for _, a := range got.Addrs {
		if _, twice := found[a.Addr]; twice {
			t.Errorf("%s is there twice", a.Addr)
		}
		found[a.Addr] = a
	}
	if a := found[at(laptop)]; a.Error != nil || a.RTTUS == 0 {
		t.Errorf("the peer: %+v", a)
	}
	for addr, want := range map[string]kinds.Code{at(other): kinds.IdentityConflict, nothing: kinds.Unreachable, nowhere: kinds.Unreachable} {
		if a := found[addr]; a.Error == nil || a.Error.Code != want || a.RTTUS != 0 {
			t.Errorf("%s: %+v", addr, a)
		}
	}
	if after, ok := desk.node.Peer(laptop.ID()); !ok || after.Addr != before.Addr || after.Boot != before.Boot {
		t.Errorf("the connection was %+v, and is %+v", before, after)
	}
	if n := len(other.node.Pending()); n != 0 {
		t.Errorf("%d pending", n)
	}
	if e := l.refused(kinds.UnknownPeer, client.MethodProbe, &client.ProbeParams{Peer: "nobody"}); !strings.HasPrefix(e.Message, "peer: ") {
		t.Errorf("the error begins with what no user has typed: %v", e)
	}
	l.refused(kinds.UnknownPeer, client.MethodProbe, &client.ProbeParams{Peer: other.ID().String()})
}

// TestStatusOfTheProcess: status says what the process has of its machine, and peers what a peer
// runs and shows.
func TestStatusOfTheProcess(t *testing.T) {
	desk, laptop := pair(t)
	l := desk.dial()
	var s client.Status
	l.must(client.MethodStatus, nil, &s)
	p := s.Process
	if p.PID != os.Getpid() || p.Goroutines < 5 || p.HeapBytes == 0 || p.MaxDescriptors == 0 || p.Descriptors < 5 || p.Descriptors > p.MaxDescriptors || p.UDPReceiveBytes == 0 || p.UDPSendBytes == 0 {
		t.Errorf("%+v", p)
	}
	open := s.Process.Descriptors
	for range 20 {
		f, err := os.Open(filepath.Join(desk.dir, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	l.must(client.MethodStatus, nil, &s)
	if grown := s.Process.Descriptors - open; grown < 15 {
		t.Errorf("20 more files are open, and %d more descriptors", grown)
	}
	var peers client.Peers
	l.must(client.MethodPeers, nil, &peers)
	if row := findRow(peers.Peers, laptop.ID()); row.Software != "acpd test" || !row.Pinned {
		t.Errorf("%+v", row)
	}
	var pong client.PingAnswer
	l.must(client.MethodPing, &client.PingParams{To: "laptop"}, &pong)
	if pong.TS == 0 {
		t.Error("a pong without a time")
	}
}

func findRow(rows []client.Peer, id identity.ID) client.Peer {
	for _, row := range rows {
		if row.ID == id {
			return row
		}
	}
	return client.Peer{}
}
