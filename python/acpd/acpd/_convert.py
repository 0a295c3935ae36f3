from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from ._codes import BY_CODE, DaemonUnavailable, IdentityConflict, Kept, NotTrusted, Unreachable, UnknownPeer
from ._error import Error, MalformedCall


def make_error(data: Mapping[str, Any]) -> Error:
    """Returns the exception that an ErrorData describes."""
    code = str(data.get("code", ""))
    millis = data.get("retry_after_ms")
    details = data.get("details")
    return BY_CODE.get(code, Error)(
        str(data.get("message", "")),
        code=code,
        retryable=bool(data.get("retryable")),
        retry_after=millis / 1000 if isinstance(millis, (int, float)) else None,
        details=details if isinstance(details, dict) else None,
        peer=str(data.get("from", "")),
        quoted=str(data.get("quoted", "")),
    )


def read_error(error: Mapping[str, Any]) -> Error:
    """Returns the exception for the error with which a call was answered."""
    data = error.get("data")
    return make_error(data) if isinstance(data, dict) else MalformedCall(str(error.get("message")), int(error.get("code", 0)))


_OF_OWN_CALLS = (DaemonUnavailable, IdentityConflict, Kept, NotTrusted, Unreachable, UnknownPeer)


def is_for_peers(error: BaseException) -> TypeGuard[Error]:
    """Says whether a peer gets the words of what a handler raised. Those that only the daemon here raises are about this machine."""
    return isinstance(error, Error) and bool(error.code) and not isinstance(error, _OF_OWN_CALLS)


def describe_error(error: BaseException) -> dict[str, Any]:
    """Returns the ErrorData that a peer gets for what a handler raised. If the words are not for peers it says the type alone."""
    if not is_for_peers(error):
        return {"code": "internal", "message": f"the agent failed: {type(error).__name__}", "retryable": False}
    data: dict[str, Any] = {"code": error.code, "message": error.message, "retryable": error.retryable}
    if error.retry_after:
        data["retry_after_ms"] = int(error.retry_after * 1000)
    if error.details:
        data["details"] = dict(error.details)
    return data
