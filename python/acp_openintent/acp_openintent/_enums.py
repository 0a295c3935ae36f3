from __future__ import annotations

from enum import Enum

from openintent.models import EventType
from openintent.streaming import SSEEventType


def extend() -> None:
    """Adds the members that the SDK uses, or is sent, and does not have."""
    _set(EventType, "CHANNEL_MESSAGE", "channel_message")  # as RFC-0021 says; the SDK has channel.message
    _set(SSEEventType, "CHANNEL_MESSAGE", "channel_message")
    _set(SSEEventType, "ACCESS_REQUESTED", "ACCESS_REQUESTED")


def _set(enum: type[Enum], name: str, value: str) -> None:
    # Enumerations are closed on purpose, so this is what their metaclass does.
    old = enum.__members__.get(name)
    if old is not None and old.value == value:
        return
    member = str.__new__(enum, value)  # type: ignore[type-var]
    member._name_, member._value_, member.__objclass__ = name, value, enum  # type: ignore[attr-defined]
    member._sort_order_ = len(enum._member_names_)  # type: ignore[attr-defined]
    type.__setattr__(enum, name, member)
    enum._member_map_[name] = enum._value2member_map_[value] = member
    if old is None:
        enum._member_names_.append(name)
    else:
        enum._value2member_map_[old.value] = member
