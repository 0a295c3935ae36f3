package integration

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
)

// writePipe has a machine reach another one by the command alone, which is a script of sh in whose
// $1 is acpctl and in $2 the other's home. $$ is the command's pid, which the script writes into
// the file that is returned.
func (m *machine) writePipe(other *machine, script string) (pidFile string) {
	m.T.Helper()
	pidFile = filepath.Join(live.MakeTempDir(m.T), "pid")
	argv := []string{"sh", "-c", `echo $$ >"$0"; ` + script, pidFile, m.ProgramPath("acpctl"), other.Home}
	var words []string
	for _, word := range argv {
		words = append(words, strconv.Quote(word))
	}
	text := fmt.Sprintf("peers: {%s: {pipe: [%s]}}\n", other.Name, strings.Join(words, ", "))
	if err := os.WriteFile(filepath.Join(m.Home, "config.yaml"), []byte(text), 0o600); err != nil {
		m.T.Fatal(err)
	}
	return pidFile
}

const toTheOther = `exec "$1" --home "$2" pipe`

// piped is two machines that trust each other and know each other's addresses by no way. The desk
// reaches build by a script.
func piped(t *testing.T, script string) (desk, build *machine, pidFile string) {
	t.Helper()
	desk, build = newMachine(t, "desk"), running(t, "build")
	pidFile = desk.writePipe(build, script)
	desk.StartDaemon()
	desk.Trust(build.Machine)
	build.Trust(desk.Machine)
	return desk, build, pidFile
}

func readPID(t *testing.T, file string) (pid int) {
	t.Helper()
	await.Until(t, "the command has begun", func() bool {
		text, err := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil && pid > 0
	})
	return pid
}

// isGone reports whether there is no such process, or only what is left of it for its parent.
func isGone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) != nil
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

// TestCallsThroughAPipe: what is asked, told and delegated, both ways.
func TestCallsThroughAPipe(t *testing.T) {
	t.Parallel()
	desk, build, _ := piped(t, "echo Welcome to build >&2; "+toTheOther)
	build.serve("worker", "--prompt", "--", "sed", "s/^/done: /")
	desk.serve("planner", "--prompt", "--", "sed", "s/^/seen: /")
	if said := desk.MustOutput("query", "build", "tests"); said != "done: tests\n" {
		t.Errorf("query: %q", said)
	}
	if said := build.MustOutput("query", "desk", "by the same way"); said != "seen: by the same way\n" {
		t.Errorf("query back: %q", said)
	}
	desk.RunAcpctl(0, "notify", "build", "ci.done", "{}")
	id := strings.TrimSpace(desk.MustOutput("delegate", "build", "Tidy up."))
	if said := desk.MustOutput("wait", id); said != "done: Tidy up.\n" {
		t.Errorf("delegation: %q", said)
	}
	there, back := desk.FindPeer(build.ID), build.FindPeer(desk.ID)
	if there.Addrs[0] != "pipe:build" || !strings.HasPrefix(back.Addrs[0], "pipe:in-") {
		t.Errorf("addresses: %v, %v", there.Addrs, back.Addrs)
	}
}

// TestPipeIsKilled in the middle of a call, which is then unknown; the next one goes.
func TestPipeIsKilled(t *testing.T) {
	t.Parallel()
	desk, build, pidFile := piped(t, toTheOther)
	begun := filepath.Join(live.MakeTempDir(t), "begun")
	build.serve("worker", "--prompt", "--", "sh", "-c", `read q; test "$q" = fast || { echo >"$1"; sleep 60; }; echo "$q"`, "sh", begun)
	call := desk.StartAcpctl("query", "build", "slow")
	await.Until(t, "the call is there", func() bool { _, err := os.Stat(begun); return err == nil })
	first := readPID(t, pidFile)
	syscall.Kill(first, syscall.SIGKILL)
	if said := call.AwaitFailure(5); !strings.Contains(said, "delivered: unknown") {
		t.Errorf("the call says %q", said)
	}
	os.Remove(pidFile)
	if said := desk.MustOutput("query", "build", "fast"); said != "fast\n" {
		t.Errorf("the next call says %q", said)
	}
	second := readPID(t, pidFile)

	// Nothing is left of it when the daemon ends, also if it is killed.
	desk.StopDaemon()
	if !isGone(first) || !isGone(second) {
		t.Error("a command has outlived the daemon")
	}
	os.Remove(pidFile)
	desk.StartDaemon()
	desk.MustOutput("query", "build", "fast")
	third := readPID(t, pidFile)
	desk.KillDaemon()
	await.Until(t, "the command is gone", func() bool { return isGone(third) })
	await.Until(t, "build has noticed", func() bool { return build.FindPeer(desk.ID).State != client.PeerConnected })
}

