//go:build interop

package interop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
)

// runNode runs a program of those that make interop has installed for MCP, with nothing of
// this process's environment, and returns what it printed and its exit code.
func runNode(t *testing.T, program string, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	bin, err := filepath.Abs(filepath.Join(venvs, "mcp", "node_modules", ".bin"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
		t.Fatalf("%s is not installed: run make interop (%v)", program, err)
	}
	cmd := exec.Command(filepath.Join(bin, program), args...)
	cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + t.TempDir()}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// friends runs two daemons that trust each other, with an agent on the first.
func friends(t *testing.T) (desk, laptop *live.Machine) {
	t.Helper()
	desk, laptop = live.NewFriends(t)
	desk.Serve("reviewer", "--prompt", "--", "sed", "s/^/You asked: /")
	return desk, laptop
}

// The MCP Inspector's command line lists the tools and calls each of them.
func TestInspectorCallsEveryTool(t *testing.T) {
	desk, laptop := friends(t)
	awaitNobody := func() { // the Inspector ends before the session that it has begun
		t.Helper()
		await.Until(t, "the session before has ended", func() bool {
			status, err := laptop.Client.Status(await.NewContext(t))
			return err == nil && len(status.Agents) == 0
		})
	}
	inspect := func(args ...string) string {
		t.Helper()
		awaitNobody()
		out, errs, exit := runNode(t, "mcp-inspector", append([]string{"--cli", live.ProgramPath(t, "acpctl"), "mcp", "--home", laptop.Home, "--attach", "--name", "planner"}, args...)...)
		if exit != 0 {
			t.Fatalf("inspector %q: exit code %d\n%s%s", args, exit, out, errs)
		}
		return out
	}
	var list struct {
		Tools []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(inspect("--method", "tools/list")), &list, json.MatchCaseInsensitiveNames(true)); err != nil || len(list.Tools) != 8 {
		t.Fatalf("%d tools: %v", len(list.Tools), err)
	}
	call := func(state, tool string, args ...string) (id, text string) {
		t.Helper()
		argv := []string{"--method", "tools/call", "--tool-name", tool}
		for _, a := range args {
			argv = append(argv, "--tool-arg", a)
		}
		out := inspect(argv...)
		var r struct {
			Content           []struct{ Text string } `json:"content"`
			StructuredContent struct {
				State string
				ID    string
				Error jsontext.Value
			} `json:"structuredContent"`
		}
		if err := json.Unmarshal([]byte(out), &r, json.MatchCaseInsensitiveNames(true)); err != nil || len(r.Content) != 1 {
			t.Fatalf("%s: %v: %s", tool, err, out)
		}
		if r.StructuredContent.State != state {
			t.Fatalf("%s: state %q, want %q: %s", tool, r.StructuredContent.State, state, out)
		}
		return r.StructuredContent.ID, r.Content[0].Text
	}
	expect := func(what, text, want string) {
		t.Helper()
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %q", what, text, want)
		}
	}
	_, text := call("listed", "acp_peers")
	expect("peers", text, "desk")
	_, text = call("answered", "acp_query", "to=desk", "question=Is it safe?")
	expect("query", text, "You asked: Is it safe?")
	_, text = call("completed", "acp_delegate", "to=desk", "task=Review it.", "wait=true")
	expect("delegation", text, "You asked: Review it.")
	call("listed", "acp_file", "do=list")
	call("listed", "acp_task") // each call is a session of its own, which knows no other's work
	call("held", "acp_notify", `to=["desk"]`, "topic=build.done", "data=green")
	awaitNobody()
	receipt, err := desk.Client.Notify(await.NewContext(t), client.NotifyParams{To: client.To("laptop/planner"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "build.done"})})
	if err != nil {
		t.Fatal(err)
	}
	_, text = call("shown", "acp_inbox")
	expect("inbox", text, receipt.ID.String())
	_, text = call("held", "acp_reply", "id="+receipt.ID.String(), "text=Seen.")
	expect("reply", text, "The reply is held")
}

// The scenarios of the conformance suite that fit a server of tools alone.
func TestConformance(t *testing.T) {
	_, laptop := friends(t)
	server := laptop.StartAcpctl("mcp", "--http", "127.0.0.1:0")
	await.Until(t, "the URL is printed", func() bool { return strings.HasSuffix(server.Stdout.String(), "\n") })
	url := strings.TrimSpace(server.Stdout.String())
	for _, scenario := range []string{"server-initialize", "ping", "tools-list", "dns-rebinding-protection"} {
		out, errs, exit := runNode(t, "conformance", "server", "--url", url, "--scenario", scenario, "--output-dir", t.TempDir())
		if exit != 0 || !strings.Contains(out, "0 failed") {
			t.Errorf("%s: exit code %d\n%s%s", scenario, exit, out, errs)
		}
		fmt.Fprintln(t.Output(), scenario+":", lastLine(out))
	}
	if strings.Contains(server.Stderr.String(), url[strings.LastIndex(url, "/"):]) {
		t.Error("the token is on standard error too")
	}
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndex(s, "\n")+1:]
}
