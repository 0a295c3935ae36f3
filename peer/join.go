package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Joining is one exchange on a connection of its own, under its own ALPN, which
// is offered only while an invitation is open (protocol, section 7). Trust is given
// to the key that completed the handshake.

const (
	joinBytes = 6 << 10     // 5.3 KiB of it are the post-quantum key and signature
	wrongWait = time.Second // before a wrong token is answered, one at a time
)

type joinRequest struct {
	V     uint64 `cbor:"v"`
	Token []byte `cbor:"token"`
	Name  string `cbor:"name"`
	PQ    []byte `cbor:"pq,omitempty"`
	Sig   []byte `cbor:"sig,omitempty"` // by PQ; from acpd before 0.1.0 none comes
}

type joinReply struct {
	Name    string `cbor:"name,omitempty"`
	PQ      []byte `cbor:"pq,omitempty"`
	Sig     []byte `cbor:"sig,omitempty"`
	Code    string `cbor:"code,omitempty"`
	Message string `cbor:"message,omitempty"`
}

// Join redeems an invitation: both sides trust each other when it returns. It dials the
// addresses in the invitation, those that [Config.Addrs] has of the inviter, and the links. It blocks
// for 10 s at most. The error is a *kinds.Error; repeating the call is safe.
func (n *Node) Join(ctx context.Context, inv identity.Invitation) (identity.Peer, error) {
	if inv.ID == n.self {
		return identity.Peer{}, kinds.Errorf(kinds.Invalid, "join: the invitation is this daemon's own; use it on the other machine")
	}
	ctx, cancel := context.WithTimeout(ctx, kinds.JoinDeadline)
	defer cancel()
	addrs := slices.Clone(inv.Addrs)
	for _, a := range n.cfg.Addrs(inv.ID) {
		if !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	routes := n.orderRoutes(inv.ID, addrs, false)
	if len(routes) == 0 {
		return identity.Peer{}, kinds.Errorf(kinds.Invalid, "join: the invitation names no address, and no address of %s is known: ask for one with an address", inv.ID.Label())
	}
	type connection struct {
		*quic.Conn
		path Path
	}
	connected := make(chan connection, 1)
	dialing, stop := context.WithTimeout(ctx, n.dialLimit(inv.ID))
	fail := n.race(dialing, inv.ID, routes, func(ctx context.Context, l leg) *dialFailure {
		qc, _, err := l.dialHandshake(ctx, inv.ID, identity.ALPNJoin)
		if err != nil {
			return l.proveJoinFailure(ctx, inv.ID, l.toDialFailure(inv.ID, err))
		}
		select {
		case connected <- connection{qc, l.on.path}:
		default:
			qc.CloseWithError(closeJoinClosed, "another address was quicker")
		}
		return nil
	})
	stop()
	if len(connected) == 0 { // one address may have refused while another connected
		return identity.Peer{}, n.toJoinError(inv.ID, fail)
	}
	qc := <-connected
	defer n.closeConnWithNode(qc.Conn)()
	p, err := n.requestJoin(ctx, qc.Conn, qc.path, inv)
	qc.CloseWithError(closeJoinClosed, "joined")
	return p, err
}

// proveJoinFailure returns the failure of a dial for a join. That nobody joins there is said before any
// key is proved, and somebody else may have the address in this network: so it dials there as peers do,
// and only of the inviter it believes that.
func (l leg) proveJoinFailure(ctx context.Context, inviter identity.ID, f *dialFailure) *dialFailure {
	if f.Code == kinds.IncompatibleVersion {
		qc, _, err := l.dialHandshake(ctx, inviter, identity.ALPN)
		if err == nil {
			qc.CloseWithError(closeShutdown, "only a probe")
			return f
		}
		f = l.toDialFailure(inviter, err)
	}
	if f.Code == kinds.IncompatibleVersion || f.Code == kinds.IdentityConflict {
		f.silence.foreign = []string{l.text}
		f.beSilent(l, inviter)
	}
	return f
}

// toJoinError returns the error of a join that made no connection.
func (n *Node) toJoinError(id identity.ID, fail *dialFailure) *kinds.Error {
	switch {
	case fail.Code == kinds.IncompatibleVersion:
		return kinds.Errorf(kinds.NotAuthorized, "join: no invitation is open at %s; it has expired, was used or revoked, or the daemon there was started anew: ask for a new one", fail.addr)
	case fail.isSilent && fail.silence.isForeign():
		return kinds.Errorf(kinds.IdentityConflict, "join: at %s somebody else answers than %s; ask for a new invitation", joinAddrs(fail.silence.foreign), n.peerName(id)).WithDelivered(kinds.DeliveredNo)
	case fail.isSilent:
		return kinds.Errorf(kinds.Unreachable, "join: %s: %s", n.peerName(id), fail.silence.describe(true)).WithDelivered(kinds.DeliveredNo)
	}
	told := *fail.Error
	told.Message = "join: " + told.Message
	return &told
}

// requestJoin sends the token on a connection to the inviter, and trusts it if the reply
// does.
func (n *Node) requestJoin(ctx context.Context, qc *quic.Conn, path Path, inv identity.Invitation) (identity.Peer, error) {
	unreachable := func(err error) error {
		return kinds.Errorf(kinds.Unreachable, "join: the connection to %s was lost; run the same command again (%s)", inv.ID.Label(), explainCause(err)).WithDelivered(kinds.DeliveredUnknown)
	}
	s, err := qc.OpenStreamSync(ctx)
	if err != nil {
		return identity.Peer{}, unreachable(err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		s.SetDeadline(deadline)
	}
	sig, err := n.signPQ(qc, inv.ID)
	if err != nil {
		return identity.Peer{}, kinds.Errorf(kinds.Internal, "join: %v", err)
	}
	body, err := wire.MarshalCBOR(joinRequest{V: 1, Token: inv.Token[:], Name: identity.CleanClaim(n.cfg.Name), PQ: n.cfg.Key.PublicPQ(), Sig: sig})
	if err != nil {
		return identity.Peer{}, kinds.Errorf(kinds.Internal, "join: %v", err)
	}
	if _, err := s.Write(append([]byte{byte(wire.StreamJoin)}, body...)); err != nil {
		return identity.Peer{}, unreachable(err)
	}
	s.Close()
	answer, err := readAll(s, joinBytes)
	if err != nil {
		return identity.Peer{}, unreachable(err)
	}
	var reply joinReply
	if err := wire.UnmarshalCBOR(answer, &reply); err != nil {
		n.log.Debug("the answer to a join is not valid", "peer", inv.ID.Label(), "problem", err)
		return identity.Peer{}, kinds.Errorf(kinds.Internal, "join: the answer of %s is not valid: update the older of the two daemons, then run the same command again", inv.ID.Label())
	}
	if reply.Code != "" {
		return identity.Peer{}, markRemoteError(inv.ID, kinds.NewErrorFromWire(reply.Code, cleanErrorText(reply.Message), 0))
	}
	if len(reply.PQ) > 0 && !inv.PQ.IsZero() && identity.HashPQ(reply.PQ) != inv.PQ {
		return identity.Peer{}, kinds.Errorf(kinds.IdentityConflict, "join: the post-quantum key of %s is not the one in the invitation; ask for a new one", inv.ID.Label())
	}
	pq, err := n.verifyPQ(qc, reply.PQ, reply.Sig, inv.ID)
	if err != nil {
		return identity.Peer{}, kinds.Errorf(kinds.IdentityConflict, "join: %v; ask for a new invitation", err)
	}
	if n.cfg.RequirePQ && inv.PQ.IsZero() && pq.IsZero() {
		return identity.Peer{}, kinds.Errorf(kinds.NotTrusted, "join: a post-quantum identity is required here and %s proves none; update it", inv.ID.Label())
	}
	p, err := n.cfg.Trust.TrustJoined(identity.Peer{ID: inv.ID, Addrs: slices.DeleteFunc(slices.Clone(inv.Addrs), isLinkAddr), PQ: cmp.Or(inv.PQ, pq)}, cmp.Or(reply.Name, inv.Name))
	if blocked, ok := errors.AsType[*identity.BlockedError](err); ok {
		return p, kinds.Errorf(kinds.NotTrusted, "join: %v", blocked)
	}
	if pinned, ok := errors.AsType[*identity.PinMismatchError](err); ok {
		return p, kinds.Errorf(kinds.IdentityConflict, "join: %v", pinned)
	}
	if err != nil {
		return p, ownwords.Errorf("join: %w", err) // its cause may be the disk, which has a code where that is known
	}
	n.recordJoinedPeer(p, path, qc.RemoteAddr().String())
	n.Connect(p.ID)
	return p, nil
}

// signPQ returns the post-quantum signature with which this node speaks to other on the connection.
func (n *Node) signPQ(qc *quic.Conn, other identity.ID) ([]byte, error) {
	exporter, err := exportKeyingMaterial(qc)
	if err != nil {
		return nil, err
	}
	return n.cfg.Key.SignHello(exporter, other)
}

// verifyPQ returns the hash of the other side's post-quantum key, if sig proves that the
// other side has it. Without a signature, which only a join may lack, the hash is zero, and the first hello
// pins the key. A wrong signature is an error.
func (n *Node) verifyPQ(qc *quic.Conn, pq, sig []byte, signer identity.ID) (identity.PQHash, error) {
	if len(pq) == 0 || len(sig) == 0 {
		return identity.PQHash{}, nil
	}
	exporter, err := exportKeyingMaterial(qc)
	if err == nil {
		err = identity.VerifyHello(pq, sig, exporter, signer, n.self)
	}
	if err != nil {
		return identity.PQHash{}, err
	}
	return identity.HashPQ(pq), nil
}

// cleanErrorText makes a peer's text fit for an error message: short and printable.
func cleanErrorText(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, ""))
	return clipReceiptText(s)
}

