package integration

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/internal/app/cli"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// answeredVerbs are command lines of verbs that print what a method of the local API answers. They
// run with a daemon that answers with every field filled in. ID, PEER, NAME and ROSTER are replaced.
var answeredVerbs = []string{
	"agents",
	"agents --spent",
	"agents mute NAME --for 1h",
	"wake notify",
	"wake test NAME",
	"approvals",
	"approvals always ID",
	"approvals no ID",
	"approvals yes ID",
	"cancel ID",
	"cert request",
	"cert show",
	"cert check ROSTER",
	"delegate PEER NAME",
	"delegate PEER NAME --wait",
	"discover PEER",
	"files",
	"files ask PEER",
	"files rm ID",
	"inbox",
	"inbox --ack 1",
	"inbox --taken",
	"invite",
	"invite --list",
	"invite --revoke all",
	"join NAME",
	"notify PEER NAME 1",
	"oacp bind NAME NAME PEER",
	"oacp bindings",
	"oacp queue",
	"oacp queue drop NAME NAME NAME",
	"oacp unbind NAME NAME",
	"peers",
	"ping PEER -c 1",
	"policy PEER query",
	"query PEER NAME",
	"relay add tls://nats.example.org",
	"relay list",
	"relay nkey",
	"relay remove NAME",
	"relay test",
	"reload",
	"reply ID NAME",
	"status",
	"status --budget",
	"tasks",
	"trust PEER",
	"trust --file ROSTER --yes",
	"untrust PEER",
	"usage",
	"wait ID",
	"wait PEER/NAME --online",
	"waiting",
	"wake allow PEER",
	"wake answers on",
	"wake list",
	"wake revoke PEER",
	"whoami",
	"whoami --roster",
	"completion bash",
	"version",
}

// answers are what the methods answer.
var answers = map[string]any{
	client.MethodPing:         allFields[client.PingAnswer](),
	client.MethodDiscover:     allFields[client.Answer](),
	client.MethodQuery:        allFields[client.Answer](),
	client.MethodDelegate:     allFields[client.DelegateAnswer](),
	client.MethodCancel:       allFields[client.CancelAnswer](),
	client.MethodAnswer:       allFields[client.Answered](),
	client.MethodNotify:       allFields[client.Receipt](),
	client.MethodResult:       allFields[client.Receipt](),
	client.MethodError:        allFields[client.Receipt](),
	client.MethodWhoami:       allFields[client.Whoami](),
	client.MethodStatus:       allFields[client.Status](),
	client.MethodBudget:       allFields[client.Budget](),
	client.MethodBudgetSpent:  allFields[client.Spent](),
	client.MethodPeers:        allFields[client.Peers](),
	client.MethodTasks:        allFields[client.Tasks](),
	client.MethodTask:         allFields[client.Task](),
	client.MethodWait:         allFields[client.Task](),
	client.MethodInbox:        allFields[client.Inbox](),
	client.MethodAck:          allFields[client.Acked](),
	client.MethodInvite:       allFields[client.Invitation](),
	client.MethodInvitations:  allFields[client.Invitations](),
	client.MethodRevoke:       allFields[client.Revoked](),
	client.MethodJoin:         allFields[client.NamedPeer](),
	client.MethodTrust:        allFields[client.NamedPeer](),
	client.MethodTrustRoster:  allFields[client.Roster](),
	client.MethodUntrust:      allFields[client.Untrusted](),
	client.MethodPending:      allFields[client.Pending](),
	client.MethodCertificate:  allFields[client.Certificates](),
	client.MethodPolicy:       allFields[client.Policy](),
	client.MethodWakeAllow:    allFields[client.WakeRules](),
	client.MethodWakeList:     allFields[client.WakeRules](),
	client.MethodWakeRevoke:   allFields[client.Revoked](),
	client.MethodWakeAnswers:  allFields[client.WakeRules](),
	client.MethodApprovals:    allFields[client.Approvals](),
	client.MethodApprove:      allFields[client.Approval](),
	client.MethodAgents:       allFields[client.Agents](),
	client.MethodMuteAgent:    allFields[client.Muted](),
	client.MethodWakeTest:     client.WakeTested{Agent: "claude", Posted: true},
	client.MethodWakeNotify:   allFields[client.OwnerNotify](),
	client.MethodFiles:        allFields[client.Files](),
	client.MethodFileRemove:   allFields[client.File](),
	client.MethodFileAsk:      struct{}{},
	client.MethodOACPBind:     allFields[client.OACPBinding](),
	client.MethodOACPUnbind:   allFields[client.OACPBinding](),
	client.MethodOACPBindings: allFields[client.OACPBindings](),
	client.MethodOACPQueue:    allFields[client.OACPQueue](),
	client.MethodOACPDrop:     allFields[client.OACPDropped](),
	client.MethodRelayAdd:     allFields[client.RelayAdded](),
	client.MethodRelayList:    allFields[client.Relays](),
	client.MethodRelayNkey:    allFields[client.RelayNkey](),
	client.MethodRelayRemove:  struct{}{},
	client.MethodRelayTest:    allFields[client.RelayChecks](),
	client.MethodReload:       allFields[client.Reloaded](),
	client.MethodTraffic:      allFields[client.TrafficAnswer](),
	client.MethodDrain:        &client.Drained{AllEnded: true, Open: allFields[client.Drained]().Open},
}

