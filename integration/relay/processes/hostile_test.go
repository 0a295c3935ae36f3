package processes

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

var rounds = flag.Int("rounds", 4, "of half a second in quiet and half a second under attack")

// assault is a daemon on a relay, a node that it trusts and that calls it, and a member of the account.
type assault struct {
	t      *testing.T
	server *server
	desk   *live.Machine
	caller *node
	member *member
	token  string
}

// newAssault has the server that docs/reach.md configures.
func newAssault(t *testing.T) *assault {
	a := &assault{t: t, token: "a-token"}
	a.server = newServer(t, []string{"of a person"}, "TOKEN", a.token)
	a.server.start()
	a.desk = a.startMachine("desk")
	a.caller = a.newTrusted("planner")
	a.member = newMember(t, a.server, a.server.roots(), a.token)
	a.member.listenTo("acp1.>")
	if _, err := a.caller.ping(await.NewContext(t), a.desk.ID); err != nil {
		t.Fatal(err)
	}
	return a
}

// startMachine starts a daemon on the relay alone.
func (a *assault) startMachine(name string) *live.Machine {
	a.t.Helper()
	m := newMachine(a.t, name, a.server)
	config := fmt.Sprintf("reach: {relays: [{name: hub, url: %q, token: %s}], direct: off}\n", a.server.url(), a.token)
	if err := os.WriteFile(filepath.Join(m.Home, "config.yaml"), []byte(config), 0o600); err != nil {
		a.t.Fatal(err)
	}
	m.StartDaemon()
	awaitRelay(a.t, m, "up")
	return m
}

// newTrusted returns a node that the daemon trusts, on the relay.
func (a *assault) newTrusted(name string) *node {
	a.t.Helper()
	n := newNode(a.t, a.server, a.server.roots(), a.token)
	n.trusts(a.t, a.desk.ID, "desk")
	a.desk.MustOutput("trust", n.ID().String(), "--name", name, "--yes")
	n.awaitUp(a.t)
	return n
}

// TestHostileAccount: one that has an account at the relay, and 2,000 messages a second for a daemon, costs a
// trusted peer neither a call nor its connection, and the daemon neither its connection to the relay, nor much
// memory, nor its log.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestHostileAccount(t *testing.T) {
	a := newAssault(t)
	at := a.newTarget()
	attacks := a.newAttacks()
	a.expectForgeries(at)
	a.endure(func(ctx context.Context) int {
		return a.member.flood(ctx, 2000, func(i int) { attacks[i%len(attacks)](at, i/len(attacks)) })
	})
	if peers := a.desk.ListPeers(); len(peers) != 1 {
		t.Errorf("the daemon knows %+v", peers)
	}
}

// TestLargeMessageEndsTheMember: with the configuration of docs/reach.md the server ends the connection of a
// member that sends a larger message than daemons do, and no other.
// holds: security.md#against-a-relay-and-those-who-share-it
func TestLargeMessageEndsTheMember(t *testing.T) {
	a := newAssault(t)
	since := relayOf(t, a.desk).Since
	to, most := "acp1."+a.desk.ID.String(), a.member.maxPayload
	for header, size := range map[string]int{"": most + 1, newHeader(most + 1): 0} {
		m := newMember(t, a.server, a.server.roots(), a.token)
		m.publish(to, "", "", make([]byte, most)) // is taken
		m.publish(to, "", header, make([]byte, size))
		m.out.Flush()
		await.Receive(t, "end of the member's connection", m.ended)
		if said := m.findRefusal(); !strings.Contains(said, "Maximum Payload") {
			t.Errorf("the server says %q", said)
		}
	}
	if _, err := a.caller.ping(await.NewContext(t), a.desk.ID); err != nil {
		t.Error(err)
	}
	if r := relayOf(t, a.desk); !r.Since.Equal(since.Time) {
		t.Errorf("the daemon has lost the relay: %+v", r)
	}
}
