package waking

import (
	"testing"
	"testing/synctest"
	"time"
)

// What waits for the owner is bounded for each peer, and for a day.
// holds: security.md#agents-on-this-machine
func TestApprovalsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.asks(desk, laptop)
		for range 2 * maxApprovals {
			p.notify(desk)
		}
		if n := len(p.Approvals()); n != maxApprovals/2 {
			t.Errorf("%d of one peer wait", n)
		}
		m, _ := p.notify(laptop)
		all := p.Approvals()
		if last := all[len(all)-1]; last.Peer != laptop || last.Message != m.ID {
			t.Errorf("the other peer has no place: %+v", last)
		}
		p.expectLater("before the yes")
		p.decide(all[len(all)-1].ID, Yes)
		p.expectLater("after the yes", m)
		time.Sleep(day) // on the virtual clock
		if synctest.Wait(); len(p.Approvals()) != 0 || p.Describe("claude").Approvals != 0 {
			t.Error("they wait for more than a day")
		}
	})
}

// A peer that asks for approvals and gives up makes ten events a minute.
// holds: security.md#agents-on-this-machine
func TestApprovalEventsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.asks(desk)
		for range 100 {
			m, _ := p.notify(desk)
			p.Release("claude", desk, m.ID)
		}
		if n := len(p.told()); n != 10 {
			t.Errorf("%d events", n)
		}
		time.Sleep(time.Minute)
		m, _ := p.notify(desk)
		if n := len(p.told()); n != 11 {
			t.Errorf("%d events after a minute", n)
		}
		p.decide(p.Approvals()[0].ID, Always)
		if r, ok := p.findPermission("claude", m.Peer, m.Kind); !ok || r.Ask {
			t.Errorf("after always: %+v", r)
		}
		if r, ok := p.findPermission("codex", m.Peer, m.Kind); !ok || !r.Ask {
			t.Errorf("always for one session is for every one: %+v", r)
		}
	})
}
