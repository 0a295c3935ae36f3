package waking

import (
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// A session whose program refuses to be woken is one that answers when it is active, for a minute or
// until it takes a message. The owner hears it once.
func TestARefusal(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk, planner)
		p.allow(Permission{Peer: laptop, Kind: kinds.KindNotify, Unattended: true})
		expect := func(when string, byDesk, byLaptop bool, told int) {
			t.Helper()
			d, l := p.MayWake("claude", identity.Peer{ID: desk}, kinds.KindNotify), p.MayWake("claude", identity.Peer{ID: laptop}, kinds.KindNotify)
			if d != byDesk || l != byLaptop || len(p.told()) != told {
				t.Errorf("%s: desk may %v, laptop, which needs nobody there, %v; told %v", when, d, l, p.told())
			}
		}
		try := func(from identity.ID, o Outcome) {
			t.Helper()
			m, now := p.notify(from)
			if !now {
				t.Fatal("a message that may wake it is not tried")
			}
			p.Finish(t.Context(), Message{Agent: "claude", Peer: m.Peer, ID: m.ID}, o) // as unposted names it
			p.Acknowledge("claude", from, m.ID)
			time.Sleep(time.Second)
		}
		const why = "the session is unattended"
		expect("at first", true, true, 0)
		try(desk, Outcome{Refused: why})
		expect("refused", false, true, 1)
		if s := p.Describe("claude"); s.Refused != why || s.Day != 0 || len(p.Notices("claude")) != 1 {
			t.Errorf("described as %+v, with %q", s, p.Notices("claude"))
		}
		try(desk, Outcome{Refused: why})
		try(laptop, Outcome{Posted: true})
		expect("refused again, and woken where nobody need be there", false, true, 1)
		try(desk, Outcome{})
		expect("it takes others", false, true, 1)
		try(desk, Outcome{Posted: true})
		expect("woken", true, true, 1)
		try(laptop, Outcome{Refused: why})
		expect("refused also where nobody need be there", false, false, 2)
		try(desk, Outcome{Refused: why})
		expect("refused once more where somebody is to be there", false, false, 2)
		try(planner, Outcome{Refused: "b"})
		expect("for another reason", false, false, 3)
		time.Sleep(refusedFor)
		expect("a minute later", true, true, 3)
		if s := p.Describe("claude"); s.Refused != "" || len(p.Notices("claude")) != 0 {
			t.Errorf("a minute later described as %+v, with %q", s, p.Notices("claude"))
		}
		m, _ := p.notify(desk)
		p.Finish(t.Context(), m, Outcome{Refused: "another reason"})
		if told := p.told(); len(told) != 4 || told[3] != (Notice{Agent: "claude", Peer: desk, Kind: kinds.KindNotify, Reason: "another reason"}) {
			t.Errorf("told %+v", told)
		}
		p.Attach("claude", false)
		expect("attached anew", true, true, 4)
		p.Finish(t.Context(), Message{Agent: "nobody"}, Outcome{Refused: why})
	})
}
