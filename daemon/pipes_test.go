package daemon

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// The connection of an agent or a subscriber is not made a pipe, nor one with another call.
func TestPipeNeedsConnectionAlone(t *testing.T) {
	d := start(t, stateDir(t), "desk")
	agent := d.agent(client.AttachParams{Name: "reviewer", Kinds: []string{"query"}}, say(`{}`))
	if e := agent.refused(kinds.Invalid, "pipe", nil); !strings.Contains(e.Message, "only for this call") {
		t.Errorf("an agent hears %q", e.Message)
	}
	subscriber := d.dial()
	subscriber.must("subscribe", client.SubscribeParams{}, nil)
	subscriber.refused(kinds.Invalid, "pipe", nil)
	if err := d.dial().call("pipe", map[string]any{"peer": "laptop"}, nil); err == nil {
		t.Error("it takes params")
	}
}

func TestPipeOnTheSocket(t *testing.T) {
	d := start(t, stateDir(t), "desk")
	c := client.Client{Socket: d.home.ownerSocketPath()}
	conn, err := c.OpenPipe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "acp-pipe 1\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	if line, err := in.ReadString('\n'); line != "acp-pipe 1\n" {
		t.Fatalf("the daemon says %q, %v", line, err)
	}
	await.Until(t, "it is a pipe", func() bool { return slices.Equal(d.pipes.Pipes(), []string{"pipe:in-1"}) })
	d.stop()
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("after the end of the daemon: %v", err)
	}
}

// The command of a peer is that of its id, else of its name, as config.yaml has it now.
func TestFindPipe(t *testing.T) {
	dir := stateDir(t)
	d := start(t, dir, "desk")
	id := identity.ID{9}
	check := func(name string, want ...string) {
		t.Helper()
		if got, argv := d.findPipe(id); got != name || !slices.Equal(argv, want) {
			t.Errorf("findPipe: %s, %q; want %s, %q", got, argv, name, want)
		}
	}
	reload := func(config string) {
		t.Helper()
		writeConfig(t, dir, config)
		d.dial().must("reload", nil, nil)
	}
	check("")
	reload("peers: {build: {pipe: [ssh, build.example, acpctl, pipe]}}\n")
	check("")
	d.dial().must("trust", client.TrustParams{Peer: id.String(), Name: "build"}, nil)
	check("build", "ssh", "build.example", "acpctl", "pipe")
	reload("peers: {build: {pipe: [ssh, a]}, " + id.String() + ": {pipe: [ssh, b]}}\n")
	check("build", "ssh", "b")
	reload("{}\n")
	check("build")
}
