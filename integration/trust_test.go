package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
)

// TestStrangerWaitsForTrust: it is refused, listed with its proven id and what it
// calls itself, and once both sides trust each other they talk.
func TestStrangerWaitsForTrust(t *testing.T) {
	t.Parallel()
	desk, laptop := running(t, "desk"), running(t, "laptop")
	desk.attach(client.AttachParams{Name: "reviewer"}, says("welcome"))
	if said := laptop.MustOutput("trust", desk.ID.String(), "--name", "office", "--addr", desk.Addr, "--yes"); said != "office\n" {
		t.Errorf("trust says %q", said)
	}
	stranger := laptop.RunAcpctl(4, "query", "office", "May I?", "--json")
	if said := stranger.Stdout.String(); !strings.Contains(said, `"code":"not_trusted"`) {
		t.Errorf("the stranger hears %s", said)
	}
	await.CheckDuration(t, "refusal", stranger.Took, 3*time.Second+slack)
	await.Until(t, "pending", func() bool { return desk.FindPeer(laptop.ID).State == client.PeerPending })
	if p := desk.FindPeer(laptop.ID); p.Claim != "laptop" || p.Name != "" {
		t.Errorf("pending: %+v", p)
	}
	if said := desk.MustOutput("peers"); !strings.Contains(said, `"laptop"`) || !strings.Contains(said, laptop.ID.Label()) {
		t.Errorf("peers: %s", said)
	}
	desk.MustOutput("trust", laptop.ID.String(), "--yes")
	desk.connected(laptop)
	if said := laptop.MustOutput("query", "office", "May I?"); said != "welcome\n" {
		t.Errorf("the trusted peer hears %q", said)
	}
	if p := desk.FindPeer(laptop.ID); p.State != client.PeerConnected || p.Name != "laptop" {
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
	laptop.MustOutput("notify", "desk", "build.done", "1")
	there := laptop.StartAcpctl("query", "desk", "there", "--deadline", "1m", "--json")
	back := desk.StartAcpctl("query", "laptop", "back", "--deadline", "1m", "--json")
	for range 2 {
		await.Receive(t, "query", s.began)
	}
	begun := time.Now()
	if said := desk.MustOutput("untrust", "laptop"); !strings.Contains(said, laptop.ID.String()) {
		t.Errorf("untrust says %q", said)
	}
	for name, p := range map[string]*live.Process{"their call": there, "our call": back} {
		if said := p.AwaitExit(4); !strings.Contains(said, `"code":"not_trusted"`) {
			t.Errorf("%s: %s", name, said)
		}
		await.CheckDuration(t, name+" ended", p.Begun.Add(p.Took).Sub(begun), time.Second+slack)
	}
	for range 2 {
		await.Receive(t, "agent that is told", s.gaveUp)
	}
	if said := desk.MustOutput("inbox"); said != "" {
		t.Errorf("inbox: %s", said)
	}
	if p := desk.FindPeer(laptop.ID); p.State != client.PeerBlocked {
		t.Errorf("peer: %+v", p)
	}
	laptop.RunAcpctl(4, "query", "desk", "again?")
	desk.RunAcpctl(5, "query", "laptop", "again?")
	if said := desk.MustOutput("peers"); strings.Contains(said, "pending") {
		t.Errorf("who is blocked is pending again: %s", said)
	}
	// A restart forgets no block; the full id lifts it.
	desk.KillDaemon()
	desk.StartDaemon()
	await.Until(t, "refused again", func() bool { // a dial that reached the daemon before is unreachable
		p := laptop.StartAcpctl("query", "desk", "again?")
		p.AwaitEnd()
		code := p.Cmd.ProcessState.ExitCode()
		if code != 4 && code != 5 {
			t.Fatalf("exit code %d: %s", code, p.Stderr.String())
		}
		return code == 4
	})
	desk.MustOutput("trust", laptop.ID.String(), "--name", "laptop", "--addr", laptop.Addr, "--yes")
	desk.connected(laptop)
}

// TestInvitationIsForOne: who comes second, late or with another token is refused.
func TestInvitationIsForOne(t *testing.T) {
	t.Parallel()
	desk, laptop, tablet := running(t, "desk"), running(t, "laptop"), running(t, "tablet")
	uri := strings.TrimSpace(desk.MustOutput("invite"))
	if said := laptop.MustOutput("join", uri); said != "desk\n" {
		t.Errorf("join says %q", said)
	}
	if said := laptop.MustOutput("join", uri); said != "desk\n" {
		t.Errorf("join again says %q", said)
	}
	tablet.RunAcpctl(4, "join", uri)
	desk.RunAcpctl(1, "join", uri)
	if p := desk.FindPeer(tablet.ID); p.State == client.PeerConnected || p.State == client.PeerTrusted {
		t.Errorf("the second: %+v", p)
	}
	laptop.connected(desk)
	desk.connected(laptop)
}

// TestInvitationIsForSeveral: two come in by one line, each under a name of its own; untrust of one
// keeps a third out.
func TestInvitationIsForSeveral(t *testing.T) {
	t.Parallel()
	desk, laptop, tablet, third := running(t, "desk"), running(t, "laptop"), running(t, "tablet"), running(t, "third")
	uri := strings.TrimSpace(desk.MustOutput("invite", "--uses", "3", "--name", "build"))
	laptop.MustOutput("join", uri)
	tablet.MustOutput("join", uri)
	laptop.connected(desk)
	tablet.connected(desk)
	if said := desk.MustOutput("invite", "--list"); !strings.HasSuffix(said, "\tbuild\tbuild build-2\t1\n") {
		t.Errorf("listed as %q", said)
	}
	desk.MustOutput("untrust", "build-2")
	third.RunAcpctl(4, "join", uri)
	if said := desk.MustOutput("peers"); !strings.Contains(said, "build\t"+laptop.ID.Label()+"\tconnected") || strings.Contains(said, third.ID.Label()) {
		t.Errorf("peers: %s", said)
	}
}

// TestNamesThatDoNotDecide: unknown and ambiguous ones, and this daemon's own.
func TestNamesThatDoNotDecide(t *testing.T) {
	t.Parallel()
	laptop := running(t, "laptop")
	a, b := "abcdef"+strings.Repeat("0", 58), "abcdef"+strings.Repeat("1", 58)
	laptop.MustOutput("trust", a, "--name", "planner", "--yes")
	laptop.MustOutput("trust", b, "--name", "reviewer", "--yes")
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
		{"", 2, kinds.Invalid, []string{"PEER is empty"}},
		{"/planner", 2, kinds.Invalid, nil},
		{"planner\x1b[2J", 5, kinds.UnknownPeer, nil},
		{laptop.ID.String(), 2, kinds.Invalid, []string{"itself"}},
	} {
		said := laptop.RunAcpctl(c.exit, "query", c.to, "who?", "--json").Stdout.String()
		if !strings.Contains(said, `{"code":"`+string(c.code)+`"`) || len(said) > 1000 || strings.Contains(said, "\x1b") {
			t.Errorf("%.80q: %s, want %s", c.to, said, c.code)
		}
		for _, name := range c.names {
			if !strings.Contains(said, name) {
				t.Errorf("%.80q: %s does not name %s", c.to, said, name)
			}
		}
	}
	if said := laptop.RunAcpctl(1, "trust", b, "--name", "planner", "--yes", "--json").Stdout.String(); !strings.Contains(said, `"invalid"`) {
		t.Errorf("a name that is taken: %s", said)
	}
	laptop.RunAcpctl(1, "trust", laptop.ID.String(), "--yes")
	laptop.RunAcpctl(5, "untrust", "nobody")
}
