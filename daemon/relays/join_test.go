package relays

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// A join that gives a kept relay another token does not let the new one be given away, and keeps only a token that
// works.
// holds: security.md#against-strangers
func TestATokenOfAnInvitationIsNotShared(t *testing.T) {
	t.Parallel()
	desk, laptop := start(t, t.TempDir(), config.Reach{}), start(t, t.TempDir(), config.Reach{})
	url := tokenServer(t, func(string) {}, "t0ken-good", "t0ken-better")
	laptop.add(client.RelayAddParams{Name: "hub", URL: url, Token: "t0ken-old", Share: true})
	state := func(token config.Secret, want client.RelayState) {
		t.Helper()
		await.Until(t, string(want), func() bool {
			all := laptop.list()
			return len(all) == 1 && all[0].link != nil && all[0].Token == token && all[0].describe().State == want
		})
	}
	state("t0ken-old", client.RelayRefused)
	join := func(token string) *client.NamedPeer {
		t.Helper()
		secret, _, err := desk.Node.Invitations().Issue(time.Hour, "", 1)
		if err != nil {
			t.Fatal(err)
		}
		peer, err := laptop.Join(t.Context(), identity.Invitation{
			ID: desk.Key.ID(), Addrs: []string{desk.Node.Addr().String()}, Name: "desk", PQ: identity.HashPQ(desk.Key.PublicPQ()), Token: secret,
			Relays: []identity.InvitedRelay{{URL: url, Token: token}},
		}, client.JoinKeepsRelay)
		if err != nil {
			t.Fatal(err)
		}
		return peer
	}
	if p := join("t0ken-bad"); p.Kept != nil || !strings.Contains(laptop.readKept(), "t0ken-old") || !strings.Contains(laptop.readKept(), "share: true") {
		t.Errorf("%+v\n%s", p, laptop.readKept())
	}
	state("t0ken-old", client.RelayRefused)
	if p := join("t0ken-good"); !slices.Equal(p.Kept, []string{"hub"}) || !strings.Contains(laptop.readKept(), "t0ken-good") || strings.Contains(laptop.readKept(), "share") {
		t.Errorf("%+v\n%s", p, laptop.readKept())
	}
	state("t0ken-good", client.RelayUp)
	for token, want := range map[string]bool{"t0ken-good": true, "t0ken-better": false, "": false} {
		if got := laptop.isUp(config.Relay{Name: "hub", URL: url, Token: config.Secret(token)}); got != want {
			t.Errorf("up with %q: %t", token, got)
		}
	}
	if p := join("t0ken-better"); p.Kept != nil || !strings.Contains(laptop.readKept(), "t0ken-good") { // the relay works
		t.Errorf("%+v\n%s", p, laptop.readKept())
	}
}

