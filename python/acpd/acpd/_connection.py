from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Optional

from ._codes import Invalid, TooLarge
from ._convert import describe_error, is_for_peers, read_error
from ._error import Error
from ._socket import explain, unavailable

log = logging.getLogger("acpd")

MAX_LINE = (16 << 20) + (64 << 10)
"""A line has at most as many bytes: the largest max_message, and 64 KiB."""

Handler = Callable[[str, dict[str, Any]], Awaitable[Any]]


def encode(message: dict[str, Any]) -> bytes:
    """Returns a line. Raises Invalid for what is not JSON, and TooLarge."""
    try:
        line = json.dumps({"jsonrpc": "2.0", **message}, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as e:
        raise Invalid(f"not JSON: {e}", details={"delivered": "no"}) from None
    if len(line) > MAX_LINE:
        raise TooLarge(f"{len(line)} bytes are over the socket's limit of {MAX_LINE}: send less in one message", details={"delivered": "no"})
    return line + b"\n"


MAX_DIGITS = 64
"""A daemon takes no longer number of a peer; older ones did."""


def decode(line: bytes) -> tuple[Any, bool]:
    """Returns what a line says, and whether Python can read all its numbers: it refuses whole ones of very many digits. Raises ValueError for what is not JSON."""
    try:
        return json.loads(line), True
    except ValueError:
        return json.loads(line, parse_int=lambda digits: int(digits) if len(digits) <= MAX_DIGITS else None), False


class Connection:
    """A connection to the daemon: lines, calls, and requests that the daemon makes. It belongs to one event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler) -> None:
        self._reader, self._writer, self._handler = reader, writer, handler
        self._waiting: dict[int, tuple[asyncio.Future[Any], int]] = {}  # answers, and how long the lines of their calls are
        self._serving: dict[Any, asyncio.Task[None]] = {}
        self._last_id = 0
        self._writing = asyncio.Lock()  # of the calls: at most one line more than fits is in memory
        self._ended = asyncio.Event()
        self._read = asyncio.create_task(self._read_lines())

    @classmethod
    async def open(cls, path: str, handler: Handler) -> Connection:
        """Connects to the socket at path. Raises DaemonUnavailable."""
        try:
            reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE)
        except OSError as e:
            raise explain(e, path) from None
        return cls(reader, writer, handler)

    @property
    def ended(self) -> bool:
        """Nothing can be called any more."""
        return self._ended.is_set() or self._writer.is_closing() or self._reader.at_eof()

    async def wait_ended(self) -> None:
        """Waits until the connection has ended."""
        await self._ended.wait()

    async def call(self, method: str, params: Optional[dict[str, Any]], *, patience: Optional[float] = None) -> Any:
        """Calls a method once and returns its result. After patience seconds without an answer it gives up."""
        if self.ended:
            raise unavailable(f"{method}: the daemon went away")
        self._last_id += 1
        number = self._last_id
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(patience):
                async with self._writing:
                    await self._drain(method)
                    line = encode({"id": number, "method": method, **({} if params is None else {"params": params})})
                    self._waiting[number] = answer, len(line)
                    self._writer.write(line)
                return await answer
        except TimeoutError as e:
            if isinstance(e, Error):  # it is the answer
                raise
            delivered = "unknown" if number in self._waiting else "no"
            self._notify_cancel(number)
            raise unavailable(f"{method}: the daemon has not answered for {patience:g} s: look at its log", delivered=delivered) from e
        except asyncio.CancelledError:
            self._notify_cancel(number)
            raise
        finally:
            self._waiting.pop(number, None)

    async def _drain(self, method: str) -> None:
        """Waits until the daemon has read so much that another line may be written."""
        with contextlib.suppress(OSError):
            await self._writer.drain()
        if self.ended:
            raise unavailable(f"{method}: the daemon went away")

    def _notify_cancel(self, number: int) -> None:
        if number in self._waiting and not self.ended:
            self._writer.write(encode({"method": "rpc.cancel", "params": {"id": number}}))

    async def close(self) -> None:
        """Ends the connection, and waits for the handlers, but not for one that calls this."""
        self._read.cancel()
        self._end()  # as the task that reads does too, unless it is cancelled before it has begun
        await asyncio.wait([self._read])
        this = asyncio.current_task()
        try:
            async with asyncio.timeout(1):
                await self._writer.wait_closed()
        except OSError:  # TimeoutError among them: the daemon does not read
            self._writer.transport.abort()
        while others := [task for task in self._serving.values() if task is not this]:
            await asyncio.wait(others)

    async def _read_lines(self) -> None:
        try:
            # It may be broken, or a line over MAX_LINE, or no JSON, or with members of other types.
            with contextlib.suppress(OSError, ValueError, RecursionError, TypeError, AttributeError):
                while line := await self._reader.readline():
                    message, readable = decode(line)
                    if isinstance(message, dict):
                        self._take(message if readable else self._refuse_unreadable(message))
            self._writer.transport.abort()  # unless close has cancelled this, nobody reads what is still to be written
        finally:
            self._end()

    def _end(self) -> None:
        """Closes the socket, fails the calls that wait, and cancels the handlers."""
        self._ended.set()
        self._writer.close()
        for answer, _ in self._waiting.values():
            if not answer.done():
                answer.set_exception(unavailable("the connection ended before the daemon answered: whether the call took effect is unknown", delivered="unknown"))
        for task in list(self._serving.values()):
            task.cancel()

    def _refuse_unreadable(self, message: dict[str, Any]) -> dict[str, Any]:
        """Refuses a request that has a number which Python does not read, and returns what stands in its place: of an answer the error that the call gets."""
        number, data = message.get("id"), {"code": "invalid", "message": f"a number of more than {MAX_DIGITS} digits, which Python does not read: it may be sent as a string"}
        if message.get("method") is None:
            return {"id": number, "error": {"data": data}}
        if number is not None:
            self._writer.write(self._refuse(number, {**data, "retryable": False}))
        return {}

    def _take(self, message: dict[str, Any]) -> None:
        number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method == "rpc.cancel":
            if task := self._serving.get(params.get("id")):
                task.cancel()
        elif method is not None and number is not None:
            task = asyncio.create_task(self._serve(number, method, params))
            self._serving[number] = task
            task.add_done_callback(lambda _: self._serving.pop(number, None))
        elif method is None and (answer := self._find_answer(number)) and not answer.done():
            if error := message.get("error"):
                answer.set_exception(read_error(error))
            else:
                answer.set_result(message.get("result"))

    def _find_answer(self, number: Any) -> Optional[asyncio.Future[Any]]:
        """Returns the answer that waits for the response of that number. Without a number the daemon refuses a line that it has not read: the longest."""
        if number is None and self._waiting:
            return max(self._waiting.values(), key=lambda waiting: waiting[1])[0]
        return self._waiting[number][0] if isinstance(number, int) and number in self._waiting else None

    async def _serve(self, number: Any, method: str, params: dict[str, Any]) -> None:
        try:
            line = encode({"id": number, "result": await self._handler(method, params)})
        except asyncio.CancelledError:
            line = self._refuse(number, {"code": "cancelled", "message": "the caller gave up", "retryable": False})
        except Exception as e:
            if not is_for_peers(e):
                log.exception("%s: the handler failed", method)
            line = self._refuse(number, describe_error(e))
        if not self.ended:
            self._writer.write(line)

    def _refuse(self, number: Any, data: dict[str, Any]) -> bytes:
        try:
            return encode({"id": number, "error": {"code": -32000, "message": data["message"], "data": data}})
        except Exception:  # what a handler raised holds what is no JSON
            return self._refuse(number, {"code": "internal", "message": "the agent failed", "retryable": False})
