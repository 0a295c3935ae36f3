package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// listChanges returns the changes of a roster, in its order.
func listChanges(r *client.Roster) (changes []client.RosterChange) {
	for _, p := range r.Peers {
		changes = append(changes, p.Change)
	}
	return changes
}

// One roster, applied on each of three machines, lets all of them speak with each other. It is
// shown before, changes nothing by that, and nothing once more.
func TestRosterOfThreeMachines(t *testing.T) {
	t.Parallel()
	var machines []*running
	var roster []client.RosterEntry
	for _, name := range []string{"desk", "laptop", "build"} {
		r := start(t, stateDir(t), name)
		machines = append(machines, r)
		roster = append(roster, client.RosterEntry{ID: r.ID(), Name: name, Addrs: []string{r.node.Addr().String()}})
	}
	for i, r := range machines {
		owner := r.dial()
		want := []client.RosterChange{client.RosterNew, client.RosterNew, client.RosterNew}
		want[i] = client.RosterSelf
		for _, apply := range []bool{false, true} {
			got := get[client.Roster](owner, "trust.roster", client.RosterParams{Peers: roster, Apply: apply})
			if !slices.Equal(listChanges(&got), want) || got.Applied != apply || r.trust.Len() != 0 != apply {
				t.Errorf("apply %v: %+v, and %d are trusted", apply, got, r.trust.Len())
			}
		}
	}
	for _, from := range machines {
		for j, to := range machines {
			if from != to {
				from.dial().must("ping", client.PingParams{To: roster[j].Name}, nil)
			}
		}
	}
	desk := machines[0]
	events := desk.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventTrust}}})
	await.Until(t, "the keys are pinned", func() bool { return strings.Count(readTrustFile(t, desk), "pq: ") == 2 })
	before := readTrustFile(t, desk)
	got := get[client.Roster](desk.dial(), "trust.roster", client.RosterParams{Peers: roster, Apply: true})
	if !slices.Equal(listChanges(&got), []client.RosterChange{client.RosterSelf, client.RosterUnchanged, client.RosterUnchanged}) || readTrustFile(t, desk) != before {
		t.Errorf("once more: %+v", got)
	}

	// Another name, and none of the addresses: only that is told. Whom the roster leaves out stays.
	roster[1].Name, roster[1].Addrs = "notebook", []string{}
	desk.dial().must("trust.roster", client.RosterParams{Peers: roster[1:2], Apply: true}, &got)
	if p := got.Peers[0]; p.Change != client.RosterChanged || p.Was == nil || p.Was.Name != "laptop" || len(p.Was.Addrs) != 1 || len(p.Addrs) != 0 {
		t.Errorf("%+v", got)
	}
	if e := await.Receive(t, "event", events); e.Peer != roster[1].ID || e.Name != "notebook" {
		t.Errorf("%+v", e)
	}
	if desk.trust.Len() != 2 {
		t.Errorf("trusted: %+v", desk.trust.Peers())
	}
}

func readTrustFile(t *testing.T, r *running) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "trust.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What is in the way of one entry keeps all others out; each such entry is told by its name.
// holds: security.md#against-strangers
func TestRosterIsAppliedWholeOrNot(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	owner := desk.dial()
	id := func(n byte) identity.ID { return identity.ID{n, 31: 1} }
	owner.must("trust", client.TrustParams{Peer: id(1).String(), Name: "laptop"}, nil)
	owner.must("trust", client.TrustParams{Peer: id(2).String(), Name: "thief"}, nil)
	owner.must("untrust", client.UntrustParams{Peer: "thief"}, nil)
	roster := client.RosterParams{Peers: []client.RosterEntry{
		{ID: id(3), Name: "build"},
		{ID: id(2), Name: "tablet"},
		{ID: id(4), Name: "laptop"},
		{ID: id(5), Name: "build"},
	}}
	got := get[client.Roster](owner, "trust.roster", roster)
	if want := []client.RosterChange{client.RosterNew, client.RosterRefused, client.RosterRefused, client.RosterRefused}; !slices.Equal(listChanges(&got), want) || got.Peers[0].Problem != "" {
		t.Errorf("%+v", got)
	}
	roster.Apply = true
	e := owner.refused(kinds.Invalid, "trust.roster", roster)
	for _, want := range []string{"3 of 4 peers are refused", `"tablet": ` + id(2).Label() + " was untrusted here", `"laptop": name "laptop" is taken by ` + id(1).Label(), "nothing was changed"} {
		if !strings.Contains(e.Message, want) {
			t.Errorf("%v: want %q", e, want)
		}
	}
	if desk.trust.Len() != 1 || !desk.trust.IsBlocked(id(2)) {
		t.Errorf("trusted: %+v", desk.trust.Peers())
	}
	owner.refused(kinds.Invalid, "trust.roster", client.RosterParams{Apply: true})
	owner.refused(kinds.Invalid, "trust.roster", client.RosterParams{Peers: make([]client.RosterEntry, client.MaxRoster+1)})
}

