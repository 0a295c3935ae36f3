//go:build faults

package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestOneIdentityTwice: of two daemons with one state directory's copies the later one
// is served, the earlier one is told, and the peer tells of both. Where the later one is
// gone the other one's next start is served. What the peer said that it holds it holds
// once, and none that is served has more open than before.
// holds: security.md#against-those-who-break-or-copy-keys
func TestOneIdentityTwice(t *testing.T) {
	t.Parallel()
	desk, laptop, copied := newMachine(t, "desk"), newMachine(t, "laptop"), newMachine(t, "desk")
	desk.StartDaemon()
	laptop.StartDaemon()
	live.Befriend(desk.Machine, laptop.Machine)
	var held []wire.MessageID
	notify := func(m *machine) error {
		id := wire.NewMessageID()
		r, err := m.Client.Notify(await.NewContext(t), client.NotifyParams{
			Head: client.Head{ID: id}, To: client.To("laptop"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "build"}),
		})
		if err == nil && r.State != client.Held {
			err = errors.New(string(r.State))
		}
		if err == nil {
			held = append(held, id)
		}
		return err
	}
	served := func(m *machine) func() bool { return func() bool { return notify(m) == nil } }
	await.Until(t, "desk is served", served(desk))
	calm(desk, laptop)
	desk.StopDaemon()

	if err := os.RemoveAll(copied.Home); err != nil {
		t.Fatal(err)
	}
	copied.Home = folder(t, desk.Home)
	copied.Client = &client.Client{Socket: copied.SocketPath()}
	t.Cleanup(func() { copied.Client.Close() })
	port := filepath.Join(copied.Home, "config.yaml")
	if err := os.WriteFile(port, []byte("listen: 127.0.0.2:0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	copied.Flags = []string{"--no-mdns"}
	desk.StartDaemon()
	live.AwaitConnection(desk.Machine, laptop.Machine)
	copied.StartDaemon()
	if copied.ID != desk.ID {
		t.Fatal("the copy is another")
	}
	await.Until(t, "the later one is served", served(copied))
	await.Until(t, "the earlier one is told", func() bool {
		err := notify(desk)
		return err != nil && kinds.AsError(err).Code == "identity_conflict"
	})
	if err := notify(copied); err != nil {
		t.Errorf("the later one is served no more: %v", err)
	}
	await.Until(t, "the peer's log tells of both", func() bool { return strings.Contains(laptop.Acpd.Stderr.String(), "identity conflict") })
	copied.before = desk.before
	copied.closes()
	laptop.closes()
	copied.StopDaemon()
	desk.StopDaemon()
	desk.StartDaemon() // an earlier process stays refused; a new one is served at once
	await.Until(t, "desk is served again", served(desk))
	laptop.hasOnce(held)
	desk.closes()
	laptop.closes()
}
