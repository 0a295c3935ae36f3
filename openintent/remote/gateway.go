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
// A message whose host is out of reach is on disk before its sender hears that it is
// pending. It goes to the host once, in its sender's order, and what the host says of
// it can be asked for. Who is a guest at a host is known there as it is here: before
// its first request, whenever its record changes, and to its end. However many agents
// listen, a host is followed by one stream, and what an interruption has kept back
// comes afterwards. What a peer passes on reaches the engine only if the peer is
// admitted, and only as an agent that is at home there.
//
// # What it leaves to others
//
// The rules of channels (package openintent, whose engine it makes), streams, trust
// and policy (the daemon hands in what it needs of them).
package remote

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/api"
)

// Stream is a stream of type 0x04, its type already written or read. One goroutine
// may read and one may write. Close ends both halves, and what was written arrives;
// Cancel gives it up.
type Stream interface {
	io.ReadWriter
	CloseWrite() error
	CloseRead()               // what still comes is dropped
	Leaving() <-chan struct{} // closed when its connection takes no more streams
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	Close() error
	Cancel()
}

// Config is what a Gateway works with. All of it is required but Lines.
type Config struct {
	Self   identity.ID
	Engine openintent.Config // with Store and Log; Open sets what concerns other hosts
	Lines  *budget.Log       // for what hosts cause in the log; nil: one of its own

	// Trusted finds a trusted peer, and Peers lists all of them.
	Trusted func(identity.ID) (identity.Peer, bool)
	Peers   func() []identity.Peer
	// OpenTo reports whether a peer stands in channels.open_to.
	OpenTo func(identity.Peer) bool
	// Hosts lists the peers in reach that offer channels.
	Hosts func() []identity.ID
	// Open opens a stream to a peer. It blocks until there is one, ctx ends, or it
	// is clear that there will be none; when ctx ends, the stream is cancelled.
	Open func(ctx context.Context, to identity.ID) (Stream, error)
	// Admit returns why a peer may not make a request here, nil if it may.
	Admit func(from identity.ID) error
}

// Gateway joins the channels of this daemon to those of others. It passes requests of agents
// here on to hosts, and serves what other daemons pass on. Its methods may be called from
// any goroutine.
type Gateway struct {
	Engine *openintent.Engine // the caller runs it
	API    *api.API           // of the engine; the caller serves it to the agents here

	cfg           Config
	log           *slog.Logger
	ctx           context.Context // ends with that of Run
	end           context.CancelFunc
	messages      *messageQueue
	introductions *introductions
	followed      *followedHosts
	server        *http.Server    // of what other daemons pass on
	requests      *budget.Account // of these that are under way

	mu        sync.Mutex           // guards the rest
	linkUp    chan struct{}        // closed when a link comes up; nil while nobody waits for that
	waitingAt map[identity.ID]int  // asks and lists at each host, whose answers may take their time
	streams   map[*streamConn]bool // streams of other daemons
}

// Open makes the engine and reads what the store knows. Requests are for the time that
// Run runs.
func Open(ctx context.Context, cfg Config) (*Gateway, error) {
	c := &Gateway{cfg: cfg, log: cfg.Engine.Log, waitingAt: make(map[identity.ID]int), streams: make(map[*streamConn]bool)}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.followed = &followedHosts{ctx: c.ctx, log: c.log, readEvents: c.readEvents, hosts: make(map[identity.ID]*followedHost)}
	e := cfg.Engine
	if e.Budget == nil {
		e.Budget = new(budget.Book)
	}
	if cfg.Lines == nil {
		cfg.Lines = e.Budget.OpenLog(c.log)
	}
	c.requests = e.Budget.Open(budget.ChannelRequests)
	e.Self, e.Lines, e.OpenTo, e.Petname = cfg.Self.String(), cfg.Lines, c.isOpenTo, c.isPetname
	e.Follow, e.Gather, e.Unsent, e.Changed = c.followHosts, c.gatherLists, c.listUnsent, func() { c.introductions.wake.Set() }
	var err error
	if c.Engine, err = openintent.New(ctx, e); err != nil {
		return nil, err
	}
	c.API = api.New(c.Engine, api.Config{Forward: c.forwardRequest})
	if err := e.Store.Migrate(ctx, "carrier", schema); err != nil {
		return nil, err
	}
	if c.introductions, err = openIntroductions(ctx, e.Store, c.log, c.Engine.Record, c.putRecord, c.readRecords); err != nil {
		return nil, err
	}
	if c.messages, err = openMessageQueue(ctx, e.Store, c.log, cfg.Lines, c.postMessage); err != nil {
		return nil, err
	}
	if err := c.countForeignEvents(ctx); err != nil {
		return nil, err
	}
	c.server = c.newServer()
	return c, nil
}

// countForeignEvents counts what hosts have relayed that are trusted.
func (g *Gateway) countForeignEvents(ctx context.Context) error {
	hosts, err := g.Engine.Relayed(ctx)
	if err != nil {
		return err
	}
	for _, p := range g.cfg.Peers() {
		if slices.Contains(hosts, p.ID.String()[:openintent.HostDigits]) {
			if err := g.Engine.CountRelayed(ctx, p.ID.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Run carries until ctx ends; then it also ends what other daemons ask for.
func (g *Gateway) Run(ctx context.Context) error {
	context.AfterFunc(ctx, g.end)
	var parts sync.WaitGroup
	parts.Go(func() { g.messages.run(ctx) })
	parts.Go(func() { g.introductions.run(ctx, g.cfg.Hosts) })
	parts.Go(func() { g.watchStrangers(ctx) })
	parts.Go(func() { g.forgetUntrustedHosts(ctx) })
	parts.Wait()
	g.followed.waitAll()
	return nil
}

// SetConnected says that a peer is connected, or no more: what waits is tried at once.
func (g *Gateway) SetConnected(peer identity.ID, up bool) {
	g.introductions.noteReachChange(peer) // first: nothing may go to it before it is asked whom it knows
	g.messages.wake.Set()
	if up {
		g.announceLink()
		g.followed.hostInReach(peer)
	}
}

// Known returns the peers for which something is kept that Forget drops.
func (g *Gateway) Known(ctx context.Context) ([]identity.ID, error) {
	all, err := g.messages.hosts(ctx)
	all = append(all, g.introductions.knownHosts()...)
	for _, home := range g.Engine.Homes() {
		if id, err := identity.ParseID(home); err == nil {
			all = append(all, id)
		}
	}
	return all, err
}

// Forget drops what is for a peer that is trusted no more.
func (g *Gateway) Forget(ctx context.Context, peer identity.ID) error {
	return errors.Join(g.messages.forgetHost(ctx, peer), g.introductions.forgetHost(ctx, peer), g.Engine.Forget(ctx, peer.String()))
}

// forgetUntrustedHosts drops what hosts have relayed that are not trusted any more, where Forget
// has not come to its end before the daemon was stopped.
func (g *Gateway) forgetUntrustedHosts(ctx context.Context) {
	hosts, err := g.Engine.Relayed(ctx)
	for _, host := range hosts {
		if err == nil && !slices.ContainsFunc(g.cfg.Peers(), func(p identity.Peer) bool { return strings.HasPrefix(p.ID.String(), host) }) {
			err = g.Engine.Forget(ctx, host)
		}
	}
	if err != nil && ctx.Err() == nil {
		g.log.Error("what a host has told that is not trusted any more is not removed", "err", err)
	}
}
