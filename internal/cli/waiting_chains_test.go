package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/cli/clitest"
	"github.com/acpd/acpd/internal/cli/ui"
)

// opened returns an open call that began so many seconds after noon, and has the id with that number.
func opened(second byte, d client.MessageDirection, peer identity.ID, name, from, to string) client.TrafficEntry {
	id := clitest.SomeID
	id[0] = second
	return client.TrafficEntry{At: noon.Add(time.Duration(second) * time.Second), ID: id, Direction: d, Peer: peer, Name: name, FromAgent: from, Agent: to, Kind: "query", Text: "?"}
}

// formatChains writes who waits for whom, each call with how deep it stands.
func formatChains(open []client.TrafficEntry) string {
	var b strings.Builder
	for _, c := range joinChains(open, true) {
		b.WriteString(strings.Repeat(">", c.depth) + findWho(c.TrafficEntry).String() + " " + findWhom(c.TrafficEntry).String() + "\n")
	}
	return b.String()
}

func TestChains(t *testing.T) {
	laptop, build := clitest.DeskID, clitest.MyID
	in := func(second byte, from, to string) client.TrafficEntry {
		return opened(second, client.In, laptop, "laptop", from, to)
	}
	out := func(second byte, from, to string) client.TrafficEntry { // what in led to
		e := opened(second, client.Out, build, "build", from, to)
		e.Hops = 1
		return e
	}
	with := func(e client.TrafficEntry, change func(*client.TrafficEntry)) client.TrafficEntry {
		change(&e)
		return e
	}
	hops := func(n uint64) func(*client.TrafficEntry) { return func(e *client.TrafficEntry) { e.Hops = n } }
	thread := func(name string) func(*client.TrafficEntry) {
		return func(e *client.TrafficEntry) { e.Thread = name }
	}
	delegate := func(e *client.TrafficEntry) { e.Kind = "delegate" }
	about := func(other byte) func(*client.TrafficEntry) {
		return func(e *client.TrafficEntry) { e.Ref = clitest.SomeID; e.Ref[0] = other }
	}
	for name, c := range map[string]struct {
		open []client.TrafficEntry
		want string
	}{
		"nothing": {nil, ""},
		"a chain of three, and another call between": {
			[]client.TrafficEntry{in(1, "planner", "reviewer"), in(2, "tester", "writer"), out(3, "reviewer", "builder"), with(opened(4, client.In, build, "build", "builder", "signer"), hops(2))},
			"laptop/planner here/reviewer\n>here/reviewer build/builder\n>>build/builder here/signer\nlaptop/tester here/writer\n",
		},
		"two that follow from one": {
			[]client.TrafficEntry{in(1, "planner", "reviewer"), out(2, "reviewer", "builder"), out(3, "reviewer", "tester")},
			"laptop/planner here/reviewer\n>here/reviewer build/builder\n>here/reviewer build/tester\n",
		},
		"what began before follows from nothing": {
			[]client.TrafficEntry{out(1, "reviewer", "builder"), in(2, "planner", "reviewer")},
			"here/reviewer build/builder\nlaptop/planner here/reviewer\n",
		},
		"a question of the agent's own": {
			[]client.TrafficEntry{in(1, "planner", "reviewer"), with(out(2, "reviewer", "builder"), hops(0)), with(out(3, "reviewer", "tester"), hops(2))},
			"laptop/planner here/reviewer\nhere/reviewer build/builder\nhere/reviewer build/tester\n",
		},
		"another thread": {
			[]client.TrafficEntry{with(in(1, "planner", "reviewer"), thread("a")), out(2, "reviewer", "builder")},
			"laptop/planner here/reviewer\nhere/reviewer build/builder\n",
		},
		"the thread tells which of two": {
			[]client.TrafficEntry{with(in(1, "planner", "reviewer"), thread("a")), with(in(2, "tester", "reviewer"), thread("b")), with(out(3, "reviewer", "builder"), thread("b"))},
			"laptop/planner here/reviewer\nlaptop/tester here/reviewer\n>here/reviewer build/builder\n",
		},
		"either of two may have led to it": {
			[]client.TrafficEntry{in(1, "planner", "reviewer"), in(2, "tester", "reviewer"), out(3, "reviewer", "builder")},
			"laptop/planner here/reviewer\nlaptop/tester here/reviewer\nhere/reviewer build/builder\n",
		},
		"hops tell which of two": {
			[]client.TrafficEntry{in(1, "planner", "reviewer"), with(in(2, "tester", "reviewer"), hops(2)), with(out(3, "reviewer", "builder"), hops(3))},
			"laptop/planner here/reviewer\nlaptop/tester here/reviewer\n>here/reviewer build/builder\n",
		},
		"hops that do not fit": {
			[]client.TrafficEntry{in(1, "planner", "reviewer"), with(out(2, "reviewer", "builder"), hops(3))},
			"laptop/planner here/reviewer\nhere/reviewer build/builder\n",
		},
		"agents of one name at two peers": {
			[]client.TrafficEntry{with(out(1, "planner", "reviewer"), hops(0)), with(in(2, "reviewer", "writer"), hops(1))},
			"here/planner build/reviewer\nlaptop/reviewer here/writer\n",
		},
		"nobody is named": {
			[]client.TrafficEntry{in(1, "", ""), out(2, "", "")},
			"laptop here\nhere build\n",
		},
		"a question about a delegation": {
			[]client.TrafficEntry{with(out(1, "planner", ""), delegate), with(out(2, "planner", ""), delegate), with(opened(3, client.In, build, "build", "tester", "planner"), about(1))},
			"here/planner build\n>build/tester here/planner\nhere/planner build\n",
		},
		"a question about another peer's delegation": {
			[]client.TrafficEntry{with(out(1, "planner", ""), delegate), with(in(2, "tester", "planner"), about(1))},
			"here/planner build\nlaptop/tester here/planner\n",
		},
	} {
		if got := formatChains(c.open); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
	var many []client.TrafficEntry
	for i := range byte(20) { // planner and reviewer ask each other, each time in another thread
		e := in(i, "planner", "reviewer")
		if i%2 == 1 {
			e = opened(i, client.Out, laptop, "laptop", "reviewer", "planner")
		}
		e.Thread, e.Hops = string(rune('a'+i/2)), uint64(i)
		many = append(many, e)
	}
	if got := joinChains(many, true); len(got) != 20 {
		t.Errorf("%d of 20 are there", len(got))
	}
}

// A person sees chains, each call under the one that it holds up; a script has the oldest first.
func TestWaitingJoinsChains(t *testing.T) {
	f := newDaemon(t)
	begun := time.Now().Add(-10 * time.Minute)
	call := func(second byte, d client.MessageDirection, peer identity.ID, name, from, to string) client.TrafficEntry {
		e := opened(second, d, peer, name, from, to)
		e.At = begun.Add(time.Duration(second) * time.Minute)
		return e
	}
	answer := &client.TrafficAnswer{Next: 1, Open: []client.TrafficEntry{
		call(1, client.In, clitest.DeskID, "laptop", "planner", "reviewer"),
		call(2, client.In, clitest.DeskID, "laptop", "tester", "writer"),
		call(3, client.Out, clitest.MyID, "build", "reviewer", "builder"),
	}}
	answer.Open[2].Hops = 1
	f.SetHandler(client.MethodTraffic, func(*jsonrpc.Request) (any, error) { return answer, nil })
	f.WantResult(f.RunAtTerminal(ui.Terminal{OutTTY: true}, "", "waiting"), 0, ""+
		"SINCE   WHO              WAITS FOR      KIND   ID        TEXT\n"+
		"9m ago  laptop/planner   here/reviewer  query  012b8c1e  ?\n"+
		"7m ago  └ here/reviewer  build/builder  query  032b8c1e  ?\n"+
		"8m ago  laptop/tester    here/writer    query  022b8c1e  ?\n", "")
	if got := f.Run("waiting"); !strings.HasPrefix(strings.Split(got.Out, "\n")[2], answer.Open[2].At.UTC().Format(time.RFC3339)+"\there/reviewer\tbuild/builder\tquery\t032b8c1e-6f0a-4d3c-9e57-010203040506\t") {
		t.Errorf("%+v", got)
	}
}
