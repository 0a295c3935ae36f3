// Package local serves the local API: the unix sockets on which programs of this machine connect, the
// connections, and the calls of methods on them.
//
// A method that guests may not call is refused before its params are read. If a method panics, only that
// call fails. Idle connections make room for new ones. The server waits while it lacks
// descriptors.
//
// The services of the daemon define which methods there are and what they do.
package local

import (
	"context"
	"log/slog"
	"net"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// MaxConnections bounds the connections of a socket that are in use. One more gets an
// error and is closed.
const MaxConnections = 1024

// Server serves methods. Its fields are set before it serves.
type Server struct {
	Methods    map[string]Method
	Agents     *registry.Registry
	MaxMessage func() int // the bytes that a message may have
	Log        *slog.Logger

	IsInUse []func(*Conn) bool // each reports whether somebody is to be reached by the connection, though no call is under way
	Ended   []func(*Conn)      // called in this order when a connection has ended and nothing runs on it
}

// Serve accepts connections until ctx ends; then it closes them and waits for what runs on them.
// Nothing else ends it. At most most connections are in use.
func (s *Server) Serve(ctx context.Context, at *Socket, most int) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	l := NewPatientListener(at.UnixListener, s.Log) // users are checked below, so that they get the reason
	l.state = &at.acceptState
	defer context.AfterFunc(ctx, func() { at.Close(); l.Close() })()
	var open connList[*Conn]
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
		uc := accepted.(*net.UnixConn)
		if err := at.checkUser(uc); err != nil {
			refuseConn(uc, err)
			continue
		}
		c := s.NewConn(ctx, uc, at)
		if !open.addOrReplaceOldest(c, most, (*Conn).isIdle) {
			refuseConn(uc, kinds.Errorf(kinds.Overloaded, "%d connections are in use on this socket, the most there can be: end some of the programs that hold them, or start acpd with a larger ulimit -n", most))
			continue
		}
		running.Go(func() {
			defer open.remove(c)
			c.Serve(ctx)
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
