package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// TestStrangerWaitsForTrust: it is refused, listed with its proven id and what it
// calls itself, and once both sides trust each other they talk.
func TestStrangerWaitsForTrust(t *testing.T) {
	t.Parallel()
	desk, laptop := running(t, "desk"), running(t, "laptop")
	desk.attach(client.AttachParams{Name: "reviewer"}, says("welcome"))
	if said := laptop.must("trust", desk.id.String(), "--name", "office", "--addr", desk.addr, "--yes"); said != "office\n" {
		t.Errorf("trust says %q", said)
	}
	stranger := laptop.run(4, "query", "office", "May I?", "--json")
	if said := stranger.stdout.String(); !strings.Contains(said, `"code":"not_trusted"`) {
		t.Errorf("the stranger hears %s", said)
	}
	within(t, "refusal", stranger.took, 3*time.Second)
	eventually(t, "pending", func() bool { return desk.peer(laptop).State == client.PeerPending })
	if p := desk.peer(laptop); p.Claim != "laptop" || p.Name != "" {
		t.Errorf("pending: %+v", p)
	}
	if said := desk.must("peers"); !strings.Contains(said, `"laptop"`) || !strings.Contains(said, laptop.id.Label()) {
		t.Errorf("peers: %s", said)
	}
	desk.must("trust", laptop.id.String(), "--yes")
	desk.connected(laptop)
	if said := laptop.must("query", "office", "May I?"); said != "welcome\n" {
		t.Errorf("the trusted peer hears %q", said)
	}
	if p := desk.peer(laptop); p.State != client.PeerConnected || p.Name != "laptop" {
		t.Errorf("trusted: %+v", p)
	}
}

// TestUntrustCutsCalls: those in flight fail on both sides within a second, and
// what was held of the peer is gone.
func TestUntrustCutsCalls(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	s := newStubborn()
	for _, m := range []*machine{desk, laptop} {
		m.attach(client.AttachParams{Name: "worker"}, client.Handler{Query: s.query})
	}
	laptop.must("notify", "desk", "build.done", "1")
	there := laptop.begin("query", "desk", "there", "--deadline", "1m", "--json")
	back := desk.begin("query", "laptop", "back", "--deadline", "1m", "--json")
	for range 2 {
		receive(t, "query", s.began)
	}
	begun := time.Now()
	if said := desk.must("untrust", "laptop"); !strings.Contains(said, laptop.id.String()) {
		t.Errorf("untrust says %q", said)
	}
	for name, p := range map[string]*process{"their call": there, "our call": back} {
		if said, _ := p.exits(4); !strings.Contains(said, `"code":"not_trusted"`) {
			t.Errorf("%s: %s", name, said)
		}
		within(t, name+" ended", p.begun.Add(p.took).Sub(begun), time.Second)
	}
	for range 2 {
		receive(t, "agent that is told", s.gaveUp)
	}
	if said := desk.must("inbox"); said != "" {
		t.Errorf("inbox: %s", said)
	}
	if p := desk.peer(laptop); p.State != client.PeerBlocked {
		t.Errorf("peer: %+v", p)
	}
	laptop.run(4, "query", "desk", "again?")
	desk.run(5, "query", "laptop", "again?")
	if said := desk.must("peers"); strings.Contains(said, "pending") {
		t.Errorf("who is blocked is pending again: %s", said)
	}
	// A restart forgets no block; the full id lifts it.
	desk.kill()
	desk.start()
	laptop.run(4, "query", "desk", "again?")
	desk.must("trust", laptop.id.String(), "--name", "laptop", "--addr", laptop.addr, "--yes")
	desk.connected(laptop)
}

// TestInvitationIsForOne: who comes second, late or with another token is refused.
func TestInvitationIsForOne(t *testing.T) {
	t.Parallel()
	desk, laptop, tablet := running(t, "desk"), running(t, "laptop"), running(t, "tablet")
	uri := strings.TrimSpace(desk.must("invite"))
	if said := laptop.must("join", uri); said != "desk\n" {
		t.Errorf("join says %q", said)
	}
	if said := laptop.must("join", uri); said != "desk\n" {
		t.Errorf("join again says %q", said)
	}
	tablet.run(4, "join", uri)
	desk.run(1, "join", uri)
	if p := desk.peer(tablet); p.State == client.PeerConnected || p.State == client.PeerTrusted {
		t.Errorf("the second: %+v", p)
	}
	laptop.connected(desk)
	desk.connected(laptop)
}

// TestNamesThatDoNotDecide: unknown and ambiguous ones, and this daemon's own.
func TestNamesThatDoNotDecide(t *testing.T) {
	t.Parallel()
	laptop := running(t, "laptop")
	a, b := "abcdef"+strings.Repeat("0", 58), "abcdef"+strings.Repeat("1", 58)
	laptop.must("trust", a, "--name", "planner", "--yes")
	laptop.must("trust", b, "--name", "reviewer", "--yes")
	for _, c := range []struct {
		to    string
		exit  int
		code  kinds.Code
		names []string
	}{
		{"abcdef", 5, kinds.UnknownPeer, []string{"planner", "reviewer"}},
		{"abcdef0", 5, kinds.Unreachable, nil},
		{"planer", 5, kinds.UnknownPeer, []string{"planner"}},
		{"abcde", 5, kinds.UnknownPeer, nil},
		{"ABCDEF0", 5, kinds.Unreachable, nil},
		{strings.Repeat("a", 10_000), 5, kinds.UnknownPeer, nil},
		{"", 5, kinds.UnknownPeer, nil},
		{"/planner", 5, kinds.UnknownPeer, nil},
		{"planner\x1b[2J", 5, kinds.UnknownPeer, nil},
		{laptop.id.String(), 1, kinds.Invalid, []string{"itself"}},
	} {
		said := laptop.run(c.exit, "query", c.to, "who?", "--json").stdout.String()
		if !strings.Contains(said, `{"code":"`+string(c.code)+`"`) || len(said) > 1000 || strings.Contains(said, "\x1b") {
			t.Errorf("%.80q: %s, want %s", c.to, said, c.code)
		}
		for _, name := range c.names {
			if !strings.Contains(said, name) {
				t.Errorf("%.80q: %s does not name %s", c.to, said, name)
			}
		}
	}
	if said := laptop.run(1, "trust", b, "--name", "planner", "--yes", "--json").stdout.String(); !strings.Contains(said, `"invalid"`) {
		t.Errorf("a name that is taken: %s", said)
	}
	laptop.run(1, "trust", laptop.id.String(), "--yes")
	laptop.run(5, "untrust", "nobody")
}
