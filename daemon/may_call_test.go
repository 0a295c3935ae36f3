package daemon

import (
	"context"
	"slices"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Settings of agents: whom they may call, on every method that sends, and who wakes them.
// holds: security.md#agents-on-this-machine
func TestSettingsOfAgents(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	writeConfig(t, dir, `
agents:
  claude: {to: [desk], wake: {desk: {kinds: [query]}}}
  "*": {to: []}
  free: {answers: on}
`)
	laptop, desk, planner := start(t, dir, "laptop"), start(t, stateDir(t), "desk"), start(t, stateDir(t), "planner")
	befriend(t, desk, laptop)
	befriend(t, planner, laptop)
	for _, d := range []*running{desk, planner} {
		d.agent(client.AttachParams{Name: "welder"}, func(_ context.Context, r *jsonrpc.Request) {
			if r.Method == "delegate" || r.Method == "cancel" {
				r.Respond(wire.Payload(accepted))
				return
			}
			r.Respond(wire.Payload(`{"summary":"x"}`))
		})
	}
	s := laptop.session("claude")
	free, _ := laptop.guestAgent(client.AttachParams{Name: "free"}, say(accepted))
	id := func(d *running) wire.MessageID { return delegateTo(laptop.dial(), d.name, task1("")).ID }
	sends := func(to *running) map[string]any {
		return map[string]any{
			"ping":     client.PingParams{To: to.name},
			"discover": client.DiscoverParams{To: to.name},
			"query":    client.QueryParams{To: to.name, Payload: query("?")},
			"delegate": client.DelegateParams{To: to.name, Payload: task1("")},
			"cancel":   client.CancelParams{Ref: id(to), To: to.name, Payload: wire.Payload(`{}`)},
			"notify":   client.NotifyParams{To: client.To(to.name), Payload: wire.Payload(`{"topic":"t"}`)},
		}
	}
	own, err := laptop.claudeOnOwnersSocket(s)
	if err != nil {
		t.Fatal(err)
	}
	for method, params := range sends(planner) {
		own.refused(kinds.NotAuthorized, method, params)
		if method == "cancel" { // a guest hears only of its own
			continue
		}
		s.refused(kinds.NotAuthorized, method, params)
		laptop.guest(nil).refused(kinds.NotAuthorized, method, params)
		free.must(method, params, nil)
	}
	for method, params := range sends(desk) {
		own.must(method, params, nil)
		if method != "cancel" {
			s.must(method, params, nil)
		}
	}
	for method, params := range sends(planner) {
		laptop.dial().must(method, params, nil) // the owner
	}

	// Whom it may not call, it still answers; and what another agent has taken it reports to nobody.
	s.release <- wire.Payload(accepted)
	given := delegateTo(planner.dial(), "laptop/claude", task1(""))
	s.refused(kinds.Timeout, "query", client.QueryParams{Ref: given.ID, Payload: wire.Payload(brief)}) // it asks back
	s.must("result", client.ResultParams{Ref: given.ID, Payload: completed("done")}, nil)
	other := delegateTo(planner.dial(), "laptop/free", task1(""))
	own.refused(kinds.NotAuthorized, "query", client.QueryParams{Ref: other.ID, Payload: wire.Payload(which)})
	own.refused(kinds.NotAuthorized, "result", client.ResultParams{Ref: other.ID, Payload: completed("done")})
	own.refused(kinds.NotAuthorized, "error", client.ResultParams{Ref: other.ID, Payload: kinds.EncodePayload(kinds.Errorf(kinds.Internal, "x"))})

	var rules client.WakeRules
	laptop.dial().must("wake.list", nil, &rules)
	if want := []client.WakeRule{{Peer: desk.ID(), Name: "desk", Kind: "query", Agent: "claude", Source: "config.yaml"}}; !slices.Equal(rules.Rules, want) || len(rules.Answers) != 1 || rules.Answers[0].Agent != "free" {
		t.Errorf("rules: %+v", rules)
	}
	for len(s.told) > 0 {
		<-s.told
	}
	answer := desk.dial().query("laptop/claude")
	s.nextRequest()
	s.release <- wire.Payload(`{"summary":"x"}`)
	await.Receive(t, "the answer", answer)
	s.release <- wire.Payload(`{"summary":"x"}`)
	planner.dial().must("query", client.QueryParams{To: "laptop/claude", Payload: query("?")}, nil)
	s.next(false)
}

// claudeOnOwnersSocket returns a connection on the owner's socket that speaks as a session.
func (d *running) claudeOnOwnersSocket(s *liveSession) (*program, error) {
	l := d.dial()
	return l, l.call("speak", client.SpeakParams{Name: s.name, Key: s.key}, nil)
}
