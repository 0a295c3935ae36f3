package waking

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// ask enqueues a question of desk about what claude has delegated, and reports whether its post,
// which ends with o, was called within a second. The session has then done with it.
func (p *played) ask(o Outcome) (posted bool) {
	p.t.Helper()
	m := Message{Agent: "claude", Peer: identity.Peer{ID: desk}, Kind: kinds.KindQuery, ID: wire.NewMessageID(), Delegation: wire.NewMessageID()}
	called := make(chan bool, 1)
	p.Enqueue(m, func(context.Context, client.WakeGrant) Outcome { called <- true; return o }, nil)
	time.Sleep(time.Second)
	synctest.Wait()
	p.Release("claude", desk, m.ID)
	return len(called) == 1
}

// inAskedBubble is inBubble, with a session that answers and questions wake.
func inAskedBubble(t *testing.T, test func(*testing.T, *played)) {
	t.Helper()
	inBubble(t, func(t *testing.T, p *played) {
		if err := p.Rules.SetAnswers(AnswersRule{}, true); err != nil {
			t.Fatal(err)
		}
		test(t, p)
	})
}

// A question that woke nobody keeps no other one back: its post failed, or it was dropped while it
// waited.
func TestAQuestionThatWokeNobodyKeepsNoneBack(t *testing.T) {
	inAskedBubble(t, func(t *testing.T, p *played) {
		for range 2 {
			if !p.ask(Outcome{}) {
				t.Fatal("a question that woke nobody keeps the next one back")
			}
		}
		p.permit(laptop)
		m, now := p.notify(laptop)
		if !now {
			t.Fatal("the session is not free")
		}
		waits := Message{Agent: "claude", Peer: identity.Peer{ID: desk}, Kind: kinds.KindQuery, ID: wire.NewMessageID(), Delegation: wire.NewMessageID()}
		p.request(waits)
		p.mute(time.Minute)
		p.Release("claude", laptop, m.ID)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(p.later()) != 0 {
			t.Fatal("a muted session is woken")
		}
		if !p.ask(Outcome{Posted: true}) {
			t.Error("a question that was dropped keeps the next one back")
		}
	})
}

// A question that is not answered keeps the next ones of its peer back for ten minutes.
func TestThePauseAfterAQuestionEnds(t *testing.T) {
	inAskedBubble(t, func(t *testing.T, p *played) {
		if !p.ask(Outcome{Posted: true}) || p.ask(Outcome{Posted: true}) {
			t.Fatal("the first one alone is to wake it")
		}
		time.Sleep(10*time.Minute - 3*time.Second)
		if p.ask(Outcome{Posted: true}) {
			t.Error("the pause has ended early")
		}
		time.Sleep(2 * time.Second)
		if !p.ask(Outcome{Posted: true}) {
			t.Error("the pause has not ended")
		}
	})
}

// Only questions about delegations keep others of their peer back: neither queries nor results do, nor
// does a question that is over a bound, nor one that a session had before it could be woken no more.
func TestWhatKeepsNoQuestionBack(t *testing.T) {
	inAskedBubble(t, func(t *testing.T, p *played) {
		p.allow(allowed(desk, kinds.KindQuery))
		request := func(kind string, about wire.MessageID) bool {
			m := Message{Agent: "claude", Peer: identity.Peer{ID: desk}, Kind: kind, ID: wire.NewMessageID(), Delegation: about}
			defer time.Sleep(time.Second)
			defer p.Release("claude", desk, m.ID)
			return p.request(m)
		}
		for range 2 {
			if !request(kinds.KindQuery, wire.MessageID{}) || !request(kinds.KindResult, wire.NewMessageID()) {
				t.Error("a query or a result keeps the next one back")
			}
		}
		p.hold(6, charge{cause: desk, peer: desk, at: time.Now().Add(time.Minute - time.Hour)}, "claude")
		if request(kinds.KindQuery, wire.NewMessageID()) {
			t.Fatal("the bound is not reached")
		}
		time.Sleep(time.Minute)
		if !request(kinds.KindQuery, wire.NewMessageID()) || request(kinds.KindQuery, wire.NewMessageID()) {
			t.Error("a question over a bound keeps the next one back, or one in time does not")
		}
		p.Finish(t.Context(), Message{Agent: "claude", Peer: identity.Peer{ID: desk}, ID: wire.NewMessageID()}, Outcome{})
		if request(kinds.KindQuery, wire.NewMessageID()) {
			t.Error("a message that woke nobody lets the question after another one wake the session")
		}
		p.Attach("claude", true)
		p.Attach("claude", false)
		if !request(kinds.KindQuery, wire.NewMessageID()) {
			t.Error("a question to a session that nothing could wake keeps the next one back")
		}
	})
}
