package peer

import (
	"errors"
	"fmt"
	"strings"
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
		w.serve(a, b)
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
