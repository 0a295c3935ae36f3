package operate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

const secretText = "s3cret-token"

// A secret goes from a file or a stream to the daemon, and is printed nowhere.
func TestRelayAdd(t *testing.T) {
	f := newDaemon(t)
	var got client.RelayAddParams
	f.SetHandler(client.MethodRelayAdd, func(r *jsonrpc.Request) (any, error) {
		got = client.RelayAddParams{}
		if err := r.ReadParams(&got); err != nil {
			return nil, err
		}
		return &client.RelayAdded{Relay: client.Relay{Name: "hub", URL: got.URL, State: client.RelayUp}, Steps: []client.RelayStep{
			{Step: "connect", Verdict: client.StepOK, What: "connected"},
			{Step: "foreign_subscribe", Verdict: client.StepWarning, What: "its account may listen to others", Remedy: "do this"}}}, nil
	})
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(secretText+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const warned = "acpctl relay add: warning: its account may listen to others: do this\n"
	for _, c := range []struct {
		stdin string
		args  []string
		want  client.RelayAddParams
	}{
		{"", []string{"TLS://Nats.Example.org"}, client.RelayAddParams{URL: "tls://nats.example.org:4222"}},
		{"", []string{"wss://nats.example.org", "--name", "hub", "--no-check"}, client.RelayAddParams{URL: "wss://nats.example.org:443", Name: "hub", NoCheck: true}},
		{"", []string{"tls://nats.example.org", "--token-file", token, "--share"}, client.RelayAddParams{URL: "tls://nats.example.org:4222", Token: secretText, Share: true}},
		{secretText + "\nmore", []string{"tls://nats.example.org", "--token-file", "-"}, client.RelayAddParams{URL: "tls://nats.example.org:4222", Token: secretText}},
		{secretText, []string{"tls://nats.example.org", "--user", "acp", "--password-file", "-"}, client.RelayAddParams{URL: "tls://nats.example.org:4222", User: "acp", Password: secretText}},
		{"", []string{"tls://nats.example.org", "--credentials", filepath.Join(dir, "..", filepath.Base(dir), "nats.creds")}, client.RelayAddParams{URL: "tls://nats.example.org:4222", Credentials: filepath.Join(dir, "nats.creds")}},
	} {
		args := append([]string{"relay", "add"}, c.args...)
		f.WantResult(f.RunAtTerminal(ui.Terminal{}, c.stdin, args...), 0, "hub added\n", warned)
		if got != c.want {
			t.Errorf("%q: the daemon got %+v, want %+v", c.args, got, c.want)
		}
		if json := f.RunAtTerminal(ui.Terminal{}, c.stdin, append(args, "--json")...); json.Code != 0 || strings.Contains(json.Out+json.Err, secretText) {
			t.Errorf("%q: %+v", c.args, json)
		}
	}
	if got := f.RunInteractive("", "relay", "add", "tls://nats.example.org"); got.Out != "hub added\n" ||
		got.Err != "connected\ntls://nats.example.org:4222 is used from now on.\nacpctl invite names it, and the other side keeps it when it joins.\n"+warned {
		t.Errorf("%+v", got)
	}
	f.SetAnswer(client.MethodRelayAdd, kinds.Errorf(kinds.NotAuthorized, "relay.add: hub: it refuses the login: do this"))
	f.WantResult(f.Run("relay", "add", "tls://nats.example.org"), frame.ExitRefused, "", "acpctl relay add: hub: it refuses the login: do this\n")
}

func TestRelayAddRefuses(t *testing.T) {
	f := newDaemon(t) // it knows no method: nothing of this may reach it
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	open, two, empty := file("open", secretText, 0o644), file("two", secretText+"\n"+secretText, 0o600), file("empty", "\n", 0o600)
	spaced := file("spaced", secretText+" x", 0o600)
	const url = "tls://nats.example.org"
	for want, args := range map[string][]string{
		"URL is missing": {},
		"one argument too many: expected one URL": {url, url},
		"URL: not the URL of a relay":             {"nats.example.org"},
		"URL: without encryption only":            {"nats://nats.example.org"},
		"URL: a URL with a user or token in it: leave out what stands before @; a token goes into --token-file": {"tls://" + secretText + "@nats.example.org"},
		"--name: name \"Hub\": use lower-case":           {url, "--name", "Hub"},
		"--token-file: empty: give a value":              {url, "--token-file", ""},
		"--credentials and --user: leave one":            {url, "--credentials", "a", "--user", "a", "--password-file", "-"},
		"--user and --password-file belong":              {url, "--user", "acp"},
		"--share: only a token can":                      {url, "--share"},
		"--share: an invitation takes a token":           {url, "--share", "--token-file", spaced},
		"is open to others than its owner":               {url, "--token-file", open},
		"has several lines":                              {url, "--token-file", two},
		"--token-file: it is empty":                      {url, "--token-file", empty},
		"--password-file: it is empty":                   {url, "--user", "acp", "--password-file", "-"},
		"write the secret into it, readable only by you": {url, "--token-file", filepath.Join(dir, "none")},
		"unknown flag: --token":                          {url, "--token", secretText},
	} {
		got := f.Run(append([]string{"relay", "add"}, args...)...)
		if got.Code != frame.ExitUsage && got.Code != frame.ExitLocal || !strings.Contains(got.Err, want) || strings.Contains(got.Err, secretText) || strings.Contains(got.Err, "unknown method") {
			t.Errorf("%q: %+v, want %s", args, got, want)
		}
	}
}

func TestRelayLists(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodRelayList, &client.Relays{Relays: []client.Relay{
		{Name: "hub", URL: "tls://nats.example.org:4222", Source: client.RelayKept, Login: client.LoginNkey, State: client.RelayUp, Since: client.Time{Time: time.Unix(1700000000, 0)}, RTTUS: 1500},
		{Name: "two", URL: "wss://nats.example.net:443", Source: client.RelayOfConfig, Login: client.LoginToken, State: client.RelayRefused, RTTUS: 9, Error: "it refuses the login: do this", Clone: true},
	}})
	const why = "acpctl relay list: two: it refuses the login: do this\nacpctl relay list: two: another process uses it with this daemon's identity: stop one of the two\n"
	f.WantResult(f.Run("relay", "list"), 0, "hub\tup\t2023-11-14T22:13:20Z\t1.500 ms\tnkey\tkept\ttls://nats.example.org:4222\n"+
		"two\trefused\t-\t-\ttoken\tconfig\twss://nats.example.net:443\n", why)
	if got := f.RunInteractive("", "relay", "list"); got.Err != why {
		t.Errorf("%+v", got)
	}
	f.SetAnswer(client.MethodRelayList, &client.Relays{Relays: []client.Relay{}})
	f.WantResult(f.Run("relay", "list"), 0, "", "")
	f.WantResult(f.RunAtTerminal(ui.Terminal{ErrTTY: true}, "", "relay", "list"), 0, "", "none\nto use one: acpctl relay add URL\n")

	f.SetAnswer(client.MethodRelayTest, &client.RelayChecks{Checks: []client.RelayCheck{
		{Name: "hub", Steps: []client.RelayStep{{Step: "connect", Verdict: client.StepOK, What: "connected", TookUS: 1500}, {Step: "foreign_subscribe", Verdict: client.StepWarning, What: "it listens", Remedy: "do this"}}},
		{Name: "two", Steps: []client.RelayStep{{Step: "connect", Verdict: client.StepFailed, What: "nobody answers there: do that"}}, Error: kinds.Errorf(kinds.Unreachable, "nobody answers there: do that")},
		{Name: "three", Steps: []client.RelayStep{}, Error: kinds.Errorf(kinds.NotAuthorized, "its settings cannot be used")},
	}})
	f.WantResult(f.Run("relay", "test"), 5, "hub\tconnect\tok\t1.500 ms\tconnected\nhub\tforeign_subscribe\twarning\t-\tit listens\ntwo\tconnect\tfailed\t-\tnobody answers there: do that\n",
		"acpctl relay test: hub: warning: it listens: do this\nacpctl relay test: two: nobody answers there: do that\nacpctl relay test: three: its settings cannot be used\n")
	if got := f.Run("relay", "test", ""); got.Code != frame.ExitUsage {
		t.Errorf("a test of no name: %+v", got)
	}
	f.SetAnswer(client.MethodRelayNkey, &client.RelayNkey{Nkey: "UABC"})
	f.WantResult(f.Run("relay", "nkey"), 0, "UABC\n", "")
	f.SetAnswer(client.MethodRelayRemove, struct{}{})
	f.WantResult(f.Run("relay", "remove", "hub"), 0, "hub removed\n", "")
	f.WantResult(f.Run("relay", "remove", "hub", "--json"), 0, `{"name":"hub"}`+"\n", "")
	f.SetAnswer(client.MethodRelayRemove, kinds.Errorf(kinds.NotFound, "relay.remove: there is none"))
	f.WantResult(f.Run("relay", "remove", "hub"), frame.ExitLocal, "", "acpctl relay remove: there is none\n")
}
