from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, TypeVar, Union, cast

from . import types
from ._codes import Cancelled, DaemonUnavailable, Invalid, NoAgent, NotFound, Overloaded, Timeout, Unreachable
from ._connection import Connection
from ._convert import describe_error, is_for_peers, make_error
from ._error import Error, TaskFailed
from ._files import FileConnection
from ._messages import PARENT, AsyncWork, Message, Question, current_parent, make_response, make_result, over
from ._socket import StrPath, closed, find_socket

log = logging.getLogger("acpd")

T = TypeVar("T")

INHERIT: Any = object()
"""The parent is the message that led to the call."""

_AWAY = (DaemonUnavailable, Unreachable, Overloaded, Timeout)
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_LAST_WORDS = 5.0  # seconds in which a closing agent reports on what it leaves, and a transfer that is given up ends

QuestionLike = Union[str, types.Query]
TaskLike = Union[str, types.Delegate]
Peers = Union[str, Sequence[str]]
AsyncHandler = Callable[[Message], Awaitable[Any]]


def draw_id() -> str:
    """Returns an id for a message. A call that is repeated with the same id takes effect only once."""
    return str(uuid.uuid4())


def without_none(**members: Any) -> dict[str, Any]:
    """Returns the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def millis(seconds: Optional[float]) -> Optional[int]:
    """Returns a number of seconds as the API has it, 1 ms at least. Raises Invalid for what is no time to wait."""
    if seconds is None:
        return None
    if not 0 <= seconds < float("inf"):
        raise Invalid(f"a deadline or timeout of {seconds} seconds: give a number of seconds from 0, or None", details={"delivered": "no"})
    return max(1, int(seconds * 1000))


async def in_thread(function: Callable[[], T], name: str) -> T:
    """Calls a function in a thread of its own, which ends with the program at the latest. If nobody waits for it any more, the thread continues until the function returns."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(settle_it: Callable[[Any], None], value: Any) -> None:
        if not answer.done():
            settle_it(value)

    def run() -> None:
        try:
            value = function()
        except BaseException as e:
            if isinstance(e, StopIteration) or not isinstance(e, Exception):  # what no future takes
                e = RuntimeError(repr(e))
            outcome: tuple[Callable[[Any], None], Any] = (answer.set_exception, e)
        else:
            outcome = (answer.set_result, value)
        try:
            loop.call_soon_threadsafe(settle, *outcome)
        except RuntimeError:  # the loop was closed
            pass

    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True, name=name).start()
    return await answer


