package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// With ask, a message waits for the owner's word: yes, always, no.
func TestApprovals(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: true})
	s := laptop.session("claude")
	asker, owner := desk.dial(), laptop.dial()
	pending := func() []client.Approval {
		t.Helper()
		var all client.Approvals
		owner.must("approvals", nil, &all)
		return all.Approvals
	}
	decide := func(answer string) {
		t.Helper()
		all := pending()
		if len(all) != 1 || all[0].Agent != "claude" || all[0].Name != "desk" {
			t.Fatalf("approvals: %+v", all)
		}
		owner.must("approvals.decide", client.ApproveParams{ID: all[0].ID, Answer: answer}, nil)
	}
	ask := func() {
		t.Helper()
		if r := asker.notify(s.notice("laptop")); r.State != client.Held {
			t.Errorf("%+v", r)
		}
		s.next(false)
	}
	proves := func(in *client.Inbound) client.WakeAnswer {
		return client.WakeAnswer{Posted: in.Wake != nil, Proven: in.Wake != nil}
	}
	s.says(proves)
	ask()
	seen := pending()[0].ID
	var state client.SessionState
	if s.must("session", nil, &state); state.Unread != 1 || len(state.Notices) != 1 || !strings.Contains(state.Notices[0], "acpctl approvals") {
		t.Errorf("the session hears %+v", state)
	}
	if pending()[0].Approved {
		t.Error("approved before the owner has said anything")
	}
	decide("no")
	if len(pending()) != 0 || len(s.told) != 0 {
		t.Error("no is not no")
	}
	ask()
	decide("yes")
	s.next(true)
	ask()
	decide("always")
	s.next(true)
	time.Sleep(300 * time.Millisecond) // a session is woken every 250 ms at most
	if r := asker.notify(s.notice("laptop")); r.State != client.Handed {
		t.Errorf("after always: %+v", r)
	}
	s.next(true)
	if n := len(s.unread()); n != 1 {
		t.Errorf("%d are unread, want the one that was refused", n)
	}

	// A query is with the session already, and wakes it when it may.
	go desk.dial().call("query", client.QueryParams{To: "laptop/claude", Payload: query("?")}, nil)
	first := s.next(false)
	decide("yes")
	if again := s.next(true); again.ID != first.ID {
		t.Errorf("woken for %s, asked %s", again.ID, first.ID)
	}
	s.release <- wire.Payload(`{"summary":"x"}`)

	// What nobody waits for any more is no question to the owner.
	desk.dial().refused(kinds.Timeout, "query", client.QueryParams{To: "laptop/claude", Payload: wire.Payload(`{"question":"?","deadline_ms":1000}`)})
	s.next(false)
	await.Until(t, "the approval is gone", func() bool { return len(pending()) == 0 })
	time.Sleep(300 * time.Millisecond) // a session is woken every 250 ms at most
	ask2 := asker.notify(client.NotifyParams{To: client.To("laptop/claude"), Payload: wire.Payload(`{"topic":"t"}`)})
	if s.next(true); ask2.State != client.Handed {
		t.Errorf("%+v", ask2)
	}
	owner.refused(kinds.NotFound, "approvals.decide", client.ApproveParams{ID: seen, Answer: "yes"})
	owner.refused(kinds.Invalid, "approvals.decide", client.ApproveParams{ID: seen, Answer: "perhaps"})
}

// Rules name one peer each, and outlive a restart.
// holds: security.md#agents-on-this-machine
func TestWakeRules(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	desk, laptop := start(t, stateDir(t), "desk"), start(t, dir, "laptop")
	befriend(t, desk, laptop)
	owner := laptop.dial()
	owner.refused(kinds.Invalid, "wake.allow", client.WakeAllowParams{Peer: "*"})
	owner.refused(kinds.UnknownPeer, "wake.allow", client.WakeAllowParams{Peer: "planner"})
	owner.refused(kinds.UnknownPeer, "wake.allow", client.WakeAllowParams{})
	owner.refused(kinds.Invalid, "wake.allow", client.WakeAllowParams{Peer: "desk", Kinds: []string{"ping"}})
	owner.refused(kinds.Invalid, "wake.allow", client.WakeAllowParams{Peer: "desk", Agent: "a/b"})
	owner.refused(kinds.NotFound, "wake.revoke", client.WakeRevokeParams{Peer: "desk"})
	laptop.allow(client.WakeAllowParams{Peer: "desk", Kinds: []string{"query", "notify"}, Unattended: true})
	laptop.allow(client.WakeAllowParams{Peer: "desk", Kinds: []string{"query"}, Ask: true})
	laptop.allow(client.WakeAllowParams{Peer: "desk", Agent: "claude"})
	list := func() (all []string) {
		var rules client.WakeRules
		laptop.dial().must("wake.list", nil, &rules)
		for _, r := range rules.Rules {
			all = append(all, fmt.Sprintf("%s/%s %s ask=%v unattended=%v", r.Name, r.Agent, r.Kind, r.Ask, r.Unattended))
		}
		return all
	}
	want := []string{
		"desk/ notify ask=false unattended=true", "desk/ query ask=true unattended=false",
		"desk/claude query ask=false unattended=false", "desk/claude delegate ask=false unattended=false", "desk/claude notify ask=false unattended=false",
		"desk/claude result ask=false unattended=false", "desk/claude error ask=false unattended=false",
	}
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("rules:\n%s", strings.Join(got, "\n"))
	}
	laptop.stop()
	laptop = start(t, dir, "laptop")
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("after a restart:\n%s", strings.Join(got, "\n"))
	}
	var gone client.Revoked
	laptop.dial().must("wake.revoke", client.WakeRevokeParams{Peer: "desk", Agent: "claude", Kinds: []string{"result", "error"}}, &gone)
	laptop.dial().must("wake.revoke", client.WakeRevokeParams{Peer: "desk", Kinds: []string{"query"}}, nil)
	if got := list(); gone.Revoked != 2 || len(got) != 3 {
		t.Errorf("%d revoked, %q are left", gone.Revoked, got)
	}
}
