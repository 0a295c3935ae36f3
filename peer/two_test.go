package peer

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"

	"github.com/acpd/acpd/wire"
)

var seeds = flag.Int("seeds", 200, "how many seeds TestSimultaneousDial tries")

// unreliable drops, delays and so reorders packets, from one seed.
type unreliable struct {
	simnet.PerfectRouter
	mu   sync.Mutex
	rand *rand.Rand
	loss float64
}

func (u *unreliable) SendPacket(p simnet.Packet) error {
	u.mu.Lock()
	drop := u.rand.Float64() < u.loss
	u.mu.Unlock()
	if drop {
		return nil
	}
	return u.PerfectRouter.SendPacket(p)
}

// TestSimultaneousDial has both sides dial each other at about the same moment on
// a network that loses, delays and reorders: one connection survives, the same on
// both ends, and every message and exchange of both sides goes through once.
func TestSimultaneousDial(t *testing.T) {
	n := *seeds
	if testing.Short() {
		n = min(n, 50)
	}
	for seed := range n {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simultaneousDial(t, uint64(seed)) })
		})
	}
}

func simultaneousDial(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	router := &unreliable{rand: rand.New(rand.NewPCG(seed, 2)), loss: []float64{0, 0, 0.02, 0.1}[rnd.IntN(4)]}
	w := newNetwork(t, router)
	var (
		base   = time.Duration(1+rnd.IntN(20)) * time.Millisecond
		jitter = []time.Duration{0, time.Millisecond, 10 * time.Millisecond}[rnd.IntN(3)]
		mu     sync.Mutex
		delays = rand.New(rand.NewPCG(seed, 3))
	)
	link := simnet.NodeBiDiLinkSettings{LatencyFunc: func(simnet.Packet) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return base + time.Duration(delays.Int64N(int64(jitter)+1))
	}}
	node := func() *side {
		return w.side(func(c *Config) {
			c.Conn.Close()
			c.Conn = w.sim.NewEndpoint(w.addr(), link)
		})
	}
	a, b := node(), node()
	w.meet(a, b)

	const each = 8
	var calls sync.WaitGroup
	talk := func(from, to *side, offset time.Duration, rnd *rand.Rand) {
		time.Sleep(offset)
		for i := range each {
			calls.Go(func() {
				if err := from.tryAsk(to, fmt.Sprint(i)); err != nil {
					t.Errorf("query %d: %v", i, err)
				}
			})
			calls.Go(func() {
				env := notify("build.done")
				if got, err := from.Send(context.Background(), to.ID(), env, true); err != nil || got != Handed {
					t.Errorf("notify %d: %q, %v", i, got, err)
				}
			})
			time.Sleep(time.Duration(rnd.Int64N(int64(2 * base))))
		}
	}
	offset := time.Duration(rnd.Int64N(int64(3 * base)))
	calls.Go(func() { talk(a, b, 0, rand.New(rand.NewPCG(seed, 4))) })
	calls.Go(func() { talk(b, a, offset, rand.New(rand.NewPCG(seed, 5))) })
	calls.Wait()

	time.Sleep(8 * time.Second) // for the loser to drain
	one := func(s *side) *conn {
		conns := s.listConns()
		if len(conns) != 1 {
			t.Fatalf("%d connections, want 1", len(conns))
		}
		return conns[0]
	}
	if ca, cb := one(a), one(b); !sameConnection(t, ca, cb) {
		t.Error("the ends kept different connections")
	}
	for _, s := range []*side{a, b} {
		seen := make(map[wire.MessageID]bool)
		for _, env := range s.received() {
			if seen[env.ID] {
				t.Errorf("%s came twice", env.Kind)
			}
			seen[env.ID] = true
		}
		if len(seen) != 2*each {
			t.Errorf("%d messages came, want %d", len(seen), 2*each)
		}
	}
}

// sameConnection compares what only the two ends of one connection share.
func sameConnection(t *testing.T, a, b *conn) bool {
	t.Helper()
	ea, err := exportKeyingMaterial(a.qc)
	if err != nil {
		t.Fatal(err)
	}
	eb, err := exportKeyingMaterial(b.qc)
	if err != nil {
		t.Fatal(err)
	}
	return string(ea) == string(eb)
}

var _ net.PacketConn = (*simnet.SimConn)(nil)
