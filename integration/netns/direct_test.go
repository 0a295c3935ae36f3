//go:build netns

package netns

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// natTable is what a router at home does, with the kernel's own NAT: it lets nothing in that was
// not asked for. Its one word says how ports are chosen.
const natTable = `
table ip nat {
	chain post { type nat hook postrouting priority 100; oifname "eth0" masquerade %s; }
}
table ip guard {
	chain forwarded { type filter hook forward priority 0; iifname "eth0" ct state new drop; }
	chain own { type filter hook input priority 0; iifname "eth0" ct state new drop; }
}
`

// natHosts makes two hosts, each behind a router with NAT, and a STUN server (coturn) in the world
// between the routers. The hosts reach each other only where the NATs let packets pass.
func natHosts(t *testing.T, ports string) (hosts [2]*host, stun string) {
	t.Helper()
	l := newLab(t, "world", "lan1", "lan2")
	for i := range hosts {
		router, h := l.host(fmt.Sprintf("nat%d", i+1)), l.host(fmt.Sprintf("desk%d", i+1))
		bridge := fmt.Sprintf("lan%d", i+1)
		router.wire("eth0", "world", fmt.Sprintf("203.0.113.%d/24", 10*(i+1)))
		router.wire("eth1", bridge, fmt.Sprintf("10.%d.0.1/24", i+1))
		router.sysctl("net/ipv4/ip_forward", "1")
		rules := filepath.Join(t.TempDir(), "rules")
		if err := os.WriteFile(rules, fmt.Appendf(nil, natTable, ports), 0o644); err != nil {
			t.Fatal(err)
		}
		router.begin(nil, "nft", "-f", rules).AwaitExit(0)
		h.wire("eth0", bridge, fmt.Sprintf("10.%d.0.2/24", i+1))
		h.ip(fmt.Sprintf("route add default via 10.%d.0.1", i+1))
		hosts[i] = h
	}
	server := l.host("stun")
	server.wire("eth0", "world", "203.0.113.1/24")
	server.begin(nil, "turnserver", "-n", "--stun-only", "--no-cli", "--no-tls", "--no-dtls", "--listening-ip=203.0.113.1", "--listening-port=3478",
		"--log-file=stdout", "--pidfile="+filepath.Join(t.TempDir(), "pid"))
	return hosts, "203.0.113.1:3478"
}

// memoryRelay passes packets on between the nodes of a test.
type memoryRelay struct {
	mu    sync.Mutex
	links map[identity.ID]*memoryLink
}

type memoryAddr identity.ID

func (memoryAddr) Network() string  { return "relay" }
func (a memoryAddr) String() string { return "relay:memory/" + identity.ID(a).String() }

type memoryPacket struct {
	from memoryAddr
	data []byte
}

// memoryLink implements peer.Link.
type memoryLink struct {
	relay  *memoryRelay
	id     identity.ID
	in     chan memoryPacket
	closed chan struct{}
	once   sync.Once
}

func (r *memoryRelay) link(id identity.ID) *memoryLink {
	l := &memoryLink{relay: r, id: id, in: make(chan memoryPacket, 1024), closed: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.links[id] = l
	return l
}

func (*memoryLink) Name() string                     { return "relay:memory" }
func (*memoryLink) Path() peer.Path                  { return peer.ViaRelay }
func (*memoryLink) Addr(id identity.ID) net.Addr     { return memoryAddr(id) }
func (*memoryLink) Sender(addr net.Addr) identity.ID { return identity.ID(addr.(memoryAddr)) }

func (*memoryLink) Run(ctx context.Context, _ peer.LinkObserver) error {
	<-ctx.Done()
	return nil
}

func (l *memoryLink) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case p := <-l.in:
		return copy(b, p.data), p.from, nil
	case <-l.closed:
		return 0, nil, net.ErrClosed
	}
}

func (l *memoryLink) WriteTo(b []byte, to net.Addr) (int, error) {
	l.relay.mu.Lock()
	receiver := l.relay.links[identity.ID(to.(memoryAddr))]
	l.relay.mu.Unlock()
	if receiver != nil {
		select {
		case receiver.in <- memoryPacket{memoryAddr(l.id), append([]byte(nil), b...)}:
		default: // as a socket whose buffer is full
		}
	}
	return len(b), nil
}

