package waking

import (
	"fmt"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
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

// A peer's bounds and refusals are told for each session, also if others have just told of the peer. There are ten
// events about a peer in a minute, and a refusal that was not told is told with a later message.
// holds: security.md#agents-on-this-machine
func TestEachSessionIsToldOf(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		const sessions = maxTold + 2
		p.permit(desk)
		refuse := func(agent string) {
			t.Helper()
			m := Message{Agent: agent, Peer: identity.Peer{ID: desk}, Kind: kinds.KindNotify, ID: wire.NewMessageID()}
			if !p.request(m) {
				t.Fatal("a message that may wake it is not tried")
			}
			p.Finish(t.Context(), m, Outcome{Refused: "a person is needed", NeedsPerson: true})
			p.Acknowledge(agent, desk, m.ID)
		}
		var agents []string
		for i := range sessions {
			agents = append(agents, fmt.Sprint("claude-", i))
		}
		for _, agent := range agents {
			p.Attach(agent, false)
			refuse(agent)
		}
		if told := p.told(); len(told) != maxTold || told[1].Agent != agents[1] {
			t.Errorf("told %+v", told)
		}
		time.Sleep(tellPause / 2) // on the virtual clock
		refuse(agents[sessions-1])
		time.Sleep(tellPause / 2) // on the virtual clock
		for _, agent := range agents[sessions-2:] {
			refuse(agent)
			p.NoteLoop(agent, desk, kinds.KindNotify, errApprovalsFull)
			p.NoteLoop(agent, desk, kinds.KindNotify, errApprovalsFull)
		}
		told := p.told()[maxTold:]
		for i, agent := range agents[sessions-2:] {
			if len(told) != 4 || told[2*i].Agent != agent || !told[2*i].NeedsPerson || told[2*i+1].Agent != agent || told[2*i+1].NeedsPerson {
				t.Errorf("told later %+v", told)
			}
		}
	})
}
