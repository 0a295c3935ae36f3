package frame

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/shellpath"
)

// Instead is a mistake in what was typed, with what to type instead.
type Instead struct {
	Err  error
	Type string
}

func (i Instead) Error() string { return i.Err.Error() }

func (i Instead) Unwrap() error { return i.Err }

// otherWords maps words that people try to the verbs that do what they expect. Nothing of it is run. Where there are
// several verbs, each that this acpctl has is named.
var otherWords = map[string][]string{
	"ask": {"query"}, "chat": {"query"}, "message": {"query", "notify"}, "msg": {"query", "notify"},
	"scp": {"send"}, "cp": {"send"}, "copy": {"send"}, "upload": {"send"}, "attach": {"send"}, "file": {"files"},
	"save": {"files save"}, "download": {"files save"}, "fetch": {"files save"},
	"tell": {"notify"}, "say": {"notify"}, "publish": {"notify"}, "broadcast": {"notify"},
	"do": {"delegate"}, "task": {"delegate", "tasks"}, "jobs": {"tasks"}, "answer": {"reply", "serve"},
	"ls": {"peers"}, "list": {"peers"}, "who": {"peers"}, "nodes": {"peers"}, "sessions": {"agents"},
	"logs": {"tail", "service logs"}, "log": {"tail", "service logs"}, "history": {"tail"}, "watch": {"tail", "web"}, "ui": {"web"}, "dashboard": {"web"},
	"start": {"up"}, "run": {"up", "serve"}, "install": {"up"}, "init": {"up"}, "login": {"up"}, "register": {"up"},
	"stop": {"drain"}, "quit": {"drain"}, "kill": {"drain"}, "shutdown": {"drain"}, "restart": {"drain"},
	"connect": {"up", "invite", "join"}, "pair": {"up", "invite", "join"}, "add": {"up", "invite", "join"},
	"remove": {"untrust"}, "rm": {"untrust"}, "block": {"untrust"}, "forget": {"untrust"},
	"allow": {"wake allow"}, "grant": {"wake allow"}, "mute": {"agents mute"}, "yes": {"approvals yes"}, "approve": {"approvals yes"}, "no": {"approvals no"}, "decline": {"approvals no"}, "reject": {"approvals no"},
	"deny": {"wake revoke", "untrust"}, "revoke": {"wake revoke"}, "disallow": {"wake revoke"}, "forbid": {"wake revoke"},
	"id": {"whoami"}, "me": {"whoami"}, "info": {"status"}, "health": {"status", "doctor"}, "check": {"doctor"},
	"claude": {"setup claude"}, "codex": {"setup codex"}, "opencode": {"setup opencode"}, "claude-code": {"setup claude"}, "claudecode": {"setup claude"}, "open-code": {"setup opencode"},
}

// filesWords maps words that people try behind files to the verbs that do what they expect.
var filesWords = map[string]string{
	"delete": "files rm", "remove": "files rm", "get": "files save", "take": "files save", "list": "files", "ls": "files", "send": "send",
}

// mcpPrograms are programs that speak MCP, and that acpctl setup does not know.
var mcpPrograms = []string{"cursor", "gemini", "vscode", "copilot", "windsurf", "zed", "cline", "antigravity", "aider", "goose", "continue"}

// HintMCP returns what to type for a program that speaks MCP, and that acpctl setup does not know.
func HintMCP(program string) string {
	return "acpctl mcp --help, which shows what to write into the configuration of " + program
}

// listedBy has, by a verb, which verb lists what its first argument may be.
var listedBy = map[string]string{
	"cancel": "tasks", "wait": "tasks", "reply": "tasks", "yes": "approvals", "always": "approvals", "no": "approvals",
	"save": "files", "rm": "files", "trust": "peers", "untrust": "peers", "mute": "agents", "test": "agents",
}

