package cli

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// What people type wrong is answered in two lines: what is wrong, and what to type instead. Nothing of it is run.
func TestWhatToTypeInstead(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{
		{ID: clitest.MyID, Name: "shelf", State: client.PeerTrusted}, {ID: clitest.DeskID, Name: "laptop", State: client.PeerConnected}, {State: client.PeerPending, Claim: "evil"},
	}})
	const (
		example  = "Type: acpctl query laptop 'Which branch is deployed?'"
		anyMCP   = "Type: acpctl mcp --help, which shows what to write into the configuration of "
		unquoted = "put what contains spaces in quotes"
	)
	for _, row := range [][]string{ // what is typed, what is wrong, what to type
		{"ask laptop Why?", `acpctl: unknown verb "ask"`, "Type: acpctl query laptop 'Why?'"},
		{"ask laptop", `acpctl: unknown verb "ask"`, example},
		{"ask", `acpctl: unknown verb "ask"`, "Type: acpctl query desk 'Which branch is deployed?'"},
		{"Ask laptop --deadline 3s", `acpctl: unknown verb "Ask"`, example},
		{"chat laptop", `acpctl: unknown verb "chat"`, example},
		{"tell laptop ci.done yes", `acpctl: unknown verb "tell"`, "Type: acpctl notify laptop ci.done yes"},
		{"tell laptop done", `acpctl: unknown verb "tell"`, `Type: acpctl notify laptop build.status '{"branch": "main", "ok": true}'`},
		{"send laptop hello", "acpctl send: there is no file hello here", "Type: acpctl query laptop hello, if that is a question"},
		{"send laptop .", "acpctl send: . is a folder", "Type: tar -cz . | acpctl send laptop - --name "},
		{"send laptop", "acpctl send: FILE is missing", "Type: acpctl send laptop build.log"},
		{"scp build.log laptop", `acpctl: unknown verb "scp"`, "Type: acpctl send "},
		{"cp fix.patch laptop:", `acpctl: unknown verb "cp"`, "Type: acpctl send laptop fix.patch"},
		{"files remove 3f2b8c", `acpctl files: unknown verb "remove"`, "Type: acpctl files rm 3f2b8c"},
		{"files get 3f2b8c", `acpctl files: unknown verb "get"`, "Type: acpctl files save 3f2b8c"},
		{"files ls", `acpctl files: unknown verb "ls"`, "Type: acpctl files"},
		{"send hints_test.go laptop", "acpctl send: PEER and FILE are swapped", "Type: acpctl send laptop hints_test.go"},
		{"files save", "acpctl files save: ID is missing: acpctl files lists them", "Type: acpctl files save 3f2b8c1e"},
		{"history", `acpctl: unknown verb "history"`, "Type: acpctl tail"},
		{"login", `acpctl: unknown verb "login"`, "Type: acpctl up"},
		{"cancel", "acpctl cancel: ID is missing: acpctl tasks lists them", "Type: acpctl cancel 3f2b8c1e"},
		{"wait", "acpctl wait: ID|PEER is missing: acpctl tasks lists them", "Type: acpctl wait 3f2b8c1e"},
		{"reply", "acpctl reply: ID is missing: acpctl tasks lists them", "Type: acpctl reply 3f2b8c1e"},
		{"approvals yes", "acpctl approvals yes: ID is missing: acpctl approvals lists them", "Type: acpctl approvals"},
		{"agents mute", "acpctl agents mute: NAME is missing: acpctl agents lists them", "Type: acpctl agents mute claude"},
		{"wake test", "acpctl wake test: SESSION is missing: acpctl agents lists them", "Type: acpctl wake test claude"},
		{"wake desk", `acpctl wake: unknown verb "desk"`, "See: acpctl wake --help"},
		{"deny laptop", `acpctl: unknown verb "deny"`, "Type: acpctl wake revoke laptop  or: acpctl untrust laptop"},
		{"--verbose peers", "acpctl: unknown flag: --verbose", "See: acpctl --help"},
		{"wake alow laptop", `acpctl wake: unknown verb "alow": did you mean allow?`, "See: acpctl wake --help"},
		{"approvals foo", `acpctl approvals: unknown verb "foo"`, "See: acpctl approvals --help"},
		{"ping -c", "acpctl ping: --count: its value is missing: how many pings", "See: acpctl ping --help"},
		{"trust --file", "acpctl trust: --file: its value is missing: trust the machines", "See: acpctl trust --help"},
		{"invite laptop", `acpctl invite: "laptop" is one argument too many`, "Type: acpctl invite --name laptop"},
		{"bench desk", `acpctl: the verb "bench" was removed`, "Type: acpctl ping desk -c 100"},
		{"debug pprof heap", `acpctl: the verb "debug" was removed`, "Type: acpd --pprof PATH"},
		{"log-level debug", `acpctl: the verb "log-level" was removed`, "Type: acpctl reload, once config.yaml in the state directory has the line log: {level: debug}"},
		{"restore desk.tar --force", "acpctl restore: the flag --force was removed", "Type: acpctl restore FILE"},
		{"ls", `acpctl: unknown verb "ls"`, "Type: acpctl peers"},
		{"list", `acpctl: unknown verb "list"`, "Type: acpctl peers"},
		{"who", `acpctl: unknown verb "who"`, "Type: acpctl peers"},
		{"logs", `acpctl: unknown verb "logs"`, "Type: acpctl tail  or: acpctl service logs"},
		{"start", `acpctl: unknown verb "start"`, "Type: acpctl up"},
		{"stop", `acpctl: unknown verb "stop"`, "Type: acpctl drain"},
		{"connect", `acpctl: unknown verb "connect"`, "Type: acpctl up  or: acpctl invite  or: acpctl join"},
		{"pair laptop", `acpctl: unknown verb "pair"`, "Type: acpctl up  or: acpctl invite  or: acpctl join"},
		{"rm laptop", `acpctl: unknown verb "rm"`, "Type: acpctl untrust laptop"},
		{"allow laptop", `acpctl: unknown verb "allow"`, "Type: acpctl wake allow laptop"},
		{"yes 482913", `acpctl: unknown verb "yes"`, "Type: acpctl approvals yes 482913"},
		{"claude-code", `acpctl: unknown verb "claude-code"`, "Type: acpctl setup claude"},
		{"setup claude-code", `acpctl setup: setup does not know "claude-code", only claude, codex, opencode`, "Type: acpctl setup claude"},
		{"setup cluade", `acpctl setup: setup does not know "cluade": did you mean claude?`, "See: acpctl setup --help"},
		{"agents laptop", `acpctl agents: unknown verb "laptop", and the agents of a peer are listed by discover`, "Type: acpctl discover laptop"},
		{"wait laptop/codex", "acpctl wait: ID: ", "Type: acpctl wait laptop/codex --online  or: acpctl wait laptop/codex --idle"},
		{"oacp send --timeout 1m", "acpctl oacp send: unknown flag: --timeout: did you mean --wait?", "See: "},
		{"setup cursor", `acpctl setup: setup does not know "cursor", only claude, codex, opencode`, anyMCP + "cursor"},
		{"setup ls", `acpctl setup: setup does not know "ls", only claude, codex, opencode`, anyMCP + "that program"},
		{"gemini", `acpctl: unknown verb "gemini"`, anyMCP + "gemini"},
		{"vscode", `acpctl: unknown verb "vscode"`, anyMCP + "vscode"},
		{"qurey laptop", `acpctl: unknown verb "qurey": did you mean query?`, "See: acpctl --help"},
		{"query Which? laptop", "acpctl query: PEER and QUESTION are swapped", "Type: acpctl query laptop 'Which?'"},
		{"delegate Test? laptop/reviewer", "acpctl delegate: PEER and TASK are swapped", "Type: acpctl delegate laptop/reviewer 'Test?'"},
		{"query laptop", "acpctl query: QUESTION is missing: - reads it from standard input", example},
		{"query", "acpctl query: PEER is missing: it may be laptop, shelf", example},
		{"query laptop which one", `acpctl query: "one" is one argument too many: ` + unquoted, "Type: acpctl query laptop 'which one'"},
		{"delegate laptop/reviewer Test it all", `acpctl delegate: "it" is one argument too many: ` + unquoted, "Type: acpctl delegate laptop/reviewer 'Test it all'"},
		{"delegate laptop", "acpctl delegate: TASK is missing: - reads it from standard input", "Type: acpctl delegate laptop '…'"},
		{"restart", `acpctl: unknown verb "restart"`, "Type: acpctl drain"},
		{"wake allow laptop/codex", "acpctl wake allow: PEER is a name without an agent", "Type: acpctl wake allow laptop --agent codex"},
		{"wake allow laptop claude", "acpctl wake allow: PEER is a name without an agent", "Type: acpctl wake allow laptop --agent claude"},
		{"untrust laptop/codex", "acpctl untrust: PEER is a name without an agent", "Type: acpctl untrust laptop"},
		{"notify laptop ci.done", "acpctl notify: DATA is missing", `Type: acpctl notify laptop build.status '{"branch": "main", "ok": true}'`},
		{"notify laptop shelf ci.done yes", "acpctl notify: several peers are one argument, with commas", "Type: acpctl notify 'laptop,shelf' ci.done yes"},
		{"ping", "acpctl ping: PEER is missing: it may be laptop, shelf", "Type: acpctl ping laptop"},
		{"trust", "acpctl trust: ID or NAME is missing: acpctl peers lists them", "Type: acpctl trust laptop"},
		{"join acp://foo?a=1", "acpctl join: this is not a whole invitation: the shell has cut it at the first &", "Type: acpctl join 'acp://…', with the whole line between quotes"},
		{"join acp://foo", "acpctl join: this is not a whole invitation: ", "Type: acpctl join, and paste the line"},
		{"join laptop", "acpctl join: invitation: does not begin with acp://", "Type: acpctl join, and paste the line of the other machine"},
		{"up acp://foo?a=1", "acpctl up: this is not a whole invitation: the shell has cut it at the first &", "Type: acpctl up 'acp://…', with the whole line between quotes"},
		{"up laptop", "acpctl up: invitation: does not begin with acp://", "Type: acpctl up, and paste the line of the other machine"},
		{"serve --prompt ./nosuch", "acpctl serve: CMD: there is no ./nosuch here", "Type: acpctl serve --prompt -- ./answer.sh"},
		{"serve --prompt nosuch-at-all", "acpctl serve: CMD: there is no program nosuch-at-all in PATH", "Type: acpctl serve --prompt -- ./answer.sh"},
		{"serve --prompt ./hints_test.go", "acpctl serve: CMD: ./hints_test.go cannot be run", "Type: chmod +x ./hints_test.go"},
	} {
		got := f.Run(strings.Fields(row[0])...)
		lines := strings.Split(got.Err, "\n")
		if got.Code == 0 || got.Out != "" || len(lines) != 3 || !strings.HasPrefix(lines[0], row[1]) || !strings.Contains(lines[1], row[2]) {
			t.Errorf("acpctl %s: exit code %d, %q\n%s", row[0], got.Code, got.Out, got.Err)
		}
	}
	if got := f.RunAtTerminal(ui.Terminal{}, "acp://foo?a=1\n\n", "join"); got.Code != frame.ExitUsage || strings.Contains(got.Err, "shell") || !strings.Contains(got.Err, "this is not a whole invitation: ") {
		t.Errorf("a line that no shell has cut: %+v", got)
	}
	if got := f.Run("query", "laptop", "--json"); got.Err != "" || !strings.Contains(got.Out, `"message":"QUESTION is missing: - reads it from standard input; type: acpctl query laptop 'Which branch is deployed?'"`) {
		t.Errorf("%+v", got)
	}
}

