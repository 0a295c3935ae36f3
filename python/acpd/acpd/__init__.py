"""Agents on acpd: ask, delegate, answer. `Client` is for plain programs, `AsyncClient` for asyncio."""

from . import types
from ._async import AsyncAttachment, AsyncClient, AsyncDelegation
from ._codes import (
    Cancelled,
    DaemonUnavailable,
    IdentityConflict,
    IncompatibleVersion,
    Internal,
    Invalid,
    Kept,
    LoopDetected,
    NoAgent,
    NotAuthorized,
    NotFound,
    NotTrusted,
    Overloaded,
    Timeout,
    TooLarge,
    UnknownDomain,
    UnknownKind,
    UnknownPeer,
    Unreachable,
)
from ._error import Error, MalformedCall, TaskFailed
from ._messages import AsyncWork, Message, Question, Work
from ._sync import Attachment, Client, Delegation

__all__ = [
    "AsyncAttachment",
    "AsyncClient",
    "AsyncDelegation",
    "AsyncWork",
    "Attachment",
    "Cancelled",
    "Client",
    "DaemonUnavailable",
    "Delegation",
    "Error",
    "IdentityConflict",
    "IncompatibleVersion",
    "Internal",
    "Invalid",
    "Kept",
    "LoopDetected",
    "MalformedCall",
    "Message",
    "NoAgent",
    "NotAuthorized",
    "NotFound",
    "NotTrusted",
    "Overloaded",
    "Question",
    "TaskFailed",
    "Timeout",
    "TooLarge",
    "UnknownDomain",
    "UnknownKind",
    "UnknownPeer",
    "Unreachable",
    "Work",
    "types",
]
