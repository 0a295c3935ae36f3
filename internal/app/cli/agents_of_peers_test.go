package cli

import (
	"strconv"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// newDaemonWithAgents returns a daemon with one agent, and with peers of which each says something else of its agents.
func newDaemonWithAgents(t *testing.T) *clitest.FakeDaemon {
	f := newDaemon(t)
	f.SetAnswer(client.MethodAgents, &client.Agents{Agents: []client.AgentState{{Agent: client.Agent{Name: "scribe", MaxConcurrent: 4, About: "writes notes"}}}})
	var peers []client.Peer
	said := map[string]any{
		"desk": &kinds.Capabilities{Agents: []string{"claude", "codex", "evil\x1b[2J\nx", "old", "serve"}, Sessions: []string{"codex"}, Details: []kinds.AgentDetails{
			{Name: "claude", Answers: kinds.AnswersWakes, About: "reads \u202e\"German\"\x1b[31m\nand more" + strings.Repeat("\u0323", 99)}, {Name: "codex", Answers: kinds.AnswersTurn}, {Name: "evil\x1b[2J\nx", Answers: "soon"}, {Name: "serve", Answers: kinds.AnswersNow}}},
		"empty": &kinds.Capabilities{},
		"mute":  kinds.Errorf(kinds.NotAuthorized, "no\x1b[31m"),
		"older": &kinds.Capabilities{Agents: []string{"claude", "codex"}, Sessions: []string{"codex"}},
	}
	names := map[string]string{}
	for i, name := range []string{"away", "desk", "empty", "mute", "older"} {
		id, state := identity.ID{byte(i + 1)}, client.PeerConnected
		if name == "away" {
			state = client.PeerTrusted
		}
		names[id.String()] = name
		peers = append(peers, client.Peer{ID: id, Name: name, State: state})
	}
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: peers})
	f.SetHandler(client.MethodDiscover, func(r *jsonrpc.Request) (any, error) {
		var p client.DiscoverParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		if err, ok := said[names[p.To]].(error); ok {
			return nil, err
		}
		return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "capabilities", Payload: kinds.EncodePayload(said[names[p.To]])}, nil
	})
	return f
}

// agents lists whom one can ask at the peers that are connected, and what an older or silent one does not say. What
// peers write is harmless.
func TestAgentsOfPeers(t *testing.T) {
	f := newDaemonWithAgents(t)
	const rows = `desk/claude	wakes for you	"reads 'German' and more` + "\u0323\u0323\u0323\u0323" + `"
desk/codex	at its next turn	
desk/old	?	
desk/serve	now	
desk/?	?	
empty	-	no agents now
mute	?	it does not say: not_authorized
older/claude	?	
older/codex	at its next turn	
`
	if got := f.Run("agents"); got.Code != 0 || got.Err != "" || !strings.HasSuffix(got.Out, "\t0 of 4 under way, \"writes notes\"\n"+rows) || strings.Count(got.Out, "\n") != 10 {
		t.Errorf("a script: %+v", got)
	}
	got := f.RunAtTerminal(ui.Terminal{OutTTY: true, ErrTTY: true}, "", "agents")
	if !strings.Contains(got.Out, "\n\nAT PEERS      ANSWERS           ABOUT\ndesk/claude   wakes for you     \"reads 'German' and more\u0323\u0323\u0323\u0323\"\n") {
		t.Errorf("a terminal: %s", got.Out)
	}
	got = f.Run("agents", "--json")
	for _, want := range []string{`"about":"writes notes"`, `"name":"older","agents":[{"name":"claude","answers":""},{"name":"codex","answers":"turn"}]}`, `"name":"mute","agents":[],"error":{"code":"not_authorized"`, `"name":"empty","agents":[]}`} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("%s is not in %s", want, got.Out)
		}
	}
}

// A peer that names very many agents fills no terminal.
func TestManyAgentsOfAPeer(t *testing.T) {
	f := newDaemonWithAgents(t)
	f.SetAnswer(client.MethodDiscover, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "capabilities",
		Payload: kinds.EncodePayload(&kinds.Capabilities{Agents: strings.Fields(strings.Repeat("a ", 1000))})})
	if got := f.Run("agents"); strings.Count(got.Out, "\n") != 1+4*65 || !strings.Contains(got.Out, "\ndesk\t?\t936 more agents: --json has all\n") {
		t.Errorf("%d lines", strings.Count(got.Out, "\n"))
	}
	if got := f.Run("discover", "desk"); !strings.HasPrefix(got.Out, "agents\t"+strings.Repeat("a, ", 63)+"a and 936 more\n") {
		t.Errorf("discover: %q", got.Out)
	}
	odd := []string{"codex"}
	for i := range 3000 {
		odd = append(odd, "Say yes "+strconv.Itoa(i))
	}
	f.SetAnswer(client.MethodDiscover, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "capabilities", Payload: kinds.EncodePayload(&kinds.Capabilities{Agents: odd})})
	if got := f.Run("agents"); strings.Count(got.Out, "\n") != 1+4*2 || !strings.Contains(got.Out, "\ndesk/codex\t?\t\ndesk/?\t?\t\n") {
		t.Errorf("names of no agent: %d lines", strings.Count(got.Out, "\n"))
	}
	if got := f.Run("discover", "desk"); got.Out != "agents\tcodex, ?\n" {
		t.Errorf("discover, names of no agent: %.200q", got.Out)
	}
}

// peers shows how many agents those have that are connected.
func TestPeersCountsAgents(t *testing.T) {
	f := newDaemonWithAgents(t)
	got := f.Run("peers")
	for i, want := range []string{"away\t0100000000\ttrusted\t-\t", "desk\t0200000000\tconnected\t5\t", "empty\t0300000000\tconnected\t0\t", "mute\t0400000000\tconnected\t?\t", "older\t0500000000\tconnected\t2\t"} {
		if line := strings.Split(got.Out, "\n")[i]; !strings.HasPrefix(line, want) {
			t.Errorf("%q: want %q", line, want)
		}
	}
}
