from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional

import httpx
from openintent.client import AsyncOpenIntentClient, OpenIntentClient

from ._events import Stream

_GRACE = 10.0  # seconds beyond the timeout of an ask for its answer to come


class MessageTimeoutError(TimeoutError):
    """Not enough agents responded in time. ``responses`` are those that did."""

    def __init__(self, message: str, responses: Optional[list[dict[str, Any]]] = None) -> None:
        super().__init__(message)
        self.responses = responses or []


def socket_url(home: str | os.PathLike[str] | None = None) -> str:
    """Returns the URL of the daemon's socket in home, else beside ``$ACP_SOCKET``, else in ``$ACP_HOME``, else in ``~/.acp``.

    Where ``ACP_SOCKET`` is set a home is refused: an agent speaks through that socket alone.
    """
    agents = os.environ.get("ACP_SOCKET")
    if agents is not None:
        agents = os.path.expanduser(agents)  # a file of variables leaves the tilde
        if home or not agents:
            raise ValueError("ACP_SOCKET is set: leave the home out" if home else "ACP_SOCKET is empty: set it to the path of acp.sock in the agents' folder")
        if os.path.basename(agents) != "acp.sock":  # beside a folder lies what is not in it
            raise ValueError(f"ACP_SOCKET is {agents}: set it to the path of acp.sock in the agents' folder")
        for path in Path(agents), Path(agents).resolve():
            if any((path.parent / beside).exists() for beside in ("agent", "identity.key")):
                raise ValueError(f"ACP_SOCKET names the owner's socket: agents use {path.parent}/agent/acp.sock")
        return f"unix:{Path(agents).absolute().parent}/http.sock"
    return f"unix:{Path(home or os.environ.get('ACP_HOME') or '~/.acp').expanduser().absolute()}/http.sock"


def _split(url: str) -> tuple[str, Optional[str]]:
    """Returns the base URL of requests, and the socket that they go to if they do."""
    url = url or socket_url()
    return ("http://acpd", url.removeprefix("unix:")) if url.startswith("unix:") else (url, None)


def _key(url: str, api_key: str, agent_id: str) -> str:
    """Returns the key of requests: that of the agent as which acpctl serve runs this program, if it is that one, else the one given."""
    own = "ACP_SOCKET" in os.environ and os.environ.get("ACP_AGENT") == agent_id
    return os.environ.get("ACP_AGENT_KEY", api_key) if own and not url else api_key


class Client(OpenIntentClient):
    """The SDK's client, over HTTP or, with the URL ``unix:/path``, over a socket.

    Without a URL it is the socket of the daemon on this machine, which needs no key, but in
    the agents' folder that of an agent that is attached.
    """

    _client: httpx.Client

    def __init__(self, base_url: str = "", api_key: str = "", agent_id: str = "", timeout: float = 30.0) -> None:
        url, self._socket = _split(base_url)
        super().__init__(url, _key(base_url, api_key, agent_id), agent_id, timeout)
        if self._socket:
            self._client.close()
            self._client = httpx.Client(base_url=url, headers=self._client.headers, timeout=timeout, transport=httpx.HTTPTransport(uds=self._socket))

    def ask(self, channel_id: str, sender: str, to: str, payload: dict[str, Any], timeout: float = 30) -> dict[str, Any]:
        """Sends a request to an agent or role and returns the first response.

        Raises MessageTimeoutError if there is none within timeout seconds.
        """
        return self._asked(channel_id, {"sender": sender, "to": to, "payload": payload, "timeout": timeout})

    def ask_all(
        self, channel_id: str, sender: str, to: str, payload: dict[str, Any], timeout: float = 30, min_responses: int = 1
    ) -> list[dict[str, Any]]:
        """Sends a request and returns the responses, when everybody who was asked has responded or timeout seconds are over.

        Raises MessageTimeoutError if there are fewer than min_responses then.
        """
        body = {"sender": sender, "to": to, "payload": payload, "timeout": timeout, "all": True, "min_responses": min_responses}
        return self._asked(channel_id, body)["responses"]

    def _asked(self, channel_id: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self._client.post(f"/api/v1/channels/{channel_id}/ask", json=body, timeout=body["timeout"] + _GRACE)
        _raise_for_timeout(answer)
        return self._handle_response(answer)

    def subscribe_sse(self, intent_id: str) -> Stream:
        """Follows an intent, its messages to this agent included."""
        return self._stream(f"intents/{intent_id}")

    def subscribe_agent(self, agent_id: Optional[str] = None) -> Stream:
        """Follows what concerns an agent, this one unless another is named."""
        return self._stream(f"agents/{agent_id or self.agent_id}")

    def subscribe_channel(self, channel_id: str) -> Stream:
        """Follows the messages of a channel to this agent."""
        return self._stream(f"channels/{channel_id}")

    def _stream(self, what: str) -> Stream:
        def connect() -> httpx.Client:
            return httpx.Client(transport=httpx.HTTPTransport(uds=self._socket))

        headers = {"X-API-Key": self.api_key, "X-Agent-ID": self.agent_id}
        return Stream(connect, f"{self.base_url}/api/v1/{what}/subscribe", headers)


class AsyncClient(AsyncOpenIntentClient):
    """The SDK's asynchronous client, as `Client` is its synchronous one."""

    _client: httpx.AsyncClient

    def __init__(self, base_url: str = "", api_key: str = "", agent_id: str = "", timeout: float = 30.0) -> None:
        url, socket = _split(base_url)
        super().__init__(url, _key(base_url, api_key, agent_id), agent_id, timeout)
        if socket:
            # The one that it replaces has opened nothing, so there is nothing to close.
            self._client = httpx.AsyncClient(
                base_url=url, headers=self._client.headers, timeout=timeout, transport=httpx.AsyncHTTPTransport(uds=socket)
            )

    async def ask(self, channel_id: str, sender: str, to: str, payload: dict[str, Any], timeout: float = 30) -> dict[str, Any]:
        """As `Client.ask`."""
        return await self._asked(channel_id, {"sender": sender, "to": to, "payload": payload, "timeout": timeout})

    async def ask_all(
        self, channel_id: str, sender: str, to: str, payload: dict[str, Any], timeout: float = 30, min_responses: int = 1
    ) -> list[dict[str, Any]]:
        """As `Client.ask_all`."""
        body = {"sender": sender, "to": to, "payload": payload, "timeout": timeout, "all": True, "min_responses": min_responses}
        return (await self._asked(channel_id, body))["responses"]

    async def _asked(self, channel_id: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self._client.post(f"/api/v1/channels/{channel_id}/ask", json=body, timeout=body["timeout"] + _GRACE)
        _raise_for_timeout(answer)
        return self._handle_response(answer)


def _raise_for_timeout(answer: httpx.Response) -> None:
    if answer.status_code == 504:
        said = answer.json()
        raise MessageTimeoutError(said["message"], said.get("responses"))
