package peer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/kinds"
)

func TestAddLink(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a := w.side(newRelayNet("corp").joined(nil))
		w.start()
		add := func(name string) error { return a.AddLink(newRelayNet(name).link(a.ID())) }
		if err := add("corp"); code(err) != kinds.Invalid {
			t.Errorf("a name that is taken: %v", err)
		}
		for i := range maxLinks - 1 { // before Serve and after it
			if i == 5 {
				a.serve()
			}
			if err := add(fmt.Sprint("relay-", i)); err != nil {
				t.Error(err)
			}
		}
		if err := add("one-more"); code(err) != kinds.Overloaded {
			t.Errorf("too many: %v", err)
		}
		if err := a.AwaitAcceptRound(t.Context()); err != nil {
			t.Error(err)
		}
		if !a.RemoveLink("relay:relay-3") || a.RemoveLink("relay:relay-3") || a.RemoveLink("corp") {
			t.Error("a link is removed once, by its name")
		}
		if err := add("relay-3"); err != nil {
			t.Errorf("a name that was freed: %v", err)
		}
		a.shutdown()
		if err := add("late"); code(err) != kinds.Unreachable {
			t.Errorf("after the end: %v", err)
		}
		if len(a.links.snapshot()) > 0 || a.RemoveLink("relay:corp") {
			t.Error("links are left after the end")
		}
	})
}

// TestRemovedLinkDrains: calls that are open when a link is removed are answered if that does not
// take long, and the peer is reached by another way then. One that takes too long ends unknown, and
// its error says why.
func TestRemovedLinkDrains(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		corp, home := newRelayNet("corp"), newRelayNet("home")
		a, b := w.relayed(corp, slowly)
		for _, s := range []*side{a, b} {
			if err := s.AddLink(home.link(s.ID())); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // both links run on both sides
		a.ask(b, "before")
		if p, _ := a.Peer(b.ID()); shortAddr(p.Addr) != "relay:corp" {
			t.Fatalf("connected at %s", p.Addr)
		}
		short, long := a.start(b, lasting(2*time.Second)), a.start(b, lasting(time.Minute))
		removed := make(chan time.Duration, 1)
		go func() {
			start := time.Now()
			a.RemoveLink("relay:corp")
			removed <- time.Since(start)
		}()
		time.Sleep(time.Second)
		a.ask(b, "while it drains")
		if p, _ := a.Peer(b.ID()); shortAddr(p.Addr) != "relay:home" {
			t.Errorf("connected at %s", p.Addr)
		}
		(<-short).answered(t, 2*time.Second, 2*time.Second+peerRTT)
		o := <-long
		o.want(t, kinds.Unreachable, kinds.DeliveredUnknown, drainTime, drainTime+time.Second)
		if !strings.Contains(o.err.Error(), "link") {
			t.Errorf("it does not say why: %v", o.err)
		}
		if took := <-removed; took > drainTime+time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestLinkThatEnds: a link whose Run returns is removed and logged; its peers are reached by others.
func TestLinkThatEnds(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		corp, home := newRelayNet("corp"), newRelayNet("home")
		var l *relayLink
		a, b := w.side(func(c *Config) {
			l = corp.link(c.Key.ID())
			l.end, l.ended = make(chan struct{}), errors.New("the credentials are gone")
			c.Links = []Link{l}
			home.joined(nil)(c)
		}), w.side(func(c *Config) { corp.joined(nil)(c); home.joined(nil)(c) })
		a.knows(b.cfg.Key, "reviewer")
		b.knows(a.cfg.Key, "planner")
		w.start()
		a.serve()
		b.serve()
		a.ask(b, "before")
		close(l.end)
		time.Sleep(time.Second)
		a.ask(b, "after")
		if p, _ := a.Peer(b.ID()); shortAddr(p.Addr) != "relay:home" || len(a.links.snapshot()) != 1 {
			t.Errorf("connected at %s, %d links", p.Addr, len(a.links.snapshot()))
		}
		select {
		case <-l.closed:
		default:
			t.Error("the link is not closed")
		}
	})
}

// TestLinksComeAndGoUnderLoad adds and removes links of both sides while calls are made: each call
// ends, those that say no never came, and nothing is left.
func TestLinksComeAndGoUnderLoad(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		corp, home := newRelayNet("corp"), newRelayNet("home")
		a, b := w.relayed(corp, nil)
		a.Connect(b.ID())
		var calls sync.WaitGroup
		var answered atomic.Int32
		start := time.Now()
		const span = 30 * time.Second
		for range 8 {
			calls.Go(func() {
				for time.Since(start) < span {
					ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
					env := query("?")
					_, _, err := a.Exchange(ctx, b.ID(), env)
					cancel()
					switch e := kinds.AsError(err); {
					case err == nil:
						answered.Add(1)
					case e.Code != kinds.Unreachable:
						t.Errorf("got %v", err)
					case e.Delivered() == kinds.DeliveredNo:
						for _, got := range b.received() {
							if got.ID == env.ID {
								t.Errorf("it came, in spite of %v", err)
							}
						}
					}
					time.Sleep(30 * time.Millisecond)
				}
			})
		}
		for i := 0; time.Since(start) < span; i++ {
			s, r := []*side{a, b}[i%2], []*relayNet{corp, home}[i/2%2]
			if !s.RemoveLink(r.name) {
				if err := s.AddLink(r.link(s.ID())); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(500 * time.Millisecond)
		}
		calls.Wait()
		if n := answered.Load(); n < 500 {
			t.Errorf("%d calls were answered", n)
		}
	})
}