// HintForWord returns what to type instead of a word that is not a verb, followed by args, or "".
func HintForWord(root *cobra.Command, word string, args []string) string {
	word = strings.ToLower(word)
	if slices.Contains(mcpPrograms, word) {
		return HintMCP(word)
	}
	if verbs := otherWords[word]; len(args) == 2 && len(verbs) == 1 && verbs[0] == "send" {
		if peer, _, isRemote := strings.Cut(args[1], ":"); isRemote { // as scp has it
			args = []string{peer, args[0]}
		}
	}
	var known []string
	for _, path := range otherWords[word] {
		verb, left, err := root.Find(strings.Fields(path))
		if len(left) > 0 && verb.Name() == "setup" { // the name of a program
			known = append(known, "acpctl "+path)
		} else if err == nil && len(left) == 0 && verb != root {
			known = append(known, formatTyped(verb, args))
		}
	}
	return strings.Join(known, "  or: ")
}

// formatTyped returns the command line of a verb with the arguments that were typed, if it takes them. Else it is the
// verb's first example, for the peer that was typed.
func formatTyped(verb *cobra.Command, args []string) string {
	takesLine := verb.Name() == "up" || verb.Name() == "join" // an invitation, and no name
	isTaken := len(args) > 0 && (!takesLine || strings.Contains(args[0], "acp:"))
	if split := splitPeer(verb, args); split != "" {
		return split
	}
	if isTaken && verb.Args(verb, args) == nil {
		typed := verb.CommandPath()
		for _, arg := range args {
			typed += " " + shellpath.Quote(client.Line(arg))
		}
		return typed
	}
	return formatExample(verb, FirstOrEmpty(args))
}

// splitPeer returns the command line of a verb that takes PEER, and not PEER/AGENT, if an agent was typed too: with the
// flag that the verb has for it, or without the agent. Otherwise it returns "".
func splitPeer(verb *cobra.Command, args []string) string {
	peer, agent, _ := strings.Cut(strings.Join(args, "/"), "/")
	hasFlag := verb.Flags().Lookup("agent") != nil
	switch {
	case !strings.HasSuffix(verb.Use, " PEER") || identity.CheckName(peer) != nil || !client.IsPlainAgentName(agent):
		return ""
	case hasFlag:
		return verb.CommandPath() + " " + peer + " --agent " + agent
	case len(args) == 1:
		return verb.CommandPath() + " " + peer
	}
	return "" // several peers
}

// formatExample returns the first example of a verb, with the peer that was typed if it is one. A task of the example
// is left open: it would be worked on.
func formatExample(verb *cobra.Command, peer string) string {
	example := strings.TrimSpace(explained.Split(strings.TrimLeft(verb.Example, " "), 2)[0])
	if FirstOrEmpty(ListArgNames(verb)) == "PEER" && isPeer(peer) {
		example = strings.Replace(example, " desk", " "+peer, 1)
	}
	if verb.Name() == "delegate" {
		example = strings.Replace(example, "Run the test suite", "…", 1)
	}
	return example
}

// explained matches what follows the command of an example.
var explained = regexp.MustCompile(`  |\n`)

// isPeer reports whether an argument looks like PEER or PEER/AGENT.
func isPeer(arg string) bool {
	name, _, _ := strings.Cut(arg, "/")
	return identity.CheckName(name) == nil
}

// unfitArg is the error of an argument that is missing or empty.
type unfitArg struct{ name, how string }

func (u unfitArg) Error() string { return u.name + " is " + u.how }

