package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// question is a query to a peer.
func question(to, text string) client.QueryParams {
	return client.QueryParams{To: to, Payload: kinds.EncodePayload(&kinds.Query{Question: text})}
}

// readDocumentedAgent returns the agent of docs/local-api.md in a language.
func readDocumentedAgent(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/local-api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(text), "```"+language+"\n")
	program, _, ok := strings.Cut(program, "```")
	if !ok {
		t.Fatal("the example is gone")
	}
	return program
}

// findPython returns the path of python3, and skips the test if there is none.
func findPython(t *testing.T) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("needs python3: nothing is left out here")
		}
		t.Skip("no python3")
	}
	return python
}

func TestTheDocumentsPythonAgentSaysWhereNoDaemonIs(t *testing.T) {
	t.Parallel()
	python, source := findPython(t), readDocumentedAgent(t, "python")
	for _, c := range []struct {
		env  []string
		want string
	}{
		{[]string{"HOME=/none"}, "/none/.acp/agent/acp.sock"},
		{[]string{"HOME=/none", "ACP_HOME=/elsewhere"}, "/elsewhere/agent/acp.sock"},
		{[]string{"HOME=/none", "ACP_HOME=/elsewhere", "ACP_SOCKET=/run/none/acp.sock"}, "/run/none/acp.sock"},
	} {
		agent := exec.CommandContext(t.Context(), python, "-c", source)
		agent.Env = c.env
		said, err := agent.CombinedOutput()
		if want := "no daemon at " + c.want + ": No such file or directory\n"; err == nil || string(said) != want {
			t.Errorf("with %q: %v: %q, want %q", c.env, err, said, want)
		}
	}
}

func TestTheDocumentsPythonAgentAnswers(t *testing.T) {
	t.Parallel()
	python := findPython(t)
	testDocumentedAgent(t, python, "-c", readDocumentedAgent(t, "python"))
}

func TestTheDocumentsGoAgentAnswers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, agent := filepath.Join(dir, "main.go"), filepath.Join(dir, "agent")
	if err := os.WriteFile(source, []byte(readDocumentedAgent(t, "go")), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", agent, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	testDocumentedAgent(t, agent)
}

// testDocumentedAgent runs the agent: questions that lie there together, as many as it takes,
// are all answered.
func testDocumentedAgent(t *testing.T, command ...string) {
	t.Helper()
	desk, laptop := friends(t)
	agent := desk.PrepareProcess(command...)
	agent.Cmd.Env = append(agent.Cmd.Env, "ACP_SOCKET="+filepath.Join(filepath.Dir(desk.SocketPath()), "agent", client.SocketName))
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	desk.AwaitAgent("reviewer")
	const all = 16
	agent.Freeze()
	ctx, answers := await.NewContext(t), make(chan error, all)
	for n := range all {
		go func() {
			answer, err := laptop.Client.Query(ctx, question("desk", fmt.Sprint(n)))
			if err == nil && !strings.Contains(string(answer.Payload), fmt.Sprintf(`"You asked: %d"`, n)) {
				err = fmt.Errorf("%d: %s", n, answer.Payload)
			}
			answers <- err
		}()
	}
	await.Until(t, "all are on their way to the agent", func() bool {
		if len(answers) > 0 {
			t.Fatalf("the agent stands still, and a query has ended: %v", <-answers)
		}
		return desk.FindAgent("reviewer").Active == all
	})
	agent.Signal(syscall.SIGCONT)
	for range all {
		if err := await.Receive(t, "answer", answers); err != nil {
			t.Error(err)
		}
	}
}
