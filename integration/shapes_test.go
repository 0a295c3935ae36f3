package integration

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/cli"
	"github.com/acpd/acpd/internal/cli/clitest"
	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

var updateShapes = flag.Bool("update-shapes", false, "add to shapes/*.txt what has been added to what acpctl prints with --json, and to docs/local-api.json")

// withoutJSON are the verbs that print nothing of their own with --json.
var withoutJSON = []string{
	"channel", "config", "debug", "oacp", "service", "wake", // they show the verbs below them
	"mcp",          // it speaks MCP
	"service logs", // it shows the log as the system has it
}

// shapes has, by verbs, the fields of what they print with --json, as lines: path and type.
type shapes map[string]map[string]bool

// add adds the fields of JSON values, one after the other.
func (s shapes) add(t *testing.T, verb, printed string) {
	t.Helper()
	d := jsontext.NewDecoder(strings.NewReader(printed))
	for n := 0; ; n++ {
		text, err := d.ReadValue()
		if err != nil {
			if n == 0 || strings.TrimSpace(printed[d.InputOffset():]) != "" {
				t.Errorf("acpctl %s --json prints %q: %v", verb, printed, err)
			}
			return
		}
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		s.addValue(verb, "", v)
	}
}

func (s shapes) addValue(verb, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		s.addLine(verb, path, "object")
		for name, member := range v {
			s.addValue(verb, path+"."+name, member)
		}
	case []any:
		s.addLine(verb, path, "array")
		for _, item := range v {
			s.addValue(verb, path+"[]", item)
		}
	case string:
		s.addLine(verb, path, "string")
	case float64:
		s.addLine(verb, path, "number")
	case bool:
		s.addLine(verb, path, "boolean")
	default:
		s.addLine(verb, path, "null")
	}
}

func (s shapes) addLine(verb, path, kind string) {
	if s[verb] == nil {
		s[verb] = make(map[string]bool)
	}
	s[verb][fmt.Sprintf("%s: %s %s", verb, cmp.Or(path, "."), kind)] = true
}

