package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
)

// canary is a word that no bundle may have; each place of a state has one of its own.
const canary = "canary"

// TestBundleHasNoCanary fills a state with canaries, in names, settings, messages, keys, logs, and
// finds none of them in the bundle.
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
	log := filepath.Join(t.TempDir(), "acpd.log")
	if err := os.WriteFile(log, []byte(`time=2026-01-02T03:04:05.678Z level=INFO msg="peer connected" peer=canary-gone addr=198.51.100.7:7117 claim=canary-claim
{"time":"2026-01-02T03:04:05.678Z","level":"WARN","msg":"peer","name":"canary-json","err":"canary-json: no answer from [2001:db8::7]:7117"}
time=2026-01-02T03:04:06.678Z level=WARN msg="no answer" err="lookup canary-host.example: no such host"
time=2026-01-02T03:04:07.678Z level=WARN msg="no answer" err="canary-was.example:7117: lookup canary-was.example on [2001:db8::7]:53: no such host; config.yaml:12 says it"
canary-line that is none of slog
panic: canary-panic
goroutine 1 [running]:
main.main({0xc000, "canary-argument"})
	/home/canary-builder/src/acpd/cmd/acpd/main.go:12 +0x1d
`), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		name string
		make func()
	}{
		{"while it runs", func() {}},
		{"after its end, with files that nobody can read", func() {
			detach()
			desk.stop()
			desk.write("config.yaml", "name: canary-desk\nlog: {level: canary-level}\ncanary-setting: [canary-value\n")
			desk.damage("trust.yaml")
		}},
	} {
		c.make()
		o := options(t, desk.home)
		o.Setup = setupOptions(t)
		findings := examine(t, o)
		before := render(findings)
		files, err := CollectBundle(ctx, o, findings, log)
		if err != nil {
			t.Fatal(err)
		}
		if render(findings) != before || !strings.Contains(before, canary) {
			t.Errorf("%s: the findings have changed, or had nothing to mask:\n%s", c.name, before)
		}
		path := filepath.Join(t.TempDir(), "bundle.tar.gz")
		if err := WriteBundle(path, files, time.Now()); err != nil {
			t.Fatal(err)
		}
		names, text := readBundle(t, path)
		for _, secret := range append(strings.Fields(string(secret))[3:4], canary, desk.id.String(), laptop.id.String(), desk.id.Label(), laptop.id.Label(), desk.addr, laptop.addr, invited.URI,
			strings.Repeat("ca", 32), "198.51.100.7", "2001:db8", desk.home, user, "31415926", "27182818", "BEGIN PRIVATE KEY") {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s: the bundle has %q: …%s…", c.name, secret, text[max(0, at-80):min(len(text), at+80)])
			}
		}
		for _, want := range []string{"config.yaml", "findings.json", "log.txt", "versions.json"} {
			if !strings.Contains(names, want) {
				t.Errorf("%s: %s is missing in %s", c.name, want, names)
			}
		}
		for _, want := range []string{`"peer connected"`, "panic: (…)", "goroutine 1 [running]:", "acpd/main.go:12", `"code": "home.ok"`, "lookup <host>", "config.yaml:12"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s is missing in\n%s", c.name, want, text)
			}
		}
	}
}

// readBundle returns the names and the contents of a bundle's files.
func readBundle(t *testing.T, path string) (names, text string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unzipped); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return names, text
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		names, text = names+h.Name+"\n", text+string(b)
	}
}

// TestBundleIsNew: a file that is there stays, and a full folder leaves none.
func TestBundleIsNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.tar.gz")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteBundle(path, nil, time.Now()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "mine" {
		t.Errorf("it was overwritten: %q", b)
	}
}

// TestTailWaitsForNoPipe: a named pipe in the place of a log is no file, and nobody waits for its other end.
func TestTailWaitsForNoPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acpd.log")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readTail(path, 10); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("%v", err)
	}
}

// TestBundleIsBounded: a long log gives its end, and no file is larger than its bound.
func TestBundleIsBounded(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	log := filepath.Join(t.TempDir(), "acpd.log")
	line := "time=2026-01-02T03:04:05.678Z level=INFO msg=ready\n"
	if err := os.WriteFile(log, append(bytes.Repeat([]byte(line), 100_000), "time=2026-01-02T03:04:05.678Z level=INFO msg=last\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := CollectBundle(t.Context(), options(t, live.MakeTempDir(t)), nil, log)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if len(f.Content) > maxBundleFile || f.Name == "log.txt" && (len(f.Content) > 2*maxLogTail || !bytes.HasSuffix(f.Content, []byte("msg=last\n"))) {
			t.Errorf("%s has %d bytes", f.Name, len(f.Content))
		}
	}
	if _, err := CollectBundle(t.Context(), options(t, live.MakeTempDir(t)), nil, "/dev/null"); err == nil {
		t.Error("a log that is no file")
	}
}
