package peer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

const (
	certifiedTick  = 20 * time.Second // between looks at certificates and idle connections
	idleRelease    = 5 * time.Minute  // without a stream, after which a connection to a certified peer is let go
	maxRenewals    = 6                // of one connection that are looked at in renewalsPeriod; more are ignored
	renewalsPeriod = time.Minute
)

// SetCertificate makes a certificate, in its binary form, the one that hellos show from now on, and
// sends it on every connection. nil: none.
func (n *Node) SetCertificate(raw []byte) {
	n.certificate.Store(&raw)
	for _, c := range n.listConns() {
		c.startRenewal()
	}
}

// ownCertificate returns what SetCertificate was last given.
func (n *Node) ownCertificate() []byte { return *n.certificate.Load() }

// renewal is what a connection knows of this node's certificate.
type renewal struct {
	sending sync.Mutex // held while an item is sent, so that the last one says what is so

	sent atomic.Pointer[[]byte] // the certificate that the peer was sent last
}

// startRenewal sends the node's certificate, unless it is the one that the peer has. It does not
// block.
func (c *conn) startRenewal() {
	if c.renewal.isSent(c.node.ownCertificate()) {
		return
	}
	c.node.startOnWorker(func() {
		c.renewal.sending.Lock()
		defer c.renewal.sending.Unlock()
		if raw := c.node.ownCertificate(); !c.renewal.isSent(raw) {
			c.renewal.sent.Store(&raw)
			c.control.sendItem(&wire.Renewal{Cert: raw})
		}
	})
}

func (r *renewal) isSent(raw []byte) bool {
	sent := r.sent.Load()
	return sent != nil && bytes.Equal(*sent, raw) || sent == nil && len(raw) == 0
}

// Introduce makes a key that is neither trusted nor blocked a peer: it dials the key, which then shows
// its certificate. It blocks as a call does, and returns nil if the key is a peer.
func (n *Node) Introduce(ctx context.Context, id identity.ID) error {
	if _, ok := n.cfg.Trust.FindPeer(id); ok {
		return nil
	}
	if !n.mayDial(id) || id == n.self {
		return n.newUnknownPeerError(id)
	}
	state := n.lockState(id)
	state.uncertified = ""
	state.mu.Unlock()
	_, fail := state.ensureReadyConn(ctx)
	if _, ok := n.cfg.Trust.FindPeer(id); ok {
		if fail != nil {
			return fail
		}
		return nil
	}
	state.mu.Lock()
	reason := state.uncertified
	state.mu.Unlock()
	n.lapse(id)
	switch {
	case reason != "":
		return kinds.Errorf(kinds.UnknownPeer, "%s is there, and no peer: %s", id.Label(), reason).WithDelivered(kinds.DeliveredNo)
	case fail != nil:
		return fail
	}
	return n.newUnknownPeerError(id) // it has lost its certificate since
}

// Prove has a peer that is connected prove that it answers, also if it has been heard lately. A connection on which it does
// not is closed. Prove blocks for one round trip, and for proofTime at most.
func (n *Node) Prove(ctx context.Context, id identity.ID) {
	state := n.findState(id)
	if state == nil {
		return
	}
	c := state.current.Load()
	if c == nil {
		return
	}
	if p := c.joinOrStartProof(); p != nil {
		select {
		case <-p.over:
		case <-c.leavingBegan:
		case <-ctx.Done():
		}
	}
}

// Reach blocks, as a call does, until a connection to a peer is ready, on which the peer has just answered. No message is
// sent.
func (n *Node) Reach(ctx context.Context, id identity.ID) error {
	if err := n.Introduce(ctx, id); err != nil {
		return err
	}
	n.Prove(ctx, id)
	state, fail := n.findTrustedState(id)
	if fail == nil {
		_, fail = state.ensureReadyConn(ctx)
	}
	if fail != nil {
		return fail
	}
	return nil
}

// HasLinkTo reports whether there is a link, such as a relay, on which a key can be dialled without an
// address.
func (n *Node) HasLinkTo(id identity.ID) bool {
	return slices.ContainsFunc(n.links.snapshot(), func(e *endpoint) bool { return e.link.Addr(id) != nil })
}

// mayDial reports whether a key may be dialled: it is a peer, or could show that it is one.
func (n *Node) mayDial(id identity.ID) bool {
	_, ok := n.cfg.Trust.FindPeer(id)
	return ok || n.cfg.Trust.HasAuthorities() && !n.cfg.Trust.IsBlocked(id)
}

// certify accepts a certificate that the peer showed, unless the owner trusts the peer anyway. It returns
// an error with the reason if the certificate is not valid here.
func (c *conn) certify(raw []byte) error {
	trust := c.node.cfg.Trust
	if p, ok := trust.FindPeer(c.id); ok && p.Certificate == nil || !trust.HasAuthorities() {
		return nil
	}
	if len(raw) == 0 {
		return kinds.Errorf(kinds.NotTrusted, "it shows no certificate")
	}
	before, _ := trust.FindPeer(c.id)
	p, err := trust.Certify(raw, c.id, time.Now(), c.node.isIdle)
	if err == nil && (before.Certificate == nil || !p.Certificate.IsSameAs(before.Certificate)) {
		is := p.Certificate
		c.node.peerLog.WriteLimited(c.id, slog.LevelInfo, "certificate taken", "peer", c.id.Label(), "name", p.Name, "groups", strings.Join(is.Groups, ","), "serial", is.Serial, "key_id", is.KeyID, "until", is.NotAfter)
	}
	return err
}