// The longest roster, with the longest names, is taken in one call; and an error about all of it is
// short. No entry has an address, so that nobody is dialled.
func TestTheLongestRoster(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	owner := desk.dial()
	roster := client.RosterParams{Apply: true}
	for i := range client.MaxRoster {
		roster.Peers = append(roster.Peers, client.RosterEntry{ID: identity.ID{byte(i >> 8), byte(i), 31: 1}, Name: fmt.Sprintf("x%0*d", identity.MaxName-1, i)})
	}
	got := get[client.Roster](owner, "trust.roster", roster)
	if !got.Applied || desk.trust.Len() != client.MaxRoster {
		t.Errorf("%d are trusted", desk.trust.Len())
	}
	for i := range roster.Peers {
		roster.Peers[i].ID[2] = 1
	}
	if e := owner.refused(kinds.Invalid, "trust.roster", roster); len(e.Message) > 4<<10 || !strings.Contains(e.Message, "and 1016 more") {
		t.Errorf("%d bytes: %.2000s", len(e.Message), e.Message)
	}
}

// Relays that a roster names are told if the daemon does not use them, each once and eight at most. None is
// added, and what is no relay's URL is refused.
// holds: security.md#against-strangers
func TestRelaysOfARoster(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	owner := desk.dial()
	used := deadRelay
	owner.must("relay.add", client.RelayAddParams{URL: used, Name: "hub", NoCheck: true}, nil)
	peers := []client.RosterEntry{
		{ID: identity.ID{1}, Name: "laptop", Relays: []string{used, "tls://NATS.example.org"}},
		{ID: identity.ID{2}, Name: "build", Relays: []string{"tls://nats.example.org:4222"}},
		{ID: desk.ID(), Name: "desk", Relays: []string{"tls://own.example.org:4222"}},
	}
	for _, apply := range []bool{false, true} {
		got := get[client.Roster](owner, "trust.roster", client.RosterParams{Peers: peers, Apply: apply})
		if want := []string{"tls://nats.example.org:4222"}; !slices.Equal(got.Relays, want) || got.Applied != apply {
			t.Errorf("apply %v: %+v, want the relays %q", apply, got, want)
		}
	}
	var relays client.Relays
	if owner.must("relay.list", nil, &relays); len(relays.Relays) != 1 {
		t.Errorf("the daemon uses %+v", relays.Relays)
	}
	var many []client.RosterEntry
	for i := range byte(20) {
		many = append(many, client.RosterEntry{ID: identity.ID{3, i}, Name: fmt.Sprint("m-", i), Relays: []string{fmt.Sprintf("tls://r%d.example.org", i)}})
	}
	var got client.Roster
	if owner.must("trust.roster", client.RosterParams{Peers: many}, &got); len(got.Relays) != 8 {
		t.Errorf("%d relays are told", len(got.Relays))
	}
	for _, relays := range [][]string{{"tls://token@nats.example.org"}, {"nats.example.org"}, {"tls://a.example", "tls://b.example", "tls://c.example"}} {
		peers[1].Relays = relays
		if e := owner.refused(kinds.Invalid, "trust.roster", client.RosterParams{Peers: peers, Apply: true}); !strings.HasPrefix(e.Message, "trust: peers[1].relays") || strings.Contains(e.Message, "token@") {
			t.Errorf("%q: %v", relays, e)
		}
	}
}