// list returns all lines, sorted.
func (s shapes) list() (lines []string) {
	for _, of := range s {
		for line := range of {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// checkShapes compares lines with those of a file, to which lines are only ever added.
func checkShapes(t *testing.T, path string, now []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !*updateShapes {
		t.Fatal(err)
	}
	recorded := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	for _, line := range recorded {
		if !slices.Contains(now, line) {
			t.Errorf("%s is gone, or has another type: programs read it, so bring it back (a field that is added may stand beside it)", line)
		}
	}
	added := slices.DeleteFunc(slices.Clone(now), func(line string) bool { return slices.Contains(recorded, line) })
	if len(added) > 0 && *updateShapes {
		all := append(recorded, added...)
		slices.Sort(all)
		if err := os.WriteFile(path, []byte(strings.Join(all, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, line := range added {
		t.Errorf("%s is new: say so in CHANGELOG.md, and record it by go test ./integration -run Shapes -update-shapes", line)
	}
}

// What each verb of acpctl prints with --json has what it had before.
func TestShapesOfVerbs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what a service is like is what systemd says; all else is the same everywhere")
	}
	all := make(shapes)
	t.Run("of services", func(t *testing.T) { runServiceVerbs(t, all) }) // it sets the environment
	t.Parallel()
	t.Run("of answers", func(t *testing.T) { runAnsweredVerbs(t, all) })
	t.Run("of daemons", func(t *testing.T) { runVerbsWithDaemons(t, all) })
	if t.Failed() {
		return
	}
	for _, verb := range listVerbs(cli.NewRootCmd(frame.NewFrame(), ""), "") {
		if all[verb] == nil && !slices.Contains(withoutJSON, verb) {
			t.Errorf("acpctl %s --json is not run: add it to answeredVerbs or runVerbsWithDaemons, or to withoutJSON", verb)
		}
	}
	checkShapes(t, "shapes/verbs.txt", all.list())
}

// listVerbs returns the verbs that do something.
func listVerbs(cmd *cobra.Command, path string) (verbs []string) {
	for _, verb := range cmd.Commands() {
		whole := strings.TrimSpace(path + " " + verb.Name())
		if verb.Runnable() && !verb.Hidden {
			verbs = append(verbs, whole)
		}
		verbs = append(verbs, listVerbs(verb, whole)...)
	}
	return verbs
}

// answeredVerbs are command lines of verbs that print what a method of the local API answers. They
// run with a daemon that answers with every field filled in. ID, PEER, NAME and FILE are replaced.
var answeredVerbs = []string{
	"agents",
	"agents --spent",
	"agents mute NAME --for 1h",
	"approvals",
	"approvals always ID",
	"approvals no ID",
	"approvals yes ID",
	"bench PEER -n 1 --size 1k",
	"cancel ID",
	"debug pprof heap -o FILE",
	"delegate PEER NAME",
	"delegate PEER NAME --wait",
	"discover PEER",
	"inbox",
	"inbox --ack 1",
	"inbox --taken",
	"invite",
	"invite --list",
	"invite --revoke all",
	"join NAME",
	"log-level",
	"log-level debug --for 1m",
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
	"reload",
	"reply ID NAME",
	"status",
	"status --budget",
	"tasks",
	"trust PEER",
	"untrust PEER",
	"usage",
	"wait ID",
	"wait PEER/NAME --online",
	"wake allow PEER",
	"wake answers on",
	"wake list",
	"wake revoke PEER",
	"whoami",
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
	client.MethodUntrust:      allFields[client.Untrusted](),
	client.MethodPending:      allFields[client.Pending](),
	client.MethodPolicy:       allFields[client.Policy](),
	client.MethodWakeAllow:    allFields[client.WakeRules](),
	client.MethodWakeList:     allFields[client.WakeRules](),
	client.MethodWakeRevoke:   allFields[client.Revoked](),
	client.MethodWakeAnswers:  allFields[client.WakeRules](),
	client.MethodApprovals:    allFields[client.Approvals](),
	client.MethodApprove:      allFields[client.Approval](),
	client.MethodAgents:       allFields[client.Agents](),
	client.MethodMuteAgent:    allFields[client.Muted](),
	client.MethodOACPBind:     allFields[client.OACPBinding](),
	client.MethodOACPUnbind:   allFields[client.OACPBinding](),
	client.MethodOACPBindings: allFields[client.OACPBindings](),
	client.MethodOACPQueue:    allFields[client.OACPQueue](),
	client.MethodOACPDrop:     allFields[client.OACPDropped](),
	client.MethodReload:       allFields[client.Reloaded](),
	client.MethodLogLevel:     allFields[client.LogLevel](),
	client.MethodPprof:        &client.Pprof{Data: "bG8=", Size: 2},
	client.MethodDrain:        &client.Drained{AllEnded: true, Open: allFields[client.Drained]().Open},
}

func runAnsweredVerbs(t *testing.T, all shapes) {
	f := clitest.NewFakeDaemon(t, func(f *frame.Frame) *cobra.Command { return cli.NewRootCmd(f, "1.0.0") })
	for method, answer := range answers {
		f.SetAnswer(method, answer)
	}
	names := strings.NewReplacer("ID", clitest.SomeID.String(), "PEER", clitest.DeskID.String(), "NAME", "desk", "FILE", filepath.Join(t.TempDir(), "heap.pprof"))
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

	// Several peers are told at once, a ping is lost, and a delegation has a partial result before its final one.
	f.SetAnswer(client.MethodNotify, []client.Receipt{*allFields[client.Receipt]()})
	run("notify PEER,PEER NAME 1")
	lost := allFields[kinds.Error]()
	f.SetAnswer(client.MethodPing, lost)
	run("ping PEER -c 1")
	lost.Code = kinds.Invalid // which ends a benchmark
	pings := 0
	f.SetHandler(client.MethodPing, func(*jsonrpc.Request) (any, error) {
		if pings++; pings > 1 { // the first one only opens the connection
			return nil, lost
		}
		return allFields[client.PingAnswer](), nil
	})
	run("bench PEER -n 1")
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

// runVerbsWithDaemons runs the verbs that print what no method answers: those of channels, of
// mailboxes, and those that serve and set up.
func runVerbsWithDaemons(t *testing.T, all shapes) {
	desk, laptop := newMachine(t, "desk"), newMachine(t, "laptop")
	if err := os.WriteFile(filepath.Join(laptop.Home, "config.yaml"), []byte("channels: {open_to: [desk]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	desk.StartDaemon()
	laptop.StartDaemon()
	befriend(t, desk, laptop)
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
	run("oacp doctor", "--project", "demo")
	verify := desk.StartAcpctl("oacp", "verify", file("reviewer"), "--json")
	verify.AwaitEnd() // the message is not signed
	all.add(t, "oacp verify", verify.Stdout.String())
	run("oacp reply", "demo", filepath.Base(file("reviewer")), "--from", "reviewer", "--body", "yes")
	run("oacp done", "demo", "reviewer", filepath.Base(file("reviewer")))

	serving := desk.StartAcpctl("serve", "--name", "echo", "--json", "--", "sed", "s/question/summary/")
	await.Until(t, "echo is attached", func() bool { return len(desk.status().Agents) == 1 })
	await.Until(t, "the laptop is back", func() bool { return laptop.FindPeer(desk.ID).State == client.PeerConnected })
	laptop.MustOutput("query", "desk/echo", "Ready?")
	laptop.MustOutput("delegate", "desk/echo", "Build.", "--wait")
	await.Until(t, "what was served is told", func() bool { return strings.Count(serving.Stdout.String(), "\n") >= 2 })
	serving.Stop()
	all.add(t, "serve", serving.Stdout.String())

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

	// What else a doctor finds, and so the exit code, is the machine's.
	if err := os.Chmod(filepath.Join(desk.Home, "trust.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	examine := desk.StartAcpctl("doctor", "--fix", "--json")
	examine.AwaitEnd()
	all.add(t, "doctor", examine.Stdout.String())
	run("doctor", "--bundle", filepath.Join(folder, "bug.tar.gz"), "--yes")

	// A backup is restored where another daemon was, which did not trust the laptop.
	passphrase, archive := filepath.Join(folder, "passphrase"), filepath.Join(folder, "desk.tar")
	if err := os.WriteFile(passphrase, []byte("four words no song has\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("backup", archive, "--identity", "--passphrase-file", passphrase)
	spare := running(t, "spare")
	spare.StopDaemon()
	all.add(t, "restore", spare.MustOutput("restore", archive, "--passphrase-file", passphrase, "--force", "--yes", "--json"))
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
WatchdogUSec=3min
WatchdogTimestamp=Thu 2026-11-26 16:05:00 UTC
StatusText=1 peer connected
FragmentPath=/etc/systemd/system/acpd.service
DropInPaths=/etc/systemd/system/acpd.service.d/local.conf
UnitFileState=enabled
ExecStart={ path=/usr/bin/acpd ; argv[]=/usr/bin/acpd --home $AT ; pid=0 }
END
esac
`
	for name, script := range map[string]string{"systemctl": show, "acpd": "#!/bin/sh\n", "loginctl": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(user, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"HOME": user, "PATH": user + ":" + os.Getenv("PATH"), "ACP_HOME": "", "XDG_CONFIG_HOME": "", "AT": f.Home} {
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
	run("service install", "--print", 0)
	run("service install", "", 0)
	run("service status", "", 0)
	f.SetAnswer(client.MethodStatus, allFields[kinds.Error]())
	run("service status", "", 0)
	run("service uninstall", "", 0)
}

// allFields returns a T whose fields are all set.
func allFields[T any]() *T {
	v := new(T)
	fill(reflect.ValueOf(v).Elem(), nil)
	return v
}

// set are the values of types that may not hold anything.
var set = map[reflect.Type]any{
	reflect.TypeFor[identity.ID]():          clitest.DeskID,
	reflect.TypeFor[wire.MessageID]():       clitest.SomeID,
	reflect.TypeFor[time.Time]():            time.Unix(1795000000, 0).UTC(),
	reflect.TypeFor[time.Duration]():        time.Second,
	reflect.TypeFor[wire.Payload]():         wire.Payload(`{"summary":"s","status":"completed","outcome":"o","progress":0.5,"data":{"n":1},"accepted":true,"question":"q","topic":"t"}`),
	reflect.TypeFor[jsontext.Value]():       jsontext.Value(`{"n":1}`),
	reflect.TypeFor[client.TaskState]():     client.TaskCompleted,
	reflect.TypeFor[client.TaskDirection](): client.Given,
	reflect.TypeFor[kinds.Code]():           kinds.Overloaded,
}

// fill sets all that v holds. The types are those that v stands in, which are not filled again.
func fill(v reflect.Value, within []reflect.Type) {
	if value, ok := set[v.Type()]; ok {
		v.Set(reflect.ValueOf(value))
		return
	}
	if slices.Contains(within, v.Type()) {
		return
	}
	within = append(within, v.Type())
	switch v.Kind() {
	case reflect.Struct:
		for n := range v.NumField() {
			if v.Field(n).CanSet() && v.Type().Field(n).Name != "Next" { // there is no next page
				fill(v.Field(n), within)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), within)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), within)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, within)
		fill(value, within)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	}
}
