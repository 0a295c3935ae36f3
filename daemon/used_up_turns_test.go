package daemon

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// configure makes settings count.
func (d *running) configure(text string) {
	d.t.Helper()
	writeConfig(d.t, d.dir, text)
	if _, err := d.reloadConfig(); err != nil {
		d.t.Fatal(err)
	}
}

// wokenBy returns the row of a peer among those that have woken the session claude.
func (d *running) wokenBy(peer string) client.WokenBy {
	d.t.Helper()
	var all client.Agents
	d.dial().must("agents", nil, &all)
	for _, a := range all.Agents {
		if i := slices.IndexFunc(a.Woken.By, func(by client.WokenBy) bool { return by.Name == peer }); a.Name == "claude" && i >= 0 {
			return a.Woken.By[i]
		}
	}
	return client.WokenBy{}
}

// A peer that may wake sessions hears that the turns which it may cause are used up, and when there are
// some again; the owner hears of it too, and how to give more.
// holds: security.md#agents-on-this-machine
func TestUsedUpTurnsAreToldOf(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner := start(t, stateDir(t), "planner")
	befriend(t, planner, laptop)
	laptop.configure("agents: {claude: {turns: {hour: 4}}}")
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	events := laptop.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventBudget}}})
	warns := func() bool {
		return slices.ContainsFunc(laptop.listWarnings(), func(w string) bool {
			return strings.HasPrefix(w, "budget: woken turns of claude: 4 an hour, half of them by one peer: what desk sends waits in the inbox of claude, until 2") &&
				strings.HasSuffix(w, " (acpctl agents shows who woke it; more: turns of agents in config.yaml)")
		})
	}
	s := laptop.session("claude")
	asker := desk.dial()
	ask := client.QueryParams{To: "laptop", Payload: query("?")}
	answered := func() {
		t.Helper()
		answer := asker.query("laptop")
		s.nextRequest()
		s.release <- wire.Payload(`{"summary":"x"}`)
		await.Receive(t, "the answer", answer)
	}
	answered()
	answered()
	if by := laptop.wokenBy("desk"); !by.UsedUpUntil.IsZero() || by.Hour != 2 || warns() {
		t.Errorf("before anything is refused: %+v", by)
	}
	e := asker.refused(kinds.Overloaded, "query", ask)
	left := time.Duration(e.RetryAfterMS) * time.Millisecond
	if left < 59*time.Minute || left > time.Hour || left%time.Minute != 0 ||
		e.Message != `the turns that you may cause there are used up: try again in `+kinds.FormatDuration(left)+`, or name a session, such as "claude", which reads it at its next turn` {
		t.Errorf("after %v: %v", left, e)
	}
	if told := await.Receive(t, "event", events); told.Name != "desk" || !strings.Contains(string(told.Details), `"until":"2`) {
		t.Errorf("the event is %s", told.Details)
	}
	if by := laptop.wokenBy("desk"); !warns() || time.Until(by.UsedUpUntil.Time) < 59*time.Minute {
		t.Errorf("the owner hears %q, and of %+v", laptop.listWarnings(), by)
	}
	asker.refused(kinds.Overloaded, "delegate", client.DelegateParams{To: "laptop", Payload: task1("")})

	// Who may not wake a session hears nothing of it, and who may not discover no name.
	if e := planner.dial().refused(kinds.NoAgent, "query", ask); strings.Contains(e.Message, "used up") || !strings.HasSuffix(e.Message, "or its owner lets a query of yours wake it by typing there, with your name there as PEER: acpctl wake allow PEER --kinds query") {
		t.Error(e)
	}
	laptop.configure("{agents: {claude: {turns: {hour: 4}}}, policy: {desk: {kinds: [query]}}}")
	if e := asker.refused(kinds.Overloaded, "query", ask); strings.Contains(e.Message, "claude") || !strings.Contains(e.Message, "used up: try again in") {
		t.Error(e)
	}
	laptop.configure("agents: {claude: {turns: {hour: 40}}}")
	if by := laptop.wokenBy("desk"); warns() || !by.UsedUpUntil.IsZero() {
		t.Errorf("with more turns, the owner hears %q, and of %+v", laptop.listWarnings(), by)
	}
	answered()
}
