package relays

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/relay"
)

const secret = "canary-5f2e"

// A relay that cannot be used is not added, unless the owner wants it. It is kept over a restart, and its secret is
// only in its file.
func TestRelaysAreKept(t *testing.T) {
	t.Parallel()
	dir, url := t.TempDir(), deadURL(t)
	desk := start(t, dir, config.Reach{})
	file := filepath.Join(dir, "relays.yaml")
	e := desk.refuseToAdd(kinds.Unreachable, client.RelayAddParams{URL: url, Name: "hub", Token: secret})
	if !strings.HasPrefix(e.Message, "relay.add: hub is not added, since it cannot be used: "+url) || !strings.Contains(e.Message, "start the server") {
		t.Errorf("%v", e)
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e = desk.refuseToAdd(kinds.Invalid, client.RelayAddParams{URL: url, Name: "hub", Credentials: filepath.Join(dir, "token")})
	if !strings.Contains(e.Message, "the file has no NATS credentials") {
		t.Errorf("%v", e)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("relays.yaml is there: %v", err)
	}
	added := desk.add(client.RelayAddParams{URL: url, Name: "hub", Token: secret, Share: true})
	if added.Name != "hub" || added.Source != client.RelayKept || added.Login != client.LoginToken || !added.Share {
		t.Errorf("%+v", added)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("relays.yaml: %v, %v", info.Mode(), err)
	}
	await.Until(t, "the relay is down", func() bool {
		all := desk.List()
		return len(all) == 1 && all[0].State == client.RelayDown && strings.HasPrefix(all[0].Error, url)
	})
	if e := await.Receive(t, "the event", desk.events); e.Type != client.EventRelay || !strings.HasPrefix(string(e.Details), `{"relay":"hub","state":"down","reason":"`+url) {
		t.Errorf("%+v: %s", e, e.Details)
	}
	desk.stop()

	again := start(t, dir, config.Reach{})
	if all := again.List(); len(all) != 1 || all[0].Name != "hub" || all[0].URL != url || !all[0].Share {
		t.Errorf("after a restart: %+v", all)
	}
	_, err := again.serveRemove(t.Context(), nil, &client.RelayRemoveParams{Name: "hubb"})
	if e := again.want(kinds.NotFound, err); !strings.Contains(e.Message, `no relay "hubb"`) {
		t.Errorf("%v", e)
	}
	again.remove("hub")
	again.stop()
	if text := desk.log.String() + again.log.String(); strings.Contains(text, secret) {
		t.Errorf("the log has the token:\n%s", text)
	}
}

// Packets of a peer reach QUIC. Those of a stranger do so only while it may become a peer: while an invitation is
// open, or an authority is configured. Those of a blocked key never do.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestWhosePacketsAreAdmitted(t *testing.T) {
	t.Parallel()
	desk := start(t, t.TempDir(), config.Reach{})
	stranger, blocked, trusted := identity.ID{1}, identity.ID{2}, identity.ID{3}
	if err := desk.Trust.Untrust(blocked); err != nil {
		t.Fatal(err)
	}
	if _, err := desk.Trust.Trust(identity.Peer{ID: trusted, Name: "laptop"}); err != nil {
		t.Fatal(err)
	}
	check := func(want relay.Admission) {
		t.Helper()
		for id, want := range map[identity.ID]relay.Admission{stranger: want, blocked: relay.Refused, trusted: relay.Trusted} {
			if got := desk.admit(id); got != want {
				t.Errorf("%s: %v, want %v", id.Label(), got, want)
			}
		}
	}
	check(relay.Refused)
	_, opened, err := desk.Node.Invitations().Issue(time.Hour, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	check(relay.Invited)
	desk.Node.Invitations().Revoke(func(o identity.InvitationInfo) bool { return o.ID == opened.ID })
	check(relay.Refused)
	desk.joinFleet(authority.New(t, "corp"), time.Hour)
	check(relay.Invited)
}

// What cannot be added is refused, and says why without the secret.
func TestRelaysThatAreRefused(t *testing.T) {
	t.Parallel()
	desk := start(t, t.TempDir(), config.Reach{})
	desk.add(client.RelayAddParams{URL: "tls://127.0.0.1:1", Name: "one"})
	for name, c := range map[string]struct {
		p    client.RelayAddParams
		want string
	}{
		"no URL":    {client.RelayAddParams{}, "url: not the URL of a relay"},
		"plain":     {client.RelayAddParams{URL: "nats://nats.example.org"}, "url: without encryption"},
		"secret":    {client.RelayAddParams{URL: "tls://" + secret + "@nats.example.org"}, "url: a URL with a user or token"},
		"name":      {client.RelayAddParams{URL: "tls://nats.example.org", Name: "Hub"}, "use lower-case"},
		"same name": {client.RelayAddParams{URL: "tls://nats.example.org", Name: "one"}, "there is a relay one"},
		"same URL":  {client.RelayAddParams{URL: "tls://127.0.0.1:1", Name: "two"}, "the relay one has this URL"},
		"two ways":  {client.RelayAddParams{URL: "tls://nats.example.org", Token: secret, User: "acp", Password: secret}, "several ways to log in"},
		"password":  {client.RelayAddParams{URL: "tls://nats.example.org", User: "acp"}, "a user has a password"},
		"share":     {client.RelayAddParams{URL: "tls://nats.example.org", Share: true}, "only a token can be shared"},
		"relative":  {client.RelayAddParams{URL: "tls://nats.example.org", Credentials: "nats.creds"}, "a relative path"},
		"no file":   {client.RelayAddParams{URL: "tls://nats.example.org", Credentials: "/none/nats.creds"}, "credentials: /none/nats.creds is not there: put it there"},
	} {
		if e := desk.refuseToAdd(kinds.Invalid, c.p); !strings.Contains(e.Message, c.want) || strings.Contains(e.Message, secret) || strings.Contains(e.Message, "relays[") {
			t.Errorf("%s: %v, want %s", name, e, c.want)
		}
	}
	for i := range 7 {
		desk.add(client.RelayAddParams{URL: fmt.Sprintf("tls://127.0.0.1:%d", i+2)})
	}
	if e := desk.refuseToAdd(kinds.Invalid, client.RelayAddParams{URL: "tls://nats.example.org"}); !strings.Contains(e.Message, "there are 8 relays: remove one first") {
		t.Errorf("%v", e)
	}
	nkey, err := desk.serveNkey(t.Context(), nil, nil)
	if text := nkey.(*client.RelayNkey).Nkey; err != nil || len(text) != 56 || text[0] != 'U' {
		t.Errorf("%q, %v", text, err)
	}
}

// The event of a relay that is up does not say why it was down before.
func TestTheEventOfARelayThatIsUpHasNoReason(t *testing.T) {
	t.Parallel()
	desk := start(t, t.TempDir(), config.Reach{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	desk.add(client.RelayAddParams{Name: "hub", URL: "nats://" + addr, Token: "t0ken"})
	if e := await.Receive(t, "down", desk.events); !strings.HasPrefix(string(e.Details), `{"relay":"hub","state":"down","reason":"`) {
		t.Fatalf("event %s %s", e.Type, e.Details)
	}
	if l, err = net.Listen("tcp", addr); err != nil {
		t.Fatal(err)
	}
	serveTokens(t, l, func(string) {}, "t0ken")
	if e := await.Receive(t, "up", desk.events); string(e.Details) != `{"relay":"hub","state":"up"}` {
		t.Errorf("event %s %s", e.Type, e.Details)
	}
}

// A daemon answers for its name with its certificate, to those whom it does not block, and only where the authority
// is the one that is asked for.
func TestAnswersToNameRequests(t *testing.T) {
	t.Parallel()
	a := authority.New(t, "corp")
	want := a.Key.Hash()
	asker, blocked := identity.ID{1}, identity.ID{2}
	desk := start(t, t.TempDir(), config.Reach{})
	if err := desk.Trust.Untrust(blocked); err != nil {
		t.Fatal(err)
	}
	if got := desk.answerNameRequest(asker, want[:]); got != nil {
		t.Errorf("without a certificate: %x", got)
	}
	desk.joinFleet(a, time.Hour)
	if got := desk.answerNameRequest(asker, want[:]); !bytes.Equal(got, desk.own.Load().raw) || len(got) == 0 {
		t.Errorf("%x", got)
	}
	if got := desk.answerNameRequest(asker, append(make([]byte, 32), want[:]...)); len(got) == 0 {
		t.Error("an authority that changes its key is not answered")
	}
	other := authority.New(t, "corp")
	foreign := other.Key.Hash()
	for what, got := range map[string][]byte{
		"a blocked key":     desk.answerNameRequest(blocked, want[:]),
		"another authority": desk.answerNameRequest(asker, foreign[:]),
		"nothing":           desk.answerNameRequest(asker, nil),
		"a part":            desk.answerNameRequest(asker, want[:31]),
	} {
		if got != nil {
			t.Errorf("%s: %x", what, got)
		}
	}
	desk.joinFleet(a, -time.Hour)
	if got := desk.answerNameRequest(asker, want[:]); got != nil {
		t.Errorf("after its end: %x", got)
	}
}
