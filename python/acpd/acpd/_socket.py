from __future__ import annotations

import os
from pathlib import Path
from typing import Optional, Union

from ._codes import DaemonUnavailable

StrPath = Union[str, "os.PathLike[str]"]


def unavailable(message: str, *, retryable: bool = True, delivered: str = "no") -> DaemonUnavailable:
    """Returns the error of a call that found no daemon."""
    return DaemonUnavailable(message, retryable=retryable, details={"delivered": delivered})


def closed() -> DaemonUnavailable:
    """Returns the error of a call that was under way when its client was closed."""
    return unavailable("the client was closed: whether the call took effect is unknown", retryable=False, delivered="unknown")


def find_socket(socket: Optional[StrPath]) -> str:
    """Returns the path of the socket to use: the one given, else ``$ACP_SOCKET``, else that of the agents' folder in ``$ACP_HOME``, else in ``~/.acp``.

    Raises DaemonUnavailable if ``ACP_SOCKET`` names no socket for agents.
    """
    if socket is not None:
        return os.fspath(socket)
    named = os.environ.get("ACP_SOCKET")
    if named is None:
        home = Path(os.environ.get("ACP_HOME") or "~/.acp").expanduser()
        return str(home / "agent" / "acp.sock")
    named = os.path.expanduser(named)  # a file of variables leaves the tilde
    if not named:
        raise unavailable("ACP_SOCKET is empty: set it to the path of acp.sock in the agents' folder", retryable=False)
    if os.path.basename(named) != "acp.sock":  # beside a folder lies what is not in it
        raise unavailable(f"ACP_SOCKET is {named}: set it to the path of acp.sock in the agents' folder", retryable=False)
    for path in Path(named), Path(named).resolve():
        if any((path.parent / beside).exists() for beside in ("agent", "identity.key")):
            raise unavailable(f"ACP_SOCKET names the owner's socket: agents use {path.parent}/agent/acp.sock", retryable=False)
    return named


def explain(error: OSError, path: str) -> DaemonUnavailable:
    """Returns the error of a connection that could not be opened, with what to do."""
    if isinstance(error, (FileNotFoundError, NotADirectoryError, ConnectionRefusedError)):
        return unavailable(f"no daemon at {path}: start acpd, or set ACP_SOCKET to the path of its agent/acp.sock")
    if isinstance(error, PermissionError):
        return unavailable(f"a sandbox or file permission forbids the socket {path}: allow this program to connect to it", retryable=False)
    return unavailable(f"connect to the daemon at {path}: {error}")
