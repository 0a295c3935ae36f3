package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// findTool returns the path of a program that some tests need. Without it they are skipped, but
// not by continuous integration.
func findTool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil && name == "python3" {
		err = exec.Command(path, "-c", "import sys; sys.exit(sys.version_info < (3, 11))").Run()
	}
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("needs %s (python3: 3.11 or newer): nothing is left out here", name)
	}
	t.Skipf("no %s (python3: 3.11 or newer)", name)
	return ""
}

// buildProgram builds a command, or several into a folder.
func buildProgram(t *testing.T, to, pkg string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", to, pkg).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// language is one in which there are examples.
type language struct{ answer, ask, delegate []string }

// readExamples returns the command lines of the examples, by their language.
func readExamples(t *testing.T) map[string]language {
	t.Helper()
	dir := t.TempDir()
	buildProgram(t, dir+"/", "../examples/go/...")
	all := map[string]language{"go": {[]string{dir + "/answer"}, []string{dir + "/ask"}, []string{dir + "/delegate"}}}
	for name, tool := range map[string][2]string{"python": {"python3", "py"}, "node": {"node", "mjs"}, "shell": {"sh", "sh"}} {
		line := func(what string) []string {
			path, err := filepath.Abs(filepath.Join("../examples", name, what+"."+tool[1]))
			if err != nil {
				t.Fatal(err)
			}
			return []string{findTool(t, tool[0]), path}
		}
		all[name] = language{line("answer"), line("ask"), line("delegate")}
	}
	return all
}

// agentSocket is the socket of the agents' folder.
func (m *machine) agentSocket() string {
	return filepath.Join(m.Home, client.AgentFolder, client.SocketName)
}

// startAsAgent starts a program that finds the agents' folder by ACP_SOCKET.
func (m *machine) startAsAgent(argv []string, more ...string) *live.Process {
	m.T.Helper()
	p := m.PrepareProcess(slices.Concat(argv, more)...)
	sources, err := filepath.Abs("../python/acpd")
	if err != nil {
		m.T.Fatal(err)
	}
	p.Cmd.Env = append(p.Cmd.Env, "ACP_SOCKET="+m.agentSocket(), "PYTHONPATH="+sources, "PYTHONDONTWRITEBYTECODE=1")
	if err := p.Start(); err != nil {
		m.T.Fatal(err)
	}
	return p
}

// The examples do what they say, each with those of every other language.
func TestExamples(t *testing.T) {
	t.Parallel()
	examples := readExamples(t)
	desk, laptop := friends(t)
	for name, e := range examples {
		desk.startAsAgent(e.answer, name)
	}
	askWhat, want := []string{"Is it \"safe\"?"}, ""
	for _, name := range []string{"go", "node", "python", "shell"} {
		desk.AwaitAgent(name)
		askWhat = append(askWhat, "desk/"+name)
		want += "desk/" + name + ": You asked: Is it \"safe\"?\n"
	}
	for name, e := range examples {
		asked := laptop.startAsAgent(e.ask, append(askWhat, "nobody")...).AwaitExit(1)
		lines := slices.Sorted(strings.Lines(asked)) // the shell's come as they are ready
		if got := strings.Join(lines[:len(lines)-1], ""); got != want || !strings.HasPrefix(lines[len(lines)-1], "nobody: ") {
			t.Errorf("ask in %s: %q, want %q, and an error", name, asked, want)
		}
	}
	for _, e := range examples {
		laptop.startAsAgent(e.ask, askWhat...).AwaitExit(0)
	}
	for worker := range examples {
		for name, e := range examples {
			said := laptop.startAsAgent(e.delegate, "desk/"+worker, "the "+name+" tests").AwaitExit(0)
			if !strings.HasSuffix(said, "You delegated: the "+name+" tests\n") {
				t.Errorf("delegate in %s to %s: %q", name, worker, said)
			}
		}
	}
	for _, task := range desk.completedTasks(len(examples) * len(examples)) {
		if task.Partials != 2 {
			t.Errorf("%+v", task)
		}
	}
}

// Without a daemon, each example says what to do in one line.
func TestExamplesWithoutADaemon(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "desk")
	for name, e := range readExamples(t) {
		code := 1
		if name == "shell" {
			code = 6 // that of acpctl
		}
		for _, argv := range [][]string{e.answer, append(e.ask, "Ready?", "laptop"), append(e.delegate, "laptop", "Review it.")} {
			said := m.startAsAgent(argv).AwaitFailure(code)
			if strings.Count(said, "\n") != 1 || !strings.Contains(said, "no daemon at "+m.agentSocket()) || !strings.Contains(said, "ACP_SOCKET") {
				t.Errorf("%q: %s", argv, said)
			}
		}
	}
}

