// Package peer carries messages between daemons over QUIC (RFC 9000), as the
// ACP/1 protocol prescribes: mutually authenticated, fail-fast, and never
// "delivered" without the other side's word.
//
// A [Node] is one identity on one UDP socket and, where that does not lead to every peer, on
// further links ([Link]). It dials and accepts, exchanges
// hellos, decides trust when a peer's key is proven, and keeps at most one
// connection to each peer in use. [Node.Exchange] sends a message and returns its
// reply; [Node.Send] sends one and returns its receipt; [Node.OpenStream] and
// [Node.Handle] give the bridges streams of their own. A call runs in the caller's
// goroutine from the first byte to the last; there is no queue, and a call is not repeated once
// a byte has left.
//
// What the error of a failed call says about delivery is always true: "no" if nothing was sent or
// the peer reported it, else "unknown".
//
// It leaves to others: which keys are trusted (identity.TrustStore), the addresses of
// peers ([Config.Addrs]), the meaning of messages (kinds, and the two handlers), and all
// storage.
package peer

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/internal/workers"
	"github.com/acpd/acpd/wire"
)

// Node is one identity on its links. It is safe for concurrent use.
type Node struct {
	cfg      Config
	self     identity.ID
	boot     wire.Boot
	features []string
	handlers map[wire.StreamType]func(context.Context, identity.ID, *Stream)
	log      *slog.Logger
	peerLog  *budget.Log // of what peers cause: Config.PeerLog, or its own

	// epoch is the zero of times on the message path: a duration fits an atomic, a
	// time.Time does not.
	epoch time.Time

	udp    *endpoint   // of the UDP socket
	links  linkList    // further ones
	proved provedAddrs // where peers last proved their keys

	accounts    budgetAccounts
	unread      unreadWatch
	invitations identity.Invitations
	pending     pendingTable
	certificate atomic.Pointer[[]byte] // see SetCertificate
	lapsed      lapsedPeers

	ctx     context.Context // ends when everything must
	cancel  context.CancelFunc
	tasks   sync.WaitGroup // every goroutine of the node
	workers workers.Pool   // of them, those that handle streams

	stun         stunClient
	localNetwork func() localNetwork // what the rules of paths ask of this host

	mu         sync.RWMutex // guards what follows
	peers      map[identity.ID]*peerState
	closing    bool
	localPaths []netip.AddrPort // listLocalPaths as AddrsChanged last saw it
}

const (
	drainTime = 5 * time.Second
	resetTime = 100 * time.Millisecond

	maxIncomingExchanges = 512
	maxIncomingMessages  = 256
)

// budgetAccounts holds the accounts of what peers may cost a node.
type budgetAccounts struct {
	envelopes, replies, streams, connections, greeting *budget.Account
}

// Listen opens the socket. Nothing is answered before [Node.Serve] runs; a node
// that is never served is ended with Close.
func Listen(cfg Config) (*Node, error) {
	if cfg.Key == nil || cfg.Trust == nil {
		return nil, ownwords.New("listen: Config.Key and Config.Trust are required")
	}
	cfg.MaxMessage = cmp.Or(cfg.MaxMessage, wire.DefaultMaxMessage)
	if cfg.MaxMessage < wire.MinMaxMessage || cfg.MaxMessage > wire.MaxMaxMessage {
		return nil, ownwords.Errorf("listen: max_message %d: choose %d to %d", cfg.MaxMessage, wire.MinMaxMessage, wire.MaxMaxMessage)
	}
	if cfg.Addrs == nil {
		cfg.Addrs = func(id identity.ID) []string {
			p, _ := cfg.Trust.FindPeer(id)
			return p.Addrs
		}
	}
	n := &Node{
		cfg:      cfg,
		epoch:    time.Now(),
		self:     cfg.Key.ID(),
		handlers: make(map[wire.StreamType]func(context.Context, identity.ID, *Stream)),
		features: slices.Clone(cfg.Features),
		log:      cfg.Logger,
		peers:    make(map[identity.ID]*peerState),
		lapsed:   newLapsedPeers(),

		localNetwork: readLocalNetwork,
	}
	if !cfg.NoUpgrade {
		n.features = append(n.features, FeaturePaths)
	}
	n.cfg.Budget = cmp.Or(n.cfg.Budget, new(budget.Book))
	if cfg.Observer == nil {
		n.cfg.Observer = noObserver{}
	}
	n.log = cmp.Or(n.log, slog.New(slog.DiscardHandler))
	if n.peerLog = cfg.PeerLog; n.peerLog == nil {
		n.peerLog = n.cfg.Budget.OpenLog(n.log)
	}
	rand.Read(n.boot[:])
	n.certificate.Store(new([]byte))
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.workers = workers.NewPool(n.ctx.Done())
	if err := n.openUDP(); err != nil {
		n.cancel()
		return nil, err
	}
	b := n.cfg.Budget
	n.accounts = budgetAccounts{
		envelopes:   b.OpenAccount(budget.NewEnvelopesRow(cfg.MaxMessage)),
		replies:     b.OpenAccount(budget.NewRepliesRow(cfg.MaxMessage)),
		streams:     b.OpenAccount(budget.Streams),
		connections: b.OpenAccount(budget.Connections),
		greeting:    b.OpenAccount(budget.Greeting),
	}
	n.unread = unreadWatch{account: b.OpenAccount(budget.Unread), sooner: pace.NewSignal()}
	for _, link := range cfg.Links {
		if err := n.openLink(link); err != nil {
			n.Close()
			return nil, err
		}
	}
	return n, nil
}

