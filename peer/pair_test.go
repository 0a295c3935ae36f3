package peer

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// network is a virtual one, for use inside a synctest bubble.
type network struct {
	t   *testing.T
	sim *simnet.Simnet
	n   int
}

func newNetwork(t *testing.T, router simnet.Router) *network {
	t.Helper()
	if router == nil {
		router = &simnet.PerfectRouter{}
	}
	return &network{t: t, sim: &simnet.Simnet{Router: router}}
}

// side is a node and what came to it.
type side struct {
	*Node
	t     testing.TB
	trust *identity.TrustStore
	stop  context.CancelFunc
	done  chan error

	mu     sync.Mutex
	got    []*wire.Envelope
	events []Event
}

func (s *side) saw(typ EventType) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, e := range s.events {
		if e.Type == typ {
			n++
		}
	}
	return n
}

func (s *side) received() []*wire.Envelope {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*wire.Envelope(nil), s.got...)
}

const latency = 5 * time.Millisecond // one way

func (w *network) conn(addr *net.UDPAddr) net.PacketConn {
	return w.sim.NewEndpoint(addr, simnet.NodeBiDiLinkSettings{Latency: latency})
}

func (w *network) addr() *net.UDPAddr {
	w.n++
	return &net.UDPAddr{IP: net.IPv4(192, 0, 2, byte(w.n)).To4(), Port: 7117}
}

