package relay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// readerConn is a connection of which only reading works.
type readerConn struct {
	net.Conn
	io.Reader
}

func (c readerConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

// A URL comes with its port to nats.go, which is to do no TLS, and with its host to TLS.
func TestEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"tls://nats.example.org":         "nats://nats.example.org:4222",
		"nats://[::1]:1":                 "nats://[::1]:1",
		"wss://nats.example.org:8443/a/": "ws://nats.example.org:8443/a",
		"ws://localhost":                 "ws://localhost:80",
	} {
		e, err := newEndpoint(text)
		if e.plainURL() != want || !strings.Contains(text, e.host) || e.isEncrypted() != strings.Contains(text, "s://nats.") || err != nil {
			t.Errorf("%s: %+v, which nats.go sees as %s, want %s (%v)", text, e, e.plainURL(), want, err)
		}
	}
}

func TestAddrs(t *testing.T) {
	l := mustOpen(t, testConfig())
	addr := l.Addr(trusted1)
	if got, want := addr.String(), "relay:vps/"+trusted1.String(); got != want || addr.Network() != "relay" || l.Name() != "relay:vps" {
		t.Errorf("address %s of %s, want %s", got, l.Name(), want)
	}
	if net.Addr(newAddr("vps", trusted1)) != addr || l.Sender(addr) != trusted1 {
		t.Errorf("%s is another address, or names %s", addr, l.Sender(addr))
	}
	if l.Addr(self) != nil || l.Addr(identity.ID{}) != nil {
		t.Error("this daemon or nobody has an address")
	}
	if l.Sender(newAddr("other", trusted1)) != (identity.ID{}) || l.Sender(&net.UDPAddr{}) != (identity.ID{}) {
		t.Error("an address elsewhere names a sender")
	}
}

// holds: security.md#against-a-relay-and-those-who-share-it
func TestOpenRefuses(t *testing.T) {
	creds := filepath.Join(t.TempDir(), "hunter.creds")
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"name":          {func(c *Config) { c.Name = "Vps" }, "name"},
		"url":           {func(c *Config) { c.URL = "tls://hunter2@" }, "URL"},
		"secret in url": {func(c *Config) { c.URL = "tls://hunter2@nats.example.org" }, "a token goes into"},
		"two servers":   {func(c *Config) { c.URL = "tls://a.example.org,tls://b.example.org" }, "url"},
		"unencrypted":   {func(c *Config) { c.URL = "nats://nats.example.org" }, "write tls://"},
		"self":          {func(c *Config) { c.Self = identity.ID{} }, "self"},
		"key":           {func(c *Config) { c.Key = [32]byte{} }, "acp nats nkey v1"},
		"admit":         {func(c *Config) { c.Admit = nil }, "admit"},
		"two kinds":     {func(c *Config) { c.Credentials = Credentials{Token: "hunter2", User: "u", Password: "hunter3"} }, "more than one"},
		"half":          {func(c *Config) { c.Credentials.User = "u" }, "belong together"},
		"no file":       {func(c *Config) { c.Credentials.File = creds }, "no such file"},
		"proxy":         {func(c *Config) { c.Proxy.URL = "socks5://u:hunter2@h:1" }, "scheme"},
		"two proxies":   {func(c *Config) { c.Proxy = Proxy{Environment: true, Command: []string{"x"}} }, "more than one"},
		"empty command": {func(c *Config) { c.Proxy.Command = []string{""} }, "no program"},
	} {
		config := testConfig()
		c.change(&config)
		l, err := Open(config)
		if l != nil || !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) || !strings.Contains(fmt.Sprint(err), c.want) || strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("%s: %v, want %q without a secret", name, err, c.want)
		}
	}
}

// No verb of fmt and no logger prints a secret of what a configuration is made of.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestSecretsArePrintedByNoVerb(t *testing.T) {
	credentials := []Credentials{{Token: "hunter2"}, {User: "u", Password: "hunter2"}}
	proxy := Proxy{URL: "http://u:hunter2@proxy.example.org:3128"}
	for _, c := range credentials {
		config := testConfig()
		config.Credentials, config.Proxy = c, proxy
		l := mustOpen(t, config)
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "c", c, "p", proxy)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			log.WriteString(fmt.Sprintf(verb, c) + fmt.Sprintf(verb, &c) + fmt.Sprintf(verb, proxy) + fmt.Sprintf(verb, l.State()))
			log.WriteString(fmt.Sprintf(verb, struct{ C Credentials }{c}) + fmt.Sprintf(verb, l.auth))
		}
		if text := log.String(); strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("printed is\n%s", text)
		}
	}
}

// The derived nkey is the same after a restart, and has the form that a server's configuration wants.
func TestPublicKey(t *testing.T) {
	a, err := PublicKey([32]byte{1})
	b, _ := PublicKey([32]byte{1})
	other, _ := PublicKey([32]byte{2})
	if err != nil || a != b || a == other || len(a) != 56 || a[0] != 'U' {
		t.Errorf("%s, %s and %s, %v", a, b, other, err)
	}
}

func writeScript(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "proxy.sh")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}
