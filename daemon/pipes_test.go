package daemon

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
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
	await.Until(t, "it is a pipe", func() bool { return slices.Equal(d.peers.Pipes.Pipes(), []string{"pipe:in-1"}) })
	d.stop()
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("after the end of the daemon: %v", err)
	}
}
