package peer

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
)

// hop is how long a packet takes to the relay, or from it.
const hop = 5 * time.Millisecond

// relayNet is a relay in memory: a switch by id, for use inside a synctest bubble. What it does
// to packets and says about them is set while it runs.
type relayNet struct {
	name string // with its kind
	path Path

	mu      sync.Mutex // guards what follows
	at      map[identity.ID]*relayLink
	out     bool                                        // nothing passes, and nothing is said
	lies    bool                                        // every packet is passed on, and its sender told that nobody is there
	silent  bool                                        // of addresses where nobody is, nothing is said
	mangle  func(*relayPacket) (delays []time.Duration) // when the packet arrives, after 2 hops: so often; nil: once, at once
	notices int                                         // told
	tried   int                                         // packets
	passed  int                                         // packets
}

type relayPacket struct {
	from, to identity.ID
	data     []byte
}

func newRelayNet(name string) *relayNet {
	return &relayNet{name: "relay:" + name, path: ViaRelay, at: make(map[identity.ID]*relayLink)}
}

func (r *relayNet) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// attempts returns how many packets were sent, passed on or not.
func (r *relayNet) attempts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tried
}

func (r *relayNet) count() (notices, passed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.notices, r.passed
}

// link makes a link of the relay for a node.
func (r *relayNet) link(id identity.ID) *relayLink {
	return &relayLink{net: r, id: id, as: id, in: make(chan relayPacket, 1024), closed: make(chan struct{})}
}

// joined makes a configuration have a link of the relay, on which connections stay.
func (r *relayNet) joined(edit func(*Config)) func(*Config) {
	return func(c *Config) {
		if edit != nil {
			edit(c)
		}
		c.Links = append(c.Links, r.link(c.Key.ID()))
		c.NoUpgrade = true
	}
}

// cut has the relay forget an id, as when its process or host goes down.
func (r *relayNet) cut(id identity.ID) { r.set(func() { delete(r.at, id) }) }

// forget has the relay forget an id until again is called, as when a node comes back at another
// server of a cluster.
func (r *relayNet) forget(id identity.ID) (again func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.at[id]
	delete(r.at, id)
	return func() {
		if l != nil {
			l.attach(l.node)
		}
	}
}

// interrupt tells a node that packets may have been lost.
func (r *relayNet) interrupt(id identity.ID) {
	r.mu.Lock()
	l := r.at[id]
	r.mu.Unlock()
	if l != nil {
		l.node.Interrupted()
	}
}

func (r *relayNet) send(l *relayLink, p relayPacket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried++
	if r.out || r.at[l.id] != l {
		return
	}
	r.passed++
	delays := []time.Duration{0}
	if r.mangle != nil {
		delays = r.mangle(&p)
	}
	for _, d := range delays {
		time.AfterFunc(2*hop+d, func() { r.deliver(p) })
	}
	time.AfterFunc(hop, func() {
		r.mu.Lock()
		tell := r.lies || r.at[p.to] == nil && !r.silent
		if tell && !r.out {
			r.notices++
			time.AfterFunc(hop, func() { l.hearNobody(p.to) })
		}
		r.mu.Unlock()
	})
}

func (r *relayNet) deliver(p relayPacket) {
	r.mu.Lock()
	l := r.at[p.to]
	out := r.out
	r.mu.Unlock()
	if l == nil || out {
		return
	}
	select {
	case l.in <- p:
	default: // as a socket whose buffer is full
	}
}

// relayAddr is the address of a peer on a relay.
type relayAddr struct {
	name string
	id   identity.ID
}

func (relayAddr) Network() string  { return "relay" }
func (a relayAddr) String() string { return a.name + "/" + a.id.String() }

var _ Link = (*relayLink)(nil)

// relayLink is an end of a relayNet.
type relayLink struct {
	net    *relayNet
	id     identity.ID
	as     identity.ID // claimed as the sender of its packets
	in     chan relayPacket
	node   LinkObserver // nil: of a host that speaks by hand
	ended  error        // with which Run ends by itself
	end    chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *relayLink) Name() string                     { return l.net.name }
func (l *relayLink) Path() Path                       { return l.net.path }
func (l *relayLink) Addr(id identity.ID) net.Addr     { return relayAddr{l.net.name, id} }
func (l *relayLink) Sender(addr net.Addr) identity.ID { return addr.(relayAddr).id }

func (l *relayLink) Run(ctx context.Context, n LinkObserver) error {
	l.attach(n)
	select {
	case <-ctx.Done():
	case <-l.end:
	}
	l.net.set(func() {
		if l.net.at[l.id] == l {
			delete(l.net.at, l.id)
		}
	})
	return l.ended
}

// attach has the relay pass on what comes for the link.
func (l *relayLink) attach(n LinkObserver) {
	l.net.set(func() { l.node, l.net.at[l.id] = n, l })
}

func (l *relayLink) hearNobody(id identity.ID) {
	if l.node != nil {
		l.node.NobodyAt(l.Addr(id))
	}
}

func (l *relayLink) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case p := <-l.in:
		return copy(b, p.data), l.Addr(p.from), nil
	case <-l.closed:
		return 0, nil, net.ErrClosed
	}
}

func (l *relayLink) WriteTo(b []byte, addr net.Addr) (int, error) {
	l.net.send(l, relayPacket{from: l.as, to: addr.(relayAddr).id, data: append([]byte(nil), b...)})
	return len(b), nil
}

func (l *relayLink) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *relayLink) LocalAddr() net.Addr            { return l.Addr(l.id) }
func (*relayLink) SetDeadline(time.Time) error      { return nil }
func (*relayLink) SetReadDeadline(time.Time) error  { return nil }
func (*relayLink) SetWriteDeadline(time.Time) error { return nil }

// relayed is two nodes that know each other only by the relay, served.
func (w *network) relayed(r *relayNet, edit func(*Config)) (a, b *side) {
	w.t.Helper()
	a, b = w.side(r.joined(edit)), w.side(r.joined(edit))
	a.knows(b.cfg.Key, "reviewer")
	b.knows(a.cfg.Key, "planner")
	w.serve(a, b)
	synctest.Wait() // until both are on the relay
	return a, b
}

// host makes a host that speaks by hand on the relay, under an id that is claimed alone.
func (r *relayNet) host(t testing.TB, claim identity.ID) *host {
	l := r.link(claim)
	l.attach(nil)
	h := newHost(t, l)
	t.Cleanup(func() { l.Close() }) // before the transport, which would wait for a read deadline
	return h
}

// killed ends a node as the loss of its power would, also for the relay.
func (s *side) killed(r *relayNet) {
	r.cut(s.ID())
	s.kill()
}

// idleSocket is a UDP socket on which nothing comes: of a node that is reached by links.
type idleSocket struct {
	net.PacketConn
	addr   *net.UDPAddr
	once   sync.Once
	closed chan struct{}
}

func newIdleSocket(addr *net.UDPAddr) *idleSocket {
	return &idleSocket{addr: addr, closed: make(chan struct{})}
}

func (s *idleSocket) ReadFrom([]byte) (int, net.Addr, error) {
	<-s.closed
	return 0, nil, net.ErrClosed
}

func (s *idleSocket) WriteTo(b []byte, _ net.Addr) (int, error) { return len(b), nil }
func (s *idleSocket) LocalAddr() net.Addr                       { return s.addr }
func (s *idleSocket) SetReadDeadline(time.Time) error           { return nil }

func (s *idleSocket) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}
