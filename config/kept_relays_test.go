package config

import (
	"slices"
	"strings"
	"testing"
)

func TestKeptRelays(t *testing.T) {
	relays := []Relay{
		{Name: "hub", URL: "tls://nats.example.org:4222", Token: "a: #'\"\\ é\u2028", Share: false},
		{Name: "two", URL: "wss://nats.example.org:443/acp", Token: "0123", Share: true},
		{Name: "own", URL: "nats://127.0.0.1:4222", User: "acp", Password: "- x"},
		{Name: "file", URL: "tls://nats.example.net:4222", Credentials: "/etc/acpd/nats.creds"},
		{Name: "key", URL: "tls://nats.example.com:4222"},
	}
	for n := range len(relays) + 1 {
		data, err := RenderKeptRelays(relays[:n])
		if err != nil {
			t.Fatal(n, err)
		}
		got, err := ParseKeptRelays("relays.yaml", data)
		if err != nil || !slices.Equal(got, relays[:n]) {
			t.Errorf("%d relays come back as %#v, %v\n%s", n, got, err, data)
		}
	}
	for name, r := range map[string]Relay{
		"URL":       {Name: "hub", URL: "http://nats.example.org"},
		"name":      {Name: "Hub", URL: "tls://nats.example.org:4222"},
		"secret":    {Name: "hub", URL: "tls://nats.example.org:4222", Token: Secret(secretText + strings.Repeat("x", 1024))},
		"UTF-8":     {Name: "hub", URL: "tls://nats.example.org:4222", Token: secretText + "\xff"},
		"two ways":  {Name: "hub", URL: "tls://nats.example.org:4222", Token: secretText, User: "acp", Password: secretText},
		"password":  {Name: "hub", URL: "tls://nats.example.org:4222", User: "acp"},
		"no sharer": {Name: "hub", URL: "tls://nats.example.org:4222", Share: true},
	} {
		if data, err := RenderKeptRelays([]Relay{r}); err == nil || strings.Contains(err.Error(), secretText) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %s, %v", name, data, err)
		}
	}
	if _, err := RenderKeptRelays(slices.Repeat([]Relay{relays[0]}, 2)); err == nil {
		t.Error("one relay twice")
	}
}

func FuzzParseKeptRelays(f *testing.F) {
	f.Add([]byte("relays:\n- url: tls://nats.example.org\n  token: \"a\"\n  share: true\n- {name: own, url: \"ws://[::1]\", user: a, password: b}\n"))
	f.Add([]byte("relays: []\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		relays, err := ParseKeptRelays("relays.yaml", data)
		if err != nil {
			return
		}
		again, err := RenderKeptRelays(relays)
		if err != nil {
			t.Fatalf("%q is read as %#v and cannot be written: %v", data, relays, err)
		}
		if got, err := ParseKeptRelays("relays.yaml", again); err != nil || !slices.Equal(got, relays) {
			t.Errorf("%q comes back as %q: %v", data, again, err)
		}
	})
}
