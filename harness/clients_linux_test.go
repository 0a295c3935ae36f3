package harness

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What a server has started is no client that counts: a second acpctl is no terminal.
func TestClientsThatTheServerHasStarted(t *testing.T) {
	path := filepath.Join(makeSocketDir(t), "s")
	server := exec.Command(os.Args[0], serverRole, path)
	stdin, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer stdin.Close()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "connected\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	want := func(n int) {
		t.Helper()
		if got, err := countClients(server.Process.Pid, path); err != nil || got != n {
			t.Errorf("%d clients, %v, want %d", got, err, n)
		}
	}
	want(0)
	for i := range 2 { // terminals
		conn, err := dialAccepted(path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		want(1 + i)
	}
	gone, err := dialAccepted(path) // the server has still its end
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	want(2)
	if got, err := countClients(server.Process.Pid, path+"x"); err != nil || got != 0 {
		t.Errorf("at another path: %d clients, %v", got, err)
	}
}
