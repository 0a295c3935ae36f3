package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// canary is a word that no bundle may have; each place of a state has one of its own.
const canary = "canary"

// TestBundleHasNoCanary fills a state with canaries, in names, settings, messages and keys, and finds none of them in
// the bundle.
func TestBundleHasNoCanary(t *testing.T) {
	user := filepath.Join(t.TempDir(), "canary-user")
	t.Setenv("HOME", user)
	t.Setenv("OACP_HOME", filepath.Join(user, "canary-oacp"))
	desk, laptop := newSite(t, "canary-desk"), startSite(t, "canary-laptop")
	desk.write("config.yaml", `# canary-comment
name: canary-desk
listen: 127.0.0.1:0
peers: {canary-peer: {addrs: ["canary-host.example:7117"]}}
policy: {canary-policy: {kinds: [query], domains: [canary-domain]}}
limits: {min_free: 1048576}
channels: {keys: [{sha256: "`+strings.Repeat("ca", 32)+`", agent: canary-key-agent}]}
agents: {canary-agent: {to: [canary-to]}}
reach:
  relays:
  - {name: canary-relay, url: "tls://canary-relay.example:4222", token: canary-relay-token}
  - {name: canary-two, url: "tls://127.0.0.1:1", user: canary-relay-user, password: 31415926}
  proxy: {command: [canary-proxy, "27182818"]}
`)
	desk.write("relays.yaml", "relays: [{name: canary-kept, url: \"tls://canary-kept.example:4222\", token: canary-kept-token}]\n")
	desk.start()
	desk.trust(laptop, laptop.addr)
	laptop.trust(desk, desk.addr)
	desk.awaitState(laptop, client.PeerConnected)
	ctx := await.NewContext(t)

	// An agent, a held message, an invitation, a channel message, bindings; and keys of all of them.
	running, detach := context.WithCancel(t.Context())
	agent := &client.Client{Socket: filepath.Join(desk.home, client.SocketName)}
	attached := make(chan error, 1)
	go func() {
		attached <- agent.Attach(running, client.AttachParams{Name: "canary-reviewer", Domains: []string{"canary-domain"}}, client.Handler{Query: func(context.Context, *client.Inbound) (any, error) { return nil, nil }})
	}()
	defer func() { detach(); <-attached; agent.Close() }()
	await.Until(t, "the agent is attached", func() bool {
		s, err := desk.client.Status(ctx)
		return err == nil && len(s.Agents) == 1
	})
	if _, err := laptop.client.Notify(ctx, client.NotifyParams{To: client.To("canary-desk"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "canary-topic", Data: jsontext.Value(`{"text":"canary-payload"}`)})}); err != nil {
		t.Fatal(err)
	}
	invited, err := desk.client.Invite(ctx, client.InviteParams{Name: "canary-invited"})
	if err != nil {
		t.Fatal(err)
	}
	planner := &channels.Client{Daemon: desk.client, Home: desk.home, Agent: "canary-planner"}
	intent, err := planner.CreateIntent(ctx, channels.IntentParams{Title: "canary-intent"})
	if err != nil {
		t.Fatal(err)
	}
	channel, err := planner.CreateChannel(ctx, intent.ID, channels.ChannelParams{Name: "canary-channel"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := planner.Send(ctx, channel.ID, channels.SendParams{Type: channels.TypeNotify, Payload: jsontext.Value(`{"body":"canary-body"}`)}, ""); err != nil {
		t.Fatal(err)
	}
	secret, err := os.ReadFile(filepath.Join(desk.home, "identity.key"))
	if err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		name string
		make func()
		want []string
	}{
		{"while it runs", func() {}, []string{`"code": "home.ok"`, `"says": "only its owner can open the state directory"`, `"acpd": "`, `"limits.min_free": "1048576"`, `"policy": "set"`, `"name": "set"`}},
		{"after its end, with files that nobody can read", func() {
			detach()
			desk.stop()
			desk.write("config.yaml", "name: canary-desk\nlog: {level: canary-level}\ncanary-setting: [canary-value\n")
			desk.damage("trust.yaml")
		}, []string{`"code": "config.broken"`, `"settings": {}`}},
	} {
		c.make()
		o := options(t, desk.home)
		o.Setup = setupOptions(t)
		findings := examine(t, o)
		if found := render(findings); !strings.Contains(found, canary) {
			t.Errorf("%s: the findings name nothing:\n%s", c.name, found)
		}
		path := filepath.Join(t.TempDir(), "bundle.json")
		if err := NewBundle(ctx, o, findings).Write(path); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", c.name, info, err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		for _, secret := range append(strings.Fields(string(secret))[3:4], canary, desk.id.String(), laptop.id.String(), desk.id.Label(), laptop.id.Label(), desk.addr, laptop.addr, invited.URI,
			strings.Repeat("ca", 32), desk.home, user, "31415926", "27182818", "BEGIN PRIVATE KEY") {
			if strings.Contains(text, secret) {
				t.Errorf("%s: the bundle has %q:\n%s", c.name, secret, text)
			}
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s is missing in\n%s", c.name, want, text)
			}
		}
	}
}

// TestBundleIsNew: a file that is there stays.
func TestBundleIsNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bundle.json")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := new(Bundle).Write(path); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("%v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "mine" {
		t.Errorf("it was overwritten: %q", b)
	}
}