func (l *memoryLink) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryLink) LocalAddr() net.Addr            { return memoryAddr(l.id) }
func (*memoryLink) SetDeadline(time.Time) error      { return nil }
func (*memoryLink) SetReadDeadline(time.Time) error  { return nil }
func (*memoryLink) SetWriteDeadline(time.Time) error { return nil }

// relayedNodes makes a node on each host. They trust each other and know no address but the
// relay's.
func relayedNodes(t *testing.T, hosts [2]*host, stun string) (nodes [2]*peer.Node) {
	t.Helper()
	relay := &memoryRelay{links: make(map[identity.ID]*memoryLink)}
	var trusts [2]*identity.TrustStore
	for i, h := range hosts {
		key, err := identity.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		trusts[i] = identity.NewMemoryTrustStore()
		err = h.in(func() (err error) { // the socket stays in the host's network
			nodes[i], err = peer.Listen(peer.Config{
				Key: key, Trust: trusts[i], Listen: fmt.Sprintf("10.%d.0.2:7117", i+1), STUN: []string{stun}, Links: []peer.Link{relay.link(key.ID())},
				Exchange: func(_ context.Context, request *peer.Passing) (*wire.Envelope, error) {
					return wire.NewReply(request.Envelope, kinds.KindPong, wire.Payload(`{"status":"idle","uptime_secs":0,"active_tasks":0}`)), nil
				},
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range nodes {
		if _, err := trusts[i].Trust(identity.Peer{ID: nodes[1-i].ID(), Name: "other"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- n.Serve(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	return nodes
}

// ping expects a pong of the other node.
func ping(t *testing.T, from, to *peer.Node) {
	t.Helper()
	request, err := kinds.CheckEnvelope(wire.NewEnvelope(from.ID(), to.ID(), kinds.KindPing, nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := from.Exchange(t.Context(), request); err != nil {
		t.Fatal(err)
	}
}

// TestDirectBehindRealNATs has two nodes behind the kernel's NAT and coturn as their STUN server.
func TestDirectBehindRealNATs(t *testing.T) {
	t.Parallel()
	hosts, stun := natHosts(t, "")
	nodes := relayedNodes(t, hosts, stun)
	var coturn bool
	eventually(t, time.Now(), await.Patience, "coturn answers", func() bool {
		hosts[0].in(func() error {
			c, err := net.Dial("udp", stun)
			if err != nil {
				return err
			}
			defer c.Close()
			c.Write([]byte("\x00\x01\x00\x00\x21\x12\xa4\x42............"))
			c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			n, err := c.Read(make([]byte, 1500))
			coturn = err == nil && n > 20
			return nil
		})
		return coturn
	})
	began := time.Now()
	ping(t, nodes[0], nodes[1])
	took := eventually(t, began, 3*time.Second+slack, "a direct path", func() bool {
		a, _ := nodes[0].Peer(nodes[1].ID())
		b, _ := nodes[1].Peer(nodes[0].ID())
		return a.Path == peer.Direct && b.Path == peer.Direct
	})
	t.Logf("direct after %s", took.Round(time.Millisecond))
	if p, _ := nodes[0].Peer(nodes[1].ID()); p.Addr != "203.0.113.20:7117" {
		t.Errorf("the path goes to %s", p.Addr)
	}
	ping(t, nodes[0], nodes[1])
	ping(t, nodes[1], nodes[0])
}

// TestRelayedBehindSymmetricNATs has both routers choose another port for each address: the nodes
// stay on the relay, and calls go on.
func TestRelayedBehindSymmetricNATs(t *testing.T) {
	t.Parallel()
	hosts, stun := natHosts(t, "random,fully-random")
	nodes := relayedNodes(t, hosts, stun)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < 8*time.Second; <-tick.C { // the dials of the first round end after three
		ping(t, nodes[0], nodes[1])
		ping(t, nodes[1], nodes[0])
		if p, _ := nodes[0].Peer(nodes[1].ID()); p.Path != peer.ViaRelay {
			t.Fatalf("the path is %q", p.Path)
		}
	}
}
