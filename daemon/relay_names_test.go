package daemon

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/names"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Only names that an authority here can give are asked for, and only where there is a relay.
func TestNamesThatAreAskedFor(t *testing.T) {
	t.Parallel()
	a := authority.New(t, "corp")
	desk := start(t, stateDir(t), "desk")
	desk.joinFleet(a, "", "acp:desk")
	l := desk.dial()
	if e := l.refused(kinds.UnknownPeer, "ping", client.PingParams{To: "build-7.corp"}); !strings.Contains(e.Message, "no peer \"build-7.corp\" is known") {
		t.Error(e)
	}
	l.must("relay.add", client.RelayAddParams{URL: "tls://127.0.0.1:1", Name: "hub", NoCheck: true}, nil)
	e := l.refused(kinds.Unreachable, "ping", client.PingParams{To: "build-7.corp"})
	if e.Delivered() != kinds.DeliveredNo || !strings.Contains(e.Message, "known, and relay:hub is ") || !strings.HasSuffix(e.Message, "; acpctl relay test hub says why") {
		t.Error(e)
	}
	for _, name := range []string{"build-7", "build-7.lab", "Build-7.corp", "build-7.corp.example"} {
		l.refused(kinds.UnknownPeer, "ping", client.PingParams{To: name})
	}
	if e := l.refused(kinds.Invalid, "ping", client.PingParams{To: "desk.corp"}); !strings.Contains(e.Message, "this daemon itself") {
		t.Error(e)
	}
}

// An agent that may not call whom it names has nobody asked or dialled for that.
// holds: security.md#agents-on-this-machine
func TestNamesThatAnAgentMayNotCallAreNotAskedFor(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	id := identity.ID{8}.String()
	desk.joinFleet(authority.New(t, "corp"), "agents: {claude: {to: []}, codex: {to: [build-7.corp, \""+id+"\"]}}\n", "acp:desk")
	hub := new(certificateRelay)
	desk.askFor(hub)
	claude, _ := desk.guestAgent(client.AttachParams{Name: "claude"}, say(`{}`))
	codex, _ := desk.guestAgent(client.AttachParams{Name: "codex"}, say(`{}`))
	for _, to := range []string{"build-7.corp", id, strings.ToUpper(id), id + "/reviewer"} {
		e := claude.refused(kinds.NotAuthorized, "query", client.QueryParams{To: to, Payload: query("?")})
		if !strings.Contains(e.Message, "agents.claude.to in config.yaml of this daemon does not name it") {
			t.Error(e)
		}
	}
	codex.refused(kinds.NotAuthorized, "ping", client.PingParams{To: "build-8.corp"})
	if n := hub.asked.Load(); n != 0 {
		t.Errorf("%d names were asked for", n)
	}
	short := wire.Payload(`{"question":"?","deadline_ms":50}`)
	for _, to := range []string{"build-7.corp", id} {
		codex.refused(kinds.Unreachable, "query", client.QueryParams{To: to, Payload: short})
	}
	if n := hub.asked.Load(); n != 1 {
		t.Errorf("%d names were asked for", n)
	}
	claude.refused(kinds.UnknownPeer, "ping", client.PingParams{To: "build-7"}) // is looked for nowhere
}

// Peers are dialled by ids that nobody knows as often as they are looked for by names.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestDialsByIDAreBounded(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	desk.joinFleet(authority.New(t, "corp"), "", "acp:desk")
	desk.askFor(new(certificateRelay))
	desk.takeSearches()
	e := desk.dial().refused(kinds.Overloaded, "query", client.QueryParams{To: identity.ID{8}.String(), Payload: wire.Payload(`{"question":"?","deadline_ms":50}`)})
	if e.Delivered() != kinds.DeliveredNo {
		t.Error(e)
	}
}

// takeSearches takes all places for searches of the owner's programs.
func (d *running) takeSearches() {
	for ok := true; ok; {
		ctx, stop := context.WithTimeout(d.t.Context(), 100*time.Millisecond)
		_, ok = d.relays.Names.BeginSearch(ctx, false)
		stop()
	}
}

// certificateRelay answers each request with a certificate; without one it is silent.
type certificateRelay struct {
	before func(context.Context) // the answer; nil: nothing
	raw    atomic.Pointer[[]byte]
	asked  atomic.Int64
}

func (r *certificateRelay) Ask(ctx context.Context, _ string, _ []byte, take func([]byte) bool) error {
	r.asked.Add(1)
	raw := r.raw.Load()
	if raw == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	if r.before != nil {
		r.before(ctx)
	}
	take(*raw)
	return nil
}

func (*certificateRelay) Trouble() (what, remedy string) { return "", "" }

