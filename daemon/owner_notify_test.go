package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// The owner's command starts when a message begins to wait for his yes, and when one did not wake its
// session because a person is needed there. Nothing in it is of the peer's choice.
// holds: security.md#agents-on-this-machine
func TestTheOwnerIsNotified(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, event string
		ask         bool
	}{{"it waits", "approval", true}, {"a person is needed", "needs-person", false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			desk, laptop := pair(t)
			dir := t.TempDir()
			script, told := filepath.Join(dir, "script"), filepath.Join(dir, "told")
			if err := os.WriteFile(script, []byte("#!/bin/sh\necho $ACP_EVENT,$ACP_NUMBER,$ACP_PEER,$ACP_AGENT,$ACP_KIND >$1.new; mv $1.new $1\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			laptop.guest(nil).refused(kinds.NotAuthorized, "wake.notify", client.OwnerNotifyParams{Set: true, Command: []string{"true"}})
			laptop.dial().refused(kinds.Invalid, "wake.notify", client.OwnerNotifyParams{Set: true, Command: []string{"notify me"}})
			var set client.OwnerNotify
			laptop.dial().must("wake.notify", client.OwnerNotifyParams{Set: true, Command: []string{script, told}}, &set)
			if !slices.Equal(set.Command, []string{script, told}) || set.Source != "wake.yaml" {
				t.Errorf("%+v", set)
			}
			laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: c.ask})
			s := laptop.session("claude")
			s.says(func(*client.Inbound) client.WakeAnswer {
				return client.WakeAnswer{Refused: "the session is unattended", NeedsPerson: true}
			})
			desk.dial().notify(s.notice("laptop"))
			s.next(!c.ask)
			number := ""
			if c.ask {
				number = laptop.nextApproval().ID
			}
			await.Until(t, "the owner is told", func() bool { _, err := os.Stat(told); return err == nil })
			if got, want := readText(t, told), c.event+","+number+",desk,claude,notify\n"; got != want {
				t.Errorf("told %q, want %q", got, want)
			}
			laptop.dial().must("wake.notify", client.OwnerNotifyParams{Set: true}, &set)
			if len(set.Command) != 0 || set.Source != "" {
				t.Errorf("%+v", set)
			}
		})
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