// recordJoinedPeer reports a peer that is trusted by invitation, and keeps the address at which
// it proved its key.
func (n *Node) recordJoinedPeer(p identity.Peer, path Path, addr string) {
	state := n.findOrCreateState(p.ID)
	state.mu.Lock()
	state.rememberAddr(path, addr)
	state.mu.Unlock()
	n.emitEvent(Event{Type: EventTrust, Peer: p.ID, Name: p.Name})
}

// serveJoin answers the request on a connection under the joining ALPN, and closes it.
func (e *endpoint) serveJoin(qc *quic.Conn, id identity.ID) {
	n := e.node
	defer qc.CloseWithError(closeJoinClosed, "joined")
	from := e.gates.sourceOf(qc.RemoteAddr())
	if !e.gates.joiners.tryAddStranger(from) {
		qc.CloseWithError(closeOverloaded, "too many joining")
		return
	}
	defer e.gates.joiners.removeStranger(from)
	n.tasks.Go(func() { limitGreetingBytes(qc, nil, closeOverloaded, "joining takes less") })
	ctx, cancel := context.WithTimeout(n.ctx, kinds.JoinDeadline)
	defer cancel()
	s, err := qc.AcceptStream(ctx)
	if err != nil {
		return
	}
	n.tasks.Go(func() {
		if _, err := qc.AcceptStream(ctx); err == nil {
			qc.CloseWithError(closeProtocolError, "joining takes one stream")
		}
	})
	deadline, _ := ctx.Deadline()
	s.SetDeadline(deadline)
	reply := e.answerJoin(ctx, s, qc, id)
	body, err := wire.MarshalCBOR(reply)
	if err != nil {
		return
	}
	s.Write(body)
	s.Close()
	// The joiner closes when it has the answer; closing first could lose it. Before
	// that it does not trust this side either.
	select {
	case <-qc.Context().Done():
	case <-ctx.Done():
	}
	if reply.Code == "" {
		n.Connect(id)
	}
}

