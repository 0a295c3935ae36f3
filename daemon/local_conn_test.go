package daemon

import (
	"context"
	"errors"
	"maps"
	"os"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// TestAPanicInAnyMethodEndsOneCall: whatever method fails so, its caller is told, and
// nothing of the call stays: neither its place on the connection nor the reserve.
// holds: security.md#agents-on-this-machine
func TestAPanicInAnyMethodEndsOneCall(t *testing.T) {
	desk := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, measure: func(string) (disk.Space, error) {
		return disk.Space{}, nil // so that the reserve is spent
	}})
	methods := desk.local.Methods
	real := maps.Clone(methods)
	fails := func(context.Context, *local.Conn, *jsonrpc.Request) (any, error) { panic("a bug") }
	for name, m := range real {
		methods[name] = local.Method{Serve: fails, ForGuests: m.ForGuests}
	}
	methods[client.MethodAck] = local.Method{Serve: fails, ForGuests: true}.WithDiskReserve(desk.space.Reserve)
	l := desk.dial()
	for name := range real {
		for range 3 {
			l.refused(kinds.Internal, name, nil)
		}
	}
	maps.Copy(methods, real)
	l.must("whoami", nil, nil)
	await.Until(t, "the reserve is there again", func() bool {
		_, err := os.Stat(desk.home.filePath("reserve"))
		return err == nil
	})
	if l.IsBusy() {
		t.Error("a call is still under way")
	}
}

// Every method without params, and one that panics, gets an answer and ends nothing.
// holds: security.md#agents-on-this-machine
func TestNoCallEndsTheDaemon(t *testing.T) {
	desk := start(t, stateDir(t), "desk")
	methods := desk.local.Methods
	methods["panic"] = local.Method{Serve: func(context.Context, *local.Conn, *jsonrpc.Request) (any, error) { panic("a bug") }, ForGuests: true}
	for name, m := range methods {
		if name == "drain" {
			continue // it is there to end the daemon
		}
		for _, l := range []*program{desk.dial(), desk.guest(nil)} {
			ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
			if err := l.Call(ctx, name, nil, nil); name == "notify" && !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) || !m.ForGuests && err != nil && errors.Is(err, &kinds.Error{Code: kinds.Internal}) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
	}
	desk.dial().refused(kinds.Internal, "panic", nil)
	desk.dial().must("whoami", nil, nil)
}
