package client

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/acpd/acpd/client/jsonrpc"
)

// OpenPipe returns a connection that the daemon has made a pipe: what is written to it are packets
// for the daemon, as another daemon writes them into the command of its configuration, and what is
// read are the daemon's (docs/protocol.md, Pipes). The connection is not that of other calls. The
// caller closes it.
//
// It blocks until the daemon has taken the connection, for Patience at most, or until ctx ends.
// The error is overloaded if the daemon has as many pipes as it takes.
func (c *Client) OpenPipe(ctx context.Context) (net.Conn, error) {
	return c.openFor(ctx, SpeakParams{}, MethodPipe, nil, nil)
}

// openFor opens a connection and calls a method after whose answer it carries something else. Before, it speaks
// as an agent unless that is zero. The caller closes the connection.
//
// It blocks until the result is read, for Patience at most, or until ctx ends.
func (c *Client) openFor(ctx context.Context, speaker SpeakParams, method string, params, result any) (net.Conn, error) {
	conn, err := dialSocket(ctx, c.Socket, SocketName)
	if err != nil {
		return nil, err
	}
	if c.Patience > 0 {
		conn.SetDeadline(time.Now().Add(c.Patience))
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	if speaker != (SpeakParams{}) {
		err = jsonrpc.CallOnly(conn, MethodSpeak, &speaker, nil)
	}
	if err == nil {
		err = jsonrpc.CallOnly(conn, method, params, result)
	}
	if !stop() {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err == nil {
		return conn, nil
	}
	conn.Close()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, c.newSilenceError(method, c.Patience)
	case errors.Is(err, jsonrpc.ErrClosed):
		return nil, newUnavailableError(true, "%s: the daemon went away", method)
	}
	return nil, explainOlderDaemon(method, err)
}
