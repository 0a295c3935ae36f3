package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Close codes of connections (protocol, section 2). An unknown one reads as
// closeProtocolError.
const (
	closeShutdown quic.ApplicationErrorCode = iota
	closeReplaced
	closeNotTrusted
	closeProtocolError
	closeIncompatibleVersion
	closeIdentityConflict
	closeOverloaded
	closeHelloTimeout
	closeDead
	closeJoinClosed
)

// Stream codes, in RESET_STREAM and STOP_SENDING (protocol, section 2). An
// unknown one reads as streamInternal.
const (
	streamNone quic.StreamErrorCode = iota
	streamUnknown
	streamCancelled
	streamTimeout
	streamTooLarge
	streamInvalid
	streamGoingAway  // no handler ran: safe to repeat
	streamOverloaded // no handler ran
	streamInternal
)

// newUnreachableError returns the error of a call that got no answer.
func (n *Node) newUnreachableError(id identity.ID, d kinds.Delivered, format string, args ...any) *kinds.Error {
	return kinds.Errorf(kinds.Unreachable, "%s: "+format, append([]any{n.peerName(id)}, args...)...).WithDelivered(d)
}

// newUnknownPeerError returns the error of a call to an id that is not trusted.
func (n *Node) newUnknownPeerError(id identity.ID) *kinds.Error {
	return kinds.Errorf(kinds.UnknownPeer, "%s is not trusted here; acpctl trust its full id first", id.Label()).WithDelivered(kinds.DeliveredNo)
}

// NewUntrustedError returns the error for a message whose sender was untrusted while it came.
func NewUntrustedError(env *wire.Envelope) *kinds.Error {
	return kinds.Errorf(kinds.NotAuthorized, "%s: the receiver does not trust the sender any more", env.Kind)
}

// isClosedWith reports whether the peer ended a connection with code.
func isClosedWith(err error, code quic.ApplicationErrorCode) bool {
	app, ok := errors.AsType[*quic.ApplicationError](err)
	return ok && app.Remote && app.ErrorCode == code
}

// markRemoteError marks e as raised by the peer and returns it. An error that this node finds in
// a reply is its own error and is not marked.
func markRemoteError(id identity.ID, e *kinds.Error) *kinds.Error {
	e.From = id.String()
	return e
}

// peerName returns the petname of a peer, or its label.
func (n *Node) peerName(id identity.ID) string {
	if p, ok := n.cfg.Trust.FindPeer(id); ok {
		return p.Name
	}
	return id.Label()
}

// toCallError returns the error of a call on a stream whose bytes may have left.
func (n *Node) toCallError(ctx context.Context, c *conn, err error) *kinds.Error {
	switch stream, ok := errors.AsType[*quic.StreamError](err); {
	case ok && stream.Remote && stream.ErrorCode == streamInternal && c.peerShutsDown():
		return n.newUnreachableError(c.id, kinds.DeliveredUnknown, "it shut down before it answered; repeat with the same id when it is back")
	case ok && stream.Remote:
		return n.newStreamError(c.id, stream.ErrorCode)
	case c.qc.Context().Err() != nil:
		return c.toConnectionError(c.endCause())
	case ctx.Err() != nil:
		return newContextError(n, ctx, c.id, kinds.DeliveredUnknown)
	}
	return c.toConnectionError(err) // streams get it before the context does
}

// toWriteError returns the error of a call whose message was not written whole. The peer does
// nothing with a message before it has read the end, and the end has not left.
func (n *Node) toWriteError(ctx context.Context, c *conn, err error) *kinds.Error {
	e := n.toCallError(ctx, c, err)
	if e.From == "" && e.Delivered() == kinds.DeliveredUnknown {
		return e.WithDelivered(kinds.DeliveredNo)
	}
	return e
}