func runAnsweredVerbs(t *testing.T, all shapes) {
	f := clitest.NewFakeDaemon(t, func(f *frame.Frame) *cobra.Command { return cli.NewRootCmd(f, "1.0.0") })
	for method, answer := range answers {
		f.SetAnswer(method, answer)
	}
	roster := filepath.Join(t.TempDir(), "roster.yaml")
	if err := os.WriteFile(roster, []byte("peers:\n- {id: "+clitest.DeskID.String()+", name: desk}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("ROSTER", roster, "ID", clitest.SomeID.String(), "PEER", clitest.DeskID.String(), "NAME", "desk")
	run := func(line string) {
		t.Helper()
		args := strings.Fields(names.Replace(line))
		verb, _, err := cli.NewRootCmd(frame.NewFrame(), "").Find(args)
		if err != nil {
			t.Fatal(err)
		}
		got := f.Run(append(args, "--json")...)
		all.add(t, strings.TrimPrefix(verb.CommandPath(), "acpctl "), got.Out)
		if t.Failed() {
			t.Fatalf("acpctl %s: %+v", line, got)
		}
	}
	for _, line := range answeredVerbs {
		run(line)
	}

	// An entry of a roster has addresses, several peers are told at once, a ping is lost, and a delegation has a partial
	// result before its final one.
	me := allFields[client.Whoami]()
	me.HidesAddrs = false
	f.SetAnswer(client.MethodWhoami, me)
	run("whoami --roster")
	f.SetAnswer(client.MethodNotify, []client.Receipt{*allFields[client.Receipt]()})
	run("notify PEER,PEER NAME 1")
	lost := allFields[kinds.Error]()
	f.SetAnswer(client.MethodPing, lost)
	run("ping PEER -c 1")
	var waits sync.Mutex
	open := allFields[client.Task]()
	open.State, open.Result = client.TaskAccepted, nil
	f.SetHandler(client.MethodWait, func(*jsonrpc.Request) (any, error) {
		waits.Lock()
		defer waits.Unlock()
		task := open
		open = allFields[client.Task]()
		return task, nil
	})
	run("wait ID --follow")

	// A connection carries a file after the answer.
	f.SetHandler(client.MethodFileSend, func(r *jsonrpc.Request) (any, error) {
		conn, err := r.TakeOver(nil)
		if err == nil {
			json.MarshalWrite(conn, &client.FileSendLine{Done: allFields[client.FileSent]()})
			io.WriteString(conn, "\n")
		}
		return nil, err
	})
	run("send PEER ROSTER")
	empty := allFields[client.File]()
	empty.Size, empty.SHA256 = 0, hex.EncodeToString(sha256.New().Sum(nil))
	f.SetHandler(client.MethodFileTake, func(r *jsonrpc.Request) (any, error) {
		_, err := r.TakeOver(empty)
		return nil, err
	})
	run("files save ID " + filepath.Join(t.TempDir(), "saved"))

	all.add(t, "tail", runTail(t, f))

	// reply prints a receipt where it reports on a delegation that was taken.
	taken := allFields[client.Task]()
	taken.Direction = client.Taken
	f.SetAnswer(client.MethodTask, taken)
	f.SetAnswer(client.MethodTasks, &client.Tasks{Tasks: []client.Task{*taken}})
	run("reply ID NAME")

	f.SetAnswer(client.MethodWhoami, kinds.Errorf(kinds.DaemonUnavailable, "gone"))
	run("drain")

	// An error is one object for all verbs; those of oacp that are the reference's tell it in its way.
	f.SetAnswer(client.MethodQuery, allFields[kinds.Error]())
	got := f.Run("query", clitest.DeskID.String(), "Ready?", "--json")
	all.add(t, "(an error)", got.Out)
	if got.Code == 0 {
		t.Errorf("%+v", got)
	}
}

// runTail runs a tail until it has printed what was lost, an entry and an event.
func runTail(t *testing.T, f *clitest.FakeDaemon) string {
	ctx, stop := context.WithCancel(t.Context())
	asked, ended := 0, make(chan struct{})
	defer close(ended)
	f.SetHandler(client.MethodTraffic, func(*jsonrpc.Request) (any, error) {
		if asked++; asked > 1 {
			<-ended
		}
		return allFields[client.TrafficAnswer](), nil
	})
	f.SetHandler(client.MethodSubscribe, func(*jsonrpc.Request) (any, error) {
		e := allFields[client.Event]()
		e.Type = client.EventUp
		go f.SubscribedConn().Notify(client.NotificationEvent, e)
		return struct{}{}, nil
	})
	var out strings.Builder
	var stderr bytes.Buffer
	left := 3
	terminal := ui.Terminal{In: strings.NewReader(""), Err: &stderr, Out: writerFunc(func(b []byte) (int, error) {
		if left--; left == 0 {
			stop()
		}
		return out.Write(b)
	})}
	if code := f.RunWithoutHome(ctx, terminal, "--home", f.Home, "tail", "--json"); code != 0 {
		t.Fatalf("exit code %d, %s", code, &stderr)
	}
	return out.String()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// runVerbsWithDaemons runs the verbs that print what no method answers: those of channels, of
// mailboxes, and those that serve and set up.
func runVerbsWithDaemons(t *testing.T, all shapes) {
	desk, laptop := newMachine(t, "desk"), newMachine(t, "laptop")
	if err := os.WriteFile(filepath.Join(laptop.Home, "config.yaml"), []byte("channels: {open_to: [desk]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	desk.StartDaemon()
	laptop.StartDaemon()
	live.Befriend(desk.Machine, laptop.Machine)
	run := func(verb string, args ...string) string {
		t.Helper()
		printed := desk.MustOutput(append(append(strings.Fields(verb), args...), "--json")...)
		all.add(t, verb, printed)
		return printed
	}
	id := func(printed string) string {
		t.Helper()
		var made struct {
			ID      string `json:"id"`
			Channel struct {
				ID string `json:"id"`
			} `json:"channel"`
		}
		if err := json.Unmarshal([]byte(printed), &made); err != nil {
			t.Fatal(printed, err)
		}
		return cmp.Or(made.ID, made.Channel.ID)
	}

	channel := id(run("channel create", "review", "--title", "Ship it", "--member", "planner", "--member", "reviewer", "--audit", "--ttl", "1h", "--keep", "5", "--as", "planner"))
	run("channel send", channel, "hello", "--as", "reviewer")
	request := id(run("channel send", channel, "Ready?", "--request", "--to", "reviewer", "--expires", "10m", "--as", "planner"))
	run("channel reply", channel, request, "yes", "--as", "reviewer")
	asking := desk.StartAcpctl("channel", "ask", channel, "reviewer", "Sure?", "--as", "planner", "--json")
	var question string
	await.Until(t, "the reviewer is asked", func() bool {
		for line := range strings.Lines(desk.MustOutput("channel", "tail", channel, "--as", "reviewer")) {
			if fields := strings.Split(line, "\t"); strings.Contains(line, "Sure?") {
				question = fields[4]
			}
		}
		return question != ""
	})
	desk.MustOutput("channel", "reply", channel, question, "yes", "--as", "reviewer")
	all.add(t, "channel ask", asking.AwaitExit(0))
	run("channel list")
	run("channel show", channel)
	run("channel tail", channel)
	var shown struct {
		Intent string `json:"intent_id"`
	}
	if err := json.Unmarshal([]byte(desk.MustOutput("channel", "show", channel, "--json")), &shown); err != nil {
		t.Fatal(err)
	}
	run("channel homes", shown.Intent)
	run("channel close", channel)

	theirs := strings.TrimSpace(laptop.MustOutput("channel", "create", "away", "--title", "Elsewhere", "--member", "planner@desk", "--as", "owner"))
	desk.MustOutput("channel", "send", theirs, "first", "--as", "planner")
	laptop.StopDaemon()
	desk.MustOutput("channel", "send", theirs, "later", "--as", "planner")
	run("channel unsent", "--as", "planner")
	laptop.StartDaemon()

	folder := desk.Home // its mailboxes
	run("oacp init", "demo", "--agents", "planner,reviewer")
	file := func(agent string) string {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(folder, "oacp/projects/demo/agents", agent, "inbox/*.yaml"))
		if err != nil || len(names) == 0 {
			t.Fatal(names, err)
		}
		return names[0]
	}
	desk.MustOutput("oacp", "watch", "--agent", "reviewer", "--project", "demo") // what is new from now on
	send := []string{"demo", "--from", "planner", "--to", "reviewer", "--type", "question", "--subject", "Ready?", "--body", "x", "--priority", "P1", "--expires", "2h", "--channel", "review", "--context-keys", "k", "--related-pr", "1"}
	run("oacp send", append(send, "--dry-run")...)
	run("oacp send", send...)
	run("oacp inbox", "demo", "--all")
	run("oacp inbox", "demo", "--agent", "reviewer")
	run("oacp watch", "--agent", "reviewer", "--project", "demo", "--show-archived")
	run("oacp read", "demo", "reviewer", filepath.Base(file("reviewer")))
	run("oacp validate", file("reviewer"))
	run("oacp reply", "demo", filepath.Base(file("reviewer")), "--from", "reviewer", "--body", "yes")
	run("oacp done", "demo", "reviewer", filepath.Base(file("reviewer")))

	serving := desk.StartAcpctl("serve", "--name", "echo", "--json", "--", "sed", "s/question/summary/")
	await.Until(t, "echo is attached", func() bool { return len(desk.status().Agents) == 1 })
	await.Until(t, "the laptop is back", func() bool { return laptop.FindPeer(desk.ID).State == client.PeerConnected })
	laptop.MustOutput("query", "desk/echo", "Ready?")
	all.add(t, "query --all", laptop.MustOutput("query", "--all", "Ready?", "--json"))
	laptop.MustOutput("delegate", "desk/echo", "Build.", "--wait")
	await.Until(t, "what was served is told", func() bool { return strings.Count(serving.Stdout.String(), "\n") >= 2 })
	serving.Stop()
	all.add(t, "serve", serving.Stdout.String())

	page := desk.StartAcpctl("web", "--no-open", "--json")
	await.Until(t, "the link is printed", func() bool { return strings.HasSuffix(page.Stdout.String(), "\n") })
	page.Signal(syscall.SIGINT)
	all.add(t, "web", page.AwaitExit(0))

	run("setup", "claude", "--yes")
	run("setup", "claude", "--dry-run")
	run("setup", "claude", "--undo", "--yes")

	folder = t.TempDir()
	wrong := filepath.Join(folder, "config.yaml")
	if err := os.WriteFile(wrong, []byte("listen: [nowhere]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := desk.RunAcpctl(frame.ExitUsage, "config", "check", wrong, "--json")
	all.add(t, "config check", check.Stdout.String())

	// What else a doctor finds, and so the exit code, is the machine's. The daemon does not write the folder's mode again.
	if err := os.Chmod(desk.Home, 0o755); err != nil {
		t.Fatal(err)
	}
	examine := desk.StartAcpctl("doctor", "--fix", "--json")
	examine.AwaitEnd()
	all.add(t, "doctor", examine.Stdout.String())
	run("doctor", "--bundle", filepath.Join(folder, "bug.json"))

	// A backup is restored where another daemon was.
	passphrase, archive := filepath.Join(folder, "passphrase"), filepath.Join(folder, "desk.tar")
	if err := os.WriteFile(passphrase, []byte("four words no song has\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("backup", archive, "--identity", "--passphrase-file", passphrase)
	spare := running(t, "spare")
	spare.StopDaemon()
	if err := os.RemoveAll(spare.Home); err != nil {
		t.Fatal(err)
	}
	all.add(t, "restore", spare.MustOutput("restore", archive, "--passphrase-file", passphrase, "--json"))
}

// runServiceVerbs runs the verbs of services on a machine whose systemd does as it is told, and
// whose service is a daemon that answers with every field filled in.
func runServiceVerbs(t *testing.T, all shapes) {
	root, user := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	f := clitest.NewFakeDaemon(t, func(f *frame.Frame) *cobra.Command {
		f.MachineRoot = root
		return cli.NewRootCmd(f, "1.0.0")
	})
	f.SetAnswer(client.MethodStatus, allFields[client.Status]())
	const show = `#!/bin/sh
case "$*" in *StatusText*) cat <<END
LoadState=loaded
ActiveState=active
SubState=running
Result=success
MainPID=7
ActiveEnterTimestamp=Thu 2026-11-26 16:00:00 UTC
ExecMainExitTimestamp=Thu 2026-11-26 15:59:00 UTC
ExecMainCode=1
ExecMainStatus=1
NRestarts=1
StatusText=1 peer connected
FragmentPath=/etc/systemd/system/acpd.service
UnitFileState=enabled
END
esac
`
	for name, script := range map[string]string{"systemctl": show, "acpd": "#!/bin/sh\n", "loginctl": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(user, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"HOME": user, "PATH": user + ":" + os.Getenv("PATH"), "ACP_HOME": "", "XDG_CONFIG_HOME": ""} {
		t.Setenv(name, value)
	}
	run := func(verb, flags string, code int) {
		t.Helper()
		got := f.Run(append(strings.Fields(verb+" "+flags), "--json")...)
		all.add(t, verb, got.Out)
		if got.Code != code {
			t.Errorf("%s: %+v", verb, got)
		}
	}
	run("service install", "", 0)
	run("service status", "", 0)
	run("service uninstall", "", 0)
}
