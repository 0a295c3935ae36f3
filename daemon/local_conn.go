package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/kinds"
)

// maxConnections bounds the connections of a local socket that are in use. One over
// it is told so.
const maxConnections = 1024

// listenSocket opens the unix socket, born with mode 0600. The directory's lock is
// held, so a file that is there is a killed daemon's.
func listenSocket(ctx context.Context, path string) (*net.UnixListener, error) {
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{Control: makePrivate}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	return l.(*net.UnixListener), nil
}

// serveLocal accepts local connections until ctx ends; then it closes them and waits
// for what runs on them. Nothing else ends it.
func (d *Daemon) serveLocal(ctx context.Context, at *localSocket, most int) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	l := newPatientListener(uncheckedSocket{at}, d.log)
	defer context.AfterFunc(ctx, func() { l.Close() })()
	all := localConns{most: most}
	for {
		accepted, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				accepted.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept on %s: %w", at.path, err)
		}
		c := accepted.(*net.UnixConn)
		if err := at.checkUser(c); err != nil {
			refuseConn(c, err)
			continue
		}
		s := d.newLocalConn(ctx, c, at)
		if !all.add(s) {
			refuseConn(c, kinds.Errorf(kinds.Overloaded, "%d connections are in use on this socket, the most there can be: end some of the programs that hold them, or start acpd with a larger ulimit -n", most))
			continue
		}
		running.Go(func() {
			defer all.remove(s)
			s.serve(ctx)
		})
	}
}

// refuseConn says why in a line and closes the connection. The line fits any socket
// buffer, so nobody is waited for.
func refuseConn(c *net.UnixConn, cause error) {
	defer c.Close()
	e := kinds.AsError(cause)
	data, err := json.Marshal(e)
	if err != nil {
		return
	}
	line, err := json.Marshal(struct {
		Version string         `json:"jsonrpc"`
		ID      *int           `json:"id"`
		Error   *jsonrpc.Error `json:"error"`
	}{"2.0", nil, &jsonrpc.Error{Code: jsonrpc.CodeProtocol, Message: e.Message, Data: data}})
	if err != nil {
		return
	}
	c.Write(append(line, '\n'))
}

// localConn is one local connection.
type localConn struct {
	daemon   *Daemon
	conn     *jsonrpc.Conn
	isGuest  bool                                // it came through the agents' folder
	key      registry.KeyHash                    // of a guest that is no agent, so that what it sent is its own
	speaksAs atomic.Pointer[registry.Credential] // as whom it calls; nil: as the agent that it attached
	shutdown <-chan struct{}                     // closed when it is the daemon that ends it
}

func (d *Daemon) newLocalConn(ctx context.Context, c net.Conn, at *localSocket) *localConn {
	s := &localConn{daemon: d, isGuest: at.guests, shutdown: ctx.Done()}
	if s.isGuest {
		rand.Read(s.key[:])
	}
	s.conn = jsonrpc.NewConn(c, jsonrpc.Options{
		MaxLine:      d.config.Load().MaxMessage + jsonrpc.LineMargin,
		InputLimit:   at.inputLimit,
		RequestLimit: at.requestLimit,
		Handler:      s.answerRequest,
		PushBack:     true,
	})
	return s
}

// serve serves the connection to its end.
func (s *localConn) serve(ctx context.Context) {
	d := s.daemon
	err := s.conn.Run(ctx)
	// No handler runs any more, so nothing attaches or subscribes after this.
	d.subscribers.set(s.conn, nil)
	if a := d.agents.Detach(s.conn, d.delegations.OpenAgents); a != nil {
		d.delegations.CheckAgent(a.Name)
		d.log.Info("agent detached", "agent", a.Name)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		d.log.Debug("local connection ended", "err", err)
	}
}

// answerRequest answers one request, in a goroutine of its own.
func (s *localConn) answerRequest(ctx context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) {
	m, ok := methods[r.Method]
	if !ok {
		r.ReplyError(jsonrpc.MethodNotFound(r.Method))
		return
	}
	if s.isGuest && m.by != forAgents {
		r.ReplyError(kinds.Errorf(kinds.NotAuthorized, "%s: this is for whoever the daemon belongs to, and not served to agents: ask that person", r.Method))
		return
	}
	result, err := s.callMethod(ctx, m, r)
	if err != nil {
		r.ReplyError(s.explainError(r.Method, err))
		return
	}
	r.Reply(result)
}

// callMethod calls a method. What a program of this machine says must not end the daemon, so
// a method that panics has failed, and no more.
func (s *localConn) callMethod(ctx context.Context, m method, r *jsonrpc.Request) (result any, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.daemon.log.Error("a method panicked", "method", r.Method, "panic", v, "stack", string(debug.Stack()))
			err = kinds.Errorf(kinds.Internal, "%s: the daemon failed to do this: its log says why", r.Method)
		}
	}()
	return m.methodFunc(ctx, s, r)
}

// explainError is what a caller hears of an error.
func (s *localConn) explainError(method string, err error) error {
	return s.hideAddrs(s.explainShutdown(method, explainFull(err)))
}

// hideAddrs takes out of an error what is not for a guest.
func (s *localConn) hideAddrs(err error) error {
	if s.isGuest {
		return hideAddrs(err)
	}
	return err
}

// explainShutdown tells a caller that still waits when the daemon ends that it was not
// the caller who gave up.
func (s *localConn) explainShutdown(method string, err error) error {
	select {
	case <-s.shutdown:
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
