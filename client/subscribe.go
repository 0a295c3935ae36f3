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

// Subscribe calls message with a copy of each message, and event with each event, that p
// selects, one call at a time, and blocks until ctx ends. Either function may be nil. What
// cannot be read is skipped.
//
// Subscribe has a connection of its own, so the functions may call the client. They must
// return soon: the daemon drops a subscriber that reads nothing for 5 s. If the connection
// breaks, Subscribe renews it; what happened meanwhile is lost. It returns the error of ctx,
// any error of the first attempt to subscribe, or a later one that is not retryable.
func (c *Client) Subscribe(ctx context.Context, p SubscribeParams, message func(*Message), event func(*Event)) error {
	deliver := func(method string, params jsontext.Value) {
		switch {
		case method == NotificationMessage && message != nil:
			if m := new(Message); jsonrpc.ReadValue(params, m, false) == nil {
				message(m)
			}
		case method == NotificationEvent && event != nil:
			if e := new(Event); jsonrpc.ReadValue(params, e, false) == nil {
				event(e)
			}
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	return keepConnected(ctx, func() (*jsonrpc.Conn, error) {
		socket, err := dialSocket(ctx, c.Socket, SocketName)
		if err != nil {
			return nil, err
		}
		conn := jsonrpc.NewConn(socket, jsonrpc.Options{Notified: deliver})
		running.Go(func() { conn.Run(ctx) })
		err = c.callOnConn(ctx, conn, MethodSubscribe, &p, nil)
		if err != nil {
			conn.Close()
		}
		return conn, err
	})
}

// keepConnected calls open, waits until that connection ends, and calls it again after a
// pause, until ctx ends. It returns the error of ctx, any error of open until one has
// succeeded, or a later one that is not retryable. It closes no connection.
func keepConnected(ctx context.Context, open func() (*jsonrpc.Conn, error)) error {
	const shortestPause, longestPause = 50 * time.Millisecond, 2 * time.Second
	pause := shortestPause
	for opened := false; ; {
		conn, err := open()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch e, ok := errors.AsType[*kinds.Error](err); {
		case err == nil:
			opened, pause = true, shortestPause
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
		pause = min(2*pause, longestPause)
	}
}