// TestPipeThatFails says why, with the words of the command quoted.
func TestPipeThatFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		words        []string
	}{
		{"banner", `echo "Welcome to build."; ` + toTheOther, []string{"printed something else before the first packet", `"quoted":"Welcome to build."`}},
		{"exit", `echo "ssh: Could not resolve hostname build" >&2; exit 255`, []string{"exit code 255", `"quoted":"ssh: Could not resolve hostname build"`}},
		{"no daemon", `exec "$1" --home "$2/nowhere" pipe`, []string{"exit code 6", "no daemon at"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			desk, _, _ := piped(t, test.script)
			said := desk.RunAcpctl(5, "query", "build", "?", "--json").Stdout.String()
			for _, w := range append(test.words, `"delivered":"no"`) {
				if !strings.Contains(said, w) {
					t.Errorf("%q does not say %q", said, w)
				}
			}
		})
	}
}

// TestPipeAfterReload: the first call after a reload goes through the command that it took, whatever
// was found out before: by the background, or by a call with the command that stood there.
func TestPipeAfterReload(t *testing.T) {
	t.Parallel()
	desk, build := running(t, "desk"), running(t, "build")
	build.Trust(desk.Machine)
	desk.Trust(build.Machine)
	if said := desk.StartAcpctl("query", "build", "?").AwaitFailure(5); !strings.Contains(said, "there is no address to try") {
		t.Errorf("without a pipe: %q", said)
	}
	desk.writePipe(build, "echo acpctl: command not found >&2; exit 127")
	desk.MustOutput("reload")
	if said := desk.StartAcpctl("query", "build", "?").AwaitFailure(5); !strings.Contains(said, "exit code 127") {
		t.Errorf("with a wrong command: %q", said)
	}
	desk.writePipe(build, toTheOther)
	desk.MustOutput("reload")
	desk.MustOutput("ping", "build", "-c", "1")

	// The command that leads there is connected, and is not used any more when another one takes its place.
	desk.writePipe(build, "exit 3")
	desk.MustOutput("reload")
	if said := desk.StartAcpctl("query", "build", "?").AwaitFailure(5); !strings.Contains(said, "exit code 3") || !strings.Contains(said, "delivered: no") {
		t.Errorf("with a command that has broken: %q", said)
	}
}

// TestPipeIsMended: after a reload the same command is tried at once, and not after 30 s.
func TestPipeIsMended(t *testing.T) {
	t.Parallel()
	desk, build, _ := piped(t, `test -e "$2/mended" || { echo "Host key verification failed." >&2; exit 255; }; `+toTheOther)
	if said := desk.RunAcpctl(5, "query", "build", "?", "--json").Stdout.String(); !strings.Contains(said, `"quoted":"Host key verification failed."`) {
		t.Errorf("unmended: %q", said)
	}
	if err := os.WriteFile(filepath.Join(build.Home, "mended"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	failed := time.Now()
	desk.MustOutput("reload")
	await.Until(t, "the command leads there", func() bool {
		_, err := desk.Client.Ping(await.NewContext(t), client.PingParams{To: "build"})
		return err == nil
	})
	if took := time.Since(failed); took > 20*time.Second {
		t.Errorf("after %s", took)
	}
}

// TestPipesThatComeIn are for the owner, and 32.
// holds: security.md#against-strangers
func TestPipesThatComeIn(t *testing.T) {
	t.Parallel()
	build := running(t, "build")
	if said := build.StartProcess(build.ProgramPath("acpctl"), "--home", build.Home, "pipe").AwaitExit(0); said != "" { // its input is empty
		t.Errorf("without input it says %q", said)
	}
	agent := build.PrepareProcess(build.ProgramPath("acpctl"), "pipe")
	agent.Cmd.Env = append(agent.Cmd.Env, "ACP_SOCKET="+filepath.Join(build.Home, client.AgentFolder, client.SocketName))
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	if said := agent.AwaitFailure(2); !strings.Contains(said, "ACP_SOCKET") {
		t.Errorf("an agent's pipe: %q", said)
	}
	guest := client.Client{Socket: filepath.Join(build.Home, client.AgentFolder, client.SocketName)}
	if _, err := guest.OpenPipe(await.NewContext(t)); err == nil || !strings.Contains(err.Error(), "whoever the daemon belongs to") {
		t.Errorf("a guest's pipe: %v", err)
	}
	var all []net.Conn
	for range 32 {
		conn, err := build.Client.OpenPipe(await.NewContext(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		all = append(all, conn)
	}
	said := build.StartAcpctl("pipe").AwaitFailure(1)
	if !strings.Contains(said, "32 pipes") {
		t.Errorf("one more: %q", said)
	}
	all[0].Close()
	await.Until(t, "there is a place again", func() bool {
		conn, err := build.Client.OpenPipe(await.NewContext(t))
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}
