package waking

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// What the rules say when a message's turn comes counts, and not what they said when it came.
func TestRulesCountWhenATurnComes(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk, laptop)
		var posted []client.WakeGrant
		wait := func(change func()) {
			busy, _ := p.notify(laptop)
			p.Enqueue(Message{Agent: "claude", Peer: identity.Peer{ID: desk}, Kind: kinds.KindNotify, ID: wire.NewMessageID()}, func(_ context.Context, grant client.WakeGrant) Outcome {
				posted = append(posted, grant)
				return Outcome{Posted: true}
			}, nil)
			change()
			p.Release("claude", laptop, busy.ID)
			time.Sleep(busyFor)
			synctest.Wait()
		}
		wait(func() {
			rule := allowed(desk, kinds.KindNotify)
			rule.Unattended = true
			p.allow(rule)
		})
		if len(posted) != 1 || !posted[0].Unattended {
			t.Errorf("the grant is %+v", posted)
		}
		wait(func() { p.asks(desk) })
		if len(posted) != 1 || len(p.Approvals()) != 0 {
			t.Errorf("what is to be asked about now wakes the session: %+v", posted)
		}
	})
}

// A peer that no rule names has its part of the places, where answers wake the session.
func TestAnswersTakeOnePart(t *testing.T) {
	inAskedBubble(t, func(t *testing.T, p *played) {
		var rules []Permission
		for i := range maxWaiting - 1 {
			rules = append(rules, allowed(identity.ID{7, byte(i)}, kinds.KindNotify))
		}
		p.allow(rules...)
		for range 5 {
			p.request(Message{Agent: "claude", Peer: identity.Peer{ID: laptop}, Kind: kinds.KindResult, ID: wire.NewMessageID(), Delegation: wire.NewMessageID()})
		}
		if n := p.Describe("claude").Waiting; n != 1 {
			t.Errorf("%d of one peer wait, beside %d that may wake it", n, len(rules))
		}
	})
}

// A session is woken when its time comes, however long others are busy.
func TestBusySessionsKeepNoOthersBack(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk)
		wake := func(agent string) (m Message) {
			for range 2 {
				m = Message{Agent: agent, Peer: identity.Peer{ID: desk}, Kind: kinds.KindNotify, ID: wire.NewMessageID()}
				p.request(m)
			}
			return m
		}
		for i := range 10 {
			p.Attach(fmt.Sprint("busy-", i), false)
			wake(fmt.Sprint("busy-", i))
		}
		first, _ := p.notify(desk)
		p.notify(desk)
		p.Release("claude", desk, first.ID)
		time.Sleep(postPause)
		if synctest.Wait(); len(p.later()) != 1 || p.later()[0].Agent != "claude" {
			t.Errorf("woken for %+v", p.later())
		}
	})
}

// The notices of one session name four peers that have reached a bound.
func TestNoticesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		for i := range 3 * maxNoticed {
			p.NoteLoop("claude", identity.ID{7, byte(i)}, kinds.KindNotify, errApprovalsFull)
		}
		if n := len(p.Notices("claude")); n != maxNoticed {
			t.Errorf("%d lines", n)
		}
	})
}

// A share that a clock has filled which was set back ends within a day, as it is said.
func TestAShareThatEndsAfterTheClockWasSetBack(t *testing.T) {
	inBubble(t, func(t *testing.T, p *played) {
		p.permit(desk)
		woke, _ := p.notify(desk)
		p.hold(50, charge{cause: desk, peer: laptop, sent: true, at: time.Now().Add(48 * time.Hour)}, "claude")
		e, ok := errors.AsType[*kinds.Error](p.send(desk, woke.ID, wire.NewMessageID()))
		if most := uint64(day.Milliseconds()) + 1; !ok || e.RetryAfterMS > most {
			t.Errorf("%v: after %d ms", e, e.RetryAfterMS)
		}
	})
}