// answer has the relay answer with the certificate in a file.
func (r *certificateRelay) answer(t testing.TB, file string) {
	t.Helper()
	raw, err := identity.ParseCertificateFile([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	r.raw.Store(&raw)
}

// askFor has a daemon ask a relay for names, and nothing else.
func (d *running) askFor(hub *certificateRelay) {
	d.t.Helper()
	d.dial().must("relay.add", client.RelayAddParams{URL: "tls://127.0.0.1:1", Name: "hub", NoCheck: true}, nil)
	d.relays.Names = names.NewBook(d.trust, func() map[string]names.Relay { return map[string]names.Relay{"hub": hub} })
}

// The deadline of a call holds for all of it: also for the search for a peer by its name.
func TestTheDeadlineHoldsForTheSearch(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	desk.joinFleet(authority.New(t, "corp"), "", "acp:desk")
	desk.askFor(new(certificateRelay))
	l := desk.dial()
	for name, call := range map[string]struct {
		method string
		params any
	}{
		"a query": {"query", client.QueryParams{To: "build-7.corp", Payload: wire.Payload(`{"question":"?","deadline_ms":50}`)}},
		"a task":  {"delegate", client.DelegateParams{To: "build-8.corp", Payload: task1(`,"deadline_ms":50`)}},
	} {
		e := l.refused(kinds.Unreachable, call.method, call.params)
		if !strings.HasSuffix(e.Message, "the call ended before anybody had answered") || e.Delivered() != kinds.DeliveredNo {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// The 5 s of a notification begin with the search for its receiver.
func TestTheSearchTakesTimeOfANotification(t *testing.T) {
	t.Parallel()
	a, desk, build := authority.New(t, "corp"), start(t, stateDir(t), "desk"), start(t, stateDir(t), "build-7")
	desk.joinFleet(a, "", "acp:desk")
	build.joinFleet(a, fmt.Sprintf("peers: {%s: {addrs: [%q]}}\npolicy: {desk.corp: {kinds: [notify]}}\n", desk.ID(), desk.node.Addr()), "acp:build-7")
	hub := &certificateRelay{before: func(ctx context.Context) {
		if err := build.dial().call("ping", client.PingParams{To: desk.ID().String()}, nil); err != nil {
			t.Error(err)
		}
		_ = pace.Sleep(ctx, 2*time.Second)
	}}
	hub.answer(t, build.read("acpd-cert.pub"))
	desk.askFor(hub)
	build.agent(client.AttachParams{Name: "builder"}, func(ctx context.Context, _ *jsonrpc.Request) { <-ctx.Done() }) // held after 4 s
	e := desk.dial().refused(kinds.Timeout, "notify", client.NotifyParams{To: client.To("build-7.corp"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "build"})})
	if e.Delivered() != kinds.DeliveredUnknown {
		t.Error(e)
	}
}

// A machine that was set up anew under its old name is found, though the certificate of its old key is still valid.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestAMachineThatWasSetUpAnewIsFound(t *testing.T) {
	t.Parallel()
	a, desk, build := fleet(t, "", "")
	hub := new(certificateRelay)
	desk.relays.Names = names.NewBook(desk.trust, func() map[string]names.Relay { return map[string]names.Relay{"hub": hub} })
	const name = "build-7.corp"
	old, err := identity.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	hub.answer(t, a.SignFile(old.ID(), time.Hour, "acp:build-7"))
	if p, err := desk.relays.Introduce(t.Context(), name); err == nil {
		t.Fatalf("%+v", p)
	}
	hub.answer(t, build.read("acpd-cert.pub"))
	await.Until(t, "the new key is found", func() bool {
		p, err := desk.relays.Introduce(t.Context(), name)
		return err == nil && p.ID == build.ID() && p.Name == name
	})

	// A key that shows another certificate than the relay has.
	hub.answer(t, a.SignFile(build.ID(), time.Hour, "acp:build-8"))
	if p, err := desk.relays.Introduce(t.Context(), "build-8.corp"); err == nil || !strings.Contains(err.Error(), "shows another certificate now") {
		t.Fatalf("%+v, %v", p, err)
	}
	third := start(t, stateDir(t), "build-8")
	third.joinFleet(a, "", "acp:build-8")
	desk.joinFleet(a, fmt.Sprintf("peers: {%s: {addrs: [%q]}}\n", third.ID(), third.node.Addr()), "acp:desk")
	hub.answer(t, third.read("acpd-cert.pub"))
	await.Until(t, "the other key is found", func() bool {
		p, err := desk.relays.Introduce(t.Context(), "build-8.corp")
		return err == nil && p.ID == third.ID()
	})
}
