package meet

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// A person is asked before a relay of an invitation is used, a script says it, and nothing is asked for
// a relay that the daemon uses.
// holds: security.md#against-strangers
func TestJoinAsksForTheRelay(t *testing.T) {
	const relay = "tls://nats.example.org:4222"
	inv := identity.Invitation{ID: clitest.DeskID, Relays: []identity.InvitedRelay{{URL: relay, Token: "t0ken"}}, Token: [16]byte{1}}
	plain := inv
	plain.Relays = nil
	f := newDaemon(t)
	var got client.JoinParams
	f.SetHandler(client.MethodJoin, func(r *jsonrpc.Request) (any, error) {
		got = client.JoinParams{}
		if err := r.ReadParams(&got); err != nil {
			return nil, err
		}
		p := &client.NamedPeer{ID: clitest.DeskID, Name: "desk"}
		if got.Relay == client.JoinKeepsRelay {
			p.Kept, p.Warning = []string{"hub"}, "hub is not in use yet: do this"
		}
		return p, nil
	})
	use := func(relays ...client.Relay) { f.SetAnswer(client.MethodRelayList, &client.Relays{Relays: relays}) }
	want := func(step string, result clitest.Result, p client.JoinParams, told, untold string) {
		t.Helper()
		if result.Code != 0 || got != p || !strings.Contains(result.Err, told) || untold != "" && strings.Contains(result.Err, untold) || strings.Contains(result.Out+result.Err, "t0ken") {
			t.Errorf("%s: %+v\nthe daemon got %+v, want %+v", step, result, got, p)
		}
	}
	keeps, skips, asIs := client.JoinParams{URI: inv.LongString(), Relay: client.JoinKeepsRelay}, client.JoinParams{URI: plain.LongString()}, client.JoinParams{URI: inv.LongString()}
	const question, kept = "Use it from now on? Type yes or no: ", "acpctl join: hub is not in use yet: do this\nThis daemon uses the relay hub from now on: acpctl relay remove hub takes it out.\n"
	use()
	want("a person says yes", f.RunInteractive(inv.String()+"\nyes\n", "join"), keeps, kept, "")
	want("a person is asked", f.RunInteractive(inv.String()+"\nyes\n", "join"), keeps, "names the relay "+relay+", which", "")
	want("a person says no", f.RunInteractive("no\n", "join", inv.String()), skips, question+"The answer was not yes: joining without it.\n", "")
	want("a script keeps it", f.RunAtTerminal(ui.Terminal{}, inv.String(), "join", "--keep-relay"), keeps, kept, question)
	want("a script does without", f.RunAtTerminal(ui.Terminal{}, inv.String(), "join", "--no-relay"), skips, "", question)
	want("no relay is named", f.RunAtTerminal(ui.Terminal{}, plain.String(), "join"), skips, "", question)

	got = client.JoinParams{}
	if r := f.RunAtTerminal(ui.Terminal{}, inv.String(), "join"); r.Code != frame.ExitUsage || got.URI != "" || !strings.Contains(r.Err, "--keep-relay uses it from now on, --no-relay joins without it") {
		t.Errorf("a script that does not say: %+v, %+v", r, got)
	}
	if r := f.Run("join", inv.String(), "--keep-relay", "--no-relay"); r.Code != frame.ExitUsage || got.URI != "" {
		t.Errorf("both: %+v", r)
	}
	use(client.Relay{Name: "hub", URL: relay, State: client.RelayUnused})
	if r := f.Run("join", inv.String()); r.Code != frame.ExitUsage || got.URI != "" {
		t.Errorf("a relay that is unused: %+v", r)
	}
	use(client.Relay{Name: "hub", URL: relay, State: client.RelayDown})
	want("the relay is in use", f.Run("join", inv.String()), asIs, "", question)

	// A relay that refuses the login gets the token of the invitation, if its owner says so.
	stale := client.Relay{Name: "hub", URL: relay, State: client.RelayRefused, Source: client.RelayKept, Login: client.LoginToken}
	const renewal = "The relay hub refuses this daemon, and the invitation has a token for it.\nUse that token from now on? Type yes or no: "
	use(stale)
	want("a new token, yes", f.RunInteractive("yes\n", "join", inv.String()), keeps, renewal, "names the relay")
	want("a new token, no", f.RunInteractive("no\n", "join", inv.String()), asIs, renewal+"The answer was not yes: joining without it.\n", "")
	want("a new token, a script", f.RunAtTerminal(ui.Terminal{}, inv.String(), "join"), asIs, "", renewal)
	want("a new token, a script that takes it", f.RunAtTerminal(ui.Terminal{}, inv.String(), "join", "--keep-relay"), keeps, "", renewal)
	for name, change := range map[string]func(*client.Relay){
		"it works":         func(r *client.Relay) { r.State = client.RelayUp },
		"of config.yaml":   func(r *client.Relay) { r.Source = client.RelayOfConfig },
		"with credentials": func(r *client.Relay) { r.Login = client.LoginCredentials },
	} {
		other := stale
		change(&other)
		use(other)
		want(name, f.RunInteractive("", "join", inv.String()), asIs, "", renewal)
	}
}

