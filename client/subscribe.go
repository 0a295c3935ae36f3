package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

// Subscribe gives copies of messages, and events, to the functions, one after the other,
// until ctx ends. A nil function gets nothing. Subscribe has a connection of its own, so
// the functions may call the client. They must return soon: the daemon drops a subscriber
// that reads nothing for 5 s. If the connection breaks, Subscribe renews it; what
// happened meanwhile is lost. The error is that of ctx, that of the first attempt to
// subscribe, or a later refusal.
func (c *Client) Subscribe(ctx context.Context, p SubscribeParams, message func(*Message), event func(*Event)) error {
	notified := func(method string, params jsontext.Value) {
		switch {
		case method == NotifyMessage && message != nil:
			if m := new(Message); jsonrpc.ReadValue(params, m, false) == nil {
				message(m)
			}
		case method == NotifyEvent && event != nil:
			if e := new(Event); jsonrpc.ReadValue(params, e, false) == nil {
				event(e)
			}
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	return keepConnected(ctx, func() (*jsonrpc.Conn, error) {
		stream, err := dial(ctx, c.Socket, SocketName)
		if err != nil {
			return nil, err
		}
		conn := jsonrpc.NewConn(stream, jsonrpc.Options{Notified: notified})
		running.Go(func() { conn.Run(ctx) })
		if err := conn.CallWithin(ctx, c.Patience, MethodSubscribe, &p, nil); err != nil {
			conn.Close()
			if c.Patience > 0 && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				err = c.silenceError(MethodSubscribe, c.Patience)
			}
			if errors.Is(err, jsonrpc.ErrClosed) {
				err = errUnavailable(true, "subscribe: the daemon went away")
			}
			return nil, err
		}
		return conn, nil
	})
}

// keepConnected calls open, and again after the connection broke, until ctx ends. It
// returns if the first open fails, or a later one for good.
func keepConnected(ctx context.Context, open func() (*jsonrpc.Conn, error)) error {
	const first, longest = 50 * time.Millisecond, 2 * time.Second
	pause := first
	for opened := false; ; {
		conn, err := open()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch e, ok := errors.AsType[*kinds.Error](err); {
		case err == nil:
			opened, pause = true, first
			select {
			case <-conn.Done():
			case <-ctx.Done():
				return ctx.Err()
			}
		case !opened || !ok || !e.Retryable:
			return err
		}
		if err := pace.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, longest)
	}
}