// newContextError returns the error of a call whose ctx ended.
func newContextError(n *Node, ctx context.Context, id identity.ID, d kinds.Delivered) *kinds.Error {
	if errors.Is(context.Cause(ctx), errUnheard) {
		return n.newUnreachableError(id, d, "nobody takes its packets any more; repeat with the same id when it is back")
	}
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return kinds.Errorf(kinds.Timeout, "%s gave no answer before the deadline; allow more time, or repeat with the same id", n.peerName(id)).WithDelivered(d)
	}
	return kinds.Errorf(kinds.Cancelled, "the caller gave up before %s answered", n.peerName(id)).WithDelivered(d)
}

// newStreamError returns the error of a call whose stream the peer reset with code.
func (n *Node) newStreamError(id identity.ID, code quic.StreamErrorCode) *kinds.Error {
	name := n.peerName(id)
	switch code {
	case streamUnknown:
		return markRemoteError(id, kinds.Errorf(kinds.UnknownKind, "%s does not know this type of stream", name))
	case streamCancelled:
		return markRemoteError(id, kinds.Errorf(kinds.Cancelled, "%s gave the message up", name))
	case streamTimeout:
		return markRemoteError(id, kinds.Errorf(kinds.Timeout, "%s waited too long for the message; try again", name)).WithDelivered(kinds.DeliveredNo)
	case streamTooLarge:
		return markRemoteError(id, kinds.Errorf(kinds.TooLarge, "the message is larger than %s takes", name))
	case streamInvalid:
		return markRemoteError(id, kinds.Errorf(kinds.Invalid, "%s could not read the message", name))
	case streamGoingAway:
		return n.newUnreachableError(id, kinds.DeliveredNo, "it is shutting down; try again later")
	case streamOverloaded:
		return markRemoteError(id, kinds.Errorf(kinds.Overloaded, "%s has too much to do; try again later", name)).WithDelivered(kinds.DeliveredNo)
	}
	return markRemoteError(id, kinds.Errorf(kinds.Internal, "%s failed to answer", name)).WithDelivered(kinds.DeliveredUnknown)
}

// toConnectionError returns the error of a call whose connection ended.
func (c *conn) toConnectionError(cause error) *kinds.Error {
	n, id := c.node, c.id
	name := n.peerName(id)
	app, closed := errors.AsType[*quic.ApplicationError](cause)
	_, idle := errors.AsType[*quic.IdleTimeoutError](cause)
	_, reset := errors.AsType[*quic.StatelessResetError](cause)
	switch {
	case closed && app.ErrorCode == closeNotTrusted:
		if app.Remote {
			return n.newNotTrustedError(name).WithDelivered(kinds.DeliveredUnknown)
		}
		return kinds.Errorf(kinds.NotTrusted, "%s is no longer trusted here; acpctl trust it to go on", name).WithDelivered(kinds.DeliveredUnknown)
	case isClosedWith(cause, closeIdentityConflict):
		return newIdentityConflictError(name).WithDelivered(kinds.DeliveredUnknown)
	case closed && app.ErrorCode == closeShutdown && app.Remote:
		return n.newUnreachableError(id, kinds.DeliveredUnknown, "it shut down; repeat with the same id when it is back")
	case closed && app.ErrorCode == closeShutdown:
		return n.newUnreachableError(id, kinds.DeliveredUnknown, "this daemon is shutting down")
	case closed && !app.Remote && app.ErrorMessage == linkRemoved:
		return n.newUnreachableError(id, kinds.DeliveredUnknown, "the link that led to it was removed; repeat with the same id")
	case reset, closed && app.ErrorCode == closeReplaced && !app.Remote:
		return n.newUnreachableError(id, kinds.DeliveredUnknown, "its daemon restarted; repeat with the same id")
	case closed && app.ErrorCode == closeDead, idle:
		silence := c.endpoint.noteSilence(shortAddr(c.remoteAddr()))
		return n.newUnreachableError(id, kinds.DeliveredUnknown, "%s; repeat with the same id when it is back", silence.addImpeded("it stopped answering"))
	}
	return n.newUnreachableError(id, kinds.DeliveredUnknown, "the connection was lost; repeat with the same id (%s)", explainCause(cause))
}

