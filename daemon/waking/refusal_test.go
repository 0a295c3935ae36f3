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
		p.permit(desk)
		if err := p.Rules.Allow(Permission{Peer: laptop, Kind: kinds.KindNotify, Unattended: true}); err != nil {
			t.Fatal(err)
		}
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
			p.Finish(t.Context(), m, o)
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
		try(desk, Outcome{Posted: true})
		expect("woken", true, true, 1)
		try(laptop, Outcome{Refused: why})
		expect("refused also where nobody need be there", false, false, 2)
		time.Sleep(refusedFor)
		expect("a minute later", true, true, 2)
		if s := p.Describe("claude"); s.Refused != "" || len(p.Notices("claude")) != 0 {
			t.Errorf("a minute later described as %+v, with %q", s, p.Notices("claude"))
		}
		m, _ := p.notify(desk)
		p.Finish(t.Context(), m, Outcome{Refused: "another reason"})
		if told := p.told(); len(told) != 3 || told[2] != (Notice{Agent: "claude", Peer: desk, Kind: kinds.KindNotify, Reason: "another reason"}) {
			t.Errorf("told %+v", told)
		}
		p.Attach("claude", false)
		expect("attached anew", true, true, 3)
		p.Finish(t.Context(), Message{Agent: "nobody"}, Outcome{Refused: why})
	})
}

// A refusal is told once for a minute, and once more if the reason is another one. It holds for as
// many messages as the widest refusal of that minute.
func TestRefusalsFollowEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk)
		if err := p.Rules.Allow(Permission{Peer: laptop, Kind: kinds.KindNotify, Unattended: true}); err != nil {
			t.Fatal(err)
		}
		try := func(from identity.ID, o Outcome) {
			t.Helper()
			m, now := p.notify(from)
			if !now {
				t.Fatal("a message that may wake it is not tried")
			}
			p.Finish(t.Context(), Message{Agent: "claude", Peer: identity.Peer{ID: from}, ID: m.ID}, o) // as unposted names it
			p.Acknowledge("claude", from, m.ID)
			time.Sleep(time.Second)
		}
		expect := func(when string, byLaptop bool, told int) {
			t.Helper()
			if l := p.MayWake("claude", identity.Peer{ID: laptop}, kinds.KindNotify); l != byLaptop || len(p.told()) != told {
				t.Errorf("%s: laptop may %v, told %+v", when, l, p.told())
			}
		}
		try(desk, Outcome{})
		expect("it takes others", true, 0)
		try(laptop, Outcome{Refused: "a"})
		expect("refused also where nobody need be there", false, 1)
		if n := p.told()[0]; n.Kind != kinds.KindNotify {
			t.Errorf("told of %+v", n)
		}
		try(desk, Outcome{Refused: "a"})
		expect("refused where somebody is to be there", false, 1)
		try(desk, Outcome{Refused: "b"})
		expect("for another reason", false, 2)
		try(laptop, Outcome{Posted: true})
		expect("woken where nobody need be there", true, 2)
		try(laptop, Outcome{Refused: "a"})
		time.Sleep(refusedFor)
		try(desk, Outcome{Refused: "a"})
		expect("refused anew after a minute", true, 3) // of the laptop's the owner has just heard
	})
}
