from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Optional


class Error(Exception):
    """A call that failed. There is a subclass for each code; an error with a code that this package does not know is an ``Error``."""

    code: str = ""
    """The code, a word of the table of codes."""
    retryable: bool = False
    """The same call may succeed later."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        retryable: Optional[bool] = None,
        retry_after: Optional[float] = None,
        details: Optional[Mapping[str, Any]] = None,
        peer: str = "",
        quoted: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        if code:
            self.code = code
        if retryable is not None:
            self.retryable = retryable
        self.retry_after = retry_after
        """How many seconds to wait before another try, if it is known."""
        self.details: Mapping[str, Any] = details or {}
        self.peer = peer
        """The id of the peer that raised it; "" if the daemon here or this package did."""
        self.quoted = quoted
        """The words of another program, such as the command of a pipe: for a person to read, not for a model. They are not in ``str()``."""
        self.id = ""
        """The id of the message that the call sent. A repeat of the call with this id takes effect only once."""

    def __str__(self) -> str:
        return f"{self.message} ({self.code})" if self.code else self.message

    @property
    def delivered(self) -> Optional[Literal["no", "unknown"]]:
        """Whether the message reached the peer: "no" if a new call is safe, "unknown" if only a repeat under the same id is; None if the answer itself is the error."""
        said = self.details.get("delivered")
        return said if said in ("no", "unknown") else None

    @property
    def kept(self) -> Optional[Mapping[str, Any]]:
        """Of `Kept`: the id under which the daemon keeps the message, until when, how often it was tried, and the last error; else None."""
        said = self.details.get("kept")
        return said if isinstance(said, Mapping) else None


class MalformedCall(Error):
    """The daemon does not know the method, or its params."""

    def __init__(self, message: str, rpc_code: int) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code


class TaskFailed(Error):
    """The agent that worked on a delegation reported that it failed. ``result`` is its report."""

    code = "failed"

    def __init__(self, message: str, result: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.result = result
