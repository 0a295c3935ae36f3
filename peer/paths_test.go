package peer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestUpgrade has two nodes meet on a relay in every pair of surroundings where a direct path can
// be: within 3 s they use it, on one connection, whichever of them dialled first.
func TestUpgrade(t *testing.T) {
	for _, before := range []natPair{
		{portKeeping, portKeeping}, {noNAT, portKeeping}, {portKeeping, noNAT}, {noNAT, noNAT}, {noNAT, symmetric}, {symmetric, noNAT},
	} {
		for _, swapped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s and %s, swapped %v", before[0], before[1], swapped), func(t *testing.T) {
				inLab(t, before, nil, func(t *testing.T, l *natLab) {
					from, to := l.sides(swapped)
					from.ask(to, "first")
					if p := from.path(to); p != ViaRelay {
						t.Fatalf("the first path is %q", p)
					}
					l.awaitPath(Direct, 3*time.Second)
					from.ask(to, "second")
					to.ask(from, "third")
					time.Sleep(8 * time.Second) // for what drains
					if ca, cb := l.a.listConns(), l.b.listConns(); len(ca) != 1 || len(cb) != 1 || !sameConnection(t, ca[0], cb[0]) {
						t.Errorf("%d and %d connections", len(ca), len(cb))
					}
					for _, s := range []*side{l.a, l.b} {
						if s.saw(EventMoved) == 0 {
							t.Error("no event says that the path changed")
						}
						if s.saw(EventDown) > 0 {
							t.Error("the peer went down meanwhile")
						}
					}
				})
			})
		}
	}
}

// TestCallsAcrossUpgrade makes 10,000 queries while connections move from the relay to a direct
// path: each is answered, and came once.
func TestCallsAcrossUpgrade(t *testing.T) {
	const labs, workers, each = 50, 10, 10
	for lab := range labs {
		inLab(t, natPair{portKeeping, portKeeping}, nil, func(t *testing.T, l *natLab) {
			var calls sync.WaitGroup
			for _, swapped := range []bool{false, true} {
				from, to := l.sides(swapped)
				for worker := range workers {
					rnd := rand.New(rand.NewPCG(uint64(lab), uint64(worker)))
					calls.Go(func() {
						for i := range each {
							if err := from.tryAsk(to, fmt.Sprint(worker, i)); err != nil {
								t.Errorf("lab %d, query %d of worker %d: %v", lab, i, worker, err)
							}
							time.Sleep(time.Duration(rnd.IntN(10)) * time.Millisecond)
						}
					})
				}
			}
			calls.Wait()
			if l.a.path(l.b) != Direct || l.b.path(l.a) != Direct {
				t.Errorf("lab %d: the queries were over before the path changed", lab)
			}
			for _, s := range []*side{l.a, l.b} {
				seen := make(map[wire.MessageID]bool)
				for _, env := range s.received() {
					if seen[env.ID] {
						t.Errorf("lab %d: a query came twice", lab)
					}
					seen[env.ID] = true
				}
				if len(seen) != workers*each {
					t.Errorf("lab %d: %d queries came, expected %d", lab, len(seen), workers*each)
				}
			}
		})
	}
}

// TestStaysRelayed has two nodes between which no packet can pass directly, for an hour: calls go
// on, and a direct path is tried less than once a minute.
func TestStaysRelayed(t *testing.T) {
	for name, c := range map[string]struct {
		before natPair
		cut    bool
	}{
		"symmetric NATs":             {natPair{symmetric, symmetric}, false},
		"UDP blocked":                {natPair{portKeeping, portKeeping}, true},
		"symmetric and port-keeping": {natPair{symmetric, portKeeping}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, c.before, nil, func(t *testing.T, l *natLab) {
				l.cutUDP(c.cut)
				for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(10 * time.Second) {
					l.a.ask(l.b, "there?")
					if p := l.a.path(l.b); p != ViaRelay {
						t.Fatalf("the path is %q", p)
					}
				}
				n := l.a.countRounds(l.b) + l.b.countRounds(l.a)
				if n < 4 || n > 6 {
					t.Errorf("%d rounds in an hour, expected one at once and after 30 s, 2 min, 10 min and an hour each", n)
				}
				if n := l.a.saw(EventDown) + l.b.saw(EventDown); n > 0 {
					t.Errorf("the peer went down %d times", n)
				}
			})
		})
	}
}

