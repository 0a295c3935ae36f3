package meet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

func TestInviteOnATerminal(t *testing.T) {
	f := newDaemon(t)
	inv := identity.Invitation{ID: clitest.DeskID, Addrs: []string{"192.0.2.1:7117"}, Name: "desk", PQ: identity.PQHash{1}, Token: [16]byte{1}}
	f.SetAnswer(client.MethodInvite, &client.Invitation{URI: inv.String(), Expires: time.Now()})
	f.WantResult(f.Run("invite"), 0, inv.String()+"\n", "")
	got := f.RunInteractive("", "invite")
	if lines := strings.Count(got.Err, "\n"); got.Out != inv.String()+"\n" || !strings.Contains(got.Err, "acpctl join") || lines > 10 {
		t.Errorf("%d lines beside the invitation: %+v", lines, got)
	}
}

// An invitation for several daemons says for how many; one for one says nothing of it to a daemon,
// which may be older. The list shows who came, the first eight, and how many still can.
func TestInviteSeveral(t *testing.T) {
	f := newDaemon(t)
	var asked client.InviteParams
	f.SetHandler(client.MethodInvite, func(r *jsonrpc.Request) (any, error) {
		asked = client.InviteParams{}
		err := r.ReadParams(&asked)
		return &client.Invitation{URI: "acp://x", Expires: time.Now()}, err
	})
	f.WantResult(f.Run("invite", "--uses", "1"), 0, "acp://x\n", "")
	if asked.Uses != 0 {
		t.Errorf("asked for %+v", asked)
	}
	if got := f.RunInteractive("", "invite", "--uses", "3", "--name", "build"); asked.Uses != 3 || asked.Name != "build" || !strings.Contains(got.Err, "3 other machines can join") {
		t.Errorf("asked for %+v: %+v", asked, got)
	}
	open := client.OpenInvitation{ID: "0a1b2c3d", Uses: 20, Left: 10, Expires: time.Unix(1e9, 0)}
	for i := range 10 {
		open.Joined = append(open.Joined, client.NamedPeer{Name: fmt.Sprintf("build-%d", i)})
	}
	f.SetAnswer(client.MethodInvitations, client.Invitations{Invitations: []client.OpenInvitation{open}})
	f.WantResult(f.Run("invite", "--list"), 0,
		"0a1b2c3d\t2001-09-09T01:46:40Z\t-\tbuild-0 build-1 build-2 build-3 build-4 build-5 build-6 build-7 and 2 more\t10\n", "")
}

// Of each relay it is said what a machine needs to join over it that the invitation does not have, and why it is left
// out; the invitation itself stays alone on standard output.
func TestInviteSaysWhatItsRelaysNeed(t *testing.T) {
	f := newDaemon(t)
	const url = "tls://nats.example.org:4222"
	inv := &client.Invitation{URI: "acp://x", Expires: time.Now(), Relays: []string{url}}
	f.SetHandler(client.MethodInvite, func(*jsonrpc.Request) (any, error) { return inv, nil })
	const needs = "acpctl invite: a machine that joins over hub needs "
	for name, c := range map[string]struct {
		relay client.Relay
		args  string
		want  string
	}{
		"nkey":       {client.Relay{Login: client.LoginNkey}, "", ""},
		"token":      {client.Relay{Login: client.LoginToken, Share: true}, "", needs + "its token, which the invitation does not have: acpctl invite --with-credential puts it in\n"},
		"not shared": {client.Relay{Login: client.LoginToken}, "", needs + "a login there, which the invitation does not have: before it joins, acpctl relay add " + url + " there, as relay add --help says\n"},
		"user":       {client.Relay{Login: client.LoginPassword}, "", needs + "a login there, which the invitation does not have: before it joins, acpctl relay add " + url + " there, as relay add --help says\n"},
		"unused":     {client.Relay{URL: "tls://nats.example.com:4222", Login: client.LoginCredentials, State: client.RelayUnused, Error: "credentials: do this"}, "", "acpctl invite: warning: hub is left out: credentials: do this\n"},
		"not wanted": {client.Relay{URL: "tls://nats.example.com:4222", Login: client.LoginToken, State: client.RelayUnused, Error: "do this"}, "--no-relay", ""},
		"not given":  {client.Relay{URL: "tls://nats.example.com:4222"}, "--with-credential", "acpctl invite: warning: hub is left out: --with-credential only takes relays whose token may be given away\n"},
		"third":      {client.Relay{URL: "tls://nats.example.com:4222", Login: client.LoginToken}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.relay.Name = "hub"
			if c.relay.URL == "" {
				c.relay.URL = url
			}
			if c.relay.State == "" {
				c.relay.State = client.RelayUp
			}
			f.SetAnswer(client.MethodRelayList, &client.Relays{Relays: []client.Relay{c.relay}})
			f.WantResult(f.Run(append([]string{"invite"}, strings.Fields(c.args)...)...), 0, "acp://x\n", c.want)
		})
	}
	inv.Shared = inv.Relays
	f.SetAnswer(client.MethodRelayList, &client.Relays{Relays: []client.Relay{{Name: "hub", URL: url, Login: client.LoginToken, Share: true, State: client.RelayUp}}})
	if got := f.Run("invite", "--with-credential"); strings.Contains(got.Err, needs) || !strings.Contains(got.Err, "it has the token of "+url) {
		t.Errorf("with its token: %+v", got)
	}
}

