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
// for what runs on them. Nothing else ends it.
func (d *Daemon) serve(ctx context.Context, at *door, most int) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	l := newPatientListener(unjudged{at}, d.log)
	defer context.AfterFunc(ctx, func() { l.Close() })()
	all := sessions{most: most}
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
		if err := at.admit(c); err != nil {
			refuse(c, err)
			continue
		}
		s := d.newSession(ctx, c, at)
		if !all.enter(s) {
			refuse(c, kinds.Errorf(kinds.Overloaded, "%d connections are in use on this socket, the most there can be: end some of the programs that hold them, or start acpd with a larger ulimit -n", most))
			continue
		}
		running.Go(func() {
			defer all.leave(s)
			s.converse(ctx)
		})
	}
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
		Version string         `json:"jsonrpc"`
		ID      *int           `json:"id"`
		Error   *jsonrpc.Error `json:"error"`
	}{"2.0", nil, &jsonrpc.Error{Code: jsonrpc.CodeProtocol, Message: e.Message, Data: data}})
	if err != nil {
		return
	}
	c.Write(append(line, '\n'))
}

// session is one local connection.
type session struct {
	daemon *Daemon
	conn   *jsonrpc.Conn
	guest  bool                                // it came through the agents' folder
	key    registry.KeyHash                    // of a guest that is no agent, so that what it sent is its own
	speaks atomic.Pointer[registry.Credential] // as whom it calls; nil: as the agent that it attached
	ending <-chan struct{}                     // closed when it is the daemon that ends it
}

func (d *Daemon) newSession(ctx context.Context, c net.Conn, at *door) *session {
	s := &session{daemon: d, guest: at.guests, ending: ctx.Done()}
	if s.guest {
		rand.Read(s.key[:])
	}
	s.conn = jsonrpc.NewConn(c, jsonrpc.Options{
		MaxLine:      d.config.Load().MaxMessage + jsonrpc.LineMargin,
		InputLimit:   at.inputLimit,
		RequestLimit: at.requestLimit,
		Handler:      s.handle,
		PushBack:     true,
	})
	return s
}

// converse serves the connection to its end.
func (s *session) converse(ctx context.Context) {
	d := s.daemon
	err := s.conn.Run(ctx)
	// No handler runs any more, so nothing attaches or subscribes after this.
	d.subscribers.set(s.conn, nil)
	if a := d.agents.Detach(s.conn, d.tasks.OpenAgents); a != nil {
		d.tasks.NoteAgent(a.Name)
		d.log.Info("agent detached", "agent", a.Name)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		d.log.Debug("local connection ended", "err", err)
	}
}

// handle answers one request, in a goroutine of its own.
func (s *session) handle(ctx context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) {
	m, ok := methods[r.Method]
	if !ok {
		r.ReplyError(jsonrpc.MethodNotFound(r.Method))
		return
	}
	if s.guest && m.by != forAgents {
		r.ReplyError(kinds.Errorf(kinds.NotAuthorized, "%s: this is for whoever the daemon belongs to, and not served to agents: ask that person", r.Method))
		return
	}
	result, err := s.call(ctx, m, r)
	if err != nil {
		r.ReplyError(s.tell(r.Method, err))
		return
	}
	r.Reply(result)
}

// call calls a method. What a program of this machine says must not end the daemon, so
// a method that panics has failed, and no more.
func (s *session) call(ctx context.Context, m method, r *jsonrpc.Request) (result any, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.daemon.log.Error("a method panicked", "method", r.Method, "panic", v, "stack", string(debug.Stack()))
			err = kinds.Errorf(kinds.Internal, "%s: the daemon failed to do this: its log says why", r.Method)
		}
	}()
	return m.serve(ctx, s, r)
}

// tell is what a caller hears of an error.
func (s *session) tell(method string, err error) error {
	return s.judge(s.stopping(method, fullOr(err)))
}

// judge takes out of an error what is not for a guest.
func (s *session) judge(err error) error {
	if s.guest {
		return withoutAddrs(err)
	}
	return err
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
