"""Server-sent events over any transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, Optional

import httpx
from openintent.exceptions import OpenIntentError
from openintent.streaming import SSEEvent, SSEEventType, SSEStream

_SILENCE = 60.0  # seconds without a byte, not even a comment, after which a stream is dead
_FIRST_DELAY = 0.1


class _Parser:
    """Makes events of lines, and remembers the id of the last one."""

    def __init__(self) -> None:
        self.last = ""
        self._reset()

    def _reset(self) -> None:
        self._type, self._id, self._data = "message", "", list[str]()

    def feed(self, line: str) -> Optional[SSEEvent]:
        """Takes a line; returns the event that it ends."""
        if not line:
            event = None
            if self._data:
                self.last = self._id or self.last
                event = SSEEvent.from_raw(self._type, "\n".join(self._data), self._id or None)
            self._reset()
            return event
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._type = value
        elif name == "id":
            self._id = value
        elif name == "data":
            self._data.append(value)
        return None


class Stream(SSEStream):
    """The SDK's stream over a client that somebody else has made."""

    def __init__(self, connect: Callable[[], httpx.Client], url: str, headers: dict[str, str], **options: Any) -> None:
        super().__init__(url, headers, **options)
        self._connect = connect
        self._parser = _Parser()

    def _connect_and_stream(self) -> Generator[SSEEvent, None, None]:
        try:
            yield from self._events()
        except httpx.NetworkError as e:
            raise httpx.ConnectError(str(e)) from e  # the only one of them after which the SDK tries again

    def _events(self) -> Generator[SSEEvent, None, None]:
        self._client = self._connect()
        headers = _headers(self.headers, self._parser.last)
        with self._client.stream("GET", self.url, headers=headers, timeout=httpx.Timeout(self.timeout, read=_SILENCE)) as response:
            self._response = response
            if _refused(response):
                self._running = False
                yield SSEEvent(SSEEventType.ERROR, {"error": f"HTTP {response.status_code}", "status_code": response.status_code})
                return
            if response.status_code != 200:
                raise httpx.ConnectError(f"HTTP {response.status_code}")
            self._reconnect_count = 0
            for line in response.iter_lines():
                event = self._parser.feed(line)
                if event:
                    yield event
                if not self._running:
                    return


def _refused(response: httpx.Response) -> bool:
    """Reports whether trying again is of no use."""
    return 400 <= response.status_code < 500 and response.status_code != 429


def _headers(headers: dict[str, str], last: str) -> dict[str, str]:
    headers = {**headers, "Accept": "text/event-stream", "Cache-Control": "no-cache"}
    if last:
        headers["Last-Event-ID"] = last
    return headers


async def follow(client: httpx.AsyncClient, path: str, longest_delay: float) -> AsyncIterator[SSEEvent]:
    """Yields the events of a stream without end, going on where it broke.

    Raises OpenIntentError if the server refuses it for good.
    """
    parser, delay = _Parser(), _FIRST_DELAY
    while True:
        try:
            timeout = httpx.Timeout(_SILENCE)
            async with client.stream("GET", path, headers=_headers({}, parser.last), timeout=timeout) as response:
                if _refused(response):
                    await response.aread()
                    raise OpenIntentError(f"{path}: {response.text}", status_code=response.status_code)
                if response.status_code == 200:
                    delay = _FIRST_DELAY
                    async for line in response.aiter_lines():
                        event = parser.feed(line)
                        if event:
                            yield event
        except httpx.TransportError:
            pass
        await asyncio.sleep(delay)
        delay = min(2 * delay, longest_delay)