// isIdle reports whether no connection to a peer is in use.
func (n *Node) isIdle(id identity.ID) bool {
	state := n.findState(id)
	return state == nil || state.current.Load() == nil
}

// certifyHello accepts the certificate in the peer's hello. If the certificate is not valid, and the peer is not
// trusted for another reason, admitConn refuses the hello.
func (c *conn) certifyHello() {
	raw := c.peerHello.Cert
	c.peerHello.Cert = nil
	err := c.certify(raw)
	if err == nil {
		return
	}
	c.noRoom = errors.Is(err, identity.ErrCertifiedFull)
	if len(raw) > 0 {
		c.node.peerLog.WriteLimited(c.logHolder(), slog.LevelInfo, "certificate refused", "peer", c.id.Label(), "reason", err)
	}
	if c.peer != nil {
		c.peer.mu.Lock()
		c.peer.uncertified = ownwords.Of(err)
		c.peer.mu.Unlock()
	}
}

// handleRenewal accepts a certificate with which a peer replaces an older one. If the new one is not
// valid, the older one stays.
func (c *conn) handleRenewal(raw []byte) {
	if now := time.Now(); now.Sub(c.renewalsSince) > renewalsPeriod {
		c.renewalsSince, c.renewals = now, 0
	}
	if c.renewals++; c.renewals > maxRenewals {
		return
	}
	p, ok := c.node.cfg.Trust.FindPeer(c.id)
	if !ok || p.Certificate == nil {
		return
	}
	if len(raw) == 0 {
		c.node.cfg.Trust.Decertify(c.id)
		return
	}
	if err := c.certify(raw); err != nil {
		c.node.peerLog.WriteLimited(c.id, slog.LevelWarn, "renewed certificate refused", "peer", c.id.Label(), "name", p.Name, "reason", err)
		return
	}
	if p, ok = c.node.cfg.Trust.FindPeer(c.id); ok {
		if refusal := c.checkPQ(p); refusal != nil {
			c.refuseHello(refusal)
		}
	}
}

// greetStranger reads the hello of a stranger that has dialled in. If it shows a valid certificate,
// greetStranger returns a connection to that peer, and the reader for startConn. Otherwise it refuses
// the stranger, and returns nil.
func (e *endpoint) greetStranger(c *conn) (*conn, *bufio.Reader) {
	reader, err := c.exchangeHellos(strangerTime, false)
	if err != nil {
		c.closeFailedGreeting(err)
		return nil, nil
	}
	c.certifyHello()
	if p, ok := e.node.cfg.Trust.FindPeer(c.id); !ok || p.Certificate == nil {
		if !ok && c.noRoom {
			c.refuseHello(newNoRoomRefusal())
		} else {
			c.refuseHello(&helloRefusal{code: closeNotTrusted, reason: "not trusted", event: EventPending})
		}
		return nil, nil
	}
	greeted := newConn(e, c.qc, c.id)
	greeted.peerHello, greeted.peerPQ, greeted.claim = c.peerHello, c.peerPQ, c.claim
	return greeted, reader
}

// watchCertificates closes the connections of peers whose certificates have expired, and idle
// connections to certified peers, until the node ends.
func (n *Node) watchCertificates() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var looked time.Time // at idle connections: certificates may come by the hundred
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-timer.C:
		case <-n.cfg.Trust.CertifiedSignal():
		case <-n.lapsed.wake:
		}
		ended, next := n.cfg.Trust.TakeDecertified(time.Now())
		for _, id := range ended {
			n.endCertified(id)
		}
		if now := time.Now(); now.Sub(looked) >= certifiedTick {
			looked = now
			for _, p := range n.cfg.Trust.CertifiedPeers() {
				n.releaseIdleConns(p.ID)
			}
		}
		left := n.lapsed.forget(n.tryForgetState)
		pause := certifiedTick
		if !next.IsZero() {
			pause = max(min(pause, time.Until(next)), time.Second)
		}
		timer.Stop()
		if n.cfg.Trust.HasCertified() || left {
			timer.Reset(pause)
		}
	}
}

// endCertified closes the connections of a peer whose certificate has ended, unless the owner trusts
// it.
func (n *Node) endCertified(id identity.ID) {
	if _, ok := n.cfg.Trust.FindPeer(id); ok {
		return
	}
	n.Disconnect(id)
	n.lapse(id)
	n.emitEvent(Event{Type: EventDecertified, Peer: id})
}

// releaseIdleConns asks a peer to end the connections that were dialled here and have had no stream
// for idleRelease. The side that was dialled does not, so a daemon whose owner trusts this one keeps
// its connection.
func (n *Node) releaseIdleConns(id identity.ID) {
	state := n.findState(id)
	if state == nil {
		return
	}
	for _, c := range state.listConns() {
		if c.dialled && c.isUnusedFor(idleRelease) {
			c.sendGoaway(closeShutdown)
		}
	}
}

// isUnusedFor reports whether no stream was open for d. Only watchCertificates calls it.
func (c *conn) isUnusedFor(d time.Duration) bool {
	now, count := time.Now(), c.uses.Load()
	c.mu.Lock()
	unanswered := len(c.inbound) > 0
	c.mu.Unlock()
	if unanswered || c.isInUse() || count != c.usesSeen || c.unusedSince.IsZero() {
		c.usesSeen, c.unusedSince = count, now
	}
	return now.Sub(c.unusedSince) >= d
}