func TestJoinAsksForTheLine(t *testing.T) {
	f := newDaemon(t)
	whole := identity.Invitation{ID: clitest.DeskID, Token: [16]byte{1}}
	inv := whole.String()
	f.SetHandler(client.MethodJoin, func(r *jsonrpc.Request) (any, error) {
		var p client.JoinParams
		if err := r.ReadParams(&p); err != nil || p.URI != whole.LongString() { // which an older daemon reads too
			return nil, fmt.Errorf("%v: %s", err, p.URI)
		}
		return &client.NamedPeer{ID: clitest.DeskID, Name: "desk"}, nil
	})
	const next = "This daemon and desk trust each other now: agents on both sides may send messages.\n" +
		"Next: acpctl ping desk; and acpctl setup, on each side, to connect an agent program.\n"
	f.WantResult(f.RunInteractive(inv+"\nmore", "join"), 0, "trusted desk (de5c 0000 0000 0000 0000 0000 0000 0000)\n", "Paste the invitation:\n"+next)
	f.WantResult(f.RunAtTerminal(ui.Terminal{}, inv, "join"), 0, "desk\n", next)
	f.WantResult(f.Run("join", inv, "--json"), 0, `{"id":"`+clitest.DeskID.String()+`","name":"desk"}`+"\n", "")
	if got := f.RunAtTerminal(ui.Terminal{}, strings.Repeat("a", 5000), "join"); got.Code != frame.ExitLocal {
		t.Errorf("a line without end: %+v", got)
	}
}

// What mail, chats and terminals do to a line does not keep it from being read.
func TestJoinTakesWhatPeoplePaste(t *testing.T) {
	f := newDaemon(t)
	whole := identity.Invitation{ID: clitest.DeskID, Addrs: []string{"192.0.2.1:7117"}, Name: "desk", PQ: identity.PQHash{1}, Token: [16]byte{1}}
	f.SetHandler(client.MethodJoin, func(r *jsonrpc.Request) (any, error) {
		var p client.JoinParams
		if err := r.ReadParams(&p); err != nil || p.URI != whole.LongString() {
			return nil, fmt.Errorf("%v: %s", err, p.URI)
		}
		return &client.NamedPeer{ID: clitest.DeskID, Name: "desk"}, nil
	})
	for _, line := range []string{whole.String(), whole.LongString()} {
		broken := line[:30] + "\r\n  " + line[30:60] + "\n" + line[60:]
		for _, text := range []string{broken, "<" + line + ">", "'" + line + "'", "“" + line[:9] + " " + line[9:] + "”\u200b", " `" + line + "`", "\"" + broken + "\""} {
			for how, r := range map[string]clitest.Result{
				"a person":    f.RunInteractive(text+"\n", "join"),
				"a script":    f.RunAtTerminal(ui.Terminal{}, text, "join"),
				"an argument": f.Run("join", text),
			} {
				if r.Code != 0 {
					t.Errorf("%s: %q: %+v", how, text, r)
				}
			}
		}
	}
	r := f.RunInteractive(whole.String()[:90]+"\n\nyes\n", "join")
	if r.Code != frame.ExitUsage || strings.Count(r.Err, "It is not whole yet") != 1 || !strings.Contains(r.Err, "copy the whole line again") {
		t.Errorf("the rest does not come: %+v", r)
	}
	if r = f.RunInteractive("hello\nyes\n", "join"); r.Code != frame.ExitUsage || strings.Contains(r.Err, "whole yet") {
		t.Errorf("no invitation: %+v", r)
	}
}

// TestInviteWarnsOfALoopbackRelay: another machine finds itself there, so such a relay does not lead here.
func TestInviteWarnsOfALoopbackRelay(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodWhoami, &client.Whoami{Listen: []string{"127.0.0.1:7117"}})
	const alone = "acpctl invite: the daemon listens only on loopback (127.0.0.1:7117): no other machine can use the invitation\n"
	for url, want := range map[string]string{
		"nats://127.0.0.1:4222":       alone + "acpctl invite: warning: hub is at nats://127.0.0.1:4222, where another machine finds itself: add the relay by a name that others reach, or leave it out with --no-relay\n",
		"tls://nats.example.org:4222": "",
	} {
		f.SetAnswer(client.MethodRelayList, &client.Relays{Relays: []client.Relay{{Name: "hub", URL: url, State: client.RelayUp, Login: client.LoginNkey}}})
		f.SetAnswer(client.MethodInvite, &client.Invitation{URI: "acp://x", Expires: time.Now(), Relays: []string{url}})
		f.WantResult(f.Run("invite"), 0, "acp://x\n", want)
	}
}
