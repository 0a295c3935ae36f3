"""One exception for each error code.

Made from docs/local-api.json by go generate ./integration/localapi: do not edit it.
"""

from ._error import Error


class NotAuthorized(Error):
    """Policy forbids it, or from or to is not the connection's."""

    code = "not_authorized"


class UnknownDomain(Error):
    """Every attached agent declared domains and none matches; details.domains lists them."""

    code = "unknown_domain"


class UnknownKind(Error):
    """The receiver does not know the kind."""

    code = "unknown_kind"


class Invalid(Error):
    """Malformed envelope or payload; the message names the field."""

    code = "invalid"


class TooLarge(Error):
    """The encoded envelope is over max_message; no daemon cuts a message. An agent may cut what it answers, as `acpctl serve` does with what its command prints, and then says so: `truncated: true`."""

    code = "too_large"


class NoAgent(Error):
    """No agent is attached that could answer."""

    code = "no_agent"
    retryable = True


class Overloaded(Error):
    """A task or rate limit is reached, or a table is full; see retry_after_ms."""

    code = "overloaded"
    retryable = True


class Timeout(Error, TimeoutError):
    """The deadline passed."""

    code = "timeout"
    retryable = True


class Cancelled(Error):
    """The caller gave up, or the task was cancelled."""

    code = "cancelled"


class NotFound(Error):
    """Ref names nothing that this peer may refer to."""

    code = "not_found"


class LoopDetected(Error):
    """The chain of messages is longer than 16."""

    code = "loop_detected"


class IncompatibleVersion(Error):
    """No common version of the protocol."""

    code = "incompatible_version"


class Internal(Error):
    """The receiver failed."""

    code = "internal"


class Unreachable(Error, ConnectionError):
    """No answer from the peer; details.delivered is no or unknown. Only the daemon here, or this package, raises it."""

    code = "unreachable"
    retryable = True


class DaemonUnavailable(Error, ConnectionError):
    """No daemon answers on the socket. Only the daemon here, or this package, raises it."""

    code = "daemon_unavailable"
    retryable = True


class UnknownPeer(Error):
    """No peer has that name or id, or several have it. Only the daemon here, or this package, raises it."""

    code = "unknown_peer"


class NotTrusted(Error):
    """The peer does not trust this daemon. Only the daemon here, or this package, raises it."""

    code = "not_trusted"


class IdentityConflict(Error):
    """Another process shows the same identity, or a peer another key. Only the daemon here, or this package, raises it."""

    code = "identity_conflict"


class Kept(Error):
    """The message did not arrive, and this daemon keeps it as the caller wanted; details.kept says until when. Only the daemon here, or this package, raises it."""

    code = "kept"


BY_CODE: dict[str, type[Error]] = {
    "not_authorized": NotAuthorized,
    "unknown_domain": UnknownDomain,
    "unknown_kind": UnknownKind,
    "invalid": Invalid,
    "too_large": TooLarge,
    "no_agent": NoAgent,
    "overloaded": Overloaded,
    "timeout": Timeout,
    "cancelled": Cancelled,
    "not_found": NotFound,
    "loop_detected": LoopDetected,
    "incompatible_version": IncompatibleVersion,
    "internal": Internal,
    "unreachable": Unreachable,
    "daemon_unavailable": DaemonUnavailable,
    "unknown_peer": UnknownPeer,
    "not_trusted": NotTrusted,
    "identity_conflict": IdentityConflict,
    "kept": Kept,
}
