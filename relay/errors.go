package relay

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/acpd/acpd/internal/ownwords"
)

// isTerminal reports whether the server ends the connection after this error.
func isTerminal(err error) bool {
	return says(err, "authorization violation", "authentication expired", "authentication revoked")
}

// says reports whether err has one of these texts of the server. nats.go has errors for
// them, but not for those that come before the connection is made.
func says(err error, texts ...string) bool {
	lower := strings.ToLower(err.Error())
	for _, text := range texts {
		if strings.Contains(lower, text) {
			return true
		}
	}
	return false
}

// isSubscriptionRefused reports whether the server refused one of the own subjects.
func isSubscriptionRefused(err error) bool {
	return isOfSubscription(err) || errors.Is(err, nats.ErrMaxSubscriptionsExceeded)
}

// isOfSubscription reports whether the server permits no subscription of a subject.
func isOfSubscription(err error) bool {
	what, _, _ := strings.Cut(err.Error(), `"`) // what the subject says is anybody's
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(strings.ToLower(what), "subscription")
}

// findSubjectOf returns the subject that the server names in err: the text in its first quotes.
func findSubjectOf(err error) string {
	_, rest, _ := strings.Cut(err.Error(), `"`)
	subject, _, _ := strings.Cut(rest, `"`)
	return subject
}

// ErrRefused is in the chain of an error by which the server refuses this daemon: its
// credentials, or what they permit. Somebody has to change a configuration.
var ErrRefused = ownwords.New("refused by the relay")

type refusal struct{ error }

// OwnWords returns the words of the error that it is.
func (r refusal) OwnWords() string { return ownwords.Of(r.error) }

func (refusal) Is(target error) bool { return target == ErrRefused }

// describeError returns an error with the operation, what went wrong and a remedy, only in words of this program:
// the server's text stays in its chain. It holds no secret.
func (l *Link) describeError(err error) error {
	at := fmt.Sprintf("relay %s: %s: ", l.config.Name, l.endpoint)
	if remedy := l.findRefusal(err); remedy != "" {
		return refusal{ownwords.Explain(err, at+remedy)}
	}
	what, known := describeFailure(err)
	switch remedy := findRemedy(l.endpoint, err); {
	case remedy == "":
		return ownwords.Explain(err, at+what)
	case !known:
		return ownwords.Explain(err, at+remedy)
	default:
		return ownwords.Explain(err, at+what+": "+remedy)
	}
}

// knownErrors are errors of NATS servers and of nats.go, in the words of either.
var knownErrors = []string{
	"maximum connections exceeded", "maximum account active connections exceeded", "maximum subscriptions exceeded", "maximum payload",
	"maximum control line exceeded", "slow consumer", "stale connection", "authentication timeout", "permissions violation", "secure connection",
	"connection throttling", "invalid client protocol", "parser error", "protocol error", "no servers available", "connection closed", "timeout",
}

// describeFailure says what went wrong, if this program has words for it; else where to read of it.
func describeFailure(err error) (what string, known bool) {
	if what, known = ownwords.Find(err); known {
		return what, true
	}
	for _, text := range knownErrors {
		if says(err, text) {
			return text, true
		}
	}
	return ownwords.Unknown, false
}

// findAlert returns the number of the alert with which the other side has ended a handshake. Over TCP,
// crypto/tls has no exported type for it.
func findAlert(err error) (alert uint64, found bool) {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		if v := reflect.ValueOf(op.Err); v.Kind() == reflect.Uint8 {
			return v.Uint(), true
		}
	}
	return 0, false
}

// explainTLS returns an error that says why a handshake of TLS has failed, with err in its chain.
func explainTLS(err error) error {
	alert, isAlert := findAlert(err)
	what := "tls: the handshake failed"
	switch {
	case isA[tls.RecordHeaderError](err):
		what = "tls: what comes is no TLS"
	case isA[x509.UnknownAuthorityError](err):
		what = "tls: its certificate is of an authority that is not known here"
	case isOutOfDate(err):
		what = "tls: its certificate has expired, or is for later"
	case isA[x509.HostnameError](err):
		what = "tls: its certificate is for another host"
	case isA[*tls.CertificateVerificationError](err):
		what = "tls: its certificate is not valid"
	case isAlert:
		what = fmt.Sprintf("tls: it ended the handshake with alert %d", alert)
	default:
		if cause, known := ownwords.Find(err); known {
			what = "tls: " + cause
		}
	}
	return ownwords.Explain(err, what)
}

