"""Daemons for the tests, which find acpd and acpctl in PATH."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Optional

PATIENCE = 120.0  # on a machine that does much else


def until(what: str, holds: Callable[[], Any]) -> Any:
    """Waits until holds returns something, and returns that."""
    end = time.monotonic() + PATIENCE
    while not (value := holds()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {PATIENCE} s")
        time.sleep(0.01)
    return value


def hold_address() -> tuple[socket.socket, str]:
    """Returns a UDP address that nobody takes while a daemon is started again: no system gives its port to who asks for any,
    and other tests that look for one find it held by the socket, which is one for TCP.
    """
    while True:
        held, free = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
        address = ("127.0.0.1", random.randrange(10_000, 30_000))
        try:
            held.bind(address)
            held.listen()
            free.bind(address)
        except OSError:
            held.close()
            continue
        finally:
            free.close()
        return held, f"{address[0]}:{address[1]}"


class Daemon:
    """A state directory, and the daemon that runs on it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.home = tempfile.mkdtemp(prefix="acp")
        self.socket = f"{self.home}/agent/acp.sock"
        self.held, self.listen = hold_address()
        self.start()

    def start(self) -> None:
        """Starts the daemon, again at the address that it had."""
        environment = {"PATH": os.environ["PATH"], "HOME": self.home, "GORACE": "atexit_sleep_ms=0"}
        self.process = subprocess.Popen(
            ["acpd", "--home", self.home, "--name", self.name, "--no-mdns", "--listen", self.listen],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        who = until(f"{self.name} is ready", self.answer)
        self.id, self.listen = who["id"], who["listen"][0]

    def answer(self) -> Any:
        """Says who the daemon is, if it is there."""
        try:
            return self.call("whoami")
        except OSError:
            return None

    def call(self, method: str, params: Any = None) -> Any:
        """Calls a method as the owner."""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(f"{self.home}/acp.sock")
            s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}).encode() + b"\n")
            with s.makefile("rb") as lines:
                answer = json.loads(lines.readline())
        if "error" in answer:
            raise AssertionError(f"{method} on {self.name}: {answer['error']}")
        return answer["result"]

    def trust(self, other: Daemon) -> None:
        self.call("trust", {"peer": other.id, "name": other.name, "addrs": [other.listen]})

    def connected(self, other: Daemon) -> None:
        until(
            f"{self.name} is connected to {other.name}",
            lambda: any(p["name"] == other.name and p["state"] == "connected" for p in self.call("peers")["peers"]),
        )

    def agents(self) -> list[str]:
        return [agent["name"] for agent in self.call("status")["agents"]]

    def attached(self, name: str) -> None:
        until(f"{name} is attached to {self.name}", lambda: name in self.agents())

    def detached(self, name: str) -> None:
        until(f"{name} is detached from {self.name}", lambda: name not in self.agents())

    def kill(self) -> None:
        """Ends the daemon as a power cut would."""
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.held.close()
        shutil.rmtree(self.home, ignore_errors=True)


def make_pair() -> tuple[Daemon, Daemon]:
    """Starts two daemons that trust each other: desk and laptop."""
    desk, laptop = Daemon("desk"), Daemon("laptop")
    desk.trust(laptop)
    laptop.trust(desk)
    desk.connected(laptop)
    laptop.connected(desk)
    return desk, laptop


class FakeDaemon:
    """A socket on which a function of the test answers each line: {} is silence, and None ends the connection."""

    def __init__(self, answer: Callable[[dict[str, Any]], Optional[dict[str, Any]]]) -> None:
        self.answer = answer
        self.calls: list[dict[str, Any]] = []
        self.connections = 0
        self.open: list[socket.socket] = []
        self.folder = tempfile.mkdtemp(prefix="acp")
        self.socket = f"{self.folder}/acp.sock"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.socket)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            self.open.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                self.calls.append(message)
                if (answer := self.answer(message)) is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                if answer:
                    connection.sendall(json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **answer}).encode() + b"\n")

    def say(self, kind: str, payload: dict[str, Any]) -> None:
        """Sends a message of laptop on the first connection."""
        message = {"v": 1, "id": str(uuid.uuid4()), "kind": kind, "payload": payload, "name": "laptop"}
        self.open[0].sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": kind, "params": message}).encode() + b"\n")

    def drop(self) -> None:
        """Ends all connections."""
        while self.open:
            with contextlib.suppress(OSError):
                self.open.pop().shutdown(socket.SHUT_RDWR)

    def vanish(self) -> None:
        """Takes the socket away."""
        os.unlink(self.socket)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.drop()
        shutil.rmtree(self.folder, ignore_errors=True)
