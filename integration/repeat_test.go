package integration

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// counting is an agent that takes each task when told to, and counts them.
type counting struct {
	runs  atomic.Int32
	began chan wire.MessageID
	next  chan struct{}
}

func newCounting() *counting {
	return &counting{began: make(chan wire.MessageID, 16), next: make(chan struct{}, 16)}
}

// delegate accepts, saying in the ack which run it was.
func (c *counting) delegate(_ context.Context, in *client.Inbound) (*kinds.Ack, error) {
	n := c.runs.Add(1)
	c.began <- in.ID
	<-c.next
	return &kinds.Ack{Accepted: true, EstimatedMS: uint64(n)}, nil
}

// TestRepeatedDelegationRunsOnce: during the first run, after it, after a restart
// of the caller's daemon and of the receiver's; every call gets the same answer.
func TestRepeatedDelegationRunsOnce(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	agent := newCounting()
	desk.attach(client.AttachParams{Name: "worker"}, client.Handler{Delegate: agent.delegate})
	ctx, params := await.NewContext(t), work("desk", "Tidy up.")
	answers := make(chan string, 2)
	call := func() {
		d, err := laptop.Client.Delegate(ctx, params)
		if err != nil {
			answers <- err.Error()
			return
		}
		answers <- fmt.Sprint(d.ID, string(d.Payload))
	}
	want := fmt.Sprint(params.ID, `{"accepted":true,"estimated_ms":1}`)
	check := func(when string) {
		t.Helper()
		if got := await.Receive(t, "answer "+when, answers); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}

	go call()
	await.Receive(t, "task", agent.began)
	go call()
	await.Until(t, "the repeat has come", func() bool { return desk.status().Messages.In["delegate"] == 2 })
	agent.next <- struct{}{}
	check("the first")
	check("during the first")
	go call()
	check("after it")
	laptop.KillDaemon()
	laptop.StartDaemon()
	go call()
	check("after a restart of the caller")
	desk.KillDaemon()
	desk.StartDaemon()
	desk.attached("worker")
	go call()
	check("after a restart of the receiver")
	other := params
	other.Payload = kinds.EncodePayload(&kinds.Delegate{Task: "Paint it."})
	_, err := laptop.Client.Delegate(ctx, other)
	is(t, kinds.Invalid, err)
	laptop.RunAcpctl(1, "delegate", "desk", "Paint it.", "--id", params.ID.String())
	if n := agent.runs.Load(); n != 1 {
		t.Errorf("the agent ran it %d times", n)
	}
}

// TestRepeatAfterLostAck: the caller's daemon is killed before the ack comes, so
// that only the receiver knows it; then the receiver is killed too.
func TestRepeatAfterLostAck(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"reconnect": false, "restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desk, laptop := friends(t)
			agent := newCounting()
			desk.attach(client.AttachParams{Name: "worker"}, client.Handler{Delegate: agent.delegate})
			id := wire.NewMessageID().String()
			lost := laptop.StartAcpctl("delegate", "desk", "Tidy up.", "--id", id)
			await.Receive(t, "task", agent.began)
			laptop.KillDaemon()
			if stderr := lost.AwaitFailure(6); !strings.Contains(stderr, "--id "+id) {
				t.Errorf("the lost call says %q, want how to repeat it", stderr)
			}
			agent.next <- struct{}{}
			await.Until(t, "the task is accepted", func() bool { return strings.Contains(desk.MustOutput("tasks"), "\taccepted\t") })
			if killed {
				desk.KillDaemon()
				desk.StartDaemon()
				desk.attached("worker")
			}
			laptop.StartDaemon()
			laptop.connected(desk)
			if said := laptop.MustOutput("tasks"); !strings.Contains(said, "\tunknown\t") {
				t.Errorf("tasks after the loss: %s", said)
			}
			if said := laptop.MustOutput("delegate", "desk", "Tidy up.", "--id", id, "--json"); !strings.Contains(said, `"estimated_ms":1}`) {
				t.Errorf("the repeat says %s", said)
			}
			if n := agent.runs.Load(); n != 1 {
				t.Errorf("the agent ran it %d times", n)
			}
			if said := laptop.MustOutput("tasks"); !strings.Contains(said, "\taccepted\t") || strings.Count(said, "\n") != 1 {
				t.Errorf("tasks: %s", said)
			}
		})
	}
}

// TestRepeatedNotifyIsOneCopy whoever restarts in between, also when an agent has
// come that would take it; and other content under its id is refused.
func TestRepeatedNotifyIsOneCopy(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	id := wire.NewMessageID().String()
	repeat := func(when string) {
		t.Helper()
		if said := laptop.MustOutput("notify", "desk", "build.done", "1", "--id", id); said != "held\n" {
			t.Errorf("%s: notify says %q", when, said)
		}
		if said := desk.MustOutput("inbox"); strings.Count(said, "\n") != 1 {
			t.Errorf("%s: inbox: %s", when, said)
		}
	}
	repeat("the first")
	repeat("after it")
	laptop.KillDaemon()
	laptop.StartDaemon()
	repeat("after a restart of the caller")
	other := func(when string) {
		t.Helper()
		if said := laptop.RunAcpctl(7, "notify", "desk", "build.done", "2", "--id", id, "--json").Stdout.String(); !strings.Contains(said, `"code":"invalid"`) {
			t.Errorf("other content, %s: %s", when, said)
		}
	}
	other("after a restart of the caller")
	desk.KillDaemon()
	desk.StartDaemon()
	desk.connected(laptop)
	other("after a restart of the receiver")
	repeat("after a restart of the receiver")
	desk.KillDaemon()
	desk.StartDaemon()
	desk.connected(laptop)
	desk.attach(client.AttachParams{Name: "worker"}, client.Handler{Notify: func(context.Context, *client.Inbound) error {
		t.Error("the agent got what the inbox holds")
		return nil
	}})
	repeat("with an agent")
}
