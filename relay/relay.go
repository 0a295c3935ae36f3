// Package relay carries packets between daemons through a NATS server: a [Link] is a
// net.PacketConn whose addresses are the ids of peers.
//
// A packet to a peer is published to the subject acp1.<id of the peer>; its payload is the
// sender's id and the packet. The server answers a message without a subscriber with a 503, on
// the reply subject that the link made for this peer: so a peer that is away is found in one
// round trip. The server sees who sends how much to whom, and ciphertext: everything that
// daemons promise each other is done by QUIC, above. It may drop, copy, delay and inject packets,
// as any network may.
//
// The sender's id in a payload is a claim, as a UDP source address is. [Config.Admit] is
// asked about it before the packet is queued; QUIC proves it.
//
// A link authenticates to the server with an nkey that is derived from the identity only for
// relays. The identity key signs nothing that a server chooses.
package relay

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

// MTU is the largest packet that a link carries, in bytes: what quic-go sends at most.
const MTU = 1452

// KeyLabel is the label with which [identity.Key.DeriveSecret] makes [Config.Key].
const KeyLabel = "acp nats nkey v1"

// Admission says whether packets of a sender may reach QUIC.
type Admission int

// The admissions.
const (
	Refused Admission = iota // dropped unread
	Invited                  // an open invitation or an authority could admit it: shares one queue with all others of its kind
	Trusted                  // has a queue of its own
)

// Config says which server a link uses, and how. Name, URL, Self, Key and Admit are needed.
type Config struct {
	Name string // [a-z][a-z0-9-]{0,31}; tells the relays of a daemon apart

	URL         string      // of the server, as [identity.ParseRelayURL] takes it
	Credentials Credentials // the zero value: the nkey of Key
	Proxy       Proxy       // the zero value: none

	// AdviseLogin returns how the owner uses another login, for an error; get, which may be "", is how to
	// get one. It may be called at any time, and must not call the link. If it is nil, the advice is acpctl relay add.
	AdviseLogin func(get string) string

	Self identity.ID
	Key  [32]byte // the secret of [KeyLabel]: never the identity key

	// Admit is asked about the claimed sender of each packet. It must not block.
	Admit func(identity.ID) Admission

	// Answer returns the answer to a daemon that asks for the name of [Link.SetName], or no bytes for no
	// answer. asker is who it claims to be. Answer must not block, nor keep want. If the
	// field is nil, nobody is answered.
	Answer func(asker identity.ID, want []byte) []byte

	// Challenges are shared by all links of the daemon. nil: the link has its own.
	Challenges *Challenges

	// Changed is called after the state of the link has changed, but not for counts. It must
	// not block. It may be nil.
	Changed func()

	Logger *slog.Logger   // nil: silence
	Roots  *x509.CertPool // nil: those of the system
}

// Link is the connection to one relay. It is safe for concurrent use. It carries packets
// while [Link.Run] runs.
type Link struct {
	config   Config
	addr     Addr // own
	endpoint endpoint
	auth     authentication
	log      *slog.Logger
	dialTCP  dialFunc // tests have a network of their own

	out     chan *outPacket
	queues  *queues
	inbound *inbound
	replies *replies

	errorPace errorPace

	asks        asks
	asksOut     chan *ask
	answerPace  answerPace
	name        atomic.Pointer[string] // of SetName; "": none
	nameChanged pace.Signal            // set by SetName
	tryAgain    pace.Signal            // set by TryAgain

	session atomic.Pointer[session] // nil while there is no connection to the server
	counts  counts

	mu     sync.Mutex
	state  State // without traffic and drops
	everUp bool

	closed chan struct{}
	once   sync.Once
}

// Observer is notified by a link. Its methods must not block.
type Observer interface {
	// NobodyAt says that the server has just answered that nobody takes packets at addr.
	NobodyAt(addr net.Addr)

	// Interrupted says that packets of the last seconds may be lost, or that the server sees this
	// host at another address than before.
	Interrupted()
}

