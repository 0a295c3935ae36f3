package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/wire"
)

// A peer that finishes what is under way before it ends takes no new calls, and has been seen
// since the connection began.
func TestSeenWhileAPeerShutsDown(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	began, release := make(chan struct{}), make(chan struct{})
	desk.agent(client.AttachParams{Name: "reviewer"}, func(_ context.Context, r *jsonrpc.Request) {
		began <- struct{}{}
		<-release
		r.Respond(wire.Payload(`{"summary":"done"}`))
	})
	asker := laptop.dial()
	go asker.call("query", client.QueryParams{To: "desk", Payload: query("slow")}, nil)
	await.Receive(t, "the query", began)
	before := time.Now()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		laptop.stop()
	}()
	var row client.Peer
	await.Until(t, "the laptop leaves", func() bool {
		row = desk.row(laptop)
		return row.State != client.PeerConnected
	})
	if row.LastSeen.Before(before) {
		t.Errorf("seen last at %v, %v before it began to leave", row.LastSeen, before.Sub(row.LastSeen.Time))
	}
	close(release)
	await.Receive(t, "the end of the laptop", stopped)
}
