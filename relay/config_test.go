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

func TestURLs(t *testing.T) {
	for text, want := range map[string]string{
		"tls://nats.example.org":                        "tls://nats.example.org:4222",
		"tls://nats.example.org:4443/":                  "tls://nats.example.org:4443",
		"wss://nats.example.org":                        "wss://nats.example.org:443",
		"wss://nats.example.org/nats":                   "wss://nats.example.org:443/nats",
		"wss://[2001:db8::1]:8443":                      "wss://[2001:db8::1]:8443",
		"nats://127.0.0.1":                              "nats://127.0.0.1:4222",
		"nats://[::1]:1":                                "nats://[::1]:1",
		"ws://localhost:8080":                           "ws://localhost:8080",
		"tls://a.example.org, tls://b.example.org":      "tls://a.example.org:4222,tls://b.example.org:4222",
		"tls://hunter2@nats.example.org":                "tls://nats.example.org:4222",
		"tls://u:hunter2@a.example,tls://b.example:433": "tls://a.example:4222,tls://b.example:433",
	} {
		endpoints, _, err := parseURLs(text)
		if got := joinEndpoints(endpoints); got != want || err != nil {
			t.Errorf("%s: shown as %s, want %s (%v)", text, got, want, err)
		}
	}
	for text, want := range map[string]string{
		"":                                    "not a URL",
		"nats.example.org":                    "not a URL",
		"nats.example.org:4222":               "not a URL",
		"nats://nats.example.org":             "write tls://nats.example.org",
		"ws://10.0.0.1":                       "write wss://10.0.0.1",
		"nats://127.0.0.1.example.org":        "unencrypted",
		"nats://localhost.example.org":        "unencrypted",
		"https://nats.example.org":            "scheme",
		"tls://:4222":                         "no host",
		"tls://nats.example.org:0":            "port",
		"tls://nats.example.org:70000":        "port",
		"tls://nats.example.org/path":         "path",
		"wss://nats.example.org?token=x":      "?",
		"tls://hunter2@a,tls://hunter3@b":     "different credentials",
		"tls://hunter2@nats example":          "not a URL",
		"tls://hunter2:x@h:port":              "not a URL",
		strings.Repeat("tls://a.example,", 9): "more than 8",
		"tls://" + strings.Repeat("a", 3000):  "2048",
	} {
		_, _, err := parseURLs(text)
		if !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprint(err), "hunter") {
			t.Errorf("%q: %v, want %q without a secret", text, err, want)
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

func TestOpenRefuses(t *testing.T) {
	creds := filepath.Join(t.TempDir(), "hunter.creds")
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"name":          {func(c *Config) { c.Name = "Vps" }, "name"},
		"url":           {func(c *Config) { c.URL = "tls://hunter2@" }, "no host"},
		"self":          {func(c *Config) { c.Self = identity.ID{} }, "self"},
		"key":           {func(c *Config) { c.Key = [32]byte{} }, "acp nats nkey v1"},
		"admit":         {func(c *Config) { c.Admit = nil }, "admit"},
		"two kinds":     {func(c *Config) { c.Credentials = Credentials{Token: "hunter2", User: "u", Password: "hunter3"} }, "more than one"},
		"half":          {func(c *Config) { c.Credentials.User = "u" }, "belong together"},
		"both places":   {func(c *Config) { c.URL, c.Credentials.Token = "nats://hunter2@localhost", "hunter3" }, "beside it"},
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
