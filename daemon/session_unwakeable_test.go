package daemon

import (
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A session that its program says nothing can wake is not woken, whatever the rules say: its owner is
// asked nothing, peers hear that it answers when it is active, and the owner reads why.
func TestAnUnwakeableSession(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	why := "it has no folder ~/.codex here"
	s := laptop.sessionWith(client.AttachParams{Name: "codex", Session: &client.SessionInfo{Harness: "codex", Version: "0.169.0", Unwakeable: why}})
	warned := func() bool { return slices.Contains(laptop.listWarnings(), "codex cannot be woken: "+why) }
	if warned() {
		t.Error("the owner hears it where nobody may wake it")
	}
	asker := desk.dial()
	for _, ask := range []bool{false, true} {
		laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: ask})
		asker.notify(s.notice("laptop"))
		s.next(false)
		s.release <- wire.Payload(`{"summary":"later"}`)
		asker.must("query", client.QueryParams{To: "laptop/codex", Payload: query("?")}, nil)
		s.next(false)
		s.release <- wire.Payload(accepted)
		delegateTo(asker, "laptop/codex", task1(""))
		s.next(false)
		if n := len(laptop.sessions.Waker.Approvals()); n > 0 || !warned() {
			t.Errorf("ask %v: %d approvals, the owner is told: %v", ask, n, warned())
		}
		if e := asker.refused(kinds.NoAgent, "query", client.QueryParams{To: "laptop", Payload: query("?")}); !strings.Contains(e.Message, `name a session, such as "codex"`) || strings.Contains(e.Message, "wake allow") {
			t.Errorf("the asker hears %v", e)
		}
	}
	if n := laptop.sessions.Waker.Describe("codex").Day; n > 0 {
		t.Errorf("%d turns", n)
	}
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	var found client.Answer
	asker.must("discover", client.DiscoverParams{To: "laptop", Fresh: true}, &found)
	if c := parse[kinds.Capabilities](t, found.Payload); !slices.Equal(c.Sessions, []string{"codex"}) {
		t.Errorf("peers hear %+v", c)
	}
	var agents client.Agents
	if laptop.dial().must("agents", nil, &agents); agents.Agents[0].Session.Unwakeable != why {
		t.Errorf("%+v", agents.Agents[0].Session)
	}
	for _, bad := range []string{"one\ntwo", strings.Repeat("x", client.MaxReason+1)} {
		laptop.guest(nil).refused(kinds.Invalid, "attach", client.AttachParams{Name: "x", Session: &client.SessionInfo{Harness: "codex", Unwakeable: bad}})
	}
}

// A session whose program refuses to be woken answers when it is active, although the rules let it be
// woken: a question that names no agent does not wait for it in vain, and the owner reads why.
func TestASessionThatRefusesToBeWoken(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	const why = "the session is unattended"
	s.says(func(*client.Inbound) client.WakeAnswer { return client.WakeAnswer{Refused: why + "\n\x1b[1m"} })
	asker := desk.dial()
	asker.notify(s.notice("laptop"))
	s.next(true)
	state := func() *client.Woken {
		var agents client.Agents
		laptop.dial().must("agents", nil, &agents)
		return agents.Agents[0].Woken
	}
	await.Until(t, "the daemon knows of the refusal", func() bool { return state().Refused != "" })
	if w := state(); !strings.HasPrefix(w.Refused, why) || strings.ContainsAny(w.Refused, "\n\x1b") || w.Day != 0 {
		t.Errorf("%+v", w)
	}
	if warnings := laptop.listWarnings(); !slices.ContainsFunc(warnings, func(w string) bool { return strings.HasPrefix(w, "claude was not woken: "+why) }) {
		t.Errorf("the owner reads %q", warnings)
	}
	asker.refused(kinds.NoAgent, "query", client.QueryParams{To: "laptop", Payload: query("?")})
	var found client.Answer
	asker.must("discover", client.DiscoverParams{To: "laptop", Fresh: true}, &found)
	if c := parse[kinds.Capabilities](t, found.Payload); !slices.Equal(c.Sessions, []string{"claude"}) {
		t.Errorf("peers hear %+v", c)
	}

	s.says(func(*client.Inbound) client.WakeAnswer { return client.WakeAnswer{Posted: true} })
	asker.notify(s.notice("laptop"))
	s.woken()
	await.Until(t, "the daemon knows that it may be woken", func() bool { return state().Refused == "" })
	s.says(func(*client.Inbound) client.WakeAnswer {
		return client.WakeAnswer{Refused: strings.Repeat("x", client.MaxReason+1)}
	})
	s.must("ack", client.AckParams{IDs: s.unread()}, nil)
	asker.notify(s.notice("laptop"))
	s.woken()
	await.Until(t, "the daemon knows of a refusal at great length", func() bool { return strings.Contains(state().Refused, "great length") })
}

// A question for a session that cannot be woken yet waits, and wakes it when it can: what is so of a
// session is declared by attaching anew on its connection, and takes nothing out of its hands.
func TestASessionThatCanBeWokenLater(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	info := client.SessionInfo{Harness: "codex", Unwakeable: "its conversation has had no turn yet"}
	p := client.AttachParams{Name: "codex", Session: &info}
	s := laptop.sessionWith(p)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	asker := desk.dial()
	answers := asker.query("laptop/codex")
	s.next(false)
	asker.notify(s.notice("laptop"))
	s.next(false)
	p.Key, p.Session = s.key, &client.SessionInfo{Harness: "codex"}
	s.must("attach", p, nil)
	woken := make(map[string]bool)
	for range 2 {
		in := s.woken()
		woken[in.Kind] = true
		if in.Kind == kinds.KindQuery {
			s.release <- wire.Payload(`{"summary":"now"}`)
		} else {
			s.must("ack", client.AckParams{IDs: []wire.MessageID{in.ID}}, nil)
		}
	}
	await.Receive(t, "the answer", answers)
	if !woken[kinds.KindQuery] || !woken[kinds.KindNotify] {
		t.Errorf("woken for %v", woken)
	}
}

// The owner wakes a session that he has opened, with a line of his own, and reads what its program did.
func TestTheOwnerWakesASession(t *testing.T) {
	t.Parallel()
	_, laptop := pair(t)
	s := laptop.session("claude")
	laptop.guest(nil).refused(kinds.NotAuthorized, "wake.test", client.WakeTestParams{Agent: "claude"})
	laptop.dial().refused(kinds.NotAuthorized, "wake.test", client.WakeTestParams{Agent: "claude"})
	laptop.dial().refused(kinds.NoAgent, "wake.test", client.WakeTestParams{Agent: "claud"})
	laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: true})
	for _, said := range []client.WakeAnswer{{Posted: true}, {Refused: "the session is unattended"}} {
		s.says(func(in *client.Inbound) client.WakeAnswer {
			if in.Wake == nil || !in.Wake.Test || in.Wake.Unattended || in.From != laptop.ID() {
				t.Errorf("%+v, %+v", in, in.Wake)
			}
			return said
		})
		var tested client.WakeTested
		laptop.dial().must("wake.test", client.WakeTestParams{Agent: "claude"}, &tested)
		if want := (client.WakeTested{Agent: "claude", Posted: said.Posted, Refused: said.Refused}); tested != want {
			t.Errorf("%+v, want %+v", tested, want)
		}
		s.next(true)
	}
	if w := laptop.sessions.Waker.Describe("claude"); w.Day != 0 || laptop.rows("daemon_inbox") != 0 || len(laptop.sessions.Waker.Approvals()) != 0 {
		t.Errorf("%+v, %d held", w, laptop.rows("daemon_inbox"))
	}
}