// Open checks the configuration and returns a link, which does nothing before [Link.Run].
// The error names the part that is wrong, and what to write instead; it has the code
// invalid, and contains no secret.
func Open(c Config) (*Link, error) {
	if err := identity.CheckRelayName(c.Name); err != nil {
		return nil, kinds.Errorf(kinds.Invalid, "relay: %s", err)
	}
	operation := "relay " + c.Name
	server, err := newEndpoint(c.URL)
	if err != nil {
		return nil, kinds.Errorf(kinds.Invalid, "%s: url: %s", operation, err)
	}
	auth, err := newAuthentication(c.Credentials, c.Key)
	if err != nil {
		return nil, kinds.Errorf(kinds.Invalid, "%s: %s", operation, err)
	}
	if err := c.Proxy.check(); err != nil {
		return nil, kinds.Errorf(kinds.Invalid, "%s: proxy: %s", operation, err)
	}
	switch {
	case c.Self.IsZero():
		return nil, kinds.Errorf(kinds.Invalid, "%s: self: missing: expected the id of this daemon", operation)
	case c.Admit == nil:
		return nil, kinds.Errorf(kinds.Invalid, "%s: admit: missing: expected the function that says whose packets are read", operation)
	}
	if c.Answer == nil {
		c.Answer = func(identity.ID, []byte) []byte { return nil }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Challenges == nil {
		c.Challenges = new(Challenges)
	}
	var secret [32]byte
	rand.Read(secret[:])
	l := &Link{
		config:   c,
		addr:     newAddr(c.Name, c.Self),
		endpoint: server,
		auth:     auth,
		log:      c.Logger.With("relay", c.Name),
		dialTCP:  new(net.Dialer).DialContext,
		out:      make(chan *outPacket, maxWaitingOut),
		queues:   newQueues(),
		replies:  newReplies(c.Name, c.Self, secret),
		closed:   make(chan struct{}),

		asksOut:     make(chan *ask, maxAsks),
		nameChanged: pace.NewSignal(),
		tryAgain:    pace.NewSignal(),
	}
	l.inbound = newInbound(l)
	l.name.Store(new(string))
	l.state = State{Name: c.Name, URL: server.String(), Account: auth.what, PublicKey: auth.publicKey, Standing: Connecting}
	return l, nil
}

// Name returns "relay:" and the name of the relay, which begins the text of its addresses.
func (l *Link) Name() string { return addrPrefix + l.config.Name }

// LocalAddr returns the address at which peers find this daemon on the relay.
func (l *Link) LocalAddr() net.Addr { return l.addr }

// Addr returns where a peer is on this relay; nil for this daemon's own id and for none.
func (l *Link) Addr(id identity.ID) net.Addr {
	if id == l.config.Self || id.IsZero() {
		return nil
	}
	return newAddr(l.config.Name, id)
}

// Sender returns the id that an address of this relay names; zero for any other address.
func (l *Link) Sender(addr net.Addr) identity.ID {
	if a, ok := addr.(Addr); ok && a.relay == l.config.Name {
		return a.id
	}
	return identity.ID{}
}

// Close ends Run and every ReadFrom. It does not wait for Run.
func (l *Link) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.inbound.close()
	})
	return nil
}

// SetDeadline sets the deadline of ReadFrom; WriteTo never waits.
func (l *Link) SetDeadline(t time.Time) error { return l.SetReadDeadline(t) }

// SetReadDeadline has ReadFrom return os.ErrDeadlineExceeded from t on; the zero time: never.
func (l *Link) SetReadDeadline(t time.Time) error {
	l.inbound.setDeadline(t)
	return nil
}

// SetWriteDeadline does nothing: WriteTo never waits.
func (l *Link) SetWriteDeadline(time.Time) error { return nil }

// SetReadBuffer does nothing: the queues have their sizes. quic-go warns of a connection without it.
func (l *Link) SetReadBuffer(int) error { return nil }

// SetWriteBuffer does nothing: the queue has its size. quic-go warns of a connection without it.
func (l *Link) SetWriteBuffer(int) error { return nil }

// Run keeps a connection to the server until ctx ends or the link is closed, and returns nil
// when its goroutines have ended; then the link is closed. It never gives up: [Link.State] has
// what is wrong.
func (l *Link) Run(ctx context.Context, observer Observer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		select {
		case <-l.closed:
			cancel()
		case <-ctx.Done():
			l.Close()
		}
	})
	running.Go(func() { l.publishLoop(ctx) })

	o := newOutage(observer)
	defer o.stop()
	for ctx.Err() == nil {
		up, err := l.serveSession(ctx, observer, o)
		if ctx.Err() != nil {
			break
		}
		o.begin(up)
		l.setStanding(Connecting)
		l.noteError(err)
		select {
		case <-ctx.Done():
		case <-l.tryAgain:
		case <-time.After(o.pickPause()):
		}
	}
	l.setStanding(Closed)
	return nil
}
