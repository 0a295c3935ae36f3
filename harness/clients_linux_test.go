package harness

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A terminal is connected to the server, listens on the port, and was not started by the server.
func TestFindTerminal(t *testing.T) {
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
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	port := tcp.Addr().(*net.TCPAddr).Port
	want := func(want bool) {
		t.Helper()
		ended, err := findTerminal(server.Process.Pid, path, port)
		if (err == nil) != want || want && ended() {
			t.Errorf("found %v, want %v", err, want)
		}
	}
	want(false)
	gone, err := dialAccepted(path) // the server has still its end
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	want(false)
	conn, err := dialAccepted(path) // this process is a terminal
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	want(true)
	if _, err := findTerminal(server.Process.Pid, path+"x", port); err == nil {
		t.Error("found at another path")
	}
	if _, err := findTerminal(server.Process.Pid, path, port+1); err == nil {
		t.Error("found with another port")
	}
}