// A relay that the daemon does not use and a token for one that refuses it are two questions, and a yes to the one is
// none to the other.
// holds: security.md#against-strangers
func TestJoinAsksForEachTokenThatItReplaces(t *testing.T) {
	const known, other = "tls://nats.example.org:4222", "tls://nats.example.net:4222"
	inv := func(relays ...identity.InvitedRelay) string {
		return (&identity.Invitation{ID: clitest.DeskID, Relays: relays, Token: [16]byte{1}}).LongString()
	}
	knownWith, otherWith := identity.InvitedRelay{URL: known, Token: "t0ken"}, identity.InvitedRelay{URL: other, Token: "0ther"}
	knownBare := identity.InvitedRelay{URL: known}
	f := newDaemon(t)
	var got client.JoinParams
	f.SetHandler(client.MethodJoin, func(r *jsonrpc.Request) (any, error) {
		got = client.JoinParams{}
		return &client.NamedPeer{ID: clitest.DeskID, Name: "desk"}, r.ReadParams(&got)
	})
	hub := client.Relay{Name: "hub", URL: known, State: client.RelayRefused, Source: client.RelayKept, Login: client.LoginToken}
	const useOther, useToken = "names the relay " + other + ", which", "The relay hub refuses this daemon, and the invitation has a token for it.\nUse that token from now on?"
	for _, c := range []struct {
		answers string
		state   client.RelayState
		want    client.JoinParams
		asked   bool // for the token too
	}{
		{"yes\nyes\n", client.RelayRefused, client.JoinParams{URI: inv(knownWith, otherWith), Relay: client.JoinKeepsRelay}, true},
		{"yes\nno\n", client.RelayRefused, client.JoinParams{URI: inv(knownBare, otherWith), Relay: client.JoinKeepsRelay}, true},
		{"no\nyes\n", client.RelayRefused, client.JoinParams{URI: inv(knownWith), Relay: client.JoinKeepsRelay}, true},
		{"no\nno\n", client.RelayRefused, client.JoinParams{URI: inv(knownWith)}, true},
		{"yes\n", client.RelayUp, client.JoinParams{URI: inv(knownBare, otherWith), Relay: client.JoinKeepsRelay}, false}, // it may refuse a moment later
	} {
		hub.State = c.state
		f.SetAnswer(client.MethodRelayList, &client.Relays{Relays: []client.Relay{hub}})
		got = client.JoinParams{}
		r := f.RunInteractive(c.answers, "join", inv(knownWith, otherWith))
		if r.Code != 0 || got != c.want || !strings.Contains(r.Err, useOther) || strings.Contains(r.Err, useToken) != c.asked || strings.Contains(r.Out+r.Err, "t0ken") {
			t.Errorf("%q, %s: %+v\nthe daemon got %+v, want %+v", c.answers, c.state, r, got, c.want)
		}
	}
}

