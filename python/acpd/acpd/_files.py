"""Files, each on a connection of its own that carries it after the call. All of this blocks: it runs in threads."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Optional

from ._codes import Internal, Invalid
from ._connection import encode
from ._convert import make_error, read_error
from ._error import Error
from ._socket import closed, explain, unavailable

PIECE = 128 << 10
"""So many bytes are read at a time."""

SHORTER = "the file became shorter while it was sent: send it again"


def hash_beginning(file: BinaryIO, size: int, ended: threading.Event) -> str:
    """Returns the hash of the first bytes of a file, which may grow meanwhile. Raises EOFError once ended is set."""
    digest, left = hashlib.sha256(), size
    while left:
        if ended.is_set():
            raise EOFError
        if not (piece := file.read(min(left, PIECE))):
            raise Invalid(SHORTER)
        digest.update(piece)
        left -= len(piece)
    return digest.hexdigest()


class FileConnection:
    """A connection to the daemon for one file."""

    def __init__(self, path: str, speaker: Optional[dict[str, Any]]) -> None:
        """Notes the socket and the agent that the file is of or for, and does nothing else."""
        self._path, self._speaker = path, speaker
        self._socket = socket.socket(socket.AF_UNIX)
        self._in = self._socket.makefile("rb")
        self._ended = threading.Event()

    def end(self) -> None:
        """Ends the transfer, which another thread runs."""
        self._ended.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the connection, after the transfer."""
        self._in.close()
        self._socket.close()

    def _call(self, method: str, params: dict[str, Any], patience: float) -> Any:
        """Connects, and calls a method after whose answer the connection carries something else."""
        try:
            self._socket.settimeout(patience)
            self._socket.connect(self._path)
        except OSError as e:
            raise explain(e, self._path) from None
        if self._ended.is_set():  # before there was what end could shut down
            raise EOFError
        calls = [("speak", self._speaker)] if self._speaker else []
        for name, given in [*calls, (method, params)]:
            self._socket.sendall(encode({"id": 1, "method": name, "params": given}))
            answer = self._read_line()
            if error := answer.get("error"):
                raise read_error(error)
        self._socket.settimeout(None)
        return answer["result"]

    def _read_line(self) -> Any:
        if not (line := self._in.readline()):
            raise EOFError
        return json.loads(line)

    def send(self, path: str, params: dict[str, Any], patience: float) -> Any:
        """Sends a file, and returns the FileSent."""
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file, self._explain("file.send"):
            what = os.fstat(file.fileno())
            if not stat.S_ISREG(what.st_mode) or not what.st_size and file.read(1):  # those in /proc have no size
                raise Invalid(f"{path} is no file of a known size: write what it has into a regular file, and send that")
            params = {**params, "size": what.st_size, "sha256": hash_beginning(file, what.st_size, self._ended)}
            self._call("file.send", params, patience)
            while "done" not in (line := self._read_line()):
                if error := line.get("error"):
                    raise make_error(error)
                if asked := line.get("range"):
                    self._answer(file, *asked)
            return line["done"]

    def _answer(self, file: BinaryIO, offset: int, length: int) -> None:
        file.seek(offset)
        piece = file.read(length)
        if len(piece) < length:
            raise Invalid(SHORTER)
        with contextlib.suppress(ConnectionError):  # the daemon has ended it, and says why in a line that follows
            self._socket.sendall(piece)

    def take(self, path: Path, params: dict[str, Any], patience: float) -> Path:
        """Writes a file that came to a path where there is nothing yet, or into a folder, and returns where it is."""
        with self._explain("file.take"):
            what = self._call("file.take", params, patience)
            if path.is_dir():
                path /= Path(what["name"]).name
            with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                try:
                    self._copy(file, what)
                except BaseException:
                    path.unlink()  # it is not the file
                    raise
            return path

    def _copy(self, file: BinaryIO, what: dict[str, Any]) -> None:
        digest, left = hashlib.sha256(), what["size"]
        while left:
            if not (piece := self._in.read(min(left, PIECE))):
                raise EOFError
            digest.update(piece)
            file.write(piece)
            left -= len(piece)
        if digest.hexdigest() != what["sha256"]:
            raise Internal("the daemon's copy of the file is damaged: remove it, and have its sender send it again")

    @contextlib.contextmanager
    def _explain(self, method: str) -> Iterator[None]:
        """Raises what the end of the connection means."""
        try:
            yield
        except (EOFError, ConnectionError, TimeoutError) as e:
            if isinstance(e, Error):
                raise
            if self._ended.is_set():
                raise closed() from e
            raise unavailable(f"{method}: the daemon went away before all of the file was through: try again", delivered="unknown") from e
