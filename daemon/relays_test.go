package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// deadRelay is the URL of a relay whose host refuses connections.
const deadRelay = "tls://127.0.0.1:1"

const relaySecret = "canary-5f2e"

// A relays.yaml that cannot be read is told of, stays as it is, and counts when it is mended.
func TestDamagedRelaysFile(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	file := filepath.Join(dir, "relays.yaml")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		os.Remove(file)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("relays: [{url: nowhere, token: "+relaySecret+"}]\n", 0o600)
	desk := start(t, dir, "desk")
	owner := desk.dial()
	for _, want := range []string{"relays.yaml:1: bad \"relays[0].url\"", "is open to others"} {
		s := get[client.Status](owner, "status", nil)
		if len(s.Warnings) != 1 || !strings.HasPrefix(s.Warnings[0], "relays.yaml cannot be used (") || !strings.Contains(s.Warnings[0], want) || strings.Contains(s.Warnings[0], relaySecret) {
			t.Errorf("%q, want %s", s.Warnings, want)
		}
		e := owner.refused(kinds.Internal, "relay.add", client.RelayAddParams{URL: "tls://127.0.0.1:1", NoCheck: true})
		if !strings.Contains(e.Message, want) || !strings.Contains(e.Message, "fix or remove the file") {
			t.Errorf("%v", e)
		}
		write("relays: [{url: \"tls://127.0.0.1:1\"}]\n", 0o644)
		owner.must("reload", nil, nil)
	}
	write("relays: [{url: \"tls://127.0.0.1:1\"}]\n", 0o600)
	owner.must("reload", nil, nil)
	await.Until(t, "its relay is used", func() bool {
		r := get[client.Relays](owner, "relay.list", nil)
		return len(r.Relays) == 1 && r.Relays[0].Name == "relay-127-0-0-1"
	})
}

