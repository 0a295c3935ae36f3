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

// Config is what a carrier works with. All of it is required but Lines.
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

// Carrier is what package carrier is about. Its methods may be called from any
// goroutine.
type Carrier struct {
	Engine *openintent.Engine // the caller runs it, and serves it to the agents here

	cfg      Config
	log      *slog.Logger
	ctx      context.Context // ends with that of Run
	end      context.CancelFunc
	parcels  *parcels
	records  *records
	follows  *follows
	server   *http.Server    // of what other daemons pass on
	requests *budget.Account // of these that are under way

	mu      sync.Mutex          // guards the rest
	up      chan struct{}       // closed when a link comes up; nil while nobody waits for that
	waiting map[identity.ID]int // asks and lists at each host, whose answers may take their time
	open    map[*conn]bool      // streams of other daemons
}

// Open makes the engine and reads what the store knows. Requests are for the time that
// Run runs.
func Open(ctx context.Context, cfg Config) (*Carrier, error) {
	c := &Carrier{cfg: cfg, log: cfg.Engine.Log, waiting: make(map[identity.ID]int), open: make(map[*conn]bool)}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.follows = &follows{ctx: c.ctx, log: c.log, relay: c.relay, hosts: make(map[identity.ID]*follow)}
	e := cfg.Engine
	if e.Budget == nil {
		e.Budget = new(budget.Book)
	}
	if cfg.Lines == nil {
		cfg.Lines = e.Budget.OpenLog(c.log)
	}
	c.requests = e.Budget.Open(budget.ChannelRequests)
	e.Self, e.Lines, e.OpenTo, e.Petname = cfg.Self.String(), cfg.Lines, c.openTo, c.isPetname
	e.Forward, e.Follow, e.Gather, e.Unsent, e.Changed = c.forward, c.follow, c.gather, c.listUnsent, func() { c.records.wake.up() }
	var err error
	if c.Engine, err = openintent.New(ctx, e); err != nil {
		return nil, err
	}
	if err := e.Store.Migrate(ctx, "carrier", schema); err != nil {
		return nil, err
	}
	if c.records, err = openRecords(ctx, e.Store, c.log, c.Engine.Record, c.tell, c.listRecords); err != nil {
		return nil, err
	}
	if c.parcels, err = openParcels(ctx, e.Store, c.log, cfg.Lines, c.send); err != nil {
		return nil, err
	}
	if err := c.countRelayed(ctx); err != nil {
		return nil, err
	}
	c.server = c.newServer()
	return c, nil
}

// countRelayed counts what hosts have relayed that are trusted.
func (c *Carrier) countRelayed(ctx context.Context) error {
	hosts, err := c.Engine.Relayed(ctx)
	if err != nil {
		return err
	}
	for _, p := range c.cfg.Peers() {
		if slices.Contains(hosts, p.ID.String()[:openintent.HostDigits]) {
			if err := c.Engine.CountRelayed(ctx, p.ID.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Run carries until ctx ends; then it also ends what other daemons ask for.
func (c *Carrier) Run(ctx context.Context) error {
	context.AfterFunc(ctx, c.end)
	var parts sync.WaitGroup
	parts.Go(func() { c.parcels.run(ctx) })
	parts.Go(func() { c.records.run(ctx, c.cfg.Hosts) })
	parts.Go(func() { c.watchStrangers(ctx) })
	parts.Go(func() { c.forgetRelayed(ctx) })
	parts.Wait()
	c.follows.end()
	return nil
}

// Link says that a peer is connected, or no more: what waits is tried at once.
func (c *Carrier) Link(peer identity.ID, up bool) {
	c.records.doubt(peer) // first: nothing may go to it before it is asked whom it knows
	c.parcels.wake.up()
	if up {
		c.isUp()
		c.follows.isUp(peer)
	}
}

// Known returns the peers for which something is kept that Forget drops.
func (c *Carrier) Known(ctx context.Context) ([]identity.ID, error) {
	all, err := c.parcels.known(ctx)
	all = append(all, c.records.known()...)
	for _, home := range c.Engine.Homes() {
		if id, err := identity.ParseID(home); err == nil {
			all = append(all, id)
		}
	}
	return all, err
}

// Forget drops what is for a peer that is trusted no more.
func (c *Carrier) Forget(ctx context.Context, peer identity.ID) error {
	return errors.Join(c.parcels.drop(ctx, peer), c.records.drop(ctx, peer), c.Engine.Forget(ctx, peer.String()))
}

// forgetRelayed drops what hosts have relayed that are not trusted any more, where Forget
// has not come to its end before the daemon was stopped.
func (c *Carrier) forgetRelayed(ctx context.Context) {
	hosts, err := c.Engine.Relayed(ctx)
	for _, host := range hosts {
		if err == nil && !slices.ContainsFunc(c.cfg.Peers(), func(p identity.Peer) bool { return strings.HasPrefix(p.ID.String(), host) }) {
			err = c.Engine.Forget(ctx, host)
		}
	}
	if err != nil && ctx.Err() == nil {
		c.log.Error("what a host has told that is not trusted any more is not removed", "err", err)
	}
}

// wake holds one where it is time to look again.
type wake chan struct{}

func newWake() wake { return make(wake, 1) }

func (w wake) up() {
	select {
	case w <- struct{}{}:
	default:
	}
}
