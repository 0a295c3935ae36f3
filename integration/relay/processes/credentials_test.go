package processes

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

// A file of credentials is read at each login. While the relay is up, people hear that the next login will fail, until
// the file is as it was.
func TestCredentialsThatCountNoMore(t *testing.T) {
	t.Parallel()
	s := newServer(t, []string{"of a person"})
	conf, err := os.ReadFile(s.conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.conf, regexp.MustCompile("(?m)^authorization.*$").ReplaceAll(conf, nil), 0o600); err != nil { // it takes any
		t.Fatal(err)
	}
	s.start()
	desk := newMachine(t, "desk", s)
	config := "reach: {relays: [{name: hub, url: \"" + s.url() + "\", credentials: nats.creds}]}\n"
	if err := os.WriteFile(filepath.Join(desk.Home, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(desk.Home, "nats.creds")
	const good = "-----BEGIN NATS USER JWT-----\nhead.claims.signature\n------END NATS USER JWT------\n" +
		"-----BEGIN USER NKEY SEED-----\nSUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEQ\n------END USER NKEY SEED------\n" // of 32 zeroes
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	write(good, 0o600)
	desk.StartDaemon()
	awaitRelay(t, desk, client.RelayUp)
	says := func(words string) {
		t.Helper()
		r := relayOf(t, desk)
		if r.State != client.RelayUp || (words == "") != (r.Error == "") || !strings.Contains(r.Error, words) {
			t.Errorf("%s, %q; want %q", r.State, r.Error, words)
		}
		reloaded, err := desk.Client.Reload(await.NewContext(t))
		if err != nil || (words != "") != slices.ContainsFunc(reloaded.Warnings, func(w string) bool {
			return strings.HasPrefix(w, "relay hub: credentials: ") && strings.Contains(w, words)
		}) {
			t.Errorf("reload: %+v, %v", reloaded, err)
		}
	}
	says("")
	write(good, 0o644)
	says("open to others")
	write("rubbish\n", 0o600)
	says("the file has no NATS credentials: get a .creds file")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	says("is not there: put it there")
	write(good, 0o600)
	says("")
}
