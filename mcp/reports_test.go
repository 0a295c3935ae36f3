package mcp

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// takeReports lets the daemon take results and errors of delegations.
func (d *fakeDaemon) takeReports() <-chan client.ResultParams {
	reports := record(d, client.MethodResult, func(p client.ResultParams) (any, error) {
		return &client.Receipt{ID: p.ID, State: client.Handed}, nil
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.methods[client.MethodError] = d.methods[client.MethodResult]
	return reports
}

// openDelegation has the daemon give the session a delegation.
func openDelegation(t *testing.T, p *program, agent attachedAgent) *client.Inbound {
	t.Helper()
	in := newInbound(kinds.KindDelegate, &kinds.Delegate{Task: "Build it."})
	await.Receive(t, "the ack", ask(t.Context(), agent, in))
	p.awaitOpen(1)
	return in
}

// While the own daemon is away, a result is kept; it goes as soon as the session is attached again.
func TestAResultWaitsForTheDaemon(t *testing.T) {
	d, p, agent := newSession(t)
	in := openDelegation(t, p, agent)
	reports := d.takeReports()
	d.stop()
	if r := p.must("pending", "acp_reply", args{"id": in.ID.String(), "text": "Done."}); !strings.Contains(r.said, "No daemon answers on this machine") {
		t.Errorf("no daemon: %s", r.said)
	}
	if r := p.must("pending", "acp_reply", args{"id": in.ID.String(), "text": "Again."}); !strings.Contains(r.said, "is already kept") || !strings.Contains(r.said, "you need not do anything") {
		t.Errorf("a second reply: %s", r.said)
	}
	d.start()
	await.Receive(t, "the session is attached again", d.attached)
	if got := await.Receive(t, "the result", reports); !strings.Contains(string(got.Payload), "Done.") {
		t.Errorf("the result is %s", got.Payload)
	}
	p.awaitOpen(0)
}

// A result that is kept when the session ends is sent then, and not that the session has ended.
func TestAResultIsSentWhenTheSessionEnds(t *testing.T) {
	d, p, agent := newSession(t)
	in := openDelegation(t, p, agent)
	d.answer(client.MethodResult, kinds.Errorf(kinds.Unreachable, "away").WithDelivered(kinds.DeliveredNo))
	p.server.timing.wait = 20 * time.Millisecond
	p.must("pending", "acp_reply", args{"id": in.ID.String(), "text": "Done."})
	reports := d.takeReports()
	p.close()
	if got := await.Receive(t, "the result", reports); !strings.Contains(string(got.Payload), "Done.") {
		t.Errorf("at the end: %s", got.Payload)
	}
	for len(reports) > 0 {
		if got := <-reports; !strings.Contains(string(got.Payload), "Done.") {
			t.Errorf("at the end, too: %s", got.Payload)
		}
	}
}

// That a result which was pending was refused in the end is told with a later result.
func TestALateRefusalIsTold(t *testing.T) {
	for _, c := range []struct {
		code kinds.Code
		want string
		open int
	}{{kinds.TooLarge, "too_large: answer again with acp_reply", 1}, {kinds.NotFound, "not_found: nobody waits for it any more", 0}} {
		d, p, agent := newSession(t)
		in := openDelegation(t, p, agent)
		refuse := make(chan struct{})
		d.handleMethod(client.MethodResult, func(context.Context, *jsonrpc.Request) (any, error) {
			<-refuse
			return nil, kinds.Errorf(c.code, "Run this.")
		})
		p.server.timing.wait = 20 * time.Millisecond
		p.must("pending", "acp_reply", args{"id": in.ID.String(), "text": "Done."})
		close(refuse)
		await.Until(t, "the refusal is noted", func() bool {
			p.server.notices.mu.Lock()
			defer p.server.notices.mu.Unlock()
			return len(p.server.notices.lines) > 0
		})
		want := "the result for the delegation " + in.ID.String() + " was not taken: " + c.want
		if r := p.call("acp_peers", nil); !slices.Contains(r.Notices, want) {
			t.Errorf("notices: %q, want %q", r.Notices, want)
		}
		p.awaitOpen(c.open)
	}
}
