from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Any, Optional

from openintent import agents
from openintent.exceptions import ConflictError
from openintent.models import ChannelMessage, MessageType
from openintent.streaming import SSEEvent

from ._client import AsyncClient, Client
from ._events import follow

_log = logging.getLogger("acp_openintent")
_NO_URL = agents.AgentConfig.base_url  # what a configuration says that says nothing


class _Channel(agents._ChannelHandle):
    async def ask_all(self, to: str, payload: dict[str, Any], timeout: float = 30, min_responses: int = 1) -> list[dict[str, Any]]:
        """Sends a request and collects the responses; see `Client.ask_all`."""
        return await self._agent.async_client.ask_all(self.channel_id, self._agent.agent_id, to, payload, timeout, min_responses)


class _Channels(agents._ChannelsProxy):
    async def open(
        self,
        name: str,
        intent_id: str,
        members: Optional[list[str]] = None,
        member_policy: str = "intent",
        options: Optional[dict[str, Any]] = None,
    ) -> _Channel:
        """Returns the intent's open channel of that name; creates it if there is none."""
        client = self._agent.async_client
        for channel in await client.list_channels(intent_id):
            if channel["name"] == name and channel["status"] == "open":
                return _Channel(self._agent, channel["id"], name, intent_id)
        try:
            made = (await client.create_channel(intent_id, name, members, member_policy, options=options))["id"]
        except ConflictError as e:
            if not e.response or "channel_id" not in e.response:
                raise
            made = e.response["channel_id"]  # somebody else was faster
        return _Channel(self._agent, made, name, intent_id)


class _Run:
    """run() of an agent, and of a class of agents: this makes one first."""

    def __get__(self, agent: Any, kind: type) -> Callable[..., None]:
        def run(base_url: Optional[str] = None, api_key: Optional[str] = None) -> None:
            running = kind(base_url, api_key) if agent is None else agent
            agents.BaseAgent.run(running)
            if running._follower and not running._follower.cancelled():
                running._follower.result()  # raises what has ended it

        return run


class BaseAgent(agents.BaseAgent):
    """The SDK's agent, with channels. It uses the daemon's socket unless its configuration names a URL."""

    _client: Optional[Client]
    _async_client: Optional[AsyncClient]
    _follower: Optional[asyncio.Task[None]] = None
    run = _Run()

    @property
    def client(self) -> Client:
        """The synchronous client."""
        if not self._client:
            self._client = Client(_url(self), self._config.api_key, self._agent_id)
        return self._client

    @property
    def async_client(self) -> AsyncClient:
        """The asynchronous client."""
        if not self._async_client:
            self._async_client = AsyncClient(_url(self), self._config.api_key, self._agent_id)
        return self._async_client

    @property
    def channels(self) -> _Channels:
        """The channels of intents."""
        return _Channels(self)

    async def _subscribe(self) -> None:
        self._follower = asyncio.create_task(self._follow())
        self._follower.add_done_callback(lambda _: self.stop())

    async def _follow(self) -> None:
        messages: set[asyncio.Task[None]] = set()
        path = f"/api/v1/agents/{self._agent_id}/subscribe"
        async with self.async_client as client:
            async for event in follow(client._client, path, self._config.reconnect_delay):
                if event.type == "channel_message":
                    # Handlers begin in the order of the messages; one that waits holds up no other.
                    task = asyncio.create_task(self._on_message(event))
                    messages.add(task)
                    task.add_done_callback(messages.discard)
                else:
                    await self._handle_event(event)

    async def _on_message(self, event: SSEEvent) -> None:
        for handler in self._handlers["message"]:
            try:
                if getattr(handler, "_openintent_channel", None) in (None, event.data["channel_name"]):
                    message = ChannelMessage.from_dict(event.data)
                    reply = await self._call_handler(handler, message)
                    if isinstance(reply, dict) and message.message_type is MessageType.REQUEST:
                        await self.async_client.reply_to(message.channel_id, message.id, self._agent_id, reply)
            except Exception:
                _log.exception("%s: message %s", handler.__qualname__, event.data.get("id"))


def _url(agent: agents.BaseAgent) -> str:
    return "" if agent._config.base_url == _NO_URL else agent._config.base_url


_MENDED = ("run", "client", "async_client", "channels", "_follower", "_subscribe", "_follow", "_on_message")


def _mended(made_by: Callable[..., Callable[[type], type]]) -> Callable[..., Callable[[type], type]]:
    """Returns the SDK's decorator, which copies the methods of its BaseAgent, with those of ours."""

    @functools.wraps(made_by)
    def make(*args: Any, **options: Any) -> Callable[[type], type]:
        decorate = made_by(*args, **options)

        def decorator(cls: type) -> type:
            cls = decorate(cls)
            for name in _MENDED:
                setattr(cls, name, vars(BaseAgent)[name])
            return cls

        return decorator

    return make


Agent = _mended(agents.Agent)
Coordinator = _mended(agents.Coordinator)