// discover without a peer asks all that are connected, and goes on after one that fails.
func TestDiscoverAll(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{ID: clitest.MyID, Name: "shelf", State: client.PeerTrusted}, {ID: clitest.DeskID, Name: "laptop", State: client.PeerConnected}}})
	f.SetAnswer(client.MethodDiscover, &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "capabilities", Payload: kinds.EncodePayload(&kinds.Capabilities{Agents: []string{"reviewer"}})})
	f.WantResult(f.Run("discover"), 0, "peer\tlaptop\nagents\treviewer\n", "")
	f.SetAnswer(client.MethodDiscover, kinds.Errorf(kinds.Timeout, "no answer"))
	f.WantResult(f.Run("discover"), 0, "", "acpctl discover: laptop: no answer\n")
	f.SetAnswer(client.MethodPeers, &client.Peers{})
	f.WantResult(f.RunInteractive("", "discover"), 0, "", "no peer is connected: acpctl peers shows those that there are\n")
}

// An empty question is found out as a missing one is, and without a peer query says how to get one.
func TestNobodyToAskAndNothingToAsk(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodPeers, &client.Peers{Peers: []client.Peer{{State: client.PeerPending, Claim: "evil"}}})
	for _, verb := range []string{"query", "delegate", "ping", "wake allow"} {
		args := strings.Fields(verb)
		f.WantResult(f.Run(args...), frame.ExitUsage, "", "acpctl "+verb+": PEER is missing, and there is no peer yet\nType: acpctl up, which connects another machine\n")
	}
	f.WantResult(f.Run("query", "desk", ""), frame.ExitUsage, "", "acpctl query: QUESTION is empty\nType: acpctl query desk 'Which branch is deployed?'\n")
	f.WantResult(f.Run("delegate", "desk", ""), frame.ExitUsage, "", "acpctl delegate: TASK is empty\nType: acpctl delegate desk '…'\n")
	if got := f.RunInteractive("", "delegate", "desk"); !strings.HasPrefix(got.Err, "acpctl delegate: TASK is missing\n") { // nothing is piped into it
		t.Errorf("%+v", got)
	}
}