func newKey(t testing.TB) *identity.Key {
	t.Helper()
	key, err := identity.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// side makes a node that echoes queries and takes messages; edit changes its
// configuration. It is not served yet.
func (w *network) side(edit func(*Config)) *side {
	w.t.Helper()
	return newSide(w.t, func(c *Config) {
		c.Conn = w.conn(w.addr())
		if edit != nil {
			edit(c)
		}
	})
}

func newSide(t testing.TB, edit func(*Config)) *side {
	t.Helper()
	s := &side{t: t, done: make(chan error, 1)}
	cfg := Config{Key: newKey(t), Trust: identity.NewMemoryTrustStore(), Name: "desk", Software: "test"}
	cfg.Exchange = func(ctx context.Context, env *Passing) (*wire.Envelope, error) {
		s.mu.Lock()
		s.got = append(s.got, env.Envelope)
		s.mu.Unlock()
		return echo(ctx, env)
	}
	cfg.Message = func(_ context.Context, env *Passing) (wire.ReceiptState, error) {
		s.mu.Lock()
		s.got = append(s.got, env.Envelope)
		s.mu.Unlock()
		return wire.Handed, nil
	}
	cfg.Event = func(e Event) {
		s.mu.Lock()
		s.events = append(s.events, e)
		s.mu.Unlock()
	}
	edit(&cfg)
	s.trust = cfg.Trust
	n, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.Node = n
	return s
}

func echo(_ context.Context, env *Passing) (*wire.Envelope, error) {
	switch env.Kind {
	case kinds.KindPing:
		return wire.NewReply(env.Envelope, kinds.KindPong, wire.Payload(`{"status":"idle","uptime_secs":0,"active_tasks":0}`)), nil
	case kinds.KindQuery:
		q, err := kinds.ParsePayload[kinds.Query](env.Payload)
		if err != nil {
			return nil, err
		}
		return wire.NewReply(env.Envelope, kinds.KindResponse, kinds.EncodePayload(&kinds.Response{Summary: q.Question})), nil
	}
	return wire.NewReply(env.Envelope, kinds.KindAck, wire.Payload(`{"accepted":true}`)), nil
}

// serve runs the node until the test ends or shutdown is called.
func (s *side) serve() *side {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() { s.done <- s.Serve(ctx) }()
	s.t.Cleanup(s.shutdown)
	return s
}

func (s *side) shutdown() {
	if s.stop == nil {
		return
	}
	s.stop()
	s.stop = nil
	if err := <-s.done; err != nil {
		s.t.Errorf("serve: %v", err)
	}
}

func (s *side) trusts(o *side, name string) {
	s.t.Helper()
	p := identity.Peer{ID: o.ID(), Name: name, Addrs: []string{o.Addr().String()}}
	if _, err := s.trust.Trust(p); err != nil {
		s.t.Fatal(err)
	}
}

// untrusts makes s trust o no more, and cuts it off.
func (s *side) untrusts(o *side) {
	s.t.Helper()
	if err := s.trust.Untrust(o.ID()); err != nil {
		s.t.Fatal(err)
	}
	s.Disconnect(o.ID())
}

// Exchange and Send are the node's, for an envelope with kind and payload alone.

func (s *side) Exchange(ctx context.Context, to identity.ID, env *wire.Envelope) (*wire.Envelope, time.Duration, error) {
	request, err := addressed(s.Node, to, env)
	if err != nil {
		return nil, 0, err
	}
	return s.Node.Exchange(ctx, request)
}

func (s *side) Send(ctx context.Context, to identity.ID, env *wire.Envelope, wait bool) (Outcome, error) {
	message, err := addressed(s.Node, to, env)
	if err != nil {
		return "", err
	}
	return s.Node.Send(ctx, message, wait)
}

// addressed completes env and checks it.
func addressed(from *Node, to identity.ID, env *wire.Envelope) (kinds.Checked, error) {
	full := wire.NewEnvelope(from.ID(), to, env.Kind, env.Payload)
	if env.ID.IsZero() {
		env.ID = full.ID
	}
	env.V, env.From, env.To, env.TS = full.V, full.From, full.To, full.TS
	return kinds.CheckEnvelope(env)
}

func query(text string) *wire.Envelope {
	return &wire.Envelope{Kind: kinds.KindQuery, Payload: kinds.EncodePayload(&kinds.Query{Question: text})}
}

func notify(topic string) *wire.Envelope {
	return &wire.Envelope{Kind: kinds.KindNotify, Payload: kinds.EncodePayload(&kinds.Notify{Topic: topic})}
}

// ask expects the echo.
func (s *side) ask(o *side, text string) {
	s.t.Helper()
	if err := s.tryAsk(o, text); err != nil {
		s.t.Fatalf("query %q: %v", text, err)
	}
}

// asksWithin expects the echo after that time at most.
func (s *side) asksWithin(o *side, most time.Duration) {
	s.t.Helper()
	s.call(o.ID(), query("?")).answered(s.t, 0, most)
}

func (s *side) tryAsk(o *side, text string) error {
	reply, _, err := s.Exchange(context.Background(), o.ID(), query(text))
	if err != nil {
		return err
	}
	r, err := kinds.ParsePayload[kinds.Response](reply.Payload)
	if err != nil {
		return err
	}
	if r.Summary != text {
		return fmt.Errorf("got %q", r.Summary)
	}
	return nil
}

// call makes an exchange, and returns how it ended.
func (s *side) call(to identity.ID, env *wire.Envelope) outcome {
	began := time.Now()
	_, _, err := s.Exchange(context.Background(), to, env)
	return outcome{err, time.Since(began)}
}

func code(err error) kinds.Code { return kinds.AsError(err).Code }

// bubble runs f under a virtual clock on a virtual network.
func bubble(t *testing.T, router simnet.Router, f func(t *testing.T, w *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, newNetwork(t, router))
	})
}

// pair is two nodes that trust each other, served.
func (w *network) pair(edit func(*Config)) (a, b *side) {
	a, b = w.side(edit), w.side(edit)
	w.meet(a, b)
	return a, b
}

// meet makes two nodes trust each other, and serves them.
func (w *network) meet(a, b *side) {
	w.t.Helper()
	a.trusts(b, "reviewer")
	b.trusts(a, "planner")
	w.serve(a, b)
}

// serve makes packets flow, and serves nodes.
func (w *network) serve(all ...*side) {
	w.t.Helper()
	w.start()
	for _, s := range all {
		s.serve()
	}
}

// start makes packets flow; all endpoints must be there.
func (w *network) start() {
	if err := w.sim.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.sim.Close() })
}
