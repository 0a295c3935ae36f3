// Package channels serves OpenIntent's channels: over HTTP to the programs of this machine, and on streams to
// other daemons.
//
// It bounds what a program costs that sends slowly, or reads slowly. It leaves to package remote which daemon
// answers a request, and to package openintent what the request means.
package channels

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/admin"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/measures"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/api"
	"github.com/acpd/acpd/openintent/remote"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

const (
	maxHTTPConns      = 10_240 // connections of a listener; event streams are most of them
	maxGuestHTTPConns = 2_048  // of that in the agents' folder, where 224 agents can be attached
	maxHeader         = 32 << 10
	headerTime        = 10 * time.Second
	idleTime          = 2 * time.Minute
	hangupTime        = 2 * time.Second // for answers that are under way when the daemon ends
	httpBacklog       = slog.LevelDebug // level of net/http's errors about its clients
)

// Deps is what channels need of their daemon.
type Deps struct {
	Self     identity.ID
	Dir      string // the state directory
	DB       *store.DB
	Trust    *identity.TrustStore
	Budget   *budget.Book
	Node     *peer.Node
	Agents   *registry.Registry
	Space    *admin.Space
	Measures *measures.Measures // nil if nothing is counted for metrics
	MaxConns int                // local connections, for which there are descriptors
	PeerLog  *budget.Log
	Log      *slog.Logger

	Config func() *config.Config
	// Admit returns an error unless a peer may begin a stream of a kind now.
	Admit func(from identity.ID, kind string) error
}

// Service serves channels on http.sock, on the one in the agents' folder, and, if it is configured, on
// loopback TCP.
type Service struct {
	Deps
	*remote.Gateway
	Listeners []net.Listener
	Accepting []*local.PatientListener // below Listeners
	Bodies    *jsonrpc.InputLimit      // of the requests that agents make

	servers []*http.Server
}

// Open makes the engine and binds its listeners. If it returns an error, the caller closes the service all the same.
func Open(ctx context.Context, deps Deps) (s *Service, err error) {
	s = &Service{Deps: deps}
	cfg := s.Config()
	how := cfg.Channels
	s.Gateway, err = remote.OpenGateway(ctx, remote.Config{
		Self: s.Self, Trusted: s.Trust.FindPeer, Peers: s.Trust.Peers, Hosts: s.listHosts,
		Engine: openintent.Config{
			Store: s.DB, Budget: s.Budget, Log: s.Log, PeerLog: s.PeerLog, Lenient: how.Lenient,
			Room: func(home string) error {
				from, err := identity.ParseID(home)
				if err != nil {
					return err
				}
				return s.Space.CheckRoom(from)
			},
			Freeing: s.Space.RunWithReserve,
		},
		Open: func(ctx context.Context, to identity.ID) (remote.Stream, error) {
			return s.Node.OpenStream(ctx, to, wire.StreamHTTP)
		},
		OpenTo: func(p identity.Peer) bool { return s.Config().Channels.IsOpenTo(p) },
		Admit:  func(from identity.ID) error { return s.Admit(from, config.PolicyChannel) },
		Around: func(h http.Handler) http.Handler { return s.Measures.CountRequestsOf(measures.AskedByPeer, h) },
	})
	if err != nil {
		return s, err
	}
	s.Node.Handle(wire.StreamHTTP, peer.FeatureChannel, func(ctx context.Context, from identity.ID, stream *peer.Stream) {
		s.ServeStream(store.WithRequester(ctx, from), from, stream)
	})
	own, err := local.OpenOwnerSocket(ctx, filepath.Join(s.Dir, client.HTTPSocketName))
	if err != nil {
		return s, err
	}
	most := min(maxHTTPConns, s.MaxConns)
	limited := func(l net.Listener, most int) net.Listener {
		patient := local.NewPatientListener(l, s.Log)
		s.Accepting = append(s.Accepting, patient)
		return local.NewLimitListener(local.WrapConns(patient, newWriteTimeoutConn), most, patient)
	}
	s.addServer(limited(own, most), api.IdentifyLocalCaller)
	guests, err := local.OpenGuestSocket(ctx, s.Dir, client.HTTPSocketName, cfg.Agents.UIDs)
	if err != nil {
		return s, err
	}
	s.addServer(limited(guests, min(maxGuestHTTPConns, most)), api.NewAgentIdentifier(s.checkAgentKey))
	s.Bodies = guests.InputLimit
	last := s.servers[len(s.servers)-1]
	last.Handler = newBodyLimitHandler(last.Handler, s.Bodies, semaphore.NewWeighted(maxBodyBytes))
	if how.Listen == "" {
		return s, nil
	}
	tcp, err := new(net.ListenConfig).Listen(ctx, "tcp", how.Listen)
	if err != nil {
		return s, ownwords.Errorf("channels.listen: %w: choose another port in config.yaml", err)
	}
	keys := make([]api.Key, len(how.Keys))
	for i, k := range how.Keys {
		keys[i] = api.Key{Hash: k.SHA256, Agent: k.Agent}
	}
	keyed := local.NewKeyListener(limited(local.WrapConns(tcp, local.NewQuickAckConn), most), most)
	s.addServer(keyed, local.ExemptKeyedConns(api.NewKeyIdentifier(keys)))
	return s, nil
}

