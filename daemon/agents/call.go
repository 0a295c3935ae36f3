package agents

import (
	"context"
	"errors"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/kinds"
)

// Call calls an agent by the message's kind. It returns errors in the terms of the
// sender.
func Call(ctx context.Context, limit time.Duration, a *registry.Agent, in *client.Inbound, answer any) error {
	err := a.Conn.CallFor(ctx, in.From, limit, in.Kind, in, answer)
	if err == nil {
		return nil
	}
	coded, isCoded := errors.AsType[*kinds.Error](err)
	rpc, isRPC := errors.AsType[*jsonrpc.Error](err)
	switch {
	case ctx.Err() != nil:
		return kinds.NewErrorFromCause(context.Cause(ctx))
	case errors.Is(err, context.DeadlineExceeded):
		return kinds.NewErrorFromCause(context.DeadlineExceeded)
	case errors.Is(err, jsonrpc.ErrFull):
		e := kinds.Errorf(kinds.Overloaded, "agent %s has too many messages to read: try again later", a.Name)
		e.RetryAfterMS = registry.RetryAfterMS
		return e
	case errors.Is(err, jsonrpc.ErrClosed):
		gone := kinds.Errorf(kinds.NoAgent, "agent %s went away: try again when it is back", a.Name)
		if a.IsSession() && (!isCoded || coded.Delivered() != kinds.DeliveredNo) {
			gone = gone.WithDelivered(kinds.DeliveredUnknown) // its model may have begun
		}
		return gone
	case isCoded && coded.Code.Info().Local: // of a call of the agent's, with words for this machine
		return kinds.Errorf(kinds.Internal, "agent %s failed: a call that it made has failed", a.Name)
	case isCoded && coded.Code == kinds.Timeout && in.Kind == kinds.KindQuery && in.Ref == nil && a.IsSession():
		return coded.SanitizeForDaemon() // delivered no: its model was neither shown the query nor woken for it
	case isCoded:
		return coded.SanitizeForPeer()
	case isRPC && rpc.Code == jsonrpc.CodeMethodNotFound:
		return kinds.Errorf(kinds.UnknownKind, "agent %s does not take a %s", a.Name, in.Kind)
	case isRPC:
		return kinds.Errorf(kinds.Internal, "agent %s answers with the JSON-RPC error %d: have its owner look after it", a.Name, rpc.Code)
	}
	return kinds.Errorf(kinds.Internal, "agent %s failed: %v", a.Name, err)
}
