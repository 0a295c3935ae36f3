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

	// A yes is about the relay that was asked about: a token for another one is left out, as that may refuse the daemon by then.
	const known = "tls://nats.example.net:4222"
	use(client.Relay{Name: "two", URL: known, State: client.RelayRefused, Source: client.RelayKept, Login: client.LoginToken})
	both, answered, others := inv, inv, inv
	both.Relays = append([]identity.InvitedRelay{{URL: known, Token: "t0ken"}}, inv.Relays...)
	answered.Relays = append([]identity.InvitedRelay{{URL: known}}, inv.Relays...)
	others.Relays = both.Relays[:1]
	want("yes to one of two", f.RunInteractive("yes\n", "join", both.String()), client.JoinParams{URI: answered.LongString(), Relay: client.JoinKeepsRelay}, question, "")
	want("no to one of two", f.RunInteractive("no\n", "join", both.String()), client.JoinParams{URI: others.LongString()}, question, "")
	want("a script takes the new token", f.RunAtTerminal(ui.Terminal{}, others.String(), "join", "--keep-relay"), client.JoinParams{URI: others.LongString(), Relay: client.JoinKeepsRelay}, "", question)
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
