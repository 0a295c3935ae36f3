package daemon

import (
	"context"
	"maps"
	"os"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// TestAPanicInAnyMethodEndsOneCall: whatever method fails so, its caller is told, and
// nothing of the call stays: neither its place on the connection nor the reserve.
func TestAPanicInAnyMethodEndsOneCall(t *testing.T) {
	desk := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, look: func(string) (disk.Space, error) {
		return disk.Space{}, nil // so that the reserve is spent
	}})
	real := maps.Clone(methods)
	t.Cleanup(func() { maps.Copy(methods, real) })
	fails := func(context.Context, *localConn, *jsonrpc.Request) (any, error) { panic("a bug") }
	for name, m := range real {
		methods[name] = method{fails, m.by}
	}
	methods[client.MethodAck] = method{spendReserve(fails), forAgents}
	l := desk.dial()
	for name := range real {
		for range 3 {
			l.refused(kinds.Internal, name, nil)
		}
	}
	maps.Copy(methods, real)
	l.must("whoami", nil, nil)
	await.Until(t, "the reserve is there again", func() bool {
		_, err := os.Stat(desk.home.reserve())
		return err == nil
	})
	if l.Busy() {
		t.Error("a call is still under way")
	}
}
