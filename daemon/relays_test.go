package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// syncBuffer is a log that goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

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
		var s client.Status
		owner.must("status", nil, &s)
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
		var r client.Relays
		owner.must("relay.list", nil, &r)
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
	var reloaded client.Reloaded
	owner.must("reload", nil, &reloaded)
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
			var r client.Relays
			owner.must("relay.list", nil, &r)
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
	if err := os.WriteFile(file, []byte("-----BEGIN NATS USER JWT-----\nhead.claims.signature\n------END NATS USER JWT------\n-----BEGIN USER NKEY SEED-----\n"+seed+"\n------END USER NKEY SEED------\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
		var out client.Invitation
		owner.must("invite", p, &out)
		inv, err := identity.ParseInvitation(out.URI)
		if err != nil {
			t.Fatal(err)
		}
		return out, inv
	}
	if out, inv := invite(client.InviteParams{}); strings.Contains(out.URI, "relay=") || out.Relays != nil || inv.Relays != nil {
		t.Errorf("without relays: %+v", out)
	}
	if e := owner.refused(kinds.Invalid, "invite", client.InviteParams{WithCredential: true}); !strings.Contains(e.Message, "with_credential: no relay's token may be given away") {
		t.Errorf("%v", e)
	}
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
	var peer client.NamedPeer
	joiner.must("join", client.JoinParams{URI: out.URI, Relay: client.JoinSkipsRelay}, &peer)
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