// A join over a relay that refuses this daemon says what works there, and names no relay that is not kept.
func TestJoinSaysWhatToDoAboutARelayThatRefuses(t *testing.T) {
	t.Parallel()
	laptop := start(t, t.TempDir(), config.Reach{})
	url := tokenServer(t, func(string) {}, "t0ken-good")
	nkey, err := laptop.serveNkey(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const ask = "ask for a new invitation, made by acpctl invite --with-credential"
	for token, want := range map[string]string{
		"":          "have " + nkey.(*client.RelayNkey).Nkey + " put into the users of its configuration; or, if it wants a token, user or credentials, " + ask,
		"t0ken-bad": "the server refuses a token: wrong, or changed there: " + ask,
	} {
		inv := identity.Invitation{ID: identity.ID{1}, Relays: []identity.InvitedRelay{{URL: url, Token: token}}, Token: [16]byte{1}}
		_, err := laptop.Join(t.Context(), inv, client.JoinKeepsRelay)
		e := laptop.want(kinds.Unreachable, err)
		if !strings.Contains(e.Message, "relay:relay-127-0-0-1 refuses this daemon; and the relay of the invitation: "+url+": ") || !strings.Contains(e.Message, want) ||
			strings.Contains(e.Message, "relay test") || strings.Contains(e.Message, "relay remove") {
			t.Errorf("%q: %s", token, e.Message)
		}
	}
}

// A relay of an invitation is not asked for names, and does not get this daemon's, before it is kept.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestRelaysOfInvitationsLearnNoNames(t *testing.T) {
	t.Parallel()
	desk := start(t, t.TempDir(), config.Reach{})
	desk.joinFleet(authority.New(t, "corp"), time.Hour)
	var named atomic.Int64
	s := config.Relay{Name: "hub", Token: "t0ken", URL: tokenServer(t, func(line string) {
		if strings.Contains(line, "acp1.name.") {
			named.Add(1)
		}
	}, "t0ken")}
	j := &join{unknown: []config.Relay{s}}
	desk.beginJoin(j)
	desk.apply()
	await.Until(t, "the relay is up", func() bool { return desk.isUp(s) })
	desk.UpdateNames()
	desk.apply()
	if n := len(desk.listNameRelays()); n != 0 || named.Load() != 0 || desk.CanAsk("build-7.corp") {
		t.Errorf("%d relays are asked; the relay has heard %d names", n, named.Load())
	}
	if err := desk.keep(s); err != nil {
		t.Fatal(err)
	}
	desk.endJoin(j)
	before := desk.list()[0].link
	desk.apply()
	await.Until(t, "the relay has this daemon's name", func() bool { return named.Load() > 0 })
	if all := desk.list(); len(desk.listNameRelays()) != 1 || len(all) != 1 || all[0].link != before {
		t.Errorf("%+v", all)
	}
	if !desk.CanAsk("build-7.corp") || desk.CanAsk("build-7.lab") {
		t.Error("the relay is asked for other names than those of the authority")
	}
}

// Each relay of an invitation gets a name that is free, whatever others are called.
func TestRelaysOfInvitationsGetFreeNames(t *testing.T) {
	t.Parallel()
	laptop := start(t, t.TempDir(), config.Reach{})
	taken := make(map[string]bool)
	for i, name := range []string{"relay-127-0-0-1-b", "relay-127-0-0-1-2"} {
		laptop.add(client.RelayAddParams{Name: name, URL: fmt.Sprintf("tls://127.0.0.1:%d", i+1)})
		taken[name] = true
	}
	inv := identity.Invitation{Relays: []identity.InvitedRelay{{URL: "tls://127.0.0.1:3"}, {URL: "tls://127.0.0.1:4"}}}
	for _, s := range laptop.listUnknown(inv) {
		if taken[s.Name] || identity.CheckName(s.Name) != nil {
			t.Errorf("%q", s.Name)
		}
		taken[s.Name] = true
	}
	if len(taken) != 4 {
		t.Errorf("%v", taken)
	}
}

// Whoever has to replace a login is told how at that relay: one that is not added, one that is kept, one of
// config.yaml, and one of an invitation, which may be kept or not.
func TestHowALoginIsReplaced(t *testing.T) {
	t.Parallel()
	desk := start(t, t.TempDir(), config.Reach{})
	url := tokenServer(t, func(string) {}, "t0ken-good")
	const refused = "the server refuses a token: wrong, or changed there: "
	const get = "get the new one, and "
	told := func(name, want string) {
		t.Helper()
		await.Until(t, want, func() bool {
			return slices.ContainsFunc(desk.List(), func(r client.Relay) bool { return r.Name == name && strings.HasSuffix(r.Error, refused+want) })
		})
	}
	p := client.RelayAddParams{URL: url, Name: "hub", Token: "t0ken-bad"}
	if e := desk.refuseToAdd(kinds.NotAuthorized, p); !strings.Contains(e.Message, refused+get+"acpctl relay add with it; --no-check adds it untried") {
		t.Error(e)
	}
	desk.add(p)
	told("hub", get+"acpctl relay remove hub, then acpctl relay add with it")
	desk.remove("hub")

	desk.configure(config.Relay{Name: "fixed", URL: url, Token: "t0ken-bad"})
	told("fixed", get+"write that into config.yaml, then acpctl reload")
	desk.configure()

	desk.beginJoin(&join{unknown: []config.Relay{{Name: "met", URL: url, Token: "t0ken-bad"}}})
	desk.apply()
	told("met", "ask for a new invitation, made by acpctl invite --with-credential, or acpctl relay add with what it takes")
}
