package processes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
)

// TestTokenChanges follows what people are told when the token of a relay changes: the relay refuses both,
// desk adds it again, and the laptop takes the new token from an invitation. Then it is told why calls and
// joins fail over a relay that works.
func TestTokenChanges(t *testing.T) {
	t.Parallel()
	const first, second = "the-first-token", "the-second-token"
	s := newServer(t, []string{"of a person"}, "TOKEN", first)
	s.start()
	desk, laptop := newMachine(t, "desk", s), newMachine(t, "laptop", s)
	desk.StartDaemon()
	laptop.StartDaemon()
	dir := t.TempDir()
	writeToken := func(token string) string {
		file := filepath.Join(dir, token)
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	fails := func(m *live.Machine, code kinds.Code, args []string, words ...string) {
		t.Helper()
		said := m.RunAcpctl(code.Info().Exit, args...).Stderr.String()
		for _, word := range words {
			if !strings.Contains(said, word) {
				t.Errorf("%q is not in what %s says: %s", word, args[0], said)
			}
		}
		if strings.Contains(said, first) || strings.Contains(said, second) {
			t.Errorf("%s shows a token: %s", args[0], said)
		}
	}
	invite := func(args ...string) string {
		t.Helper()
		return hideAddrs(desk.MustOutput(append([]string{"invite"}, args...)...))
	}

	added := desk.RunAcpctl(0, "relay", "add", s.url(), "--name", "hub", "--token-file", writeToken(first), "--share")
	if added.Stdout.String() != "hub added\n" || !strings.HasPrefix(added.Stderr.String(), "acpctl relay add: warning: the server permits subscriptions to other daemons' subjects") {
		t.Errorf("relay add says %q and %q", added.Stdout.String(), added.Stderr.String())
	}
	laptop.RunAcpctl(0, "join", invite("--with-credential"), "--keep-relay")
	kept := relayOf(t, laptop).Name

	// The server gets another token.
	tail := laptop.StartAcpctl("tail")
	await.Until(t, "tail has begun", func() bool {
		desk.MustOutput("ping", "laptop", "-c", "1")
		return strings.Contains(tail.Stdout.String(), "ping")
	})
	s.process.Stop()
	awaitRelay(t, desk, client.RelayDown)
	awaitRelay(t, laptop, client.RelayDown)
	if said := desk.RunAcpctl(0, "invite", "--with-credential").Stderr.String(); !strings.Contains(said, "acpctl invite: warning: nobody can join over hub while it is down: ") {
		t.Errorf("invite says %s", said)
	}
	await.Until(t, "a call tells that the relay is down", func() bool {
		p := desk.StartAcpctl("query", "laptop", "Ready?")
		p.AwaitEnd()
		return p.Cmd.ProcessState.ExitCode() == kinds.Unreachable.Info().Exit && strings.Contains(p.Stderr.String(), "relay:hub is down; acpctl relay test hub says why")
	})
	conf, err := os.ReadFile(s.conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.conf, []byte(strings.Replace(string(conf), first, second, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	awaitRelay(t, desk, client.RelayRefused)
	awaitRelay(t, laptop, client.RelayRefused)
	await.Until(t, "tail tells that the relay refuses", func() bool {
		return strings.Contains(tail.Stdout.String(), "\trelay\t"+kept+" · refused · "+s.url()+": the server refuses a token")
	})
	fails(desk, kinds.NotAuthorized, []string{"relay", "test"}, "the server refuses a token: wrong, or changed there: get the new one, and acpctl relay remove hub, then acpctl relay add with it")
	if said := desk.RunAcpctl(0, "relay", "list").Stderr.String(); !strings.Contains(said, "hub: ") || !strings.Contains(said, "the server refuses a token") {
		t.Errorf("relay list says %s", said)
	}
	desk.MustOutput("relay", "remove", "hub")
	desk.RunAcpctl(0, "relay", "add", s.url(), "--name", "hub", "--token-file", writeToken(second), "--share")

	// Without a word of its owner the laptop keeps the old token, and says what there is to do.
	invitation := invite("--with-credential")
	fails(laptop, kinds.Unreachable, []string{"join", invitation}, "relay:"+kept+" refuses this daemon", kept+" refuses this daemon, and the invitation has a token for it: acpctl join --keep-relay takes it")
	if r := relayOf(t, laptop); r.State != client.RelayRefused {
		t.Errorf("%+v", r)
	}
	laptop.RunAcpctl(0, "join", invitation, "--keep-relay")
	if r := relayOf(t, laptop); r.State != client.RelayUp || r.Name != kept {
		t.Errorf("%+v", r)
	}
	text, err := os.ReadFile(filepath.Join(laptop.Home, "relays.yaml"))
	if err != nil || !strings.Contains(string(text), second) || strings.Contains(string(text), first) {
		t.Errorf("%s, %v", text, err)
	}
	await.Until(t, "the two are connected", func() bool { return laptop.FindPeer(desk.ID).Path == client.PathRelay })

	// A peer that has refused says nothing on a relay from then on, and an invitation that is over neither.
	desk.MustOutput("untrust", "laptop")
	await.Until(t, "the laptop has heard of it", func() bool { return laptop.FindPeer(desk.ID).Refuses })
	fails(laptop, kinds.NotTrusted, []string{"ping", "desk", "-c", "1"}, "does not trust this daemon")
	desk.MustOutput("invite", "--revoke", "all")
	fails(laptop, kinds.Unreachable, []string{"join", invitation, "--keep-relay"}, "no answer from relay:"+kept, "or its invitation has expired, was used or revoked", "ask for a new one")
	if kept := relaysOf(t, laptop); len(kept) != 1 || !slices.ContainsFunc(kept, func(r client.Relay) bool { return r.State == client.RelayUp }) {
		t.Errorf("%+v", kept)
	}
}
