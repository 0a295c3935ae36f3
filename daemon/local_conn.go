package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"regexp"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// maxConnections bounds the connections of a local socket that are in use. One more gets an
// error and is closed.
const maxConnections = 1024

// listenSocket opens a unix socket that has mode 0600 from the beginning. The caller holds
// the directory's lock, so a file that is there is one of a killed daemon.
func listenSocket(ctx context.Context, path string) (*net.UnixListener, error) {
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{Control: makeSocketPrivate}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, ownwords.Errorf("socket: %w", err)
	}
	return l.(*net.UnixListener), nil
}

// serveLocalSocket accepts local connections until ctx ends; then it closes them and waits
// for what runs on them. Nothing else ends it.
func (d *Daemon) serveLocalSocket(ctx context.Context, at *localSocket, most int) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	l := newPatientListener(at.UnixListener, d.log) // users are checked below, so that they hear why
	l.state = &at.acceptState
	defer context.AfterFunc(ctx, func() { at.Close(); l.Close() })()
	var open connList[*localConn]
	for {
		accepted, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				accepted.Close()
			}
			return nil
		}
		if err != nil {
			return ownwords.Errorf("accept on %s: %w", at.path, err)
		}
		c := accepted.(*net.UnixConn)
		if err := at.checkUser(c); err != nil {
			refuseConn(c, err)
			continue
		}
		s := d.newLocalConn(ctx, c, at)
		if !open.addOrReplaceOldest(s, most, (*localConn).isIdle) {
			refuseConn(c, kinds.Errorf(kinds.Overloaded, "%d connections are in use on this socket, the most there can be: end some of the programs that hold them, or start acpd with a larger ulimit -n", most))
			continue
		}
		running.Go(func() {
			defer open.remove(s)
			s.serve(ctx)
		})
	}
}

// refuseConn writes the cause in one line and closes the connection. The line fits any
// socket buffer, so this does not block.
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
	speaksAs atomic.Pointer[registry.Credential] // the agent as which it calls; nil: the one that it attached
	shutdown <-chan struct{}                     // closed when it is the daemon that ends it
}

func (d *Daemon) newLocalConn(ctx context.Context, c net.Conn, at *localSocket) *localConn {
	s := &localConn{daemon: d, isGuest: at.guests, shutdown: ctx.Done()}
	if s.isGuest {
		rand.Read(s.key[:])
	}
	s.conn = jsonrpc.NewConn(c, jsonrpc.Options{
		SplicePayloads: true,
		MaxLine:        d.config.Load().MaxMessage + jsonrpc.LineMargin,
		InputLimit:     at.inputLimit,
		RequestLimit:   at.requestLimit,
		UnreadRoom:     at.unreadRoom,
		MaxUnread:      maxUnreadBytes / 2,
		Handler:        s.answerRequest,
		PushBack:       true,
	})
	return s
}

// Close ends the connection.
func (s *localConn) Close() error { return s.conn.Close() }

// isIdle reports whether nothing is under way on the connection, and nobody is to be
// reached by it.
func (s *localConn) isIdle() bool {
	return !s.conn.IsBusy() && s.daemon.agents.FindByConn(s.conn) == nil && !s.daemon.subscribers.isSubscribed(s.conn) && !s.daemon.traffic.IsWatching(s)
}

// serve serves the connection to its end.
func (s *localConn) serve(ctx context.Context) {
	d := s.daemon
	err := s.conn.Run(ctx)
	// No handler runs any more, so nothing attaches, subscribes or watches after this.
	d.subscribers.replace(s.conn, nil)
	d.traffic.EndWatch(s)
	d.profiler.forget(s)
	d.detachAgent(s, ctx.Err() != nil)
	d.releaseBackup(s)
	if err != nil && !errors.Is(err, context.Canceled) {
		d.log.Debug("local connection ended", "err", err)
	}
}

// answerRequest answers one request, in a goroutine of its own.
func (s *localConn) answerRequest(ctx context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) {
	m, ok := methods[r.Method]
	if !ok {
		r.RespondError(jsonrpc.NewMethodNotFound(r.Method))
		return
	}
	if s.isGuest && m.callers != forAgents {
		r.RespondError(kinds.Errorf(kinds.NotAuthorized, "%s: this is for whoever the daemon belongs to, and not served to agents: ask that person", r.Method))
		return
	}
	result, err := s.callMethod(ctx, m, r)
	if err != nil {
		r.RespondError(s.explainError(r.Method, err))
		return
	}
	r.Respond(result)
}

// callMethod calls a method. A method that panics has failed, and the daemon goes on: no
// program of this machine may end it by a call.
func (s *localConn) callMethod(ctx context.Context, m method, r *jsonrpc.Request) (result any, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.daemon.log.Error("a method panicked", "method", r.Method, "panic", v, "stack", string(debug.Stack()))
			err = kinds.Errorf(kinds.Internal, "%s: the daemon failed to do this: its log says why", r.Method)
		}
	}()
	return m.methodFunc(ctx, s, r)
}

// explainError returns the error that a caller hears.
func (s *localConn) explainError(method string, err error) error {
	_, isOfCall := errors.AsType[*jsonrpc.Error](err) // it quotes what the caller has sent
	if cause := ownwords.FindForeign(err); cause != "" && !isOfCall {
		s.daemon.log.Debug("a call failed", "method", method, "cause", cause)
	}
	return s.maskErrorAddrs(s.explainShutdownError(method, explainFullDiskError(err)))
}

// explainShutdownError returns daemon_unavailable instead of cancelled if the daemon ends while a
// caller waits.
func (s *localConn) explainShutdownError(method string, err error) error {
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

// hostPort matches text that reads like host:port.
var hostPort = regexp.MustCompile(`(\[[0-9A-Fa-f:.%\w-]+\]|[\w.%-]+):\d{1,5}\b`)

// maskErrorAddrs takes addresses out of an error of this daemon if a guest is to read it: agents
// know their peers by name.
func (s *localConn) maskErrorAddrs(err error) error {
	e, ok := errors.AsType[*kinds.Error](err)
	if !s.isGuest || !ok || e.From != "" || !hostPort.MatchString(e.Message) && !hostPort.MatchString(e.Quoted) {
		return err
	}
	told := *e
	told.Message = hostPort.ReplaceAllString(e.Message, "its address")
	told.Quoted = hostPort.ReplaceAllString(e.Quoted, "its address")
	return &told
}
