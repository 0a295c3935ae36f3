package daemon

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Nobody takes an agent's name over in the agents' folder. While the agent is away and
// has open work, its key alone gives the name again, also after a restart.
// holds: security.md#agents-on-this-machine
func TestANameWithOpenWorkNeedsItsKey(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, key := desk.guestAgent(client.AttachParams{Name: "planner"}, say(accepted))
	if _, err := registry.HashAgentKey("attach", key); err != nil {
		t.Fatal(err)
	}
	g := desk.guest(nil)
	g.refused(kinds.NotAuthorized, "attach", client.AttachParams{Name: "planner", TakeOver: true})
	g.refused(kinds.NotAuthorized, "attach", client.AttachParams{Name: "planner", TakeOver: true, Key: key})
	if e := g.refused(kinds.Invalid, "attach", client.AttachParams{Name: "planner"}); strings.Contains(e.Message, "take_over") {
		t.Errorf("it names what does not help: %s", e.Message)
	}
	g.refused(kinds.Invalid, "attach", client.AttachParams{Name: "planner", Key: "secret"})
	taken := delegateTo(laptop.dial(), "desk", task1(`,"deadline_ms":3600000`))

	leave := func(l *program) {
		t.Helper()
		l.Close()
		desk.awaitLeft("planner")
	}
	leave(planner)
	kept := func() {
		t.Helper()
		g := desk.guest(say(accepted))
		if e := g.refused(kinds.NotAuthorized, "attach", client.AttachParams{Name: "planner"}); !strings.Contains(e.Message, "show its key") {
			t.Errorf("%s", e.Message)
		}
		g.refused(kinds.NotAuthorized, "attach", client.AttachParams{Name: "planner", Key: registry.NewAgentKey()})
		g.must("attach", client.AttachParams{Name: "another"}, nil) // any other name is free
	}
	kept()
	back, same := desk.guestAgent(client.AttachParams{Name: "planner", Key: key}, say(accepted))
	if same != key {
		t.Errorf("the key changed to %q", same)
	}
	// With its key it also comes back before the daemon has seen that it left.
	twice, _ := desk.guestAgent(client.AttachParams{Name: "planner", Key: key}, say(accepted))
	await.Receive(t, "the end of the connection before", back.Done())
	leave(twice)

	desk.stop()
	desk = start(t, desk.dir, "desk")
	kept()
	// The daemon's owner is not asked for a key, and the open work passes on.
	owned := desk.agent(client.AttachParams{Name: "planner"}, say(accepted))
	leave(owned)
	g = desk.guest(nil)
	g.refused(kinds.NotAuthorized, "attach", client.AttachParams{Name: "planner", Key: key})
	desk.registry.ProtectName("planner", registry.KeyHash{}, time.Now().Add(-registry.NameKeptFor))
	last, _ := desk.guestAgent(client.AttachParams{Name: "planner"}, say(accepted))
	var s client.Task
	if last.must("task", client.TaskParams{ID: taken.ID}, &s); s.State != client.TaskAccepted || s.Agent != "planner" {
		t.Errorf("after the time the open work did not pass on: %+v", s)
	}
	await.Until(t, "desk and laptop are connected", func() bool { _, ok := desk.node.Peer(laptop.ID()); return ok })
	last.must("result", client.ResultParams{Ref: taken.ID, Payload: completed("done")}, nil)
	// Without open work the name is for whoever comes.
	leave(last)
	desk.guestAgent(client.AttachParams{Name: "planner"}, say(accepted))
}

// Whoever attaches under a name that is free gets what waits for that name, but not what the agent
// had before it: that needs the key.
// holds: security.md#agents-on-this-machine
func TestAFreeNameGetsWhatWaitsForIt(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	first := desk.session("claude")
	given := delegateTo(first.program, "laptop", task1(""))
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: completed("done")}, nil)
	held := laptop.dial().notify(first.notice("desk"))
	desk.guest(nil).refused(kinds.Invalid, "attach", client.AttachParams{Name: "claude", Session: claude})
	first.Close()
	desk.awaitLeft("claude")
	second := desk.session("claude")
	if ids := second.unread(); len(ids) != 2 || ids[1] != held.ID {
		t.Errorf("%d messages wait for the name", len(ids))
	}
	second.refused(kinds.NotFound, "task", client.TaskParams{ID: given.ID})
}

// TestAPanicInAnyMethodEndsOneCall: whatever method fails so, its caller is told, and
// nothing of the call stays: neither its place on the connection nor the reserve.
// holds: security.md#agents-on-this-machine
func TestAPanicInAnyMethodEndsOneCall(t *testing.T) {
	desk := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, measure: func(string) (disk.Space, error) {
		return disk.Space{}, nil // so that the reserve is spent
	}})
	methods := desk.local.Methods
	real := maps.Clone(methods)
	fails := func(context.Context, *local.Conn, *jsonrpc.Request) (any, error) { panic("a bug") }
	for name, m := range real {
		methods[name] = local.Method{Serve: fails, ForGuests: m.ForGuests}
	}
	methods[client.MethodAck] = local.Method{Serve: fails, ForGuests: true}.WithDiskReserve(desk.space.Reserve)
	l := desk.dial()
	for name := range real {
		for range 3 {
			l.refused(kinds.Internal, name, nil)
		}
	}
	maps.Copy(methods, real)
	l.must("whoami", nil, nil)
	await.Until(t, "the reserve is there again", func() bool {
		_, err := os.Stat(desk.home.filePath("reserve"))
		return err == nil
	})
	if l.IsBusy() {
		t.Error("a call is still under way")
	}
}

// Every method without params, and one that panics, gets an answer and ends nothing.
// holds: security.md#agents-on-this-machine
func TestNoCallEndsTheDaemon(t *testing.T) {
	desk := start(t, stateDir(t), "desk")
	methods := desk.local.Methods
	methods["panic"] = local.Method{Serve: func(context.Context, *local.Conn, *jsonrpc.Request) (any, error) { panic("a bug") }, ForGuests: true}
	for name, m := range methods {
		if name == "drain" {
			continue // it is there to end the daemon
		}
		for _, l := range []*program{desk.dial(), desk.guest(nil)} {
			ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
			if err := l.Call(ctx, name, nil, nil); name == "notify" && !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) || !m.ForGuests && err != nil && errors.Is(err, &kinds.Error{Code: kinds.Internal}) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
	}
	desk.dial().refused(kinds.Internal, "panic", nil)
	desk.dial().must("whoami", nil, nil)
}

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

	rules := get[client.WakeRules](laptop.dial(), "wake.list", nil)
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