func (n *Node) newNotTrustedError(name string) *kinds.Error {
	if len(n.ownCertificate()) > 0 {
		return kinds.Errorf(kinds.NotTrusted, "%s does not trust this daemon, nor its certificate; see acpctl cert show, or ask its owner to run acpctl trust %s there", name, n.self)
	}
	return kinds.Errorf(kinds.NotTrusted, "%s does not trust this daemon; ask its owner to run acpctl trust %s there", name, n.self)
}

func newIdentityConflictError(name string) *kinds.Error {
	return kinds.Errorf(kinds.IdentityConflict, "%s saw another process with this daemon's key: stop that one, then start this one again", name)
}

// forbiddingErrnos are what the system returns for a packet that its firewall or a route forbids.
var forbiddingErrnos = []syscall.Errno{syscall.EPERM, syscall.EACCES, syscall.ENETUNREACH, syscall.EHOSTUNREACH}

// toDialError returns the error of a dial of one address. Nothing was sent then.
func (n *Node) toDialError(id identity.ID, addr string, err error) *kinds.Error {
	name := n.peerName(id)
	wrong, isWrong := errors.AsType[*identity.WrongIDError](err)
	app, closed := errors.AsType[*quic.ApplicationError](err)
	transport, failed := errors.AsType[*quic.TransportError](err)
	isUnsent := failed && !transport.Remote && transport.ErrorCode == quic.InternalError // by the system, whose words QUIC passes on, and not its error
	_, reset := errors.AsType[*quic.StatelessResetError](err)
	switch {
	case isWrong:
		what := "the address"
		if strings.HasPrefix(addr, string(ViaPipe)+":") {
			what = "its pipe in config.yaml"
		}
		return kinds.Errorf(kinds.IdentityConflict, "%s: another key (%s) answers at %s; correct %s, or trust the new key if %s really changed it", name, wrong.Got.Label(), addr, what, name).WithDelivered(kinds.DeliveredNo)
	case closed && app.Remote:
		switch app.ErrorCode {
		case closeNotTrusted:
			return n.newNotTrustedError(name).WithDelivered(kinds.DeliveredNo)
		case closeIdentityConflict:
			return newIdentityConflictError(name).WithDelivered(kinds.DeliveredNo)
		case closeIncompatibleVersion:
			return markRemoteError(id, kinds.Errorf(kinds.IncompatibleVersion, "%s speaks another version of the protocol; update the older side", name)).WithDelivered(kinds.DeliveredNo)
		case closeShutdown:
			return n.newUnreachableError(id, kinds.DeliveredNo, "it is shutting down; try again later")
		case closeOverloaded:
			return markRemoteError(id, kinds.Errorf(kinds.Overloaded, "%s takes no connection now; try again later", name)).WithDelivered(kinds.DeliveredNo)
		}
	case closed && app.ErrorCode == closeIdentityConflict:
		return kinds.Errorf(kinds.IdentityConflict, "%s: two processes there use one key; have its owner stop the wrong one, then start the other one again", name).WithDelivered(kinds.DeliveredNo)
	case reset:
		return n.newUnreachableError(id, kinds.DeliveredNo, "%s: a process answers there that does not know the connection; try again, and if that happens again, two daemons there use one key: have its owner stop one", addr)
	case closed && app.ErrorCode == closeNotTrusted: // it showed no certificate that is valid here, or was untrusted meanwhile
		return n.newUnknownPeerError(id)
	case failed && transport.ErrorCode.IsCryptoError():
		switch tls.AlertError(transport.ErrorCode - 0x100) {
		case 120: // no_application_protocol (RFC 7301, section 3.2)
			return markRemoteError(id, kinds.Errorf(kinds.IncompatibleVersion, "%s at %s speaks no common version of the protocol; update the older side", name, addr)).WithDelivered(kinds.DeliveredNo)
		case 40: // handshake_failure (RFC 8446, section 6.2)
			return kinds.Errorf(kinds.NotTrusted, "%s at %s requires a post-quantum key exchange; update this side", name, addr).WithDelivered(kinds.DeliveredNo)
		}
	case errors.Is(err, errRefused) && isLinkAddr(addr):
		return n.newUnreachableError(id, kinds.DeliveredNo, "nobody takes its packets at %s; start its daemon, and see with acpctl relay list there how it stands to the relay", addr)
	case isUnsent && strings.HasSuffix(transport.ErrorMessage, syscall.EMSGSIZE.Error()):
		return n.newUnreachableError(id, kinds.DeliveredNo, "the MTU of this machine's interface to %s is below the 1,228 bytes (IPv4) or 1,248 (IPv6) that QUIC needs; raise it", addr)
	case isUnsent && !n.hasOwnAddr():
		return n.newUnreachableError(id, kinds.DeliveredNo, "%s %s; %s", n.Addr(), absentAddr, absentRemedy)
	case isUnsent && slices.ContainsFunc(forbiddingErrnos, func(no syscall.Errno) bool { return strings.HasSuffix(transport.ErrorMessage, no.Error()) }):
		return n.newUnreachableError(id, kinds.DeliveredNo, "this machine does not let packets out to %s; check its firewall and routes", addr)
	case errors.Is(err, errRefused):
		return n.newUnreachableError(id, kinds.DeliveredNo, "nothing listens at %s; start its daemon", addr)
	}
	return n.newUnreachableError(id, kinds.DeliveredNo, "%s: %s", addr, explainCause(err))
}