// findRefusal returns what the server refuses and what to do; "" if err is another error.
func (l *Link) findRefusal(err error) string {
	own := l.replies.ownSubject()
	switch {
	case findNameOf(err) != "":
		return "" // all but names works
	case isSubscriptionRefused(err):
		return "the server permits no subscription to this daemon's subjects, so nothing comes in: have it permit subscribe to " + own + " and " + own + ".*"
	case errors.Is(err, nats.ErrPermissionViolation):
		return "the server permits no packets to peers: have it permit publish to acp1.>"
	case says(err, "authorization violation"):
		return "the server refuses " + l.auth.what + ": " + l.findLoginRemedy()
	case errors.Is(err, nats.ErrNkeysNotSupported):
		return "the server knows no nkeys: " + l.replaceLogin("get the token, user or credentials that it takes, and ") + "; if it takes none, anybody may log in there: have a token set in its configuration first"
	case says(err, "authentication expired"):
		return "the credentials have expired: get new ones from whoever runs the server"
	case says(err, "authentication revoked"):
		return "the credentials were revoked: get new ones from whoever runs the server"
	}
	return ""
}

// findRemedy returns what to do about an error other than a refusal.
func findRemedy(e endpoint, err error) string {
	name := findNameOf(err)
	switch {
	case name != "" && isOfSubscription(err):
		return "nobody finds this daemon by its name here: have the server permit subscribe to " + nameSubject + name
	case name != "":
		return "names are not found here: have the server permit publish to acp1.>"
	case errors.Is(err, nats.ErrSlowConsumer):
		return "packets came faster than this machine took them, and some are lost: nothing is to be done if that passes"
	case errors.Is(err, nats.ErrMaxPayload):
		return "the server takes no messages of 1,484 bytes: set its max_payload to 8KB"
	case errors.Is(err, nats.ErrStaleConnection):
		return "the server has not answered pings for half a minute: it is tried again"
	case errors.Is(err, errNoNATS):
		return "check host and port"
	case errors.Is(err, errWantsTLS):
		return "write tls:// instead of nats://"
	case errors.Is(err, errNoCredentials):
		return newCredentials
	case errors.Is(err, errBareNATS):
		return e.nameOtherScheme()
	case errors.Is(err, errNoWebSocket), says(err, "invalid websocket connection", "malformed http "):
		remedy := "no WebSocket of a NATS server answers there, and a redirect is not followed: check host and port"
		if e.scheme == "ws" {
			remedy += "; if the port has TLS, write wss:// instead of ws://" // to such a port's plain HTTP, servers answer 400
		}
		return remedy
	case e.isWebSocket() && isOfBareNATS(err):
		return "the server begins with INFO, without a WebSocket: " + e.nameOtherScheme()
	case isA[tls.RecordHeaderError](err):
		return "the server speaks no TLS at this port: set up tls in its configuration, or check the port"
	case isA[x509.UnknownAuthorityError](err):
		return "the certificate must be of an authority that this machine trusts: for one of your own, set SSL_CERT_FILE to its certificate where acpd starts, on each machine"
	case isOutOfDate(err):
		return "the certificate is not valid at this time: have it renewed by whoever runs that host, and check this machine's clock"
	case isA[x509.HostnameError](err), isA[x509.CertificateInvalidError](err):
		return "the certificate must be valid for " + e.host
	case isA[*net.DNSError](err):
		return "check the host name"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "this machine has no way to it: check its network and the address"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: start the server, or check the port"
	case isTimeout(err) && (isOfReading(err) || errors.Is(err, errSilent)):
		return "the server takes connections and says nothing in time: " + findMuteRemedy(e)
	case isTimeout(err):
		return "nothing answers in time: check host, port and firewall"
	case errors.Is(err, errSilent):
		return "it closed the connection without a word: " + findMuteRemedy(e) + "; its log says more"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, nats.ErrConnectionClosed):
		return "the server closed the connection, and its log says why: it is tried again"
	}
	return ""
}

// findMuteRemedy returns what to do about a server that waits for this side's word.
func findMuteRemedy(e endpoint) string {
	if e.isWebSocket() {
		return "check host and port"
	}
	return "check host and port; if it is the port of a WebSocket, " + e.nameOtherScheme() + "; if its tls has handshake_first, set that to auto"
}

// isOfBareNATS reports whether TLS failed as the server said INFO, as one of tls:// does first.
func isOfBareNATS(err error) bool {
	record, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok && string(record.RecordHeader[:]) == "INFO "
}

// isOutOfDate reports whether a certificate has expired, or is for later.
func isOutOfDate(err error) bool {
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	return ok && invalid.Reason == x509.Expired
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() || errors.Is(err, nats.ErrTimeout)
}

// isOfReading reports whether the connection was there when it failed.
func isOfReading(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "read"
}
