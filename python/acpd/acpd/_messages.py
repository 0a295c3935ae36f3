from __future__ import annotations

import contextvars
import os
import threading
from typing import TYPE_CHECKING, Any, Optional, cast

from . import types

if TYPE_CHECKING:
    from ._async import AsyncClient
    from ._sync import Client

PARENT: contextvars.ContextVar[Optional[str]] = contextvars.ContextVar("acpd_parent", default=None)
"""The id of the message that a handler works on."""


def current_parent() -> Optional[str]:
    """Returns the id of the message that led to what is running: the one that a handler got, or under acpctl serve that of ``$ACP_ID``."""
    return PARENT.get() or os.environ.get("ACP_ID") or None


class Message:
    """A message that a handler gets. What it says is a peer's text: treat it as data."""

    def __init__(self, envelope: types.Inbound) -> None:
        self.envelope = envelope
        """All of it, as the daemon has sent it."""
        self.cancelled = threading.Event()
        """Set when nobody waits for the answer any more. (A handler that is a coroutine is cancelled.)"""

    @property
    def id(self) -> str:
        """The id of the message."""
        return self.envelope["id"]

    @property
    def peer(self) -> str:
        """The name that the sender's daemon has here."""
        return self.envelope["name"]

    @property
    def kind(self) -> str:
        """What the message is: query, delegate, notify, result or error."""
        return self.envelope["kind"]

    @property
    def payload(self) -> dict[str, Any]:
        """What the sender wrote, as it is on the socket."""
        return self.envelope["payload"]

    @property
    def deadline(self) -> Optional[float]:
        """How many seconds were left when the message came; None if it has no deadline."""
        millis = self.envelope.get("deadline_ms")
        return millis / 1000 if millis else None

    @property
    def delegation(self) -> Optional[types.Task]:
        """The delegation that a result, an error or a question back belongs to."""
        return self.envelope.get("delegation")


class Question(Message):
    """A query."""

    @property
    def question(self) -> str:
        """The text of the question."""
        return str(self.payload["question"])


class AsyncWork(Message):
    """A delegation that this agent has accepted."""

    def __init__(self, envelope: types.Inbound, client: AsyncClient) -> None:
        super().__init__(envelope)
        self._client = client

    @property
    def task(self) -> str:
        """The text of the task."""
        return str(self.payload["task"])

    async def progress(self, outcome: str = "", data: Any = None, *, done: Optional[float] = None, message: str = "") -> bool:
        """Sends a partial result: how much is done, from 0 to 1, what is being done, and what there is so far. Returns whether the peer has it.

        The daemon sends at most four in a second; if there are more, it sends the last. If the
        daemon or the peer is away for a moment, this returns False and the work continues. Raises
        Cancelled if the delegation is over.
        """
        return await self._client._send_partial(self.id, partial(outcome, data, done, message))

    async def ask(self, question: str) -> dict[str, Any]:
        """Asks the agent that delegated this, and returns the payload of the answer, however long that takes.

        It is one question under one id, which is asked again if no answer comes for a while.
        Raises the error with which it was answered, Cancelled if the delegation is over, and
        UnknownKind if the peer's daemon is too old for it.
        """
        return await self._client._ask_back(self.id, question)


class Work(Message):
    """A delegation that this agent has accepted."""

    def __init__(self, envelope: types.Inbound, client: Client) -> None:
        super().__init__(envelope)
        self._client = client

    @property
    def task(self) -> str:
        """The text of the task."""
        return str(self.payload["task"])

    def progress(self, outcome: str = "", data: Any = None, *, done: Optional[float] = None, message: str = "") -> bool:
        """As `AsyncWork.progress`."""
        if self.cancelled.is_set():
            raise over(self.id)
        return self._client._run(self._client._async._send_partial(self.id, partial(outcome, data, done, message)))

    def ask(self, question: str) -> dict[str, Any]:
        """As `AsyncWork.ask`."""
        return self._client._run(self._client._async._ask_back(self.id, question))


def over(delegation: str) -> Exception:
    """Returns what a worker gets whose delegation is over."""
    from ._codes import Cancelled

    return Cancelled(f"the delegation {delegation} is over: stop")


def partial(outcome: str, data: Any, done: Optional[float], message: str) -> dict[str, Any]:
    """Returns the payload of a partial result."""
    payload: dict[str, Any] = {"status": "partial", "outcome": outcome}
    if data is not None:
        payload["data"] = data
    if done is not None:
        payload["progress"] = done
    if message:
        payload["message"] = message
    return payload


def make_response(answer: Any) -> dict[str, Any]:
    """Returns the payload of a response: a dict is one, and a text is its summary."""
    return cast("dict[str, Any]", answer) if isinstance(answer, dict) else {"summary": "" if answer is None else str(answer)}


def make_result(outcome: Any) -> dict[str, Any]:
    """Returns the payload of a final result: a dict is one, and a text is its outcome."""
    if isinstance(outcome, dict):
        return {"status": "completed", "outcome": "", **outcome}
    return {"status": "completed", "outcome": "" if outcome is None else str(outcome)}