// explainCause returns an error that has the words of describeCause, with cause in its chain.
func explainCause(cause error) error { return ownwords.Explain(cause, describeCause(cause)) }

// describeCause describes why a connection ended or was not made, only in words of this program: the
// reason that a peer sends with a code is the peer's text, and the error of a library may quote what anybody has
// sent, such as a certificate.
func describeCause(cause error) string {
	own, isOwn := errors.AsType[ownwords.Own](cause)
	app, closed := errors.AsType[*quic.ApplicationError](cause)
	stream, reset := errors.AsType[*quic.StreamError](cause)
	transport, failed := errors.AsType[*quic.TransportError](cause)
	_, idle := errors.AsType[*quic.IdleTimeoutError](cause)
	_, late := errors.AsType[*quic.HandshakeTimeoutError](cause)
	_, version := errors.AsType[*quic.VersionNegotiationError](cause)
	_, forgotten := errors.AsType[*quic.StatelessResetError](cause)
	switch {
	case isOwn: // also within a handshake: what the checks of package identity say
		return own.OwnWords()
	case closed && app.Remote:
		return fmt.Sprintf("ended there with code %d", uint64(app.ErrorCode))
	case closed:
		return app.ErrorMessage // which this node has written
	case reset:
		return fmt.Sprintf("a stream was reset with code %d", uint64(stream.ErrorCode))
	case failed && transport.Remote:
		return fmt.Sprintf("ended there with QUIC's code %#x", uint64(transport.ErrorCode))
	case failed && transport.ErrorCode.IsCryptoError():
		return fmt.Sprintf("its handshake is not valid (TLS alert %d)", uint8(transport.ErrorCode-0x100)) // that this node sent
	case failed:
		return fmt.Sprintf("ended here with QUIC's code %#x", uint64(transport.ErrorCode))
	case idle:
		return "nothing came for too long"
	case late:
		return "the handshake took too long"
	case version:
		return "it speaks another version of QUIC"
	case forgotten:
		return "it does not know the connection any more"
	case errors.Is(cause, quic.ErrTransportClosed), errors.Is(cause, quic.ErrServerClosed):
		return "this daemon is shutting down"
	}
	return ownwords.Of(cause)
}