// The owner is told which relays an invitation names, and what cannot be taken back.
func TestInviteNamesRelays(t *testing.T) {
	f := newDaemon(t)
	var got client.InviteParams
	inv := client.Invitation{URI: "acp://…", Relays: []string{"tls://nats.example.org:4222"}}
	f.SetHandler(client.MethodInvite, func(r *jsonrpc.Request) (any, error) {
		got = client.InviteParams{}
		if err := r.ReadParams(&got); err != nil {
			return nil, err
		}
		answer := inv
		if got.WithCredential {
			answer.Shared = inv.Relays
		}
		return &answer, nil
	})
	f.WantResult(f.Run("invite"), 0, "acp://…\n", "")
	const shared = "acpctl invite: it has the token of tls://nats.example.org:4222: who has seen it can use that relay until its operator changes the token; that cannot be taken back\n"
	f.WantResult(f.Run("invite", "--with-credential"), 0, "acp://…\n", shared)
	if !got.WithCredential || got.NoRelay {
		t.Errorf("%+v", got)
	}
	f.SetAnswer(client.MethodRelayList, &client.Relays{Relays: []client.Relay{
		{Name: "hub", URL: inv.Relays[0], State: client.RelayDown, Error: "nothing listens there: start the server"},
		{Name: "two", URL: "tls://nats.example.net:4222", State: client.RelayRefused, Error: "it is not in the invitation"},
	}})
	f.WantResult(f.Run("invite", "--with-credential"), 0, "acp://…\n", shared+"acpctl invite: warning: nobody can join over hub while it is down: nothing listens there: start the server\n"+
		"acpctl invite: warning: two is left out: --with-credential only takes relays whose token may be given away\n")
	if r := f.RunInteractive("", "invite"); !strings.Contains(r.Err, "It names the relay tls://nats.example.org:4222. acpd 0.1.0 cannot read it: for that, --no-relay.\n") {
		t.Errorf("%+v", r)
	}
	f.Run("invite", "--no-relay")
	if !got.NoRelay || got.WithCredential {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{{"--no-relay", "--with-credential"}, {"--list", "--no-relay"}, {"--revoke", "all", "--with-credential"}} {
		if r := f.Run(append([]string{"invite"}, args...)...); r.Code != frame.ExitUsage {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

// TestJoinNamesTheRelayThatItLeftOut: where an invitation names nothing but a relay, an error says how that is used.
func TestJoinNamesTheRelayThatItLeftOut(t *testing.T) {
	inv := identity.Invitation{ID: clitest.DeskID, Relays: []identity.InvitedRelay{{URL: "tls://nats.example.org:4222"}}, Token: [16]byte{1}}
	f := newDaemon(t)
	f.SetAnswer(client.MethodRelayList, &client.Relays{})
	const said, asks, flag = "join: nothing leads there", "; or use the relay that it names: type acpctl join again and answer yes\n", "; or use the relay that it names: leave --no-relay out\n"
	for _, c := range []struct {
		code    kinds.Code
		addr    string
		answers string
		args    []string
		want    string
	}{
		{kinds.Invalid, "", "n\n", nil, said + asks},
		{kinds.Unreachable, "", "n\n", nil, said + asks},
		{kinds.Invalid, "", "", []string{"--no-relay"}, said + flag},
		{kinds.Invalid, "", "", []string{"--keep-relay"}, said + "\n"},
		{kinds.Invalid, "192.0.2.1:7117", "", []string{"--no-relay"}, said + "\n"},
		{kinds.NotAuthorized, "", "", []string{"--no-relay"}, said + "\n"},
	} {
		f.SetAnswer(client.MethodJoin, kinds.Errorf(c.code, "%s", said))
		inv.Addrs = nil
		if c.addr != "" {
			inv.Addrs = []string{c.addr}
		}
		if r := f.RunInteractive(c.answers, append([]string{"join", inv.String()}, c.args...)...); !strings.HasSuffix(r.Err, c.want) {
			t.Errorf("%s, %q, %q: %+v", c.code, c.addr, c.args, r)
		}
	}
}
