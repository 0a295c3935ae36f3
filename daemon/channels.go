package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/api"
	"github.com/acpd/acpd/openintent/remote"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

const (
	maxHTTP      = 10_240 // connections of a listener; event streams are most of them
	maxGuestHTTP = 2_048  // of that in the agents' folder, where 224 agents can be attached
	maxHeader    = 32 << 10
	headerTime   = 10 * time.Second
	idleTime     = 2 * time.Minute
	hangupTime   = 2 * time.Second // for answers that are under way when the daemon ends
	httpBacklog  = slog.LevelDebug // of what net/http has to say of its clients
)

// channels serves OpenIntent's channels on http.sock, on the one in the agents' folder,
// and on loopback TCP where that is configured.
type channels struct {
	*remote.Gateway
	servers  []*http.Server
	bodies   *jsonrpc.InputLimit // of the requests that agents make
	listener []net.Listener
}

// policyChannel is what a policy calls the requests about channels that a peer
// passes on.
const policyChannel = "channel"

// openChannels makes the engine and binds its listeners.
func (d *Daemon) openChannels(ctx context.Context, cfg *config.Config) (err error) {
	c, how := new(channels), cfg.Channels
	c.Gateway, err = remote.Open(ctx, remote.Config{
		Self: d.id, Trusted: d.trust.Get, Peers: d.trust.Peers, Hosts: d.hosts, Lines: d.lines,
		Engine: openintent.Config{
			Store: d.store, Budget: d.budget, Log: d.log, Lenient: how.Lenient, HeldList: how.HeldList, RequestTTL: how.RequestTTL, Retention: how.Retention,
			MaxPayload: how.MaxPayload, QuietAgents: how.QuietAgents,
			Room: func(home string) error {
				from, err := identity.ParseID(home)
				if err != nil {
					return err
				}
				return d.space.checkRoom(from)
			},
			Freeing: d.space.reserve.Spend,
		},
		Open: func(ctx context.Context, to identity.ID) (remote.Stream, error) {
			return d.node.OpenStream(ctx, to, wire.StreamHTTP)
		},
		OpenTo: func(p identity.Peer) bool { return d.config.Load().Channels.IsOpenTo(p.ID, p.Name) },
		Admit:  func(from identity.ID) error { return d.checkStream(from, policyChannel) },
	})
	if err != nil {
		return err
	}
	d.channels = c
	d.node.Handle(wire.StreamHTTP, policyChannel, func(ctx context.Context, from identity.ID, s *peer.Stream) { c.Serve(store.For(ctx, from), from, s) })
	own, err := openOwnerSocket(ctx, d.home.http())
	if err != nil {
		return err
	}
	most := min(maxHTTP, d.files.local)
	limited := func(l net.Listener, most int) net.Listener {
		return newLimitListener(partsListener{newPatientListener(l, d.log)}, most)
	}
	c.add(d.log, limited(own, most), api.Local)
	guests, err := d.home.openGuestSocket(ctx, client.HTTPSocketName, cfg.Agents.UIDs)
	if err != nil {
		return err
	}
	c.add(d.log, limited(guests, min(maxGuestHTTP, most)), api.Agents(d.speaksFor))
	c.bodies = guests.inputLimit
	last := c.servers[len(c.servers)-1]
	last.Handler = limitBodies(last.Handler, c.bodies, &bodyLimit{maxBytes: maxBodyBytes})
	if how.Listen == "" {
		return nil
	}
	tcp, err := new(net.ListenConfig).Listen(ctx, "tcp", how.Listen)
	if err != nil {
		return fmt.Errorf("channels.listen: %w: choose another port in config.yaml", err)
	}
	keys := make([]api.Key, len(how.Keys))
	for i, k := range how.Keys {
		keys[i] = api.Key{Hash: k.SHA256, Agent: k.Agent}
	}
	// Some places are always left to who has a key.
	keyed := &keyListener{Listener: limited(quickListener{tcp.(*net.TCPListener)}, most), most: min(maxKeyless, max(most/2, 1))}
	c.add(d.log, keyed, proving(api.Keys(keys)))
	return nil
}

// speaksFor lets a guest speak for an agent: where one of that name is attached, or its
// name is kept, that takes its key.
func (d *Daemon) speaksFor(agent string, r *http.Request) error {
	known, key := d.agents.KeyHashOf(agent)
	if !known || registry.KeyHash(sha256.Sum256([]byte(r.Header.Get("X-API-Key")))) == key {
		return nil
	}
	return &api.Error{Status: http.StatusForbidden, Code: "agent_key", Message: "X-API-Key: an agent of that name is attached: send the key that its attach returned (acpctl: ACP_AGENT_KEY beside ACP_AGENT), or be another agent"}
}

// hosts returns the peers in reach that offer channels.
func (d *Daemon) hosts() (all []identity.ID) {
	for _, p := range d.node.Peers() {
		if slices.Contains(p.Features, policyChannel) {
			all = append(all, p.ID)
		}
	}
	return all
}

// add takes a listener, for those whom identify knows.
func (c *channels) add(log *slog.Logger, l net.Listener, identify func(*http.Request) (openintent.Caller, error)) {
	s := &http.Server{
		Handler: c.API.Handler(identify), MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		ErrorLog:    slog.NewLogLogger(log.Handler(), httpBacklog),
		ConnContext: withConn, ConnState: noteIdle,
	}
	c.listener, c.servers = append(c.listener, l), append(c.servers, s)
}

// run serves until ctx ends; then it ends the event streams, lets other answers
// finish and closes the listeners. What other daemons ask ends with peers already:
// their connections drain first.
func (c *channels) run(ctx, peers context.Context) error {
	g, working := errgroup.WithContext(ctx)
	g.Go(func() error { return c.Run(peers) })
	ended := make(chan struct{})
	g.Go(func() error {
		defer close(ended)
		return c.Engine.Run(working)
	})
	for i, s := range c.servers {
		g.Go(func() error {
			if err := s.Serve(c.listener[i]); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("channels: %w", err)
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

// close closes the listeners of channels that were not run.
func (c *channels) close() {
	for _, l := range c.listener {
		l.Close()
	}
}

// quickListener accepts connections that acknowledge at once what they read: older
// HTTP clients write a request in two parts and wait for that in between, 40 ms.
type quickListener struct{ *net.TCPListener }

func (l quickListener) Accept() (net.Conn, error) {
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return quickConn{c}, nil
}

type quickConn struct{ *net.TCPConn }

func (c quickConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	acknowledge(c.TCPConn) // the kernel forgets it, so each time
	return n, err
}

// partsListener accepts connections that end when their clients do not read.
type partsListener struct{ net.Listener }

func (l partsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return partsConn{c}, nil
}

type partsConn struct{ net.Conn }

func (c partsConn) Write(b []byte) (int, error) { return remote.WriteParts(c.Conn, b) }