// listOfferedALPN returns the protocols that the node accepts: joining only while an
// invitation is open.
func (n *Node) listOfferedALPN() []string {
	if n.invitations.HasOpen() {
		return []string{identity.ALPN, identity.ALPNJoin}
	}
	return []string{identity.ALPN}
}

// Handle serves streams of a further type, announced in hello as feature. The
// handler runs in a goroutine of its own; when it returns, the stream is ended.
// Call it before Serve.
func (n *Node) Handle(t wire.StreamType, feature string, h func(ctx context.Context, from identity.ID, s *Stream)) {
	n.handlers[t] = h
	n.features = append(n.features, feature)
}

// ID returns the node's identity.
func (n *Node) ID() identity.ID { return n.self }

// Addr returns the UDP socket's address.
func (n *Node) Addr() net.Addr { return n.udp.socket.LocalAddr() }

// Invitations returns the open invitations.
func (n *Node) Invitations() *identity.Invitations { return &n.invitations }

// Serve accepts connections until ctx ends; then it drains for up to 5 s and
// returns when every goroutine of the node has ended. The error is the socket's,
// if that failed before.
func (n *Node) Serve(ctx context.Context) error {
	failed := make(chan error, 1)
	n.tasks.Go(func() { failed <- n.udp.acceptConns() })
	n.tasks.Go(n.watchUnreadFrames)
	n.tasks.Go(n.watchCertificates)
	n.startLinks()
	var err error
	select {
	case <-ctx.Done():
		n.drainConns()
	case err = <-failed:
		err = ownwords.Errorf("accept on %s: %w", n.Addr(), err)
	}
	n.Close()
	return err
}

// Close ends the node at once, without draining; calls in flight fail.
func (n *Node) Close() {
	// First nothing may begin any more. Then the goroutines lose their contexts, and
	// every connection ends with them. They are waited for; only then the links close.
	n.mu.Lock()
	n.closing = true
	n.cancel()
	n.mu.Unlock()
	n.tasks.Wait()
	for _, e := range n.links.takeAll() {
		e.close()
	}
	n.udp.close()
	if n.cfg.PeerLog == nil {
		n.peerLog.Close()
	}
}

// drainConns sends goaway on every connection that is not leaving yet, and waits until all are
// done. After drainTime it resets the streams that are left (protocol, section 2).
func (n *Node) drainConns() {
	n.setClosing()
	conns := n.listConns()
	for _, c := range conns {
		c.sendGoaway(closeShutdown)
		if c.isSilentFor(silentAfter) {
			c.joinOrStartProof() // so that a dead peer is not waited for
		}
	}
	if awaitConnsEnd(conns, drainTime) {
		return
	}
	for _, c := range conns {
		c.resetInboundStreams()
	}
	awaitConnsEnd(conns, resetTime) // the resets need a moment to leave before the close
}

// endConns ends connections that are leaving: what is open on them has that time to end.
func endConns(conns []*conn, drain time.Duration) {
	if awaitConnsEnd(conns, drain) {
		return
	}
	for _, c := range conns {
		c.resetInboundStreams()
		c.close(closeReplaced, linkRemoved)
	}
}

// awaitConnsEnd blocks until all connections have ended, for d at most, and reports whether
// they have.
func awaitConnsEnd(conns []*conn, d time.Duration) bool {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	for _, c := range conns {
		select {
		case <-c.qc.Context().Done():
		case <-timeout.C:
			return false
		}
	}
	return true
}

// listConns returns the ready connections of all peers.
func (n *Node) listConns() []*conn {
	var all []*conn
	for _, state := range n.listStates() {
		all = append(all, state.listConns()...)
	}
	return all
}

// listStates returns the states of all peers. It holds no lock when it returns, since who
// holds that of a peerState may ask whether the node is closing.
func (n *Node) listStates() []*peerState {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.Collect(maps.Values(n.peers))
}

// setClosing makes startTask start nothing from now on.
func (n *Node) setClosing() {
	n.mu.Lock()
	n.closing = true
	n.mu.Unlock()
}

func (n *Node) isClosing() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.closing
}

// closeConnWithNode closes a connection when the node is closed, unless stop is called before.
func (n *Node) closeConnWithNode(qc *quic.Conn) (stop func() bool) {
	return context.AfterFunc(n.ctx, func() { qc.CloseWithError(closeShutdown, "shutting down") })
}

// startTask runs f in a goroutine of the node and reports whether it did: not when the
// node is closing.
func (n *Node) startTask(f func()) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.closing {
		return false
	}
	n.tasks.Go(f)
	return true
}

func (n *Node) emitEvent(e Event) {
	if n.cfg.Event != nil {
		if e.At.IsZero() {
			e.At = time.Now()
		}
		n.cfg.Event(e)
	}
}
