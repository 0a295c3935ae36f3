// Package remote joins the channels of several machines (package openintent).
//
// An intent lives on the daemon where it was created, its host, with everything of
// it. An agent talks to its own daemon, its home, about any intent; the home passes
// on what concerns an intent elsewhere, each request on a stream of its own, in
// HTTP/1.1 (protocol, section 4, stream type 0x04). Every daemon is both, a home to
// its agents and a host to those of others.
//
// # Guarantees
//
// A message whose host is out of reach is on disk before its sender learns that it
// is pending. It goes to the host once, in its sender's order, and its sender can ask for
// what the host said of it. A host knows the agents that come to it as their home does: each
// request carries the record of its agent, and the host asks homes what has become of agents on
// which something depends, until they are deregistered. One stream
// follows a host, however many agents listen, and what an interruption has kept back
// is fetched afterwards. A peer's request reaches the engine only if the peer is admitted, and
// only as an agent that is at home there.
//
// # What it leaves to others
//
// The rules of channels are package openintent's, whose engine it makes. Streams, trust and
// policy are the daemon's, which hands in what is needed of them.
package remote

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/api"
)

// Stream is a stream of type 0x04, whose type was written or read already. One goroutine may read
// and one may write. Close ends both halves, and what was written arrives. Cancel gives up the
// stream.
type Stream interface {
	io.ReadWriter
	CloseWrite() error
	CloseRead()               // drops what still comes
	Leaving() <-chan struct{} // is closed when the connection takes no more streams
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	Close() error
	Cancel()
}

// Config holds what a Gateway needs. All of it is required.
type Config struct {
	Self   identity.ID
	Engine openintent.Config // with Store, Log, PeerLog and Budget; OpenGateway sets what concerns other hosts

	// Trusted finds a trusted peer, and Peers lists all of them.
	Trusted func(identity.ID) (identity.Peer, bool)
	Peers   func() []identity.Peer
	// OpenTo reports whether a peer is in channels.open_to.
	OpenTo func(identity.Peer) bool
	// Hosts lists the peers in reach that offer channels.
	Hosts func() []identity.ID
	// Open opens a stream to a peer. It blocks until there is one, ctx ends, or it is
	// clear that there will be none. When ctx ends, the stream is cancelled.
	Open func(ctx context.Context, to identity.ID) (Stream, error)
	// Admit returns why a peer may not make a request here; nil if it may.
	Admit func(from identity.ID) error
	// Around wraps the handler of the requests that other daemons pass on. Nil: nothing does.
	Around func(http.Handler) http.Handler
}

// Gateway joins the channels of this daemon to those of others. It passes requests of agents
// here on to hosts, and serves what other daemons pass on. Its methods may be called from
// any goroutine.
type Gateway struct {
	Engine *openintent.Engine // the caller runs it
	API    *api.API           // of the engine; the caller serves it to the agents here

	cfg       Config
	log       *slog.Logger
	ctx       context.Context // ends with that of Run
	end       context.CancelFunc
	messages  *messageQueue
	followed  *followedHosts
	arrival   pace.Signal     // set when a peer has come into reach
	connected pace.Bell       // rung then
	server    *http.Server    // of what other daemons pass on
	requests  *budget.Account // of these that are under way

	mu        sync.Mutex           // guards the rest
	arrived   []identity.ID        // peers that have come into reach, and are to be asked about their agents
	waitingAt map[identity.ID]int  // asks and lists at each host, whose answers may take their time
	streams   map[*streamConn]bool // streams of other daemons
}

// OpenGateway makes the engine and reads what the store knows. Requests are served while Run runs.
func OpenGateway(ctx context.Context, cfg Config) (*Gateway, error) {
	g := &Gateway{cfg: cfg, log: cfg.Engine.Log, arrival: pace.NewSignal(), waitingAt: make(map[identity.ID]int), streams: make(map[*streamConn]bool)}
	g.ctx, g.end = context.WithCancel(context.Background())
	g.followed = &followedHosts{g: g, hosts: make(map[identity.ID]*followedHost)}
	e := cfg.Engine
	g.requests = e.Budget.OpenAccount(budget.ChannelRequests)
	e.Self, e.OpenTo, e.Petname = cfg.Self.String(), g.isOpenTo, g.isPetname
	e.Follow, e.Missed, e.Gather, e.Unsent = g.followHosts, g.fetchMissed, g.gatherHostLists, g.listUnsentMessages
	var err error
	if g.Engine, err = openintent.NewEngine(ctx, e); err != nil {
		return nil, err
	}
	g.API = api.NewAPI(g.Engine, g.forwardRequest)
	if err := e.Store.Migrate(ctx, "carrier", schema); err != nil {
		return nil, err
	}
	if g.messages, err = openMessageQueue(ctx, e.Store, g.log, e.PeerLog, g.postMessage); err != nil {
		return nil, err
	}
	g.server = g.newHTTPServer()
	return g, nil
}

// Run sends what waits, asks homes about their agents and follows hosts until ctx ends. Then it
// also ends the requests of other daemons.
func (g *Gateway) Run(ctx context.Context) error {
	context.AfterFunc(ctx, g.end)
	var parts sync.WaitGroup
	parts.Go(func() { g.messages.run(ctx) })
	parts.Go(func() { g.askHomes(ctx) })
	parts.Wait()
	g.followed.waitForStreams()
	return nil
}

// SetPeerConnected notes that a peer is connected, or no longer connected. Waiting messages are tried
// at once.
func (g *Gateway) SetPeerConnected(peer identity.ID, up bool) {
	g.messages.wake.Set()
	if up {
		g.mu.Lock()
		g.arrived = append(g.arrived, peer)
		g.mu.Unlock()
		g.arrival.Set()
		g.connected.Ring()
		g.followed.handleHostInReach(peer)
	}
}

// ListKnownPeers returns the peers about which something is kept that ForgetPeer drops.
func (g *Gateway) ListKnownPeers(ctx context.Context) ([]identity.ID, error) {
	all, err := g.messages.listHosts(ctx)
	for _, home := range g.Engine.ListAgentHomes() {
		if id, err := identity.ParseID(home); err == nil {
			all = append(all, id)
		}
	}
	return all, err
}

// ForgetPeer drops what is kept of a peer that is no longer trusted.
func (g *Gateway) ForgetPeer(ctx context.Context, peer identity.ID) error {
	return errors.Join(g.messages.deleteHostMessages(ctx, peer), g.Engine.ForgetHost(ctx, peer.String()))
}