// completedTasks waits until there are so many delegations, all of them completed.
func (m *machine) completedTasks(want int) (tasks []client.Task) {
	m.T.Helper()
	await.Until(m.T, fmt.Sprintf("%d delegations are completed", want), func() bool {
		var err error
		if tasks, err = m.Client.Tasks(await.NewContext(m.T)); err != nil {
			m.T.Fatal(err)
		}
		return len(tasks) == want && !slices.ContainsFunc(tasks, func(t client.Task) bool { return t.State != client.TaskCompleted })
	})
	return tasks
}

// The examples that delegate show progress as it comes: each part before the next one is sent.
func TestExamplesShowProgress(t *testing.T) {
	t.Parallel()
	examples := readExamples(t)
	desk, laptop := friends(t)
	next := make(chan struct{})
	var working sync.WaitGroup
	report := func(id wire.MessageID, r kinds.Result) {
		if _, err := desk.Client.SendResult(t.Context(), client.ResultParams{Ref: id, Payload: kinds.EncodePayload(&r)}); err != nil {
			t.Error(err)
		}
	}
	desk.Attach(client.AttachParams{Name: "worker"}, client.Handler{
		Delegate: func(_ context.Context, in *client.Inbound) (*kinds.Ack, error) {
			working.Go(func() {
				for n := range 3 {
					report(in.ID, kinds.Result{Status: "partial", Outcome: fmt.Sprintf("part %d\x1b[2J", n)})
					<-next
				}
				report(in.ID, kinds.Result{Status: "completed", Outcome: "done"})
			})
			return nil, nil
		},
	})
	for name, e := range examples {
		p := laptop.startAsAgent(e.delegate, "desk", "the tests")
		for n := range 3 {
			await.Until(t, fmt.Sprintf("delegate in %s shows part %d", name, n), func() bool {
				return strings.Contains(p.Stdout.String()+p.Stderr.String(), fmt.Sprintf("part %d", n)) // the one in shell tells it on standard error
			})
			next <- struct{}{}
		}
		if said := p.AwaitExit(0); !strings.HasSuffix(said, "done\n") || strings.Contains(said, "\x1b") {
			t.Errorf("delegate in %s: %q", name, said)
		}
	}
	working.Wait()
	if page, err := laptop.Client.Inbox(t.Context(), client.InboxParams{Peek: true}); err != nil || len(page.Messages) > 0 {
		t.Errorf("the inbox still has what the examples have shown: %v, %v", page, err)
	}
}

// The examples that delegate fail if the task does, and none shows what would steer a terminal, also in
// errors.
func TestExamplesFailWithTheTask(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	evil := "a\x1b[2Jb\nc"
	desk.Attach(client.AttachParams{Name: "failing"}, client.Handler{
		Query: func(context.Context, *client.Inbound) (any, error) {
			return nil, kinds.Errorf(kinds.Internal, "%s", evil)
		},
		Delegate: func(_ context.Context, in *client.Inbound) (*kinds.Ack, error) {
			switch task, err := kinds.ParsePayload[kinds.Delegate](in.Payload); {
			case err != nil:
				return nil, err
			case task.Task == "refuse":
				return &kinds.Ack{Code: kinds.NotAuthorized, Message: evil}, nil
			case task.Task == "err":
				return nil, kinds.Errorf(kinds.Internal, "%s", evil)
			}
			go desk.Client.SendResult(context.Background(), client.ResultParams{Ref: in.ID, Payload: kinds.EncodePayload(&kinds.Result{Status: "failed", Outcome: evil})})
			return nil, nil
		},
	})
	for name, e := range readExamples(t) {
		for _, task := range []string{"fail", "refuse", "err"} {
			p := laptop.startAsAgent(e.delegate, "desk/failing", task)
			code := 1
			if name == "shell" { // that of acpctl
				code = map[string]int{"fail": 7, "refuse": 4, "err": 7}[task]
			}
			p.AwaitExit(code)
			if said := p.Stdout.String() + p.Stderr.String(); strings.Contains(said, "\x1b") || !strings.Contains(said, "b c") {
				t.Errorf("delegate in %s, %s: %q", name, task, said)
			}
		}
		p := laptop.startAsAgent(e.ask, "Well?", "desk/failing")
		p.AwaitExit(1)
		if said := p.Stdout.String() + p.Stderr.String(); strings.Contains(said, "\x1b") || !strings.Contains(said, "b c") {
			t.Errorf("ask in %s: %q", name, said)
		}
	}
}

