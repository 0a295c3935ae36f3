package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// Who asks a session that is not woken hears so at the deadline, and what helps; of a session that was
// woken nothing is said.
func TestATimeoutSaysThatTheSessionWasNotWoken(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	s := laptop.session("claude")
	const unwoken = "the deadline passed, and claude was not woken: allow more time, or delegate it"
	l, e := desk.dial(), new(kinds.Error)
	for ms := 5000; e.From == "" && ms < int(await.Patience.Milliseconds()); ms *= 2 { // until the word comes before the asker's own deadline
		e = l.refused(kinds.Timeout, "query", client.QueryParams{To: "laptop/claude", Payload: wire.Payload(fmt.Sprintf(`{"question":"?","deadline_ms":%d}`, ms))})
	}
	if e.From == "" || e.Message != unwoken+"; its owner lets a query of yours wake it by typing there, with your name there as PEER: acpctl wake allow PEER --kinds query" {
		t.Error(e)
	}
	sender, _ := laptop.trust.FindPeer(desk.ID())
	askFor := func(ms int) string { // without a way on which time is lost
		t.Helper()
		env := wire.NewEnvelope(desk.ID(), laptop.ID(), kinds.KindQuery, wire.Payload(fmt.Sprintf(`{"question":"?","deadline_ms":%d}`, ms)))
		env.Agent = "claude"
		query, err := kinds.CheckEnvelope(env)
		if err != nil {
			t.Fatal(err)
		}
		_, err = laptop.incoming.HandleExchange(t.Context(), &peer.Passing{Checked: query, Inbound: true, Sender: sender})
		if !errors.Is(err, &kinds.Error{Code: kinds.Timeout}) {
			t.Fatal(err)
		}
		await.Until(t, "the session has given it up", func() bool { return s.working.Load() == 0 })
		return kinds.AsError(err).Message
	}
	ask := func() (said string) { // until the session has answered before the deadline
		t.Helper()
		for ms := 2000; ms < int(await.Patience.Milliseconds()); ms *= 2 {
			if said = askFor(ms); said != "the deadline passed" {
				break
			}
		}
		return said
	}
	laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: true})
	if got := ask(); got != unwoken+"; its owner was asked, and has not answered" {
		t.Error(got)
	}
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s.says(func(*client.Inbound) client.WakeAnswer { return client.WakeAnswer{Refused: "nobody is there"} })
	if got := ask(); got != unwoken {
		t.Error(got)
	}
	s.says(func(*client.Inbound) client.WakeAnswer { return client.WakeAnswer{Posted: true} })
	if got := askFor(2000); strings.Contains(got, "not woken") {
		t.Error(got)
	}
	// What is so of the session is declared anew, and takes the message out of nobody's hands.
	s.must("attach", client.AttachParams{Name: "claude", Key: s.key, Session: &client.SessionInfo{Harness: "codex", Asks: "Codex"}}, nil)
	if got := ask(); got != "the deadline passed: its owner was asked by Codex, and has not answered: allow more time, or delegate it" {
		t.Error(got)
	}
	laptop.configure("agents: {claude: {turns: {hour: 2}}}")
	if got := ask(); !strings.HasPrefix(got, unwoken+"; the turns that you may cause there are used up for ") {
		t.Error(got)
	}
}