// checkAgentKey returns an error unless a guest may speak for an agent. If an agent of that
// name is attached, or its name is kept, the request has to show its key.
func (s *Service) checkAgentKey(agent string, r *http.Request) error {
	known, key := s.Agents.FindKeyHash(agent)
	if !known || registry.KeyHash(sha256.Sum256([]byte(r.Header.Get("X-API-Key")))) == key {
		return nil
	}
	return &api.Error{Status: http.StatusForbidden, Code: "agent_key", Message: "X-API-Key: an agent of that name is attached: send the key that its attach returned (acpctl: ACP_AGENT_KEY with ACP_AGENT), or be another agent"}
}

// listHosts returns the connected peers that offer channels.
func (s *Service) listHosts() (all []identity.ID) {
	for _, p := range s.Node.Peers() {
		if slices.Contains(p.Features, peer.FeatureChannel) {
			all = append(all, p.ID)
		}
	}
	return all
}

// addServer adds a server for a listener. identify returns who sends a request.
func (s *Service) addServer(l net.Listener, identify func(*http.Request) (openintent.Caller, error)) {
	server := &http.Server{
		Handler: s.Measures.CountRequestsOf(measures.AskedHere, s.API.NewHandler(identify)), MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		ErrorLog:    slog.NewLogLogger(s.Log.Handler(), httpBacklog),
		ConnContext: local.AddConnToContext, ConnState: local.RecordConnState,
	}
	s.Listeners, s.servers = append(s.Listeners, l), append(s.servers, server)
}

// Run serves until ctx ends. Then it ends the event streams, lets other answers finish and closes the
// listeners. The requests of other daemons end when peers does, which is before ctx: their connections
// drain first.
func (s *Service) Run(ctx, peers context.Context) error {
	g, working := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Gateway.Run(peers) })
	ended := make(chan struct{})
	g.Go(func() error {
		defer close(ended)
		return s.Engine.Run(working)
	})
	for i, server := range s.servers {
		g.Go(func() error {
			if err := server.Serve(s.Listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				return ownwords.Errorf("channels: %w", err)
			}
			return nil
		})
		g.Go(func() error {
			<-ended
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), hangupTime)
			defer cancel()
			if server.Shutdown(late) != nil {
				server.Close()
			}
			return nil
		})
	}
	return g.Wait()
}

// Close closes the listeners of channels that were not run.
func (s *Service) Close() {
	for _, l := range s.Listeners {
		l.Close()
	}
}

// writeTimeoutConn ends when its client does not read.
type writeTimeoutConn struct{ net.Conn }

func newWriteTimeoutConn(c net.Conn) net.Conn { return writeTimeoutConn{c} }

func (c writeTimeoutConn) Write(b []byte) (int, error) { return remote.WriteInParts(c.Conn, b) }
