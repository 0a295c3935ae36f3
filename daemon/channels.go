package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/config"
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

// channels serves OpenIntent's channels on http.sock, on the one in the agents' folder, and,
// if it is configured, on loopback TCP.
type channels struct {
	*remote.Gateway
	servers   []*http.Server
	bodies    *jsonrpc.InputLimit // of the requests that agents make
	listeners []net.Listener
	count     func(http.Handler) http.Handler // wraps the handler of a server, to count requests
	accepting []*local.PatientListener        // below them
}

// policyChannel is the word of a policy for the requests about channels that a peer passes
// on.
const policyChannel = "channel"

// openChannels makes the engine and binds its listeners.
func (d *Daemon) openChannels(ctx context.Context, cfg *config.Config) (err error) {
	c, how := new(channels), cfg.Channels
	c.Gateway, err = remote.OpenGateway(ctx, remote.Config{
		Self: d.id, Trusted: d.trust.FindPeer, Peers: d.trust.Peers, Hosts: d.listChannelHosts,
		Engine: openintent.Config{
			Store: d.store, Budget: d.budget, Log: d.log, PeerLog: d.refusalLog, Lenient: how.Lenient, HeldList: how.HeldList, RequestTTL: how.RequestTTL, Retention: how.Retention,
			MaxPayload: how.MaxPayload, QuietAgents: how.QuietAgents,
			Room: func(home string) error {
				from, err := identity.ParseID(home)
				if err != nil {
					return err
				}
				return d.space.CheckRoom(from)
			},
			Freeing: d.space.RunWithReserve,
		},
		Open: func(ctx context.Context, to identity.ID) (remote.Stream, error) {
			return d.node.OpenStream(ctx, to, wire.StreamHTTP)
		},
		OpenTo: func(p identity.Peer) bool { return d.config.Load().Channels.IsOpenTo(p) },
		Admit:  func(from identity.ID) error { return d.checkStreamPermission(from, policyChannel) },
		Around: func(h http.Handler) http.Handler { return d.measures.CountRequestsOf(measures.AskedByPeer, h) },
	})
	if err != nil {
		return err
	}
	d.channels = c
	d.node.Handle(wire.StreamHTTP, peer.FeatureChannel, func(ctx context.Context, from identity.ID, s *peer.Stream) {
		c.ServeStream(store.WithRequester(ctx, from), from, s)
	})
	own, err := local.OpenOwnerSocket(ctx, d.home.filePath(client.HTTPSocketName))
	if err != nil {
		return err
	}
	most := min(maxHTTPConns, d.files.Local)
	limited := func(l net.Listener, most int) net.Listener {
		patient := local.NewPatientListener(l, d.log)
		c.accepting = append(c.accepting, patient)
		return local.NewLimitListener(local.WrapConns(patient, newWriteTimeoutConn), most, patient)
	}
	c.count = func(h http.Handler) http.Handler { return d.measures.CountRequestsOf(measures.AskedHere, h) }
	c.addServer(d.log, limited(own, most), api.IdentifyLocalCaller)
	guests, err := local.OpenGuestSocket(ctx, string(d.home), client.HTTPSocketName, cfg.Agents.UIDs)
	if err != nil {
		return err
	}
	c.addServer(d.log, limited(guests, min(maxGuestHTTPConns, most)), api.NewAgentIdentifier(d.checkAgentKey))
	c.bodies = guests.InputLimit
	last := c.servers[len(c.servers)-1]
	last.Handler = newBodyLimitHandler(last.Handler, c.bodies, semaphore.NewWeighted(maxBodyBytes))
	if how.Listen == "" {
		return nil
	}
	tcp, err := new(net.ListenConfig).Listen(ctx, "tcp", how.Listen)
	if err != nil {
		return ownwords.Errorf("channels.listen: %w: choose another port in config.yaml", err)
	}
	keys := make([]api.Key, len(how.Keys))
	for i, k := range how.Keys {
		keys[i] = api.Key{Hash: k.SHA256, Agent: k.Agent}
	}
	keyed := local.NewKeyListener(limited(local.WrapConns(tcp, local.NewQuickAckConn), most), most)
	c.addServer(d.log, keyed, local.ExemptKeyedConns(api.NewKeyIdentifier(keys)))
	return nil
}

// checkAgentKey returns an error unless a guest may speak for an agent. If an agent of that
// name is attached, or its name is kept, the request has to show its key.
func (d *Daemon) checkAgentKey(agent string, r *http.Request) error {
	known, key := d.agents.FindKeyHash(agent)
	if !known || registry.KeyHash(sha256.Sum256([]byte(r.Header.Get("X-API-Key")))) == key {
		return nil
	}
	return &api.Error{Status: http.StatusForbidden, Code: "agent_key", Message: "X-API-Key: an agent of that name is attached: send the key that its attach returned (acpctl: ACP_AGENT_KEY with ACP_AGENT), or be another agent"}
}

// listChannelHosts returns the connected peers that offer channels.
func (d *Daemon) listChannelHosts() (all []identity.ID) {
	for _, p := range d.node.Peers() {
		if slices.Contains(p.Features, peer.FeatureChannel) {
			all = append(all, p.ID)
		}
	}
	return all
}

// addServer adds a server for a listener. identify returns who sends a request.
func (c *channels) addServer(log *slog.Logger, l net.Listener, identify func(*http.Request) (openintent.Caller, error)) {
	s := &http.Server{
		Handler: c.count(c.API.NewHandler(identify)), MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		ErrorLog:    slog.NewLogLogger(log.Handler(), httpBacklog),
		ConnContext: local.AddConnToContext, ConnState: local.RecordConnState,
	}
	c.listeners, c.servers = append(c.listeners, l), append(c.servers, s)
}

// runServers serves until ctx ends. Then it ends the event streams, lets other answers
// finish and closes the listeners. Requests of other daemons end with peers already: their
// connections drain first.
func (c *channels) runServers(ctx, peers context.Context) error {
	g, working := errgroup.WithContext(ctx)
	g.Go(func() error { return c.Run(peers) })
	ended := make(chan struct{})
	g.Go(func() error {
		defer close(ended)
		return c.Engine.Run(working)
	})
	for i, s := range c.servers {
		g.Go(func() error {
			if err := s.Serve(c.listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				return ownwords.Errorf("channels: %w", err)
			}
			return nil
		})
		g.Go(func() error {
			<-ended
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), hangupTime)
			defer cancel()
			if s.Shutdown(late) != nil {
				s.Close()
			}
			return nil
		})
	}
	return g.Wait()
}

// closeListeners closes the listeners of channels that were not run.
func (c *channels) closeListeners() {
	for _, l := range c.listeners {
		l.Close()
	}
}

// writeTimeoutConn ends when its client does not read.
type writeTimeoutConn struct{ net.Conn }

func newWriteTimeoutConn(c net.Conn) net.Conn { return writeTimeoutConn{c} }

func (c writeTimeoutConn) Write(b []byte) (int, error) { return remote.WriteInParts(c.Conn, b) }
