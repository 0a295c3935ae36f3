package processes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
)

const exitUsage = 2

// relayOf returns what status says of the one relay of a machine; the zero value if there is none, as for a
// moment after a reload that brings it.
func relayOf(t *testing.T, m *live.Machine) client.Relay {
	t.Helper()
	s, err := m.Client.Status(await.NewContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Relays) > 1 {
		t.Fatalf("%s has the relays %+v", m.Name, s.Relays)
	}
	if !s.Ready {
		t.Errorf("%s is not ready: %q", m.Name, s.Unready)
	}
	if len(s.Relays) == 0 {
		return client.Relay{}
	}
	return s.Relays[0]
}

func awaitRelay(t *testing.T, m *live.Machine, state client.RelayState) client.Relay {
	t.Helper()
	var r client.Relay
	await.Until(t, fmt.Sprintf("the relay of %s is %s", m.Name, state), func() bool {
		r = relayOf(t, m)
		return r.State == state
	})
	return r
}

// TestCompanyRelay follows two daemons over the server that docs/reach.md configures for a company:
// refused at first, joined, talking, one killed, the server gone and back.
func TestCompanyRelay(t *testing.T) {
	t.Parallel()
	plain := newServer(t, []string{"of a company"})
	desk, laptop := newMachine(t, "desk", plain), newMachine(t, "laptop", plain)
	desk.StartDaemon()
	laptop.StartDaemon()
	nkey := func(m *live.Machine) string { return strings.TrimSpace(m.MustOutput("relay", "nkey")) }
	text, err := os.ReadFile(plain.conf)
	if err != nil {
		t.Fatal(err)
	}
	configure := func(laptopKey string) {
		edited := strings.NewReplacer("UDESK", nkey(desk), "ULAPTOP", laptopKey, "IDDESK", desk.ID.String(), "IDLAPTOP", laptop.ID.String()).Replace(string(text))
		if err := os.WriteFile(plain.conf, []byte(edited), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stranger := live.NewMachine(t, "stranger")
	stranger.StartDaemon()
	configure(nkey(stranger)) // not the laptop's yet

	// Nothing listens, then all is well: also that nobody may listen to others.
	e := desk.RunAcpctl(kinds.Unreachable.Info().Exit, "relay", "add", plain.url(), "--name", "hub").Stderr.String()
	if !strings.Contains(e, "hub is not added") || !strings.Contains(e, "nothing listens there: start the server, or check the port") {
		t.Errorf("without a server: %s", e)
	}
	plain.start()
	added := desk.RunAcpctl(0, "relay", "add", plain.url(), "--name", "hub")
	if added.Stdout.String() != "hub added\n" || added.Stderr.String() != "" {
		t.Errorf("relay add says %q and %q", added.Stdout.String(), added.Stderr.String())
	}
	if out := desk.MustOutput("relay", "test"); strings.Count(out, "\tok\t") != 7 || strings.Contains(out, "warning") {
		t.Errorf("relay test says\n%s", out)
	}

	// The server refuses the laptop: join says with which key it would not.
	invitation := hideAddrs(desk.MustOutput("invite"))
	refused := laptop.StartAcpctl("join", invitation, "--keep-relay")
	refused.AwaitEnd()
	if e := refused.Stderr.String(); !strings.Contains(e, "the server refuses nkey "+nkey(laptop)) || len(relaysOf(t, laptop)) != 0 {
		t.Errorf("join says %s", e)
	}
	configure(nkey(laptop))
	plain.process.Signal(syscall.SIGHUP)
	laptop.RunAcpctl(exitUsage, "join", invitation)
	await.Until(t, "the server has read its configuration", func() bool {
		p := laptop.StartAcpctl("join", invitation, "--keep-relay")
		p.AwaitEnd()
		return p.Cmd.ProcessState.ExitCode() == 0
	})
	await.Until(t, "the two are connected", func() bool { return laptop.FindPeer(desk.ID).Path == client.PathRelay })

	// Both ways, and a notice that nobody takes.
	for _, m := range []*live.Machine{desk, laptop} {
		m.StartAcpctl("serve", "--name", "echo", "--", "sed", "s/question/summary/")
		await.Until(t, "echo is attached", func() bool {
			s, err := m.Client.Status(await.NewContext(t))
			return err == nil && len(s.Agents) == 1
		})
	}
	if a := desk.MustOutput("query", "laptop", "Ready?"); !strings.Contains(a, "Ready?") {
		t.Errorf("the laptop answers %q", a)
	}
	if a := laptop.MustOutput("query", "desk", "Ready?"); !strings.Contains(a, "Ready?") {
		t.Errorf("the desk answers %q", a)
	}
	if state := desk.MustOutput("notify", "laptop", "build.done", "1"); state != "held\n" {
		t.Errorf("the notice is %q", state)
	}

	// A relay is no address to remember: it is asked.
	if at := desk.FindPeer(laptop.ID).Addrs; !slices.Equal(at, []string{"relay:hub"}) {
		t.Errorf("the desk knows the laptop at %q", at)
	}

	// One is killed: at the latest when it is found out that its connection is dead, the relay says that
	// nobody is there.
	laptop.KillDaemon()
	await.Until(t, "the server has missed the laptop", func() bool {
		var e struct {
			Error *kinds.Error `json:"error"`
		}
		p := desk.StartAcpctl("query", "laptop", "Ready?", "--json")
		p.AwaitEnd()
		if err := json.Unmarshal([]byte(p.Stdout.String()), &e); err != nil || e.Error == nil {
			t.Fatalf("%v: %s", err, p.Stdout.String())
		}
		if e.Error.Code != kinds.Unreachable {
			t.Fatalf("%+v", e.Error)
		}
		return strings.Contains(e.Error.Message, "nobody takes its packets at relay:hub") && e.Error.Delivered() == kinds.DeliveredNo
	})
	laptop.StartDaemon()
	desk.MustOutput("wait", "laptop", "--online", "--timeout", "2m")

	// The server goes, and comes back.
	plain.process.Stop()
	if r := awaitRelay(t, desk, client.RelayDown); r.Error == "" {
		t.Errorf("the relay is down for no reason: %+v", r)
	}
	down := desk.StartAcpctl("notify", "laptop", "build.done", "2")
	down.AwaitEnd()
	if code := down.Cmd.ProcessState.ExitCode(); code != kinds.Unreachable.Info().Exit && code != kinds.Timeout.Info().Exit {
		t.Errorf("without the relay notify ends with %d: %s", code, down.Stderr.String())
	}
	plain.start()
	awaitRelay(t, desk, client.RelayUp)
	awaitRelay(t, laptop, client.RelayUp)
	desk.MustOutput("wait", "laptop", "--online", "--timeout", "2m")
	if state := desk.MustOutput("notify", "laptop", "build.done", "3"); state != "held\n" {
		t.Errorf("the notice is %q", state)
	}

	// It is removed, and no more is known of it.
	desk.MustOutput("relay", "remove", "hub")
	await.Until(t, "the relay is gone", func() bool {
		return len(relaysOf(t, desk)) == 0 && desk.FindPeer(laptop.ID).State == client.PeerTrusted
	})
}

func relaysOf(t *testing.T, m *live.Machine) []client.Relay {
	t.Helper()
	all, err := m.Client.Relays(await.NewContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReloadOfRelays: relays of config.yaml come, change and go while the daemon runs, and a kept one of
// the same name waits.
func TestReloadOfRelays(t *testing.T) {
	t.Parallel()
	const token = "a-token"
	s := newServer(t, []string{"of a person"}, "TOKEN", token)
	s.start()
	desk := newMachine(t, "desk", s)
	desk.StartDaemon()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(desk.Home, "config.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := desk.MustOutput("reload"); strings.Contains(out, token) || strings.Contains(out, "next start") {
			t.Errorf("reload says %s", out)
		}
	}
	write("reach: {relays: [{name: hub, url: \"" + s.url() + "\", token: wrong-token}]}\n")
	if r := awaitRelay(t, desk, client.RelayRefused); r.Source != client.RelayOfConfig || r.Login != client.LoginToken || !strings.Contains(r.Error, "the server refuses a token") {
		t.Errorf("%+v", r)
	}
	write("reach: {relays: [{name: hub, url: \"" + s.url() + "\", token: " + token + "}]}\n")
	up := awaitRelay(t, desk, client.RelayUp)
	write("reach: {relays: [{name: hub, url: \"" + s.url() + "\", token: " + token + ", share: true}]}\nlimits: {rate: []}\n")
	if again := awaitRelay(t, desk, client.RelayUp); !again.Share || !again.Since.Equal(up.Since.Time) {
		t.Errorf("a link whose settings are the same was made anew: %+v, before %+v", again, up)
	}
	e := desk.RunAcpctl(1, "relay", "remove", "hub").Stderr.String()
	if !strings.Contains(e, "hub is in config.yaml: remove it there") {
		t.Error(e)
	}
	write("")
	await.Until(t, "the relay is gone", func() bool { return len(relaysOf(t, desk)) == 0 })
}

// TestTwoDaemonsOfOneIdentity: the relay shows it to both.
func TestTwoDaemonsOfOneIdentity(t *testing.T) {
	t.Parallel()
	const token = "a-token"
	s := newServer(t, []string{"of a person"}, "TOKEN", token)
	s.start()
	desk := newMachine(t, "desk", s)
	if err := os.WriteFile(filepath.Join(desk.Home, "config.yaml"), []byte("reach: {relays: [{url: \""+s.url()+"\", token: "+token+"}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	desk.StartDaemon()
	awaitRelay(t, desk, client.RelayUp)
	twin := newMachine(t, "desk", s)
	for _, name := range []string{"config.yaml", "identity.key", "trust.yaml", "trust.copy.yaml"} {
		if out, err := exec.Command("cp", "-p", filepath.Join(desk.Home, name), twin.Home).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	events := make(chan client.Event, 64)
	listening := client.Client{Socket: desk.SocketPath()}
	defer listening.Close()
	go listening.Subscribe(t.Context(), client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventTrust, client.EventIdentityConflict}}}, nil, func(e *client.Event) { events <- *e })
	stranger := live.NewMachine(t, "stranger")
	stranger.StartDaemon()
	await.Until(t, "events come", func() bool {
		desk.Trust(stranger)
		return len(events) > 0
	})
	twin.StartDaemon()
	for _, m := range []*live.Machine{desk, twin} {
		await.Until(t, "the clone is seen", func() bool { return relayOf(t, m).Clone })
	}
	for e := range events {
		if e.Type == client.EventTrust {
			continue
		}
		if e.Peer != desk.ID || !strings.Contains(string(e.Details), "stop one of the two") {
			t.Errorf("%+v", e)
		}
		break
	}
}