// The agents of the examples end when they are interrupted while they work, and those that do not
// connect again when the daemon goes away.
func TestExamplesEndWhileTheyWork(t *testing.T) {
	t.Parallel()
	for name, e := range readExamples(t) {
		if name == "shell" { // acpctl serve
			continue
		}
		desk := newMachine(t, "desk")
		if err := os.MkdirAll(filepath.Dir(desk.agentSocket()), 0o700); err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("unix", desk.agentSocket())
		if err != nil {
			t.Fatal(err)
		}
		p := desk.startAsAgent(e.answer)
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(conn)
		expect := func(method string) (id json.RawMessage) {
			for lines.Scan() {
				var call struct {
					ID     json.RawMessage `json:"id"`
					Method string          `json:"method"`
				}
				if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
					t.Fatal(err)
				}
				if call.Method == method {
					return call.ID
				}
			}
			t.Fatalf("%s never called %s", name, method)
			return nil
		}
		fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%s,"result":{"key":"ab"}}`+"\n", expect("attach"))
		fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":1,"method":"delegate","params":{"v":1,"id":%q,"kind":"delegate","payload":{"task":"x"},"name":"laptop"}}`+"\n", wire.NewMessageID())
		expect("result")    // which is never answered
		if name != "node" { // the packages connect again
			p.Signal(syscall.SIGINT)
			p.AwaitExit(0)
		} else {
			conn.Close()
			p.AwaitExit(1)
		}
		conn.Close()
		listener.Close()
	}
}

// The package python/acpd does what it promises. make interop tests it as it is installed.
func TestPythonPackage(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Abs("../python/acpd")
	if err != nil {
		t.Fatal(err)
	}
	env := live.NewEnviron(t, live.MakeTempDir(t), "PYTHONPATH="+sources, "PYTHONDONTWRITEBYTECODE=1", "LOCAL_API="+filepath.Join(sources, "../../docs/local-api.json"))
	tests := live.StartProcess(t, env, findTool(t, "python3"), "-X", "dev", "-m", "unittest", "discover", "-s", filepath.Join(sources, "tests"))
	<-tests.Ended // which may be a while
	tests.AwaitExit(0)
}

// The programs of the package's README do what it says.
func TestPythonPackageDocument(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Abs("../python/acpd")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(sources, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var programs [][]string
	for _, rest := range strings.Split(string(text), "```python\n")[1:] {
		program, _, _ := strings.Cut(rest, "```")
		programs = append(programs, []string{findTool(t, "python3"), "-c", program})
	}
	desk, laptop := friends(t)
	desk.startAsAgent(programs[0])
	desk.AwaitAgent("reviewer")
	said := laptop.startAsAgent(programs[1]).AwaitExit(0)
	said = strings.Replace(said, "half done\n", "", 1) // it may be over before anybody looks
	want := "You asked: Is the parser safe?\nYou asked: Ready?\nno agent \"planner\" is attached that takes this: name one that does, like reviewer (no_agent)\nYou delegated: Review the parser.\n"
	if said != want {
		t.Errorf("said %q, want %q", said, want)
	}
	said = strings.Replace(laptop.startAsAgent(programs[2]).AwaitExit(0), "half done\n", "", 1)
	if want := "You asked: Is the parser safe?\nYou delegated: Review the parser.\n"; said != want {
		t.Errorf("said %q, want %q", said, want)
	}
}