// TestOneSideDoesNotUpgrade has one of the nodes know nothing of paths, as an older one, or by its
// configuration. Neither learns an address of the other.
// holds: security.md#exposure-on-the-network
func TestOneSideDoesNotUpgrade(t *testing.T) {
	for _, which := range []int{0, 1} {
		t.Run(fmt.Sprint(which), func(t *testing.T) {
			made := 0
			edit := func(c *Config) {
				c.NoUpgrade = made == which
				made++
			}
			inLab(t, natPair{noNAT, noNAT}, edit, func(t *testing.T, l *natLab) {
				l.a.ask(l.b, "first")
				time.Sleep(10 * time.Minute)
				if l.a.path(l.b) != ViaRelay || l.b.path(l.a) != ViaRelay {
					t.Errorf("the paths are %q and %q", l.a.path(l.b), l.b.path(l.a))
				}
				for _, s := range []*side{l.a, l.b} {
					if to := l.router.targets(s.Addr()); len(to) > 0 {
						t.Errorf("packets went to %v", to)
					}
				}
				if p, _ := l.a.Peer(l.b.ID()); slices.Contains(p.Features, FeaturePaths) == (which == 1) {
					t.Errorf("features %v", p.Features)
				}
			})
		})
	}
}

// TestDirectPathDies has the network between the nodes drop what is not relayed while a call is
// open. The call ends, the next one goes by the relay, and a direct path is tried again: when it
// did not last as after a failed round, else at once.
func TestDirectPathDies(t *testing.T) {
	for name, c := range map[string]struct{ lived, again time.Duration }{
		"soon":          {time.Minute, 30*time.Second + 10*time.Second},
		"after a while": {6 * time.Minute, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			edit := func(c *Config) {
				answer := c.Exchange
				c.Exchange = func(ctx context.Context, request *Passing) (*wire.Envelope, error) {
					if q, err := kinds.ParsePayload[kinds.Query](request.Payload); err == nil && q.Question == "wait" {
						_ = pace.Sleep(ctx, time.Minute)
					}
					return answer(ctx, request)
				}
			}
			inLab(t, natPair{portKeeping, portKeeping}, edit, func(t *testing.T, l *natLab) {
				l.a.ask(l.b, "first")
				l.awaitPath(Direct, 3*time.Second)
				time.Sleep(c.lived)
				ended := make(chan error, 1)
				go func() { ended <- l.a.tryAsk(l.b, "wait") }()
				time.Sleep(time.Second)
				l.cutUDP(true)
				cutAt := time.Now()
				err := <-ended
				outcome{err, time.Since(cutAt)}.want(t, kinds.Unreachable, kinds.DeliveredUnknown, time.Second, 8*time.Second)
				began := time.Now()
				l.a.ask(l.b, "by the relay")
				if took := time.Since(began); took > 3*time.Second || l.a.path(l.b) != ViaRelay {
					t.Errorf("the next call took %v, and the path is %q", took, l.a.path(l.b))
				}
				l.cutUDP(false)
				l.b.ask(l.a, "and back")
				took := l.awaitPath(Direct, c.again)
				if c.lived < steadyDirect && took < 20*time.Second {
					t.Errorf("a path that did not last was tried again after %v", took)
				}
			})
		})
	}
}

// TestBothBehindOneNAT has both nodes on one network, or on two networks behind one NAT, which
// lets a host reach another at its public address.
func TestBothBehindOneNAT(t *testing.T) {
	for name, addrs := range map[string][2]string{
		"one network":  {"10.1.0.2:7117", "10.1.0.3:7117"},
		"two networks": {"10.1.1.2:7117", "10.1.2.2:7117"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &natLab{router: newNATRouter(), relay: newRelayNet("home"), far: latency}
				l.network = newNetwork(t, l.router)
				l.router.nat("10.1.0.0/16", "198.51.100.1", false)
				l.a, l.b = l.node(addrs[0], nil), l.node(addrs[1], nil)
				l.run()
				l.a.ask(l.b, "first")
				l.awaitPath(Direct, 3*time.Second)
				p, _ := l.a.Peer(l.b.ID())
				private := netip.MustParseAddrPort(p.Addr).Addr().IsPrivate()
				if private != (name == "one network") {
					t.Errorf("the path goes to %s", p.Addr)
				}
			})
		})
	}
}