// withInstead adds to the error of arguments what to type instead, if that is known.
func (f *Frame) withInstead(cmd *cobra.Command, args []string, err error) error {
	names := ListArgNames(cmd)
	unfit, isUnfit := errors.AsType[unfitArg](err)
	split := splitPeer(cmd, args)
	switch {
	case split != "":
		return Instead{errors.New("PEER is a name without an agent"), split}
	case len(args) == 2 && len(names) == 2 && names[0] == "PEER" && slices.Contains(textArgs, names[1]) && strings.ContainsAny(args[0], " ?") && isPeer(args[1]):
		return Instead{UsageErrorf("PEER and %s are swapped", names[1]), formatTyped(cmd, []string{args[1], args[0]})}
	case isUnfit && len(args) == 0 && unfit.name == "PEER":
		return f.namePeers(cmd, err)
	case isUnfit && len(args) == 0 && listedBy[cmd.Name()] != "":
		return Instead{fmt.Errorf("%w: acpctl %s lists them", err, listedBy[cmd.Name()]), formatExample(cmd, "")}
	case isUnfit && !f.InTTY && unfit.how == "missing" && slices.Contains(pipedArgs, unfit.name):
		return Instead{fmt.Errorf("%w: - reads it from standard input", err), formatExample(cmd, FirstOrEmpty(args))}
	case isUnfit:
		return Instead{err, formatExample(cmd, FirstOrEmpty(args))}
	case err != nil && len(names) == 0 && len(args) == 1 && cmd.Flags().Lookup("name") != nil && isPeer(args[0]):
		return Instead{fmt.Errorf("%q is one argument too many", args[0]), cmd.CommandPath() + " --name " + args[0]}
	case err != nil && strings.Contains(cmd.Use, " PEER[,PEER…] ") && len(args) > len(names) && f.isPeerName(cmd.Context(), args[1]):
		return Instead{UsageErrorf("several peers are one argument, with commas"), formatTyped(cmd, append([]string{args[0] + "," + args[1]}, args[2:]...))}
	case err != nil && len(names) > 0 && len(args) > len(names) && slices.Contains(textArgs, strings.Trim(names[len(names)-1], "[]")):
		n := len(names) - 1
		joined := append(slices.Clone(args[:n]), strings.Join(args[n:], " "))
		return Instead{err, formatTyped(cmd, joined)}
	}
	return err
}

// namePeers adds to the error that PEER is missing which peers there are.
func (f *Frame) namePeers(cmd *cobra.Command, missing error) error {
	names, err := f.listPeers(cmd.Context())
	switch {
	case err == nil && len(names) == 0:
		return Instead{fmt.Errorf("%w, and there is no peer yet", missing), "acpctl up, which connects another machine"}
	case len(names) > 0:
		missing = fmt.Errorf("%w: it may be %s", missing, strings.Join(names, ", "))
	}
	return Instead{missing, formatExample(cmd, FirstOrEmpty(names))}
}

// isPeerName reports whether a trusted peer is called so.
func (f *Frame) isPeerName(ctx context.Context, name string) bool {
	peers, _ := f.listPeers(ctx)
	return slices.Contains(peers, name)
}

// listPeers returns the names of the trusted peers, first of those that are connected.
func (f *Frame) listPeers(ctx context.Context) (names []string, err error) {
	defer func(understood bool) { f.understood = understood }(f.understood) // which the command line is not yet
	if err := f.ChooseDaemon(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	peers, err := f.Daemon.Peers(ctx)
	for _, state := range []client.PeerState{client.PeerConnected, client.PeerTrusted} {
		for _, p := range peers {
			if p.Name != "" && p.State == state {
				names = append(names, client.Line(p.Name))
			}
		}
	}
	return names, err
}

// reportUnknownVerb returns the error of a word that is not a verb.
func reportUnknownVerb(cmd *cobra.Command, args []string) error {
	problem := fmt.Sprintf("unknown verb %q", args[0])
	if args[0] == "" { // which all verbs begin with
		return errors.New(problem + ": name one of those that the help lists")
	}
	if err := reportRemoved(cmd, args[0]); err != nil {
		return err
	}
	if !cmd.HasParent() {
		if hint := HintForWord(cmd, args[0], args[1:]); hint != "" {
			return Instead{errors.New(problem), hint}
		}
	}
	if path := filesWords[args[0]]; cmd.Name() == "files" && path != "" {
		if verb, _, err := cmd.Root().Find(strings.Fields(path)); err == nil {
			return Instead{errors.New(problem), formatTyped(verb, args[1:])}
		}
	}
	cmd.SuggestionsMinimumDistance = 2
	near := slices.DeleteFunc(cmd.SuggestionsFor(args[0]), func(verb string) bool { return verb[0] != args[0][0] })
	if len(near) > 0 {
		return errors.New(problem + ": did you mean " + strings.Join(near, " or ") + "?")
	}
	if cmd.Name() == "agents" && isPeer(args[0]) {
		return Instead{errors.New(problem + ", and the agents of a peer are listed by discover"), cmd.Root().Name() + " discover " + args[0]}
	}
	return errors.New(problem)
}
