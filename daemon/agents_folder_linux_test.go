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

// Users that agents.uids lists may use the sockets where the folder is mounted, others
// that get there hear why not; unless there is such a list nobody else opens them at all.
func TestOtherUsersOfTheAgentsFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("needs to be root, to be other users: nothing is left out here")
		}
		t.Skip("needs to be root, to be other users")
	}
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
