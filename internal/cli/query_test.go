package cli

import (
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/cli/clitest"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A query is repeated only while it cannot have arrived.
func TestWaitForPeer(t *testing.T) {
	f := newDaemon(t)
	calls := 0
	answers := func(errs ...error) {
		calls = 0
		f.SetHandler(client.MethodQuery, func(*jsonrpc.Request) (any, error) {
			if calls++; calls <= len(errs) {
				return nil, errs[calls-1]
			}
			return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response", Payload: wire.Payload(`{"summary":"here"}`)}, nil
		})
	}
	away := kinds.Errorf(kinds.Unreachable, "away").WithDelivered(kinds.DeliveredNo)
	answers(away, away)
	if got := f.Run("query", "desk", "hi", "--wait-for-peer", "20s"); got.Out != "here\n" || calls != 3 {
		t.Errorf("%+v after %d calls", got, calls)
	}
	for _, end := range []error{
		kinds.Errorf(kinds.Unreachable, "gone").WithDelivered(kinds.DeliveredUnknown),
		kinds.Errorf(kinds.UnknownPeer, "who?"),
	} {
		answers(end)
		if got := f.Run("query", "desk", "hi", "--wait-for-peer", "20s"); got.Code != 5 || calls != 1 {
			t.Errorf("%+v after %d calls", got, calls)
		}
	}
	answers(away)
	if got := f.Run("query", "desk", "hi"); got.Code != 5 || calls != 1 {
		t.Errorf("%+v after %d calls", got, calls)
	}
}

// ACP_ID is the parent of what is sent, unless another one is named.
func TestParent(t *testing.T) {
	f := newDaemon(t)
	var p client.QueryParams
	f.SetHandler(client.MethodQuery, func(r *jsonrpc.Request) (any, error) {
		p = client.QueryParams{}
		return &client.Answer{ID: clitest.SomeID, From: clitest.DeskID, Kind: "response", Payload: wire.Payload(`{"summary":""}`)}, r.ReadParams(&p)
	})
	t.Setenv("ACP_ID", clitest.SomeID.String())
	f.Run("query", "desk", "hi")
	if p.Parent != clitest.SomeID || p.ID.IsZero() || p.Thread != "" {
		t.Errorf("%+v", p)
	}
	other := wire.NewMessageID()
	f.Run("query", "desk", "hi", "--parent", other.String())
	if p.Parent != other {
		t.Errorf("%+v", p)
	}
	t.Setenv("ACP_ID", "")
	f.Run("query", "desk", "hi", "--thread", "t")
	if !p.Parent.IsZero() || p.Thread != "t" {
		t.Errorf("%+v", p)
	}
}
