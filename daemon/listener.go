package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// maxConnections bounds the local connections. One over it is told so.
const maxConnections = 1024

// listenSocket opens the unix socket, born with mode 0600. The directory's lock is
// held, so a file that is there is a killed daemon's.
func listenSocket(ctx context.Context, path string) (*net.UnixListener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{Control: bornPrivate}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	return l.(*net.UnixListener), nil
}

// serve accepts local connections until ctx ends; then it closes them and waits
// for what runs on them.
func (d *Daemon) serve(ctx context.Context) error {
	var sessions sync.WaitGroup
	defer sessions.Wait()
	defer context.AfterFunc(ctx, func() { d.socket.Close() })()
	places := make(chan struct{}, maxConnections)
	for {
		c, err := d.socket.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept on %s: %w", d.home.socket(), err)
		}
		if err := admitUser(c); err != nil {
			refuse(c, err)
			continue
		}
		select {
		case places <- struct{}{}:
		default:
			refuse(c, kinds.Errorf(kinds.Overloaded, "%d connections are open on this socket, the most there can be: close some", maxConnections))
			continue
		}
		sessions.Go(func() {
			defer func() { <-places }()
			d.converse(ctx, c)
		})
	}
}

// admitUser lets in the user whom the state directory belongs to.
func admitUser(c *net.UnixConn) error {
	uid, err := peerUID(c)
	if err != nil {
		return kinds.Errorf(kinds.Internal, "the kernel does not say who connected: %v", err)
	}
	if uid != os.Geteuid() {
		return kinds.Errorf(kinds.NotAuthorized, "this daemon belongs to user %d, and you are user %d: run your own", os.Geteuid(), uid)
	}
	return nil
}

// refuse says why in a line and closes the connection. The line fits any socket
// buffer, so nobody is waited for.
func refuse(c *net.UnixConn, cause error) {
	defer c.Close()
	e := kinds.AsError(cause)
	data, err := json.Marshal(e)
	if err != nil {
		return
	}
	line, err := json.Marshal(struct {
		Version string           `json:"jsonrpc"`
		ID      *int             `json:"id"`
		Error   *client.RPCError `json:"error"`
	}{"2.0", nil, &client.RPCError{Code: client.CodeProtocol, Message: e.Message, Data: data}})
	if err != nil {
		return
	}
	c.Write(append(line, '\n'))
}

// session is one local connection.
type session struct {
	daemon *Daemon
	conn   *client.Conn
	ending <-chan struct{} // closed when it is the daemon that ends it
}

// converse serves one connection to its end.
func (d *Daemon) converse(ctx context.Context, c *net.UnixConn) {
	s := &session{daemon: d, ending: ctx.Done()}
	s.conn = client.NewConn(c, client.Options{
		MaxLine:  d.config.Load().MaxMessage + client.LineMargin,
		Handler:  s.handle,
		PushBack: true,
	})
	err := s.conn.Run(ctx)
	// No handler runs any more, so nothing attaches or subscribes after this.
	d.subscribers.set(s.conn, nil)
	if a := d.agents.detach(s.conn); a != nil {
		d.tasks.attend(a.Name)
		d.log.Info("agent detached", "agent", a.Name)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		d.log.Debug("local connection ended", "err", err)
	}
}

// handle answers one request, in a goroutine of its own.
func (s *session) handle(ctx context.Context, _ *client.Conn, r *client.Request) {
	m, ok := methods[r.Method]
	if !ok {
		r.ReplyError(client.MethodNotFound(r.Method))
		return
	}
	result, err := m(ctx, s, r)
	if err != nil {
		r.ReplyError(s.stopping(r.Method, err))
		return
	}
	r.Reply(result)
}

// stopping tells a caller that still waits when the daemon ends that it was not
// the caller who gave up.
func (s *session) stopping(method string, err error) error {
	select {
	case <-s.ending:
	default:
		return err
	}
	e := kinds.AsError(err)
	if e.Code != kinds.Cancelled || e.From != "" {
		return err
	}
	told := kinds.Errorf(kinds.DaemonUnavailable, "%s: the daemon is shutting down: try again when it is back", method)
	told.Details = e.Details
	return told
}
