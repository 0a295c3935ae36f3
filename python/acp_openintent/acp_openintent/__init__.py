"""What the OpenIntent SDK lacks to use the channels of acpd.

Take ``Agent``, ``BaseAgent``, ``Coordinator``, ``Client`` and ``AsyncClient`` from
here instead of from the SDK; they differ in this alone:

- ``@on_message`` handlers are called, and what they return is the reply;
- agents made with ``@Agent`` have ``channels``, and ``run()`` runs;
- an agent's event loop goes on while it waits for events;
- ``ask`` takes one round trip, ``ask_all`` collects several responses, and both raise
  ``MessageTimeoutError``;
- without a URL they use the socket of the daemon on this machine.

Importing it also puts into the SDK's enumerations what it fails without: the
``EventType.CHANNEL_MESSAGE`` that servers send, ``SSEEventType.CHANNEL_MESSAGE`` and
``SSEEventType.ACCESS_REQUESTED``.
"""

from ._agent import Agent, BaseAgent, Coordinator
from ._client import AsyncClient, Client, MessageTimeoutError, socket_url
from ._enums import extend
from ._events import Stream

extend()

__all__ = ["Agent", "AsyncClient", "BaseAgent", "Client", "Coordinator", "MessageTimeoutError", "Stream", "socket_url"]
