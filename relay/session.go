package relay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
)

const (
	connectTime  = 10 * time.Second // for dialling with proxy and TLS, and again for INFO to PONG
	pingEvery    = 10 * time.Second
	pingsOut     = 2
	writeTime    = 10 * time.Second // for a write that the server does not take
	farewellTime = time.Second      // to hand over what is queued, at the end
	measureEvery = 30 * time.Second

	maxPendingMessages = 1024 // of a subscription, in nats.go: more are dropped
	maxPendingBytes    = 4 << 20
)

// session is one connection to the server.
type session struct {
	link       *Link
	dialer     *dialer
	conn       *nats.Conn
	challenge  string
	challenged chan string // tokens of other processes' challenges
	ended      chan struct{}

	// Only the goroutine of serveSession uses these; the link's inbound has a copy of packets.
	packets  *nats.Subscription // of the own subject
	replies  *nats.Subscription // of the subjects under it
	naming   *nats.Subscription // of the own name; nil: none
	named    string             // that name
	retries  retries
	answered time.Time // when it last answered another process's challenge

	reason    atomic.Pointer[error] // for which the server ends the connection
	forbidden forbidden
}

// serveSession connects to the server and stays until the connection ends or ctx does. It
// returns how long the connection lasted, and why it ended or was not made.
func (l *Link) serveSession(ctx context.Context, observer Observer, o *outage) (up time.Duration, err error) {
	s := &session{link: l, challenge: l.config.Challenges.open(), challenged: make(chan string, 1), ended: make(chan struct{})}
	defer l.config.Challenges.close(s.challenge)
	s.dialer = l.newDialer(ctx)
	defer s.dialer.close()
	if err := s.connect(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	defer s.end(ctx)
	if err := s.subscribe(observer); err != nil {
		return 0, s.explain(err)
	}
	rtt, err := s.measure(ctx) // refusals of the subscriptions have come before its answer
	if err != nil {
		return 0, s.explain(err)
	}
	moved := l.begin(s, rtt)
	defer l.session.Store(nil)
	o.end()
	if moved {
		observer.Interrupted()
	}
	l.challengeClone(s)
	ticker := time.NewTicker(measureEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.ended:
			return time.Since(began), s.explain(s.conn.LastError())
		case <-ctx.Done():
			return time.Since(began), ctx.Err()
		case token := <-s.challenged:
			l.answerClone(s, token)
		case <-l.nameChanged:
			if *l.name.Load() == s.named {
				continue // or a name that is forbidden would be forgotten
			}
			s.forbidden.name.Store(false)
			l.updateState(func(state *State) { state.Limit = s.findLimit() })
			if err := s.subscribeName(); err != nil {
				l.noteError(l.describeError(err))
			}
		case <-ticker.C:
			s.lookAfter(ctx, observer, false)
		case <-l.tryAgain:
			s.lookAfter(ctx, observer, true)
		case <-s.retries.settled:
			s.settle()
		}
	}
}

// measure returns the time to the server and back.
func (s *session) measure(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	began := time.Now()
	err := s.conn.FlushWithContext(ctx)
	return time.Since(began), err
}

// connect blocks until the server has accepted the credentials, or not. Reconnecting is the
// link's: nats.go ends a connection for good after some errors, and its own attempts hold the
// lock that publishing needs.
func (s *session) connect(ctx context.Context) (err error) {
	o := nats.GetDefaultOptions()
	o.Url = s.link.endpoint.plainURL()
	o.Name = "acpd"
	o.AllowReconnect = false
	o.IgnoreDiscoveredServers = true
	o.SkipHostLookup = true
	o.CustomDialer = s.dialer
	o.Timeout = connectTime
	o.PingInterval, o.MaxPingsOut = pingEvery, pingsOut
	o.FlusherTimeout, o.ReconnectOnFlusherError = writeTime, true
	o.SubChanLen = maxPendingMessages
	o.SkipSubjectValidation = true // they are all made here, of hex digits
	o.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrBadHeaderMsg) { // anybody's message, and nats.go keeps each error until this returns
			s.link.counts.droppedIn.Add(1)
			return
		}
		s.noteError(err)
	}
	o.ClosedCB = func(*nats.Conn) { close(s.ended) }
	if err := s.link.auth.apply(&o); err != nil {
		return s.explain(err)
	}
	stop := context.AfterFunc(ctx, s.dialer.close)
	defer stop()
	s.conn, err = o.Connect()
	if err != nil {
		return s.explain(err)
	}
	return nil
}

