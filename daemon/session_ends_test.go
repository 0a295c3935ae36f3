package daemon

import (
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/sessions"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// woken returns the next message for which the session is woken.
func (s *liveSession) woken() *client.Inbound {
	s.t.Helper()
	for {
		if in := await.Receive(s.t, "what the session is woken for", s.told); in.Wake != nil {
			return in
		}
	}
}

// A session that comes back while its old connection ends is a session.
func TestTheEndOfAnOldConnectionEndsNoNewSession(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	sender, _ := laptop.trust.FindPeer(desk.ID())
	laptop.agent(client.AttachParams{Name: "welder"}, say(accepted))
	delegateTo(desk.dial(), "laptop/welder", task1(""))
	done := make(chan struct{})
	var holding sync.WaitGroup
	holding.Go(func() { // the table is held most of the time, so that each step waits for it
		for {
			select {
			case <-done:
				return
			default:
				laptop.delegations.List(nil, func(*delegation.Delegation, client.TaskState) bool { time.Sleep(time.Millisecond); return false })
			}
		}
	})
	defer holding.Wait()
	defer close(done)
	for n := range 100 {
		old := s
		var closing sync.WaitGroup
		closing.Go(func() { old.Close() })
		s = laptop.sessionWith(client.AttachParams{Name: "claude", Session: claude, Key: old.key})
		closing.Wait()
		if !laptop.sessions.Waker.MayWake("claude", sender, kinds.KindNotify) {
			t.Fatalf("the end of connection %d ended the session of the next one", n)
		}
	}
}

// A delegation whose ack cannot be written keeps its session from nothing else.
func TestAnAckThatCannotBeWrittenFreesTheSession(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	statedb.Exec(t, laptop.store, "CREATE TRIGGER broken BEFORE UPDATE OF ack ON daemon_task BEGIN SELECT RAISE(ABORT, 'broken'); END")
	s.release <- wire.Payload(accepted)
	if err := desk.dial().call("delegate", client.DelegateParams{To: "laptop/claude", Payload: task1("")}, nil); err == nil {
		t.Fatal("accepted")
	}
	statedb.Exec(t, laptop.store, "DROP TRIGGER broken")
	for note := desk.dial().notify(s.notice("laptop")); s.woken().ID != note.ID; {
	}
}

// The owner is asked nothing about a delegation whose time is over.
func TestAnExpiredDelegationAsksNobody(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: true})
	s := laptop.session("claude")
	asked := laptop.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventApproval}}})
	s.release <- wire.Payload(accepted)
	delegateTo(desk.dial(), "laptop/claude", wire.Payload(`{"task":"t","deadline_ms":1000}`))
	await.Receive(t, "the owner is asked", asked)
	await.Until(t, "the owner is asked no more", func() bool { return len(laptop.sessions.Waker.Approvals()) == 0 })
}

// Messages that have woken a session, and that it left in the inbox, hide no others from it when
// it comes back.
func TestWhatHasWokenASessionHidesNothing(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	s := laptop.session("claude")
	asker, id := desk.dial(), desk.ID()
	dir := laptop.home
	for range sessions.MaxRestored {
		old := asker.notify(s.notice("laptop")).ID
		statedb.Exec(t, laptop.store, "INSERT INTO daemon_turn (agent, peer, message, cause, at, sent) VALUES ('claude', ?, ?, ?, ?, 0)",
			id[:], old[:], id[:], store.Millis(time.Now().Add(-2*time.Hour))) // it woke the session two hours ago
	}
	last := asker.notify(s.notice("laptop"))
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	laptop.stop()
	laptop = start(t, string(dir), "laptop") // it reads the turns
	again := laptop.sessionWith(client.AttachParams{Name: "claude", Session: claude, Key: s.key})
	if in := again.woken(); in.ID != last.ID {
		t.Errorf("woken for %s, want %s", in.ID, last.ID)
	}
}
