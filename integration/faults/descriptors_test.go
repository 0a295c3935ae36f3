//go:build faults

package faults

import (
	"net"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
)

// TestFewDescriptorsUnderTraffic: with 64 descriptors, and 200 connections of programs
// of this machine that leave them open, calls of both sides go on; afterwards all is
// closed again.
// holds: security.md#on-this-machine
func TestFewDescriptorsUnderTraffic(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	c.desk.StopDaemon()
	c.desk.mu.Lock()
	c.desk.starts++
	c.desk.mu.Unlock()
	c.desk.Acpd = c.desk.StartProcess(append([]string{"sh", "-c", `ulimit -n 64; exec "$@"`, "sh"}, c.desk.DaemonCommand()...)...)
	c.desk.AwaitReady()
	c.connected()
	c.talk()
	c.held20()
	var programs []net.Conn
	for range 200 {
		open, err := net.Dial("unix", c.desk.SocketPath())
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, open)
	}
	for range 5 {
		for _, verb := range []string{"whoami", "inbox"} {
			await.Until(t, verb+" has its place", func() bool { // of two, of which the agent and who reads the inbox may have both
				p := c.desk.StartAcpctl(verb)
				p.AwaitEnd()
				return p.Cmd.ProcessState.ExitCode() == 0
			})
		}
	}
	time.Sleep(3 * time.Second) // of traffic without descriptors
	if ended := c.quiet(); ended.of("internal")+ended.of("unreachable")+ended.of("timeout") > 0 || ended.of("held") < 40 {
		t.Errorf("calls have ended as %v", ended)
	}
	for _, p := range programs {
		p.Close()
	}
	c.settle()
}
