package daemon

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acpd/acpd/integration/await"
)

const visitor = "ACPD_TEST_VISITOR"

// TestVisitor is run by the test below as a program of another user for which the folder is
// mounted. It has the folder as its descriptor 3.
func TestVisitor(t *testing.T) {
	if os.Getenv(visitor) == "" {
		t.Skip("this is no visitor")
	}
	c, err := net.Dial("unix", "/proc/self/fd/3/acp.sock")
	if err != nil {
		fmt.Println("said:", err)
		return
	}
	defer c.Close()
	fmt.Fprintln(c, `{"jsonrpc":"2.0","id":1,"method":"whoami"}`)
	line, err := bufio.NewReader(c).ReadString('\n')
	fmt.Println("said:", strings.TrimSpace(line), err)
}

// needRoot skips a test of other users that cannot be them, or fails it where nothing is to be left out.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("needs to be root, to be other users: nothing is left out here")
	}
	t.Skip("needs to be root, to be other users")
}

// Users that agents.uids lists may use the sockets where the folder is mounted, others
// that get there hear why not; unless there is such a list nobody else opens them at all.
// holds: security.md#agents-on-this-machine
func TestOtherUsersOfTheAgentsFolder(t *testing.T) {
	needRoot(t)
	dir := stateDir(t)
	visit := func(uid uint32) string {
		t.Helper()
		folder, err := os.Open(filepath.Join(dir, "agent"))
		if err != nil {
			t.Fatal(err)
		}
		defer folder.Close()
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestVisitor$", "-test.v")
		cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{visitor + "=1"}, "/", []*os.File{folder}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		_, said, ok := strings.Cut(string(out), "said: ")
		if err != nil || !ok {
			t.Fatalf("%v: %s", err, out)
		}
		return said
	}
	desk := start(t, dir, "desk")
	if said := visit(12345); !strings.Contains(said, "permission denied") {
		t.Errorf("another user without agents.uids: %s", said)
	}
	desk.stop()
	writeConfig(t, dir, "agents:\n  uids: [12345]\n")
	desk = start(t, dir, "desk")
	if said := visit(12345); !strings.Contains(said, desk.ID().String()) {
		t.Errorf("a user that is listed: %s", said)
	}
	if said := visit(12346); !strings.Contains(said, `"not_authorized"`) || !strings.Contains(said, "you are user 12346, whom agents.uids in config.yaml does not name") {
		t.Errorf("a user that is not listed: %s", said)
	}
}

// rootless names the state directory of a daemon that this process runs as another user.
const rootless = "DAEMON_TEST_ROOTLESS"

// TestRootlessDaemon is that process; it ends with its standard input.
func TestRootlessDaemon(t *testing.T) {
	dir := os.Getenv(rootless)
	if dir == "" {
		t.Skip("this is no other user")
	}
	d := start(t, dir, "desk")
	for _, m := range []string{"acp.sock", "http.sock"} {
		await.Until(t, m, func() bool { _, err := os.Stat(filepath.Join(dir, m)); return err == nil })
	}
	fmt.Println("runs:", d.ID())
	bufio.NewReader(os.Stdin).ReadByte()
}

// Root speaks with the daemon of any user on the owner's socket, as with that of a system unit,
// and not on the one of agents.
// holds: security.md#on-this-machine
func TestRootAtTheOwnersSocket(t *testing.T) {
	needRoot(t)
	dir := stateDir(t)
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestRootlessDaemon$", "-test.v")
	cmd.Env, cmd.Dir = []string{rootless + "=" + dir, "HOME=" + dir}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	var id string
	for lines := bufio.NewScanner(out); id == "" && lines.Scan(); {
		_, id, _ = strings.Cut(lines.Text(), "runs: ")
	}
	if id == "" {
		t.Fatal("the daemon does not run")
	}
	whoami := func(socket string) string {
		c, err := net.Dial("unix", filepath.Join(dir, socket))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintln(c, `{"jsonrpc":"2.0","id":1,"method":"whoami"}`)
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			t.Error(err)
		}
		return line
	}
	if said := whoami("acp.sock"); !strings.Contains(said, id) {
		t.Errorf("on the owner's: %s", said)
	}
	if said := whoami("agent/acp.sock"); !strings.Contains(said, `"not_authorized"`) {
		t.Errorf("on that of agents: %s", said)
	}
}