// Of two relays with one name or URL the one of config.yaml counts, and the other is told of.
func TestConfigGoesBeforeKeptRelays(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	desk := start(t, dir, "desk")
	owner := desk.dial()
	for i, name := range []string{"hub", "two"} {
		owner.must("relay.add", client.RelayAddParams{URL: fmt.Sprintf("tls://127.0.0.1:%d", i+1), Name: name, NoCheck: true}, nil)
	}
	writeConfig(t, dir, "reach: {relays: [{name: hub, url: \"tls://127.0.0.1:3\", token: "+relaySecret+"}, {name: three, url: \"tls://127.0.0.1:2\"}]}\n")
	reloaded := get[client.Reloaded](owner, "reload", nil)
	if len(reloaded.Changed) != 1 || reloaded.Changed[0].Setting != "reach.relays" || reloaded.Changed[0].Deferred || strings.Contains(reloaded.Changed[0].To, relaySecret) {
		t.Errorf("%+v", reloaded)
	}
	var r client.Relays
	await.Until(t, "the relays are those of config.yaml", func() bool {
		r = client.Relays{}
		owner.must("relay.list", nil, &r)
		return len(r.Relays) == 4
	})
	var got []string
	for _, row := range r.Relays {
		got = append(got, fmt.Sprintf("%s %s %t", row.Name, row.Source, row.State == client.RelayUnused))
	}
	if want := []string{"hub config false", "three config false", "hub kept true", "two kept true"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if e := r.Relays[2].Error; !strings.Contains(e, "config.yaml has another relay of this name") {
		t.Error(e)
	}
	if e := r.Relays[3].Error; !strings.Contains(e, "three has the same URL") {
		t.Error(e)
	}
	if w := reloaded.Warnings; len(w) != 2 || w[0] != "relay hub: "+r.Relays[2].Error || w[1] != "relay two: "+r.Relays[3].Error {
		t.Errorf("reload warns: %q", w)
	}
}

// A file of credentials that is not there is told by reload and beside the relay, until it is there.
func TestMissingCredentialsAreTold(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	desk := start(t, dir, "desk")
	owner := desk.dial()
	writeConfig(t, dir, "reach: {relays: [{name: hub, url: \"tls://127.0.0.1:1\", credentials: nats.creds}]}\n")
	file := filepath.Join(desk.dir, "nats.creds")
	want := "credentials: " + file + " is not there: put it there, then acpctl reload"
	reload := func() (reloaded client.Reloaded) {
		owner.must("reload", nil, &reloaded)
		return reloaded
	}
	if w := reload().Warnings; !slices.Equal(w, []string{"relay hub: " + want}) {
		t.Errorf("%q", w)
	}
	awaitState := func(unused bool) (row client.Relay) {
		await.Until(t, fmt.Sprintf("the relay is unused: %t", unused), func() bool {
			r := get[client.Relays](owner, "relay.list", nil)
			if len(r.Relays) == 1 {
				row = r.Relays[0]
			}
			return len(r.Relays) == 1 && (row.State == client.RelayUnused) == unused
		})
		return row
	}
	if row := awaitState(true); row.Error != want {
		t.Errorf("%+v", row)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if w := reload().Warnings; len(w) != 1 || !strings.Contains(w[0], file+": the file has no NATS credentials: get a .creds file") {
		t.Errorf("of an empty file: %q", w)
	}
	awaitState(false)
	const seed = "SUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEQ" // of 32 zeroes
	writeFile(t, file, "-----BEGIN NATS USER JWT-----\nhead.claims.signature\n------END NATS USER JWT------\n-----BEGIN USER NKEY SEED-----\n"+seed+"\n------END USER NKEY SEED------\n")
	if w := reload().Warnings; len(w) > 0 {
		t.Errorf("%q", w)
	}
}

// An invitation names relays without their tokens, unless the owner gives those away, and is as it always
// was if there are none.
// holds: security.md#against-strangers
func TestInvitationsNameRelays(t *testing.T) {
	t.Parallel()
	desk, laptop := start(t, stateDir(t), "desk"), start(t, stateDir(t), "laptop")
	owner := desk.dial()
	invite := func(p client.InviteParams) (client.Invitation, identity.Invitation) {
		t.Helper()
		out := get[client.Invitation](owner, "invite", p)
		inv, err := identity.ParseInvitation(out.URI)
		if err != nil {
			t.Fatal(err)
		}
		return out, inv
	}
	if out, inv := invite(client.InviteParams{}); strings.Contains(out.URI, "relay=") || out.Relays != nil || inv.Relays != nil {
		t.Errorf("without relays: %+v", out)
	}
	owner.refused(kinds.Invalid, "invite", client.InviteParams{WithCredential: true}, "with_credential: no relay's token may be given away")
	const first, second, third = "tls://127.0.0.1:1", "tls://127.0.0.1:2", "tls://127.0.0.1:3"
	for url, share := range map[string]bool{first: false, second: true} {
		owner.must("relay.add", client.RelayAddParams{URL: url, Token: relaySecret, Share: share, NoCheck: true}, nil)
	}
	owner.must("relay.add", client.RelayAddParams{URL: third, NoCheck: true}, nil)
	out, inv := invite(client.InviteParams{})
	if len(out.Relays) != 2 || len(inv.Relays) != 2 || strings.Contains(out.URI, relaySecret) || out.Shared != nil {
		t.Errorf("%+v", out)
	}
	if out, inv = invite(client.InviteParams{NoRelay: true}); strings.Contains(out.URI, "relay=") || inv.Relays != nil {
		t.Errorf("no relay: %+v", out)
	}
	out, inv = invite(client.InviteParams{WithCredential: true})
	if !slices.Equal(out.Relays, []string{second}) || !slices.Equal(out.Shared, []string{second}) || len(inv.Relays) != 1 || inv.Relays[0].Token != relaySecret {
		t.Errorf("with the token: %+v", out)
	}
	owner.refused(kinds.Invalid, "invite", client.InviteParams{WithCredential: true, NoRelay: true})

	// The joiner says what becomes of the relay; what it does not keep, it does not use afterwards.
	joiner := laptop.dial()
	if e := joiner.refused(kinds.Invalid, "join", client.JoinParams{URI: out.URI}); !strings.Contains(e.Message, "names the relay "+second+", which this daemon does not use") || strings.Contains(e.Message, relaySecret) {
		t.Errorf("%v", e)
	}
	joiner.refused(kinds.Invalid, "join", client.JoinParams{URI: out.URI, Relay: "perhaps"})
	peer := get[client.NamedPeer](joiner, "join", client.JoinParams{URI: out.URI, Relay: client.JoinSkipsRelay})
	if peer.Name != "desk" || peer.Kept != nil || peer.Warning != "" {
		t.Errorf("%+v", peer)
	}
	joiner.must("join", client.JoinParams{URI: out.URI, Relay: client.JoinKeepsRelay}, &peer)
	if !slices.Equal(peer.Kept, []string{"relay-127-0-0-1"}) || !strings.HasPrefix(peer.Warning, "the relay is kept, and cannot be used yet: "+second) {
		t.Errorf("%+v", peer)
	}
	text, err := os.ReadFile(filepath.Join(laptop.dir, "relays.yaml"))
	if err != nil || !strings.Contains(string(text), relaySecret) || strings.Contains(string(text), "share") {
		t.Errorf("%s, %v", text, err)
	}
	joiner.must("join", client.JoinParams{URI: out.URI}, nil) // it uses the relay already
}

// Only names that an authority here can give are asked for, and only where there is a relay.
func TestNamesThatAreAskedFor(t *testing.T) {
	t.Parallel()
	a := authority.New(t, "corp")
	desk := start(t, stateDir(t), "desk")
	desk.joinFleet(a, "", "acp:desk")
	l := desk.dial()
	l.refused(kinds.UnknownPeer, "ping", client.PingParams{To: "build-7.corp"}, "no peer \"build-7.corp\" is known")
	l.must("relay.add", client.RelayAddParams{URL: "tls://127.0.0.1:1", Name: "hub", NoCheck: true}, nil)
	e := l.refused(kinds.Unreachable, "ping", client.PingParams{To: "build-7.corp"})
	if e.Delivered() != kinds.DeliveredNo || !strings.Contains(e.Message, "known, and relay:hub is ") || !strings.HasSuffix(e.Message, "; acpctl relay test hub says why") {
		t.Error(e)
	}
	for _, name := range []string{"build-7", "build-7.lab", "Build-7.corp", "build-7.corp.example"} {
		l.refused(kinds.UnknownPeer, "ping", client.PingParams{To: name})
	}
	l.refused(kinds.Invalid, "ping", client.PingParams{To: "desk.corp"}, "this daemon itself")
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
		claude.refused(kinds.NotAuthorized, "query", client.QueryParams{To: to, Payload: query("?")}, "agents.claude.to in config.yaml of this daemon does not name it")
	}
	codex.refused(kinds.NotAuthorized, "ping", client.PingParams{To: "build-8.corp"})
	if n := hub.asked.Load(); n != 0 {
		t.Errorf("%d names were asked for", n)
	}
	short := wire.Payload(`{"question":"?","deadline_ms":1000}`) // time enough to ask the relay
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
		ctx, stop := context.WithTimeout(d.t.Context(), 2*time.Second) // a place that is free is had before
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
		"a query": {"query", client.QueryParams{To: "build-7.corp", Payload: wire.Payload(`{"question":"?","deadline_ms":1000}`)}}, // time enough to begin the search
		"a task":  {"delegate", client.DelegateParams{To: "build-8.corp", Payload: task1(`,"deadline_ms":1000`)}},
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
	await.Until(t, "the key shows another certificate", func() bool {
		p, err := desk.relays.Introduce(t.Context(), "build-8.corp")
		if err == nil {
			t.Fatalf("%+v", p)
		}
		return strings.Contains(err.Error(), "shows another certificate now")
	})
	third := start(t, stateDir(t), "build-8")
	third.joinFleet(a, "", "acp:build-8")
	desk.joinFleet(a, fmt.Sprintf("peers: {%s: {addrs: [%q]}}\n", third.ID(), third.node.Addr()), "acp:desk")
	hub.answer(t, third.read("acpd-cert.pub"))
	await.Until(t, "the other key is found", func() bool {
		p, err := desk.relays.Introduce(t.Context(), "build-8.corp")
		return err == nil && p.ID == third.ID()
	})
}
