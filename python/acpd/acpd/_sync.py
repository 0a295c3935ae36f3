from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, TypeVar, Union

from . import types
from ._async import INHERIT, AsyncAttachment, AsyncClient, AsyncDelegation, Peers, QuestionLike, TaskLike, in_thread
from ._error import Error
from ._messages import AsyncWork, Message, Question, Work
from ._socket import StrPath, closed, unavailable

T = TypeVar("T")
M = TypeVar("M", bound=Message)


async def _in_thread(function: Callable[[M], T], message: M) -> T:
    """Calls a function in a thread of its own. If nobody waits for it any more, message.cancelled is set; the thread continues until the function returns."""
    try:
        return await in_thread(lambda: function(message), f"acpd {message.kind}")
    except asyncio.CancelledError:
        message.cancelled.set()
        raise


async def _end_tasks() -> None:
    """Cancels what still runs in the loop, and waits for it."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


class Client:
    """A daemon on this machine, for programs without asyncio. Any number of threads may use it.

    It connects with the first call, and again after the daemon was restarted. If the connection
    breaks during a call, the call raises DaemonUnavailable, whose ``delivered`` says whether the
    message arrived. The client never repeats a call: to repeat it, call again with the ``id`` of
    the error.

    The methods are those of `AsyncClient`, which documents them.
    """

    def __init__(self, socket: Optional[StrPath] = None, *, patience: float = 5.0, reconnect: float = 60.0) -> None:
        """As `AsyncClient`."""
        self._async = AsyncClient(socket, patience=patience, reconnect=reconnect)
        self._async._wrap = lambda envelope: Work(envelope, self)  # type: ignore[assignment,return-value]
        self._lock = threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._thread: Optional[threading.Thread] = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """As `AsyncClient.close`."""
        with self._lock:  # until the loop has ended: a call that starts now gets a new one
            if self._loop and self._thread:
                asyncio.run_coroutine_threadsafe(self._async.close(), self._loop).result()
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop = self._thread = None

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        """Runs a call in the client's own event loop."""
        with self._lock:
            if not self._loop:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run_loop, args=(self._loop,), daemon=True, name="acpd")
                self._thread.start()
            answer = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return answer.result()
        except concurrent.futures.CancelledError:
            raise closed() from None
        except BaseException:  # such as KeyboardInterrupt: the call is given up
            answer.cancel()
            raise

    @staticmethod
    def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(_end_tasks())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def _iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Goes through items. If the client is closed meanwhile, it raises: the rest is not taken for nothing."""
        closes = self._async._closes

        async def step() -> tuple[bool, Any]:
            try:
                return True, await anext(items)
            except StopAsyncIteration:
                return False, None

        while (got := self._run(step()))[0]:
            yield got[1]
            if self._async._closes > closes:
                raise unavailable("the client was closed before the last item: begin the iteration anew", retryable=False)

    def call(self, method: str, params: Optional[Mapping[str, Any]] = None, *, timeout: Optional[float] = None) -> Any:
        """As `AsyncClient.call`."""
        return self._run(self._async.call(method, params, timeout=timeout))

    def query(
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
        """As `AsyncClient.query`."""
        return self._run(self._async.query(to, question, domain=domain, max_tokens=max_tokens, deadline=deadline, keep=keep, id=id, thread=thread, parent=parent))

    def query_all(self, to: Sequence[str], question: QuestionLike, **options: Any) -> list[Union[types.QueryAnswer, Error]]:
        """As `AsyncClient.query_all`."""
        return self._run(self._async.query_all(to, question, **options))

    def delegate(
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
    ) -> Delegation:
        """As `AsyncClient.delegate`."""
        given = self._run(
            self._async.delegate(
                to, task, context=context, domain=domain, urgent=urgent, deadline=deadline, report_back=report_back, keep=keep, id=id, thread=thread, parent=parent
            )
        )
        return Delegation(self, given)

    def delegation(self, id: str) -> Delegation:
        """As `AsyncClient.delegation`."""
        return Delegation(self, self._async.delegation(id))

    def notify(
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
        """As `AsyncClient.notify`."""
        return self._run(self._async.notify(to, topic, data, importance=importance, wait=wait, keep=keep, id=id, thread=thread, parent=parent))

    def ping(self, to: str, *, timeout: float = 5.0) -> types.PingAnswer:
        """As `AsyncClient.ping`."""
        return self._run(self._async.ping(to, timeout=timeout))

    def discover(self, to: str, *, timeout: float = 5.0, fresh: bool = False) -> types.DiscoverAnswer:
        """As `AsyncClient.discover`."""
        return self._run(self._async.discover(to, timeout=timeout, fresh=fresh))

    def whoami(self) -> types.Whoami:
        """As `AsyncClient.whoami`."""
        return self._run(self._async.whoami())

    def peers(self) -> list[types.Peer]:
        """As `AsyncClient.peers`."""
        return self._run(self._async.peers())

    def tasks(self) -> Iterator[types.Task]:
        """As `AsyncClient.tasks`."""
        return self._iterate(self._async.tasks())

    def inbox(
        self, *, limit: int = 0, after: int = 0, kinds: Sequence[str] = (), peers: Sequence[str] = (), peek: bool = False, taken: bool = False
    ) -> types.Inbox:
        """As `AsyncClient.inbox`."""
        return self._run(self._async.inbox(limit=limit, after=after, kinds=kinds, peers=peers, peek=peek, taken=taken))

    def messages(self, *, kinds: Sequence[str] = (), peers: Sequence[str] = ()) -> Iterator[types.HeldMessage]:
        """As `AsyncClient.messages`."""
        return self._iterate(self._async.messages(kinds=kinds, peers=peers))

    def ack(self, *messages: Union[str, types.HeldMessage]) -> int:
        """As `AsyncClient.ack`."""
        return self._run(self._async.ack(*messages))

    def send_file(
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
        """As `AsyncClient.send_file`."""
        return self._run(self._async.send_file(to, path, name=name, text=text, deadline=deadline, id=id, ref=ref, thread=thread, parent=parent))

    def take_file(self, id: str, path: StrPath = ".", *, peer: Optional[str] = None) -> Path:
        """As `AsyncClient.take_file`."""
        return self._run(self._async.take_file(id, path, peer=peer))

    def files(self, *, peers: Sequence[str] = (), ref: Optional[str] = None) -> Iterator[types.File]:
        """As `AsyncClient.files`."""
        return self._iterate(self._async.files(peers=peers, ref=ref))

    def attach(
        self,
        name: str,
        *,
        query: Optional[Callable[[Question], Any]] = None,
        delegate: Optional[Callable[[Work], Any]] = None,
        notify: Optional[Callable[[Message], Any]] = None,
        result: Optional[Callable[[Message], Any]] = None,
        error: Optional[Callable[[Message], Any]] = None,
        **params: Any,
    ) -> Attachment:
        """As `AsyncClient.attach`. The handlers are plain functions, each call in a thread of its own."""

        def threaded(function: Optional[Callable[[Any], Any]]) -> Optional[Callable[[Any], Awaitable[Any]]]:
            return None if function is None else lambda message: _in_thread(function, message)

        handlers: dict[str, Any] = {"query": query, "delegate": delegate, "notify": notify, "result": result, "error": error}
        attached = self._run(self._async.attach(name, **{kind: threaded(handler) for kind, handler in handlers.items()}, **params))
        return Attachment(self, attached)


class Delegation:
    """A delegation that was given; see `AsyncDelegation`."""

    def __init__(self, client: Client, delegation: AsyncDelegation) -> None:
        self._client, self._async = client, delegation
        self.id = delegation.id

    def status(self) -> types.Task:
        """As `AsyncDelegation.status`."""
        return self._client._run(self._async.status())

    def progress(self) -> Iterator[types.Result]:
        """As `AsyncDelegation.progress`."""
        return self._client._iterate(self._async.progress())

    def questions(self) -> Iterator[types.QuestionBack]:
        """As `AsyncDelegation.questions`."""
        return self._client._iterate(self._async.questions())

    def answer(self, answer: Any) -> None:
        """As `AsyncDelegation.answer`."""
        self._client._run(self._async.answer(answer))

    def result(self, *, timeout: Optional[float] = None) -> types.Result:
        """As `AsyncDelegation.result`."""
        return self._client._run(self._async.result(timeout=timeout))

    def cancel(self, reason: str = "") -> bool:
        """As `AsyncDelegation.cancel`."""
        return self._client._run(self._async.cancel(reason))


class Attachment:
    """An agent that is attached."""

    def __init__(self, client: Client, attachment: AsyncAttachment) -> None:
        self._client, self._async = client, attachment

    @property
    def name(self) -> str:
        """As `AsyncAttachment.name`."""
        return self._async.name

    @property
    def key(self) -> str:
        """A secret: with it the agent comes back to its name, also in another process."""
        return self._async.key

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """As `AsyncAttachment.wait`."""
        self._client._run(self._async.wait())

    def close(self) -> None:
        """As `AsyncAttachment.close`."""
        self._client._run(self._async.close())


for _plain, _documented in (Client, AsyncClient), (Delegation, AsyncDelegation), (Attachment, AsyncAttachment), (Work, AsyncWork):
    for _name, _member in vars(_plain).items():
        if (_member.__doc__ or "").startswith("As `Async"):  # help() shows what it refers to
            _member.__doc__ = getattr(_documented, _name).__doc__
