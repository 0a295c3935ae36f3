package daemon

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// tokenServer speaks as much of NATS as a link needs to be up, with those who have one of the tokens, and hands the
// lines of clients to heard. It returns its URL.
func tokenServer(t *testing.T, heard func(line string), tokens ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveTokens(t, l, heard, tokens...)
	return "nats://" + l.Addr().String()
}

// serveTokens is the server of tokenServer, at l.
func serveTokens(t *testing.T, l net.Listener, heard func(line string), tokens ...string) {
	t.Cleanup(func() { l.Close() })
	serve := func(c net.Conn) {
		defer c.Close()
		fmt.Fprint(c, `INFO {"server_id":"FAKE","server_name":"fake","version":"2.15.2","headers":true,"max_payload":1048576,"proto":1,"nonce":"abcdefghijk","auth_required":true}`+"\r\n")
		lines := bufio.NewScanner(c)
		for lines.Scan() {
			line := lines.Text()
			heard(line)
			switch {
			case strings.HasPrefix(line, "CONNECT ") && !slices.ContainsFunc(tokens, func(token string) bool { return strings.Contains(line, `"auth_token":"`+token+`"`) }):
				fmt.Fprint(c, "-ERR 'Authorization Violation'\r\n")
				return
			case line == "PING":
				fmt.Fprint(c, "PONG\r\n")
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
}

// A join that gives a kept relay another token takes from its owner's words that the token may be given away, and
// keeps none that was not the one which works.
func TestATokenOfAnInvitationIsNotShared(t *testing.T) {
	t.Parallel()
	desk, laptop := start(t, stateDir(t), "desk"), start(t, stateDir(t), "laptop")
	url := tokenServer(t, func(string) {}, "t0ken-good", "t0ken-better")
	owner := laptop.dial()
	owner.must("relay.add", client.RelayAddParams{Name: "hub", URL: url, Token: "t0ken-old", Share: true, NoCheck: true}, nil)
	state := func(token config.Secret, want client.RelayState) {
		t.Helper()
		await.Until(t, string(want), func() bool {
			all := laptop.relays.list()
			return len(all) == 1 && all[0].link != nil && all[0].Token == token && laptop.describeRelay(all[0]).State == want
		})
	}
	state("t0ken-old", client.RelayRefused)
	join := func(token string) (peer client.NamedPeer) {
		t.Helper()
		var out client.Invitation
		desk.dial().must("invite", nil, &out)
		inv, err := identity.ParseInvitation(out.URI)
		if err != nil {
			t.Fatal(err)
		}
		inv.Relays = []identity.InvitedRelay{{URL: url, Token: token}}
		owner.must("join", client.JoinParams{URI: inv.String(), Relay: client.JoinKeepsRelay}, &peer)
		return peer
	}
	kept := func() string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(laptop.dir, "relays.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if p := join("t0ken-bad"); p.Kept != nil || !strings.Contains(kept(), "t0ken-old") || !strings.Contains(kept(), "share: true") {
		t.Errorf("%+v\n%s", p, kept())
	}
	state("t0ken-old", client.RelayRefused)
	if p := join("t0ken-good"); !slices.Equal(p.Kept, []string{"hub"}) || !strings.Contains(kept(), "t0ken-good") || strings.Contains(kept(), "share") {
		t.Errorf("%+v\n%s", p, kept())
	}
	state("t0ken-good", client.RelayUp)
	for token, want := range map[string]bool{"t0ken-good": true, "t0ken-better": false, "": false} {
		if got := laptop.isRelayUp(config.Relay{Name: "hub", URL: url, Token: config.Secret(token)}); got != want {
			t.Errorf("up with %q: %t", token, got)
		}
	}
	if p := join("t0ken-better"); p.Kept != nil || !strings.Contains(kept(), "t0ken-good") { // the relay works
		t.Errorf("%+v\n%s", p, kept())
	}
}

// A join over a relay that refuses this daemon says what works there, and names no relay that is not kept.
func TestJoinSaysWhatToDoAboutARelayThatRefuses(t *testing.T) {
	t.Parallel()
	laptop := start(t, stateDir(t), "laptop")
	url := tokenServer(t, func(string) {}, "t0ken-good")
	var nkey client.RelayNkey
	laptop.dial().must("relay.nkey", nil, &nkey)
	const ask = "ask for a new invitation, made by acpctl invite --with-credential"
	for token, want := range map[string]string{
		"":          "have " + nkey.Nkey + " put into the users of its configuration; or, if it wants a token, user or credentials, " + ask,
		"t0ken-bad": "the server refuses a token: wrong, or changed there: " + ask,
	} {
		inv := identity.Invitation{ID: identity.ID{1}, Relays: []identity.InvitedRelay{{URL: url, Token: token}}, Token: [16]byte{1}}
		e := laptop.dial().refused(kinds.Unreachable, "join", client.JoinParams{URI: inv.String(), Relay: client.JoinKeepsRelay})
		if !strings.Contains(e.Message, "relay:relay-127-0-0-1 refuses this daemon; and the relay of the invitation: "+url+": ") || !strings.Contains(e.Message, want) ||
			strings.Contains(e.Message, "relay test") || strings.Contains(e.Message, "relay remove") {
			t.Errorf("%q: %s", token, e.Message)
		}
	}
}

// A relay of an invitation is not asked for names, and does not get this daemon's, before it is kept.
func TestRelaysOfInvitationsLearnNoNames(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	desk.joinFleet(authority.New(t, "corp"), "", "acp:desk")
	var named atomic.Int64
	s := config.Relay{Name: "hub", Token: "t0ken", URL: tokenServer(t, func(line string) {
		if strings.Contains(line, "acp1.name.") {
			named.Add(1)
		}
	}, "t0ken")}
	desk.relays.addInvited([]config.Relay{s}, nil)
	desk.applyRelays()
	await.Until(t, "the relay is up", func() bool { return desk.isRelayUp(s) })
	l := desk.dial()
	l.refused(kinds.UnknownPeer, "ping", client.PingParams{To: "build-7.corp"})
	l.must("reload", nil, nil)
	if n := len(desk.listNameRelays()); n != 0 || named.Load() != 0 || desk.mayAskForName("build-7.corp") {
		t.Errorf("%d relays are asked; the relay has heard %d names", n, named.Load())
	}
	if err := desk.keepRelay(s); err != nil {
		t.Fatal(err)
	}
	desk.relays.removeInvited([]config.Relay{s}, nil)
	before := desk.relays.list()[0].link
	desk.applyRelays()
	await.Until(t, "the relay has this daemon's name", func() bool { return named.Load() > 0 })
	if all := desk.relays.list(); len(desk.listNameRelays()) != 1 || len(all) != 1 || all[0].link != before {
		t.Errorf("%+v", all)
	}
}

// Each relay of an invitation gets a name that is free, whatever others are called.
func TestRelaysOfInvitationsGetFreeNames(t *testing.T) {
	t.Parallel()
	laptop := start(t, stateDir(t), "laptop")
	taken := make(map[string]bool)
	for i, name := range []string{"relay-127-0-0-1-b", "relay-127-0-0-1-2"} {
		laptop.dial().must("relay.add", client.RelayAddParams{Name: name, URL: fmt.Sprintf("tls://127.0.0.1:%d", i+1), NoCheck: true}, nil)
		taken[name] = true
	}
	inv := identity.Invitation{Relays: []identity.InvitedRelay{{URL: "tls://127.0.0.1:3"}, {URL: "tls://127.0.0.1:4"}}}
	for _, s := range laptop.listUnknownRelays(inv) {
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
	desk := start(t, stateDir(t), "desk")
	owner, url := desk.dial(), tokenServer(t, func(string) {}, "t0ken-good")
	const refused = "the server refuses a token: wrong, or changed there: "
	const get = "get the new one, and "
	told := func(name, want string) {
		t.Helper()
		await.Until(t, want, func() bool {
			var all client.Relays
			owner.must("relay.list", nil, &all)
			return slices.ContainsFunc(all.Relays, func(r client.Relay) bool { return r.Name == name && strings.HasSuffix(r.Error, refused+want) })
		})
	}
	e := owner.refused(kinds.NotAuthorized, "relay.add", client.RelayAddParams{URL: url, Name: "hub", Token: "t0ken-bad"})
	if !strings.Contains(e.Message, refused+get+"acpctl relay add with it; --no-check adds it untried") {
		t.Error(e)
	}
	owner.must("relay.add", client.RelayAddParams{URL: url, Name: "hub", Token: "t0ken-bad", NoCheck: true}, nil)
	told("hub", get+"acpctl relay remove hub, then acpctl relay add with it")
	owner.must("relay.remove", client.RelayRemoveParams{Name: "hub"}, nil)

	desk.write("config.yaml", fmt.Sprintf("reach: {relays: [{name: fixed, url: %q, token: t0ken-bad}]}\n", url))
	owner.must("reload", nil, nil)
	told("fixed", get+"write that into config.yaml, then acpctl reload")
	desk.write("config.yaml", "")
	owner.must("reload", nil, nil)

	desk.relays.addInvited([]config.Relay{{Name: "met", URL: url, Token: "t0ken-bad"}}, nil)
	desk.applyRelays()
	told("met", "ask for a new invitation, made by acpctl invite --with-credential, or acpctl relay add with what it takes")
}