class AsyncClient:
    """A daemon on this machine, for programs that use asyncio. It belongs to one event loop.

    It connects with the first call, and again after the daemon was restarted. If the connection
    breaks during a call, the call raises DaemonUnavailable, whose ``delivered`` says whether the
    message arrived. The client never repeats a call: to repeat it, call again with the ``id`` of
    the error.
    """

    def __init__(self, socket: Optional[StrPath] = None, *, patience: float = 5.0, reconnect: float = 60.0) -> None:
        """socket is the path of the daemon's socket. None means that of ``$ACP_SOCKET``, else the one of the agents' folder in ``$ACP_HOME`` or ``~/.acp``.

        patience is how many seconds the daemon may be silent beyond what a call waits for.
        reconnect is how many seconds `AsyncDelegation.result` waits for a daemon that went away.
        """
        self._given_socket = socket
        self._patience, self._reconnect = patience, reconnect
        self._connection: Optional[Connection] = None
        self._connecting = asyncio.Lock()
        self._transfers: set[FileConnection] = set()
        self._closes = 0  # how often it was closed
        self._attachment: Optional[AsyncAttachment] = None
        self._wrap: Callable[[types.Inbound], AsyncWork] = lambda envelope: AsyncWork(envelope, self)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Detaches the agent, if there is one, and ends the connection. Calls under way raise DaemonUnavailable. A later call connects again."""
        if self._attachment:
            await self._attachment.close()
        self._closes += 1
        for transfer in self._transfers:
            transfer.end()
        if self._connection:
            await self._connection.close()
            self._connection = None
        self._connecting = asyncio.Lock()  # the next call may come from another loop

    # Calls

    async def call(self, method: str, params: Optional[Mapping[str, Any]] = None, *, timeout: Optional[float] = None) -> Any:
        """Calls any method of the local API (docs/local-api.md), and returns its result as it is on the socket.

        After timeout seconds it raises DaemonUnavailable; None waits as long as the connection lasts.
        """
        connection = await self._connect()
        return await connection.call(method, None if params is None else dict(params), patience=timeout)

    async def query(
        self,
        to: str,
        question: QuestionLike,
        *,
        domain: Optional[str] = None,
        max_tokens: Optional[int] = None,
        deadline: Optional[float] = None,
        keep: Optional[float] = None,
        id: Optional[str] = None,
        thread: Optional[str] = None,
        parent: Optional[str] = INHERIT,
    ) -> types.QueryAnswer:
        """Asks an agent of a peer (``peer``, or ``peer/agent``) and returns its answer: ``answer["payload"]["summary"]``.

        deadline is in seconds, by default 30 and at most 600. A call from a handler follows from
        the message that the handler got, unless parent says otherwise.

        keep is for how many seconds the daemon keeps the question if it does not arrive, at most 7
        days: it is asked when the peer, or its agent, is there. Then the call raises Kept, and
        ``daemon.delegation(e.id).result()`` waits for the answer.
        """
        payload = without_none(domain=domain, max_tokens=max_tokens, deadline_ms=millis(deadline))
        asked = dict[str, Any](question) if isinstance(question, dict) else {"question": question}
        payload = {**asked, **payload}
        wait = payload.get("deadline_ms") or 30_000
        return cast(types.QueryAnswer, await self._send("query", {"to": to, "payload": payload, **without_none(keep_ms=millis(keep))}, id, thread, parent, wait / 1000))

    async def query_all(self, to: Sequence[str], question: QuestionLike, **options: Any) -> list[Union[types.QueryAnswer, Error]]:
        """Asks several agents at the same time. The list has the answer or the error of each, in the order of to. Options are those of `query`, except id."""
        if "id" in options:
            raise Invalid("id: each question of several has its own: leave it out")

        async def one(peer: str) -> Union[types.QueryAnswer, Error]:
            try:
                return await self.query(peer, question, **options)
            except Error as e:
                return e

        return list(await asyncio.gather(*(one(peer) for peer in to)))

    async def delegate(
        self,
        to: str,
        task: TaskLike,
        *,
        context: Optional[dict[str, Any]] = None,
        domain: Optional[str] = None,
        urgent: bool = False,
        deadline: Optional[float] = None,
        report_back: bool = True,
        keep: Optional[float] = None,
        id: Optional[str] = None,
        thread: Optional[str] = None,
        parent: Optional[str] = INHERIT,
    ) -> AsyncDelegation:
        """Gives an agent of a peer a task, and returns when the agent has accepted it. If the agent refuses, it raises the error with the code of the refusal. keep is as of `query`."""
        payload = without_none(
            context=context, domain=domain, deadline_ms=millis(deadline), priority="urgent" if urgent else None, report_back=None if report_back else False
        )
        payload = {**(task if isinstance(task, dict) else {"task": task}), **payload}
        answer = cast(types.DelegateAnswer, await self._send("delegate", {"to": to, "payload": payload, **without_none(keep_ms=millis(keep))}, id, thread, parent, 30))
        ack = answer["payload"]
        if not ack["accepted"]:
            refusal = make_error({"code": ack.get("code", ""), "message": ack.get("message", "the agent has refused the task")})
            refusal.id, refusal.peer = answer["id"], answer["from"]
            raise refusal
        return AsyncDelegation(self, answer["id"], self._connection)

    def delegation(self, id: str) -> AsyncDelegation:
        """Returns a delegation that was given earlier, perhaps by another process, by its id; or a question, task or notice that is kept."""
        return AsyncDelegation(self, id)

    async def notify(
        self,
        to: Peers,
        topic: str,
        data: Any = None,
        *,
        importance: Optional[str] = None,
        wait: bool = True,
        keep: Optional[float] = None,
        id: Optional[str] = None,
        thread: Optional[str] = None,
        parent: Optional[str] = INHERIT,
    ) -> Any:
        """Sends a notice to a peer, and returns the Receipt. Its state is handed (an agent has confirmed the notice) or held (the notice is stored in the inbox there). For a list of peers it returns a list of receipts, which has errors instead of raising them. keep is as of `query`, and needs wait."""
        payload = without_none(topic=topic, data=data, importance=importance)
        several = not isinstance(to, str)
        params = {"to": list(to) if several else to, "payload": payload, **({} if wait else {"wait": False}), **without_none(keep_ms=millis(keep))}
        return await self._send("notify", params, id, thread, parent, 5, draw=not several)

    async def ping(self, to: str, *, timeout: float = 5.0) -> types.PingAnswer:
        """Asks whether a peer's daemon answers."""
        return cast(types.PingAnswer, await self._within(timeout, "ping", {"to": to, "timeout_ms": millis(timeout)}))

    async def discover(self, to: str, *, timeout: float = 5.0, fresh: bool = False) -> types.DiscoverAnswer:
        """Asks what a peer's agents can do. The answer may be a minute old unless fresh is true."""
        return cast(types.DiscoverAnswer, await self._within(timeout, "discover", {"to": to, "timeout_ms": millis(timeout), "fresh": fresh}))

    async def whoami(self) -> types.Whoami:
        """Returns who the daemon is."""
        return cast(types.Whoami, await self._within(0, "whoami"))

    async def peers(self) -> list[types.Peer]:
        """Lists the peers."""
        return cast("list[types.Peer]", (await self._within(0, "peers"))["peers"])

    async def tasks(self) -> AsyncIterator[types.Task]:
        """Yields the delegations, given and taken, the newest first."""
        after = 0
        while True:
            page = cast(types.Tasks, await self._within(0, "tasks", {"after": after}))
            for task in page["tasks"]:
                yield task
            if not (after := page["next"]):
                return

    async def inbox(
        self, *, limit: int = 0, after: int = 0, kinds: Sequence[str] = (), peers: Sequence[str] = (), peek: bool = False, taken: bool = False
    ) -> types.Inbox:
        """Returns a page of the messages that no agent has taken, and removes none. On the agents' socket only a client that has attached can call it."""
        params = {"limit": limit, "after": after, "kinds": list(kinds), "peers": list(peers), "peek": peek, "taken": taken}
        return cast(types.Inbox, await self._within(0, "inbox", {name: value for name, value in params.items() if value}))

    async def messages(self, *, kinds: Sequence[str] = (), peers: Sequence[str] = ()) -> AsyncIterator[types.HeldMessage]:
        """Yields all messages of the inbox, page by page, and removes none."""
        after = 0
        while True:
            page = await self.inbox(after=after, kinds=kinds, peers=peers)
            for message in page["messages"]:
                yield message
            if not (after := page["next"]):
                return

    async def ack(self, *messages: Union[str, types.HeldMessage]) -> int:
        """Removes messages that inbox has returned, or messages with these ids, and returns how many."""
        ids: dict[str, list[str]] = {}  # by their peers, because another peer's message may have the same one
        for m in messages:
            peer, id = ("", m) if isinstance(m, str) else (m["envelope"]["from"], m["envelope"]["id"])
            ids.setdefault(peer, []).append(id)
        return sum([int((await self._within(0, "ack", {"ids": of, "peers": [peer] if peer else []}))["removed"]) for peer, of in ids.items()])

    async def send_file(
        self,
        to: str,
        path: StrPath,
        *,
        name: Optional[str] = None,
        text: Optional[str] = None,
        deadline: Optional[float] = None,
        id: Optional[str] = None,
        ref: Optional[str] = None,
        thread: Optional[str] = None,
        parent: Optional[str] = INHERIT,
    ) -> types.FileSent:
        """Sends a file to a peer, or to an agent of it, and returns when its daemon has all of it.

        deadline is how many seconds the peer's owner has for an answer, if asked: 600 by default, at most 86,400.
        After an error with ``retryable``, a call with the ``id`` of the error sends only what is missing.
        """
        id = id or draw_id()
        peer, _, agent = to.partition("/")
        params = without_none(id=id, to=peer, agent=agent or None, text=text, wait_ms=millis(deadline), ref=ref)
        params["name"] = name or os.path.basename(os.fspath(path))
        try:
            sent = await self._follow(lambda head: self._carry(lambda c: c.send(os.fspath(path), {**params, **head}, self._patience)), thread, parent)
            return cast(types.FileSent, sent)
        except Error as e:
            e.id = id
            raise

    async def take_file(self, id: str, path: StrPath = ".", *, peer: Optional[str] = None) -> Path:
        """Writes a file that came into a folder, or to a path where there is nothing yet, and returns where it is. peer is needed only if two peers sent one under this id."""
        return await self._carry(lambda c: c.take(Path(path), without_none(id=id, peer=peer), self._patience))

    async def files(self, *, peers: Sequence[str] = (), ref: Optional[str] = None) -> AsyncIterator[types.File]:
        """Yields the files that came, come or are being sent, those under way first, each the newest first: those of these peers, and those that belong to the message ref."""
        after = None
        while True:
            page = cast(types.Files, await self._within(0, "files", without_none(peers=list(peers) or None, ref=ref, after=after)))
            for file in page["files"]:
                yield file
            if not (after := page.get("next")):
                return

    async def _carry(self, transfer: Callable[[FileConnection], T]) -> T:
        """Runs a transfer in a thread of its own: those of asyncio are few, and an owner may take long to answer. If the call is cancelled, the transfer ends too."""
        agent = self._attachment
        speaker = {"name": agent.name, "key": agent.key} if agent else self._speaker()
        connection = FileConnection(find_socket(self._given_socket), speaker)

        def run() -> T:
            with contextlib.closing(connection):
                return transfer(connection)

        carried = asyncio.ensure_future(in_thread(run, "acpd file"))
        carried.add_done_callback(lambda _: carried.cancelled() or carried.exception())  # nobody may wait for it any more
        self._transfers.add(connection)
        try:
            await asyncio.wait([carried])
            return carried.result()
        finally:
            self._transfers.remove(connection)
            connection.end()
            await asyncio.wait([carried], timeout=_LAST_WORDS)  # it removes what is no whole file

    async def _send(
        self, method: str, params: dict[str, Any], id: Optional[str], thread: Optional[str], parent: Optional[str], wait: float, *, draw: bool = True
    ) -> Any:
        """Calls the method of a message. The error has the id of the message."""
        if id is None and draw:
            id = draw_id()
        try:
            return await self._follow(lambda head: self._within(wait, method, {**params, **without_none(id=id), **head}), thread, parent)
        except Error as e:
            e.id = id or ""
            raise

    async def _follow(self, call: Callable[[dict[str, Any]], Awaitable[T]], thread: Optional[str], parent: Optional[str]) -> T:
        """Makes a call with the params that say what it follows from: the handler's message, unless parent says otherwise."""
        handled = PARENT.get() if parent is INHERIT else None
        if parent is INHERIT:
            parent = current_parent()
        try:
            return await call(without_none(thread=thread, parent=parent))
        except NotFound as e:
            if not handled or e.peer or e.details.get("reason") != "parent_unknown":
                raise
            # The handler's message was long ago, and nobody has named it.
            return await call(without_none(thread=thread))

    async def _within(self, wait: float, method: str, params: Optional[dict[str, Any]] = None) -> Any:
        """Calls a method that the daemon answers within wait seconds."""
        return await self.call(method, params, timeout=wait + self._patience)

    async def _call_while_alive(self, method: str, params: dict[str, Any]) -> Any:
        """Calls a method that has no deadline, and asks in between whether the daemon lives."""
        connection = await self._connect()
        answer = asyncio.create_task(connection.call(method, params))
        try:
            while not (await asyncio.wait([answer], timeout=self._patience))[0]:
                await connection.call("whoami", None, patience=self._patience)
            return await answer
        finally:
            if not answer.done():
                answer.cancel()
                await asyncio.wait([answer])

    # The connection

    async def _connect(self) -> Connection:
        """Returns the connection, with the agent attached if there is one."""
        closes = self._closes
        async with self._connecting:
            self._check_open(closes)
            old, agent = self._connection, self._attachment
            if old and not old.ended:
                if agent and agent._on is not old:
                    await agent._attach_on(old, self._patience)
                return old
            self._connection = None  # its handlers may be what calls: nobody waits for them here
            fresh = await Connection.open(find_socket(self._given_socket), self._serve)
            try:
                if agent:
                    await agent._attach_on(fresh, self._patience)
                elif speaker := self._speaker():
                    await fresh.call("speak", speaker, patience=self._patience)
                self._check_open(closes)
            except BaseException:
                await fresh.close()
                raise
            self._connection = fresh
            return fresh

    def _check_open(self, closes: int) -> None:
        """Raises if the client was closed more often than that."""
        if self._closes > closes:
            raise closed()

    async def _await_daemon(self, until: float, closes: int) -> None:
        """Waits until the daemon can be called again. At that time of the loop it raises why not."""
        loop, pause = asyncio.get_running_loop(), _SHORTEST_PAUSE
        while True:
            await asyncio.sleep(pause)
            self._check_open(closes)
            try:
                await self._connect()
                return
            except Error as e:
                if not e.retryable or loop.time() >= until:
                    raise
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _speaker(self) -> Optional[dict[str, Any]]:
        """Returns the agent of acpctl serve that this program is a command of."""
        name, key = os.environ.get("ACP_AGENT"), os.environ.get("ACP_AGENT_KEY")
        if self._given_socket is None and "ACP_SOCKET" in os.environ and name and key:
            return {"name": name, "key": key}
        return None

    # The agent

    async def attach(
        self,
        name: str,
        *,
        query: Optional[Callable[[Question], Awaitable[Any]]] = None,
        delegate: Optional[Callable[[AsyncWork], Awaitable[Any]]] = None,
        notify: Optional[AsyncHandler] = None,
        result: Optional[AsyncHandler] = None,
        error: Optional[AsyncHandler] = None,
        **params: Any,
    ) -> AsyncAttachment:
        """Attaches an agent, and returns when it is attached. The handlers get its messages. It stays attached until `AsyncAttachment.close`, even if the daemon is restarted.

        query returns the answer: a text, or the payload of a response. delegate works on a
        delegation, which is accepted before it is called, and returns the result: a text, or
        the payload of a result. The three others return when they have the message; result also
        gets the partial results of what the agent has delegated. Each call of a handler is a task
        of its own. If a handler raises an Error, the peer gets it; if it raises another exception,
        the peer gets only its type.

        More params are those of the method attach: about, domains, topics, capabilities,
        max_concurrent, key, take_over. A client has one agent at a time, because its calls are
        made as that agent.
        """
        if self._attachment:
            raise Invalid("attach: this client has an agent attached already: use another client")
        taken: dict[str, Any] = {"query": query, "delegate": delegate, "notify": notify, "result": result, "error": error}
        handlers = {kind: handler for kind, handler in taken.items() if handler}
        kinds = sorted([*handlers, "cancel"] if delegate else handlers)
        agent = self._attachment = AsyncAttachment(self, {"name": name, "kinds": kinds, **params}, handlers)
        try:
            await self._connect()
        except BaseException:
            self._attachment = None
            raise
        agent._keeping = asyncio.create_task(agent._keep())
        return agent

    async def _serve(self, method: str, params: dict[str, Any]) -> Any:
        agent = self._attachment
        if agent is None:
            raise NoAgent("the agent has detached")
        return await agent._serve(method, cast(types.Inbound, params))

    async def _send_partial(self, ref: str, payload: dict[str, Any]) -> bool:
        try:
            await self._within(5, "result", {"id": draw_id(), "ref": ref, "payload": payload})
        except _AWAY:
            return False
        except NotFound:
            raise over(ref) from None
        return True

    async def _ask_back(self, ref: str, question: str) -> dict[str, Any]:
        """Asks a question back under one id, until there is an answer."""
        id, pause = draw_id(), _SHORTEST_PAUSE
        while True:
            began = asyncio.get_running_loop().time()
            try:
                params = {"id": id, "ref": ref, "payload": {"question": question, "deadline_ms": 60_000}}
                return cast("dict[str, Any]", (await self._within(60, "query", params))["payload"])
            except (DaemonUnavailable, Unreachable, Timeout) as e:
                if not e.retryable:
                    raise
            except (NotFound, Cancelled):
                if await self._is_over(ref):
                    raise over(ref) from None  # else its ack is not on disk yet
            pause = _SHORTEST_PAUSE if asyncio.get_running_loop().time() - began > 1 else min(2 * pause, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _is_over(self, ref: str) -> bool:
        """Says whether a delegation has ended."""
        try:
            return bool((await self._within(0, "task", {"id": ref})).get("over"))
        except NotFound:
            return True


class AsyncDelegation:
    """A delegation that was given. It outlives this process and both daemons.

    On the agents' socket it belongs to the agent that is attached. If no agent is attached, it
    belongs to the connection on which it was given, and to nobody after a restart of the daemon.
    """

    def __init__(self, client: AsyncClient, id: str, given_on: Optional[Connection] = None) -> None:
        self._client, self._given_on = client, given_on
        self.id = id

    async def status(self) -> types.Task:
        """Returns its present state, without waiting."""
        return cast(types.Task, await self._client._within(0, "task", {"id": self.id}))

    async def progress(self) -> AsyncIterator[types.Result]:
        """Yields the partial results as they come, until the delegation is over. If several come at once, it yields the last of them."""
        seen = 0
        while True:
            task = await self._wait({"after_partials": seen})
            if task.get("partials", 0) > seen and "partial" in task:
                yield task["partial"]
            if task.get("over"):
                return
            seen = task.get("partials", 0)

    async def questions(self) -> AsyncIterator[types.QuestionBack]:
        """Yields the questions of the agent that works on it, until the delegation is over. `answer` answers them; if an agent is attached here that takes queries, that agent does."""
        seen = 0
        while True:
            task = await self._wait({"after_questions": seen})
            if task.get("over"):
                return
            if task.get("questions", 0) > seen and "question" in task:
                yield task["question"]
            seen = task.get("questions", 0)

    async def answer(self, answer: Any) -> None:
        """Answers the open question with a text, or with the payload of a response."""
        await self._client._within(0, "answer", {"ref": self.id, "payload": make_response(answer)})

    async def result(self, *, timeout: Optional[float] = None) -> types.Result:
        """Waits until the delegation is over, returns its result, and removes that from the inbox. Raises TaskFailed if the agent reported that, otherwise the error with which the delegation ended, and Timeout after timeout seconds."""
        task = await self._wait(without_none(timeout_ms=millis(timeout)))
        if task["state"] == "accepted":
            raise Invalid("result: none comes: the delegation was given with report_back=False")
        said = task.get("result")
        agent = self._client._attachment
        if not (agent and ("error" if said and "code" in said else "result") in agent._handlers):  # a handler, which may be what calls, takes it
            with contextlib.suppress(Error):
                await self._client._within(0, "ack", {"ref": self.id})
        if task["state"] in ("completed", "handed", "held"):  # the latter are of notices that were kept
            return cast(types.Result, said or {"status": "completed", "outcome": task["outcome"] or task["state"]})
        if said and "code" in said:
            raise make_error(said)
        if task["state"] == "failed":
            raise TaskFailed(task["outcome"], cast("dict[str, Any]", said or {}))
        code = {"cancelled": "cancelled", "expired": "timeout"}.get(task["state"], "")
        raise make_error({"code": code, "message": f"the delegation is {task['state']}: {task['outcome']}"})

    async def cancel(self, reason: str = "") -> bool:
        """Asks the peer to end it, and returns whether the peer agrees."""
        params = {"ref": self.id, "payload": {"reason": reason} if reason else {}}
        return bool((await self._client._send("cancel", params, None, None, None, 30))["payload"]["accepted"])

    async def _wait(self, params: dict[str, Any]) -> types.Task:
        """Calls wait. It reads and changes nothing, so a daemon that was restarted is asked again."""
        client, loop = self._client, asyncio.get_running_loop()
        timeout_ms = params.get("timeout_ms")
        deadline = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        closes = client._closes
        gone: Optional[float] = None  # since when no wait has lasted
        while True:
            began = loop.time()
            try:
                return cast(types.Task, await client._call_while_alive("wait", {"id": self.id, **params}))
            except DaemonUnavailable as e:
                if not e.retryable or client._connection and not client._connection.ended:  # it is there, and silent
                    raise
            except NotFound as e:
                if not client._attachment and client._connection is not self._given_on:
                    e.args = (f"{e.message}: it was given on another connection; attach before you delegate, so that it stays this agent's",)
                    e.message = e.args[0]
                raise
            now = loop.time()
            gone = gone if gone is not None and now - began < 1 else now
            until = min(gone + client._reconnect, deadline or float("inf"))
            await client._await_daemon(until, closes)
            if deadline is not None:
                params = {**params, "timeout_ms": millis(max(0, deadline - loop.time()))}


class AsyncAttachment:
    """An agent that is attached."""

    def __init__(self, client: AsyncClient, params: dict[str, Any], handlers: dict[str, Callable[[Any], Awaitable[Any]]]) -> None:
        self.params = params
        self._client, self._handlers = client, handlers
        self._work: dict[str, asyncio.Task[None]] = {}
        self._called_off: set[str] = set()
        self._reporting: set[str] = set()  # what has ended, and is being told to who delegated it
        self._keeping: Optional[asyncio.Task[None]] = None
        self._closing: Optional[asyncio.Task[None]] = None
        self._on: Optional[Connection] = None

    @property
    def name(self) -> str:
        """The name of the agent."""
        return str(self.params["name"])

    @property
    def key(self) -> str:
        """A secret: with it the agent comes back to its name, also in another process."""
        return str(self.params["key"])

    async def __aenter__(self) -> AsyncAttachment:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def wait(self) -> None:
        """Waits until the agent is closed. Raises the error that keeps it from being attached again."""
        if self._keeping:
            await asyncio.wait([self._keeping])
            if not self._keeping.cancelled():
                self._keeping.result()

    async def close(self) -> None:
        """Detaches the agent. Cancels the handlers that work on delegations, including one that calls this, and informs those who delegated."""
        self._closing = self._closing or asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._client._attachment is not self:
            return
        for ref, task in list(self._work.items()):
            if ref not in self._reporting:
                task.cancel()
        if self._work:
            _, silent = await asyncio.wait(list(self._work.values()), timeout=_LAST_WORDS)
            for task in silent:
                task.cancel()
        self._client._attachment = None
        if self._keeping:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        if connection := self._client._connection:  # closing it detaches
            self._client._connection = None
            await connection.close()

    async def _attach_on(self, connection: Connection, patience: float) -> None:
        self.params["key"] = (await connection.call("attach", self.params, patience=patience))["key"]
        self._on = connection

    async def _keep(self) -> None:
        """Attaches the agent again whenever the connection has ended."""
        pause = _SHORTEST_PAUSE
        while True:
            try:
                connection = await self._client._connect()
                pause = _SHORTEST_PAUSE
                await connection.wait_ended()
            except Error as e:
                if not e.retryable:
                    self._client._attachment = None
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _serve(self, method: str, envelope: types.Inbound) -> Any:
        PARENT.set(envelope["id"])
        handler = self._handlers.get(method)
        if method == "cancel":
            return self._cancel(envelope)
        if handler is None:
            raise make_error({"code": "unknown_kind", "message": f"the agent does not take {method[:64]}"})
        if method == "query":
            question = Question(envelope)
            clock = asyncio.timeout(question.deadline)
            try:
                async with clock:
                    return make_response(await handler(question))
            except TimeoutError:
                if clock.expired():
                    raise Timeout("the deadline passed") from None
                raise
        if method == "delegate":
            if envelope["id"] not in self._work:
                task = asyncio.create_task(self._do(handler, self._client._wrap(envelope)))
                self._work[envelope["id"]] = task
                task.add_done_callback(lambda _: self._work.pop(envelope["id"], None))
            return {"accepted": True}
        await handler(Message(envelope))
        return {}

    def _cancel(self, envelope: types.Inbound) -> dict[str, Any]:
        ref = envelope["ref"] or ""
        if ref not in self._work or ref in self._reporting:
            return {"accepted": False, "code": "not_found", "message": "nothing works on it: it has ended"}
        self._called_off.add(ref)
        self._work[ref].cancel()
        return {"accepted": True}

    async def _do(self, handler: Callable[[Any], Awaitable[Any]], work: AsyncWork) -> None:
        """Works on a delegation, and reports."""
        method, payload = "result", {}
        try:
            payload = make_result(await handler(work))
        except asyncio.CancelledError:
            payload = {"code": "no_agent", "message": "the agent was stopped while it worked on this"}
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS):
                    await self._end(work, "error", payload)
            raise
        except Exception as e:
            method, payload = "error", describe_error(e)
            if not is_for_peers(e):
                log.exception("delegation %s: the handler failed", work.id)
        await self._end(work, method, payload)

    async def _end(self, work: AsyncWork, method: str, payload: dict[str, Any]) -> None:
        """Reports the end of a delegation, if its delegator wants to hear it."""
        if work.id in self._called_off:  # the peer has ended it
            self._called_off.discard(work.id)
        elif work.payload.get("report_back", True):
            self._reporting.add(work.id)
            try:
                await self._report(method, work.id, payload)
            finally:
                self._reporting.discard(work.id)

    async def _report(self, method: str, ref: str, payload: dict[str, Any]) -> None:
        """Sends the end of a delegation, again and again under one id until the peer has it, so that it has it once."""
        params, pause = {"id": draw_id(), "ref": ref, "payload": payload}, _SHORTEST_PAUSE
        while True:
            try:
                await self._client._within(5, method, params)
                return
            except Error as e:
                if isinstance(e, (NotFound, Cancelled)):  # it is over
                    return
                if not e.retryable:
                    log.error("delegation %s: the %s was not taken: %s", ref, method, e)
                    if method == "result":
                        await self._report("error", ref, describe_error(e))
                    return
                await asyncio.sleep(e.retry_after or pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