// answerJoin reads a request to join, redeems its token and returns the reply.
func (e *endpoint) answerJoin(ctx context.Context, s io.Reader, qc *quic.Conn, id identity.ID) joinReply {
	n := e.node
	b, err := readAll(s, joinBytes)
	if err != nil || len(b) == 0 {
		return joinReply{Code: string(kinds.Invalid), Message: "the request did not arrive whole"}
	}
	var req joinRequest
	err = wire.UnmarshalCBOR(b[1:], &req)
	switch {
	case wire.StreamType(b[0]) != wire.StreamJoin:
		return joinReply{Code: string(kinds.Invalid), Message: fmt.Sprintf("stream type %#x: expected %#x", b[0], byte(wire.StreamJoin))}
	case err != nil:
		return joinReply{Code: string(kinds.Invalid), Message: ownwords.Of(err)}
	case req.V != 1 || len(req.Token) != 16:
		return joinReply{Code: string(kinds.Invalid), Message: "expected version 1 and a token of 16 bytes"}
	}
	pq, err := n.verifyPQ(qc, req.PQ, req.Sig, id)
	switch {
	case err != nil:
		return joinReply{Code: string(kinds.IdentityConflict), Message: ownwords.Of(err)}
	case n.cfg.RequirePQ && pq.IsZero():
		return joinReply{Code: string(kinds.NotAuthorized), Message: "a post-quantum identity is required here; update the joining side"}
	}
	p := identity.Peer{ID: id, PQ: pq}
	err = n.invitations.Redeem([16]byte(req.Token), id, func(name string) (err error) {
		p.Name = name // "": the invitation gives none
		p, err = n.cfg.Trust.TrustJoined(p, req.Name)
		return err
	})
	_, blocked := errors.AsType[*identity.BlockedError](err)
	_, pinned := errors.AsType[*identity.PinMismatchError](err)
	switch {
	case err == nil:
		n.recordJoinedPeer(p, e.path, qc.RemoteAddr().String()) // where it calls from it listens too
		sig, err := n.signPQ(qc, id)
		if err != nil { // the hellos tell
			n.log.Error("join: no post-quantum signature", "peer", id.Label(), "err", err)
		}
		return joinReply{Name: identity.CleanClaim(n.cfg.Name), PQ: n.cfg.Key.PublicPQ(), Sig: sig}
	case pinned:
		return joinReply{Code: string(kinds.IdentityConflict), Message: "another post-quantum key of yours is pinned here; its owner can untrust you and trust you again"}
	case blocked:
		return joinReply{Code: string(kinds.NotAuthorized), Message: "this key was untrusted here; its owner's trust with the full id lifts that"}
	case errors.Is(err, identity.ErrNoInvitation), errors.Is(err, identity.ErrInvitationUsed):
		n.peerLog.WriteLimited(budget.StrangersOn(e.name), slog.LevelWarn, "join refused", "peer", id.Label(), "addr", qc.RemoteAddr().String(), "err", err)
		e.gates.delayWrongToken(ctx)
		return joinReply{Code: string(kinds.NotAuthorized), Message: ownwords.Of(err)}
	}
	n.peerLog.WriteLimited(budget.StrangersOn(e.name), slog.LevelError, "join", "peer", id.Label(), "err", err)
	return joinReply{Code: string(kinds.Overloaded), Message: "join: the trust store of who invited could not be written: its log says why; then run the same command again"}
}

// delayWrongToken blocks so long that of all wrong tokens on a link one is answered in a second,
// which limits guessing.
func (g *gates) delayWrongToken(ctx context.Context) {
	select {
	case g.wrongToken <- struct{}{}:
		defer func() { <-g.wrongToken }()
	case <-ctx.Done():
		return
	}
	_ = pace.Sleep(ctx, wrongWait)
}