// subscribe asks for what comes to this daemon's subjects. Whether the server allows it is
// known after the next round trip.
func (s *session) subscribe(observer Observer) error {
	if err := s.subscribeReplies(observer); err != nil {
		return err
	}
	if err := s.subscribePackets(); err != nil {
		return err
	}
	return s.subscribeName()
}

// subscribePackets asks for packets. They wait in nats.go until ReadFrom takes them.
func (s *session) subscribePackets() (err error) {
	if s.packets, err = s.conn.SubscribeSync(s.link.replies.ownSubject()); err != nil {
		return err
	}
	s.link.inbound.enter(source{s, s.packets})
	return s.packets.SetPendingLimits(maxPendingMessages, maxPendingBytes)
}

// subscribeReplies asks for what comes to reply subjects. It has a goroutine of its own, so that a 503 is
// heard however many packets wait.
func (s *session) subscribeReplies(observer Observer) (err error) {
	s.replies, err = s.conn.Subscribe(s.link.replies.prefix+"*", func(m *nats.Msg) { s.link.receiveReply(s, observer, m) })
	if err != nil {
		return err
	}
	return s.replies.SetPendingLimits(maxPendingMessages, maxPendingBytes)
}

// begin makes s the connection on which packets go. It reports whether the server sees this host at
// another address than before.
func (l *Link) begin(s *session, rtt time.Duration) (moved bool) {
	l.publishWaiting(nil) // it was meant for the connection before
	l.session.Store(s)
	server := identity.CleanClaim(s.conn.ConnectedServerName() + " " + s.conn.ConnectedServerVersion())
	client := s.findClientIP()
	l.updateState(func(state *State) {
		if l.everUp {
			state.Reconnects++
		}
		l.everUp = true
		moved = client.IsValid() && client != state.ClientIP
		state.Standing, state.Since, state.Refused = Connected, time.Now(), time.Time{}
		if s.forbidden.isDeaf() {
			state.Standing, state.Refused = Deaf, state.Since
		}
		state.Limit = s.findLimit()
		state.Server, state.RTT, state.ClientIP, state.Proxy = server, rtt, client, s.dialer.proxyInUse()
	})
	l.log.Info("relay: connected", "server", l.endpoint.String(), "rtt", rtt)
	if s.conn.MaxPayload() < headerLen+MTU {
		l.noteError(l.describeError(nats.ErrMaxPayload))
	}
	return moved
}

// end hands over what is queued, and waits until nats.go has ended the connection.
func (s *session) end(ctx context.Context) {
	timer := time.AfterFunc(farewellTime, s.dialer.close)
	defer timer.Stop()
	if ctx.Err() != nil {
		s.link.publishWaiting(s)
	}
	s.conn.Close()
	<-s.ended
}

// findClientIP returns this host's address as the server sees it, if a host elsewhere could
// reach it: global unicast, public, and not the server's own.
func (s *session) findClientIP() netip.Addr {
	said, err := s.conn.GetClientIP()
	if err != nil {
		return netip.Addr{}
	}
	ip, ok := netip.AddrFromSlice(said)
	ip = ip.Unmap()
	if !ok || !ip.IsGlobalUnicast() || ip.IsPrivate() || ip == s.dialer.remoteIP() {
		return netip.Addr{}
	}
	return ip
}

// noteError takes errors that nats.go reports outside of calls: refusals of the server, lost messages.
func (s *session) noteError(err error) {
	if isTerminal(err) {
		s.reason.CompareAndSwap(nil, &err)
	}
	s.noteForbidden(err) // first: begin asks for it
	if findNameOf(err) != "" {
		s.link.logError(s.link.describeError(err)) // everything but that name works, and the state has more than that
		return
	}
	s.link.noteError(s.link.describeError(err))
}

// explain returns why the connection ended or was not made, in the words of a remedy.
func (s *session) explain(err error) error {
	if s.conn != nil && s.conn.LastError() != nil && errors.Is(err, nats.ErrConnectionClosed) {
		err = s.conn.LastError()
	}
	reason := s.reason.Load()
	switch failed := s.dialer.failure(); {
	case reason != nil:
		err = *reason
	case failed != nil:
		err = failed
	case err == nil:
		err = ownwords.New("the server closed the connection")
	}
	if late := s.dialer.ctx.Err(); errors.Is(late, context.DeadlineExceeded) && errors.Is(err, net.ErrClosed) {
		if errors.Is(err, errSilent) {
			late = ownwords.Errorf("%w: %w", errSilent, late)
		}
		err = late // ctx has closed the connection
	}
	return s.link.describeError(err)
}
