"""The package against two daemons, and against sockets that do what a daemon should not."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import hashlib
import io
import json
import os
import queue
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest
import uuid
from pathlib import Path
from typing import Any, Optional
from unittest.mock import patch

import acpd
from acpd._connection import Connection
from acpd._codes import BY_CODE
from acpd._convert import describe_error, make_error
from acpd._files import hash_beginning
from acpd._messages import PARENT
from daemons import PATIENCE, Daemon, FakeDaemon, make_pair, until

desk: Daemon
laptop: Daemon


unseen: list[Any] = []  # what went wrong where no test sees it: in threads, and in what is never closed


def setUpModule() -> None:
    global desk, laptop
    threading.excepthook = lambda said: unseen.append((said.exc_type, said.exc_value))
    sys.unraisablehook = lambda said: unseen.append((said.exc_type, said.exc_value))
    desk, laptop = make_pair()


def tearDownModule() -> None:
    desk.stop()
    laptop.stop()
    gc.collect()
    if unseen:
        raise AssertionError(f"{len(unseen)} times unseen: {unseen[:3]}")


class DocumentationTest(unittest.TestCase):
    def test_help_says_what_everything_is(self) -> None:
        for name in acpd.__all__:
            value = getattr(acpd, name)
            if not isinstance(value, type):
                continue
            self.assertTrue(value.__doc__, name)
            for member in dir(value):
                own = any(member in vars(base) for base in value.__mro__ if base.__module__.startswith("acpd"))
                described = callable(getattr(value, member)) or isinstance(getattr(value, member), property)
                if own and described and not member.startswith("_"):
                    doc = getattr(value, member).__doc__ or ""
                    self.assertTrue(doc and not doc.startswith("As `"), f"{name}.{member}: {doc!r}")


class Case(unittest.TestCase):
    def client(self, daemon: Daemon, **options: Any) -> acpd.Client:
        client = acpd.Client(daemon.socket, **options)
        self.addCleanup(client.close)
        return client

    def agent(self, daemon: Daemon, name: str, **handlers: Any) -> acpd.Attachment:
        self.addCleanup(daemon.detached, name)
        return self.client(daemon).attach(name, **handlers)

    def fake(self, answer: Any) -> FakeDaemon:
        fake = FakeDaemon(answer)
        self.addCleanup(fake.stop)
        return fake


class TestInstallation(unittest.TestCase):
    def test_what_is_tested_is_the_wheel(self) -> None:
        folder = os.environ.get("ACPD_WHEEL_IN")
        if not folder:
            self.skipTest("the sources are tested")
        self.assertTrue(Path(acpd.__file__).is_relative_to(folder), acpd.__file__)
        self.assertTrue((Path(acpd.__file__).parent / "py.typed").exists())


class TestAsking(Case):
    def test_a_question(self) -> None:
        seen = []

        def answer(question: acpd.Question) -> str:
            seen.append((question.peer, question.question, question.deadline and 6 < question.deadline <= 7, question.kind))
            return "v2.3"

        self.agent(desk, "reviewer", query=answer)
        got = self.client(laptop).query("desk", "Which schema?", deadline=7)
        self.assertEqual((got["payload"], got["from"]), ({"summary": "v2.3"}, desk.id))
        self.assertEqual(seen, [("laptop", "Which schema?", True, "query")])

    def test_payloads_pass_unchanged(self) -> None:
        said = {"summary": "é\u2028😀", "extra": [1, None, 2**60]}
        self.agent(desk, "reviewer", query=lambda q: {**said, "data": q.payload})
        question: Any = {"question": 'a "quoted" \\ line\nand 😀', "x": {"deep": [1.5]}}
        got = self.client(laptop).query("desk", question)["payload"]
        self.assertEqual(got, {**said, "data": question})

    def test_several_at_once(self) -> None:
        together = threading.Barrier(2, timeout=PATIENCE)  # each answer waits for the other one

        def answer(question: acpd.Question) -> str:
            together.wait()
            return question.question

        self.agent(desk, "one", query=answer)
        self.agent(desk, "two", query=answer)
        got = self.client(laptop).query_all(["desk/one", "nobody", "desk/two", "desk/three"], "Ready?")
        self.assertEqual(
            [one["payload"]["summary"] if isinstance(one, dict) else type(one) for one in got],
            ["Ready?", acpd.UnknownPeer, "Ready?", acpd.NoAgent],
        )

    def test_many_threads_on_one_client(self) -> None:
        self.agent(desk, "reviewer", query=lambda q: q.question, max_concurrent=100)
        client, wrong = self.client(laptop), []

        def ask(n: int) -> None:
            try:
                got = client.query("desk", str(n))["payload"]["summary"]
            except acpd.Error as e:
                got = str(e)
            if got != str(n):
                wrong.append((n, got))

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_large_texts(self) -> None:
        self.agent(desk, "reviewer", query=lambda q: q.question)
        text = "x" * 900_000
        self.assertEqual(self.client(laptop).query("desk", text)["payload"]["summary"], text)
        with self.assertRaises(acpd.TooLarge):
            self.client(laptop).query("desk", 2 * text)
        with self.assertRaises(acpd.TooLarge) as caught:
            self.client(laptop).query("desk", 20 * text)
        self.assertEqual(caught.exception.delivered, "no")

    def test_who_is_there(self) -> None:
        self.agent(desk, "reviewer", query=lambda q: "", domains=["code.review"])
        client = self.client(laptop)
        self.assertEqual(client.whoami()["id"], laptop.id)
        self.assertEqual([p["name"] for p in client.peers()], ["desk"])
        self.assertEqual(client.ping("desk")["payload"]["status"], "idle")
        self.assertIn("code.review", client.discover("desk", fresh=True)["payload"].get("domains", []))

    def test_asynchronously(self) -> None:
        async def answer(question: acpd.Question) -> str:
            await asyncio.sleep(0)
            return "You asked: " + question.question

        async def run() -> None:
            async with acpd.AsyncClient(desk.socket) as reviewer, acpd.AsyncClient(laptop.socket) as client:
                async with await reviewer.attach("reviewer", query=answer):
                    got = await client.query_all(["desk"] * 4, "What?")
                    self.assertEqual([one["payload"]["summary"] if isinstance(one, dict) else one for one in got], ["You asked: What?"] * 4)
                with self.assertRaises(acpd.NoAgent):
                    await client.query("desk", "What?")

        asyncio.run(run())

    def test_an_asker_that_gives_up(self) -> None:
        began: list[acpd.Question] = []

        def answer(question: acpd.Question) -> str:
            began.append(question)
            question.cancelled.wait(PATIENCE)
            return "too late"

        self.agent(desk, "reviewer", query=answer)

        async def run() -> None:
            async with acpd.AsyncClient(laptop.socket) as client:
                asking = asyncio.create_task(client.query("desk", "What?"))
                await asyncio.to_thread(until, "the question is there", lambda: began)
                asking.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await asking
                self.assertTrue(await asyncio.to_thread(began[0].cancelled.wait, PATIENCE))
                self.assertEqual((await client.whoami())["name"], "laptop")

        asyncio.run(run())


class TestErrors(Case):
    def test_the_code_table(self) -> None:
        if description := os.environ.get("LOCAL_API"):
            codes = json.loads(Path(description).read_text())["x-codes"]
            self.assertEqual({c["code"]: c["retryable"] for c in codes}, {code: e.retryable for code, e in BY_CODE.items()})
        for code, error in BY_CODE.items():
            self.assertTrue(issubclass(error, acpd.Error) and error.code == code and getattr(acpd, error.__name__) is error, code)
        self.assertTrue(issubclass(acpd.Timeout, TimeoutError) and issubclass(acpd.DaemonUnavailable, ConnectionError))

    def test_what_a_handler_raises(self) -> None:
        def answer(question: acpd.Question) -> str:
            if question.question == "busy":
                raise acpd.Overloaded("come back", retry_after=1.5, details={"queue": 9})
            if question.question == "away":
                raise acpd.DaemonUnavailable("no daemon at /home/secret")
            raise ValueError("/home/secret")

        self.agent(desk, "reviewer", query=answer)
        client = self.client(laptop)
        with self.assertRaises(acpd.Overloaded) as caught:
            client.query("desk", "busy")
        e = caught.exception
        self.assertEqual((e.message, e.retry_after, e.details["queue"], e.retryable, e.peer), ("come back", 1.5, 9, True, desk.id))
        self.assertEqual(str(uuid.UUID(e.id)), e.id)
        for question in "fail", "away":
            with self.assertLogs("acpd", "ERROR"), self.assertRaises(acpd.Internal) as internal:
                client.query("desk", question)
            self.assertNotIn("secret", str(internal.exception))

    def test_an_iterator_that_has_ended(self) -> None:
        self.agent(desk, "reviewer", query=lambda q: next(iter([])))
        with self.assertLogs("acpd", "ERROR"), self.assertRaises(acpd.Internal):
            self.client(laptop).query("desk", "What?", deadline=PATIENCE)

    def test_deadlines(self) -> None:
        self.agent(desk, "reviewer", query=lambda q: q.cancelled.wait(PATIENCE) and "late")
        with self.assertRaises(TimeoutError) as caught:
            self.client(laptop).query("desk", "What?", deadline=0.2)
        self.assertIsInstance(caught.exception, acpd.Timeout)

    def test_calls_that_are_wrong(self) -> None:
        client = self.client(laptop)
        with self.assertRaises(acpd.MalformedCall):
            client.call("frobnicate")
        with self.assertRaises(acpd.NotAuthorized):
            client.call("status")
        with self.assertRaises(acpd.Invalid):
            client.notify("desk", "x", float("nan"))
        with self.assertRaises(acpd.Invalid):
            client.query("desk", "")

    def test_words_of_another_program(self) -> None:
        e = make_error({"code": "unreachable", "message": "the command of its pipe has ended", "retryable": True, "quoted": "PLANTED"})
        self.assertEqual((e.quoted, str(e)), ("PLANTED", "the command of its pipe has ended (unreachable)"))
        self.assertNotIn("PLANTED", str(describe_error(e)))
        self.assertEqual(make_error({"code": "timeout", "message": "late"}).quoted, "")

    def test_where_the_socket_is(self) -> None:
        bare = {key: value for key, value in os.environ.items() if not key.startswith("ACP_")}

        def name(**environment: str) -> str:
            with patch.dict(os.environ, {**bare, **environment}, clear=True), acpd.Client() as client:
                return client.whoami()["name"]

        self.assertEqual(name(ACP_SOCKET=desk.socket, ACP_HOME="/nowhere"), "desk")
        self.assertEqual(name(ACP_HOME=laptop.home), "laptop")
        self.assertEqual(name(ACP_HOME="~", HOME=laptop.home), "laptop")
        self.assertEqual(name(ACP_SOCKET="~/agent/acp.sock", HOME=desk.home), "desk")
        for path, remedy in {
            f"{desk.home}/acp.sock": "owner's socket",
            "": "is empty",
            f"{desk.home}/agent": "set it to the path of acp.sock",
            "/nowhere/acp.sock": "no daemon at /nowhere/acp.sock",
        }.items():
            with self.assertRaisesRegex(acpd.DaemonUnavailable, remedy) as caught:
                name(ACP_SOCKET=path, ACP_HOME=laptop.home)
            self.assertEqual(caught.exception.delivered, "no")


class TestDelegations(Case):
    def test_no_report_is_wanted(self) -> None:
        self.agent(desk, "worker", delegate=lambda work: "done")
        given = self.client(laptop).delegate("desk", "the tests", report_back=False)
        self.assertEqual((list(given.progress()), list(given.questions())), ([], []))
        with self.assertRaisesRegex(acpd.Invalid, "report_back"):
            given.result()

    def test_an_agent_that_its_handler_closes(self) -> None:
        async def run() -> None:
            async def work(work: acpd.AsyncWork) -> str:
                await agent.close()
                return "done"

            async with acpd.AsyncClient(desk.socket) as worker, acpd.AsyncClient(laptop.socket) as client:
                agent = await worker.attach("worker", delegate=work)
                given = await client.delegate("desk", "the tests")
                with self.assertRaises(acpd.NoAgent):
                    await given.result(timeout=PATIENCE)
                await asyncio.to_thread(desk.detached, "worker")

        asyncio.run(run())

    def test_a_program_that_ends_while_its_agent_works(self) -> None:
        """The daemon is away, and nothing is closed: the agent tries to tell it for a while."""
        began = asyncio.Event()

        async def work(work: acpd.AsyncWork) -> None:
            began.set()
            await asyncio.Event().wait()

        async def run() -> None:
            fake = self.fake(lambda message: {"result": {"key": "ab"}} if message.get("method") == "attach" else {})
            await acpd.AsyncClient(fake.socket).attach("worker", delegate=work)
            fake.say("delegate", {"task": "x"})
            await began.wait()
            fake.stop()

        with patch("acpd._async._LAST_WORDS", 0.1):
            asyncio.run(asyncio.wait_for(run(), PATIENCE))

    def test_progress_and_result(self) -> None:
        read = threading.Semaphore(0)

        def work(work: acpd.Work) -> dict[str, Any]:
            for n in range(3):
                self.assertTrue(work.progress(f"part {n}", data={"n": n}, done=n / 3, message="testing"))
                self.assertTrue(read.acquire(timeout=PATIENCE))
            return {"outcome": "done: " + work.task, "data": work.payload["context"]}

        self.agent(desk, "worker", delegate=work)
        client = self.client(laptop)
        given = client.delegate("desk", "the tests", context={"commit": "4f2a"}, deadline=60)
        self.assertEqual(given.status()["state"], "accepted")
        seen = []
        for part in given.progress():
            seen.append((part["outcome"], part["data"]["n"], part["message"]))
            read.release()
        self.assertEqual(seen, [("part 0", 0, "testing"), ("part 1", 1, "testing"), ("part 2", 2, "testing")])
        result = given.result()
        self.assertEqual((result["status"], result["outcome"], result["data"]), ("completed", "done: the tests", {"commit": "4f2a"}))
        self.assertEqual(client.delegation(given.id).result(), result)
        self.assertNotIn(given.id, [m["envelope"].get("ref") for m in laptop.call("inbox", {"peek": True})["messages"]])
        self.assertIn(given.id, [task["id"] for task in client.tasks()])

    def test_failures(self) -> None:
        def work(work: acpd.Work) -> Any:
            if work.task == "fail":
                return {"status": "failed", "outcome": "3 tests failed", "error": "tests"}
            if work.task == "raise":
                raise acpd.UnknownDomain("not here")
            if work.task == "large":
                return "x" * (2 << 20)
            if work.task == "away":
                raise acpd.DaemonUnavailable("no daemon at /home/secret")
            raise ValueError("/home/secret")

        self.agent(desk, "worker", delegate=work)
        client = self.client(laptop)
        with self.assertRaises(acpd.TaskFailed) as failed:
            client.delegate("desk", "fail").result()
        self.assertEqual(failed.exception.result["outcome"], "3 tests failed")
        with self.assertRaises(acpd.UnknownDomain):
            client.delegate("desk", "raise").result()
        with self.assertLogs("acpd", "ERROR"), self.assertRaises(acpd.TooLarge):
            client.delegate("desk", "large").result()
        for task in "crash", "away":
            with self.assertLogs("acpd", "ERROR"), self.assertRaises(acpd.Internal) as internal:
                client.delegate("desk", task).result()
            self.assertNotIn("secret", str(internal.exception))
        with self.assertRaises(acpd.NoAgent):
            client.delegate("desk/nobody", "x")

    def test_cancelling(self) -> None:
        stopped = threading.Event()

        def work(work: acpd.Work) -> str:
            if work.cancelled.wait(PATIENCE):
                try:
                    work.progress("never mind")
                except acpd.Cancelled:
                    stopped.set()
            return "too late"

        self.agent(desk, "worker", delegate=work)
        given = self.client(laptop).delegate("desk", "for ever")
        with self.assertRaises(acpd.Timeout):
            given.result(timeout=0.1)
        self.assertTrue(given.cancel("enough"))
        self.assertTrue(stopped.wait(PATIENCE))
        with self.assertRaises(acpd.Cancelled):
            given.result()
        self.assertFalse(given.cancel())

    def test_asynchronously(self) -> None:
        async def run() -> None:
            cancelled = asyncio.Event()

            async def work(work: acpd.AsyncWork) -> str:
                try:
                    await work.progress("begun")
                    if work.task == "for ever":
                        await asyncio.sleep(PATIENCE)
                except asyncio.CancelledError:
                    cancelled.set()
                    raise
                return "done"

            async with acpd.AsyncClient(desk.socket) as worker, acpd.AsyncClient(laptop.socket) as client:
                await worker.attach("worker", delegate=work)
                given = await client.delegate("desk", "the tests")
                self.assertEqual((await given.result())["outcome"], "done")
                given = await client.delegate("desk", "for ever")
                async for part in given.progress():
                    self.assertEqual(part["outcome"], "begun")
                    self.assertTrue(await given.cancel())
                with self.assertRaises(acpd.Cancelled):
                    await given.result()
                await asyncio.wait_for(cancelled.wait(), PATIENCE)

        self.addCleanup(desk.detached, "worker")
        asyncio.run(run())

    def test_questions_back(self) -> None:
        def work(work: acpd.Work) -> str:
            try:
                return " and ".join(work.ask(question)["summary"] for question in ("which branch?", "really?"))
            except acpd.NotAuthorized as e:
                return e.message

        self.agent(desk, "worker", delegate=work)
        given = self.client(laptop).delegate("desk", "the tests")
        belongs: list[Any] = []
        for n, question in enumerate(given.questions()):
            self.assertEqual(question["text"], ("which branch?", "really?")[n])
            given.answer(["main", {"summary": "yes", "data": 1}][n])
        self.assertEqual(given.result()["outcome"], "main and yes")

        def answer(question: acpd.Question) -> str:
            belongs.append(question.delegation and question.delegation["id"])
            if question.question == "really?":
                raise acpd.NotAuthorized("enough")
            return "dev"

        self.addCleanup(laptop.detached, "planner")
        planner = self.client(laptop)
        planner.attach("planner", query=answer)
        given = planner.delegate("desk", "the tests")
        self.assertEqual(given.result()["outcome"], "enough")
        self.assertEqual(belongs, [given.id] * 2)

    def test_an_agent_that_is_closed_tells_who_delegated(self) -> None:
        worker = self.agent(desk, "worker", delegate=lambda work: work.cancelled.wait(PATIENCE))
        given = self.client(laptop).delegate("desk", "for ever")
        worker.close()
        with self.assertRaises(acpd.NoAgent):
            given.result(timeout=PATIENCE)

    def test_a_result_that_is_on_its_way_arrives(self) -> None:
        """An agent is closed while it reports: the result counts, and nothing is left open under its name."""
        ended = threading.Event()
        refused = {"error": {"code": -32000, "message": "later", "data": {"code": "overloaded", "message": "later", "retryable": True}}}
        answers: list[dict[str, Any]] = [{"result": {"key": "ab"}}, {}, refused, {"result": {"state": "held"}}]

        def answer(message: dict[str, Any]) -> dict[str, Any]:
            if message.get("method") == "result":
                ended.set()
                time.sleep(0.2)
            return answers.pop(0)

        fake = self.fake(answer)
        with acpd.Client(fake.socket) as client:
            agent = client.attach("worker", delegate=lambda work: "done")
            fake.say("delegate", {"task": "x"})
            self.assertTrue(ended.wait(PATIENCE))
            agent.close()
        sent = [m["params"] for m in fake.calls if m.get("method") == "result"]
        self.assertEqual([m["payload"]["outcome"] for m in sent], ["done", "done"])
        self.assertEqual(len({m["id"] for m in sent}), 1)
        self.assertNotIn("rpc.cancel", [m.get("method") for m in fake.calls])

    def test_the_result_comes_to_who_delegated(self) -> None:
        got: list[acpd.Message] = []
        self.agent(desk, "worker", delegate=lambda work: "done")
        self.addCleanup(laptop.detached, "planner")
        client = self.client(laptop)
        client.attach("planner", result=got.append)
        given = client.delegate("desk", "the tests")
        until("the result is there", lambda: got)
        self.assertEqual((got[0].payload["outcome"], got[0].delegation and got[0].delegation["id"]), ("done", given.id))


class TestMessages(Case):
    def test_handed(self) -> None:
        got: list[acpd.Message] = []
        self.agent(desk, "watcher", notify=got.append, topics=["build.done"])
        receipt = self.client(laptop).notify("desk", "build.done", {"commit": "4f2a"})
        self.assertEqual(receipt["state"], "handed")
        self.assertEqual(got[0].payload, {"topic": "build.done", "data": {"commit": "4f2a"}})

    def test_the_inbox(self) -> None:
        client = self.client(laptop)
        for n in range(5):
            self.assertEqual(client.notify("desk", "held", n)["state"], "held")
        several = client.notify(["desk", "nobody"], "held", 5)
        self.assertEqual([several[0].get("state"), several[1]["error"]["code"]], ["held", "unknown_peer"])
        reader = self.client(desk)
        with self.assertRaises(acpd.NotAuthorized):
            reader.inbox()
        reader.attach("reader", query=lambda q: "")
        page = reader.inbox(limit=2, kinds=["notify"], peers=["laptop"])
        self.assertEqual(len(page["messages"]), 2)
        self.assertTrue(page["next"])
        held = list(reader.messages(kinds=["notify"]))
        self.assertEqual([m["envelope"]["payload"]["data"] for m in held], list(range(6)))
        self.assertEqual(reader.ack(*held), 6)
        self.assertEqual(list(reader.messages(kinds=["notify"])), [])

    def test_an_id_that_two_peers_have_drawn(self) -> None:
        held: list[Any] = [{"seq": n, "envelope": {"id": "x", "from": peer}} for n, peer in enumerate(["desk", "laptop"])]
        fake = self.fake(lambda message: {"result": {"removed": 1}})
        with acpd.Client(fake.socket) as client:
            self.assertEqual((client.ack(held[0]), client.ack("x", held[1], "y"), client.ack()), (1, 2, 0))
        self.assertEqual(
            [m["params"] for m in fake.calls],
            [{"ids": ["x"], "peers": ["desk"]}, {"ids": ["x", "y"], "peers": []}, {"ids": ["x"], "peers": ["laptop"]}],
        )

    def test_chains_end(self) -> None:
        """Agents that ask each other for ever are stopped, though their handlers name no parent."""
        seen: list[int] = []
        one, two = self.client(desk), self.client(laptop)

        def ask_back(client: acpd.Client, peer: str) -> Any:
            def answer(question: acpd.Question) -> str:
                seen.append(question.envelope.get("hops", 0))
                return client.query(peer, "and you?")["payload"]["summary"]

            return answer

        one.attach("one", query=ask_back(one, "laptop"), max_concurrent=50)
        two.attach("two", query=ask_back(two, "desk"), max_concurrent=50)
        with self.assertRaises(acpd.LoopDetected):
            self.client(laptop).query("desk", "who?")
        self.assertEqual(seen, list(range(17)))

    def test_nobody_works_for_somebody_who_has_gone(self) -> None:
        """A handler that asks another agent does so for its caller alone, though it names no parent and cannot be stopped."""
        self.addCleanup(desk.detached, "lead")
        lead, ended = self.client(desk), queue.Queue[Any]()

        def work(question: acpd.Question) -> str:
            ended.put(question.deadline)
            ended.put(question.cancelled.wait(PATIENCE))
            return ""

        def ask(question: acpd.Question) -> str:
            try:
                lead.query("laptop/builder", "how?", deadline=240)
            except acpd.Error as e:
                ended.put(e)
            return ""

        self.agent(laptop, "builder", query=work)
        lead.attach("lead", query=ask)
        with self.assertRaises(acpd.Timeout):
            self.client(laptop).query("desk/lead", "what?", deadline=5)
        self.assertLessEqual(ended.get(timeout=PATIENCE), 5)
        rest = [ended.get(timeout=PATIENCE) for _ in range(2)]
        self.assertIn(True, rest)
        (error,) = [e for e in rest if isinstance(e, acpd.Error)]
        self.assertIsInstance(error, acpd.Cancelled)
        self.assertIn("the request that this follows from ended", str(error))

    def test_a_parent_that_is_forgotten(self) -> None:
        """What a handler's task sends long after it follows from nothing that is known."""
        self.agent(desk, "reviewer", query=lambda q: str(q.envelope.get("hops", 0)))
        forgotten = contextvars.copy_context()
        forgotten.run(PARENT.set, str(uuid.uuid4()))
        self.assertEqual(forgotten.run(self.client(laptop).query, "desk", "who?")["payload"], {"summary": "0"})

    def test_names_and_keys(self) -> None:
        agent = self.agent(desk, "reviewer", query=lambda q: "first")
        with self.assertRaises(acpd.Invalid):
            self.agent(desk, "reviewer", query=lambda q: "")
        self.assertEqual(len(agent.key), 64)
        agent.close()
        self.agent(desk, "reviewer", query=lambda q: "second", key=agent.key)
        self.assertEqual(self.client(laptop).query("desk", "who?")["payload"]["summary"], "second")

    def test_a_command_of_serve_speaks_as_its_agent(self) -> None:
        agent = self.agent(desk, "reviewer", query=lambda q: "")
        self.assertEqual(self.client(laptop).notify("desk/reviewer", "for it", 1)["state"], "held")
        environment = {"ACP_SOCKET": desk.socket, "ACP_AGENT": "reviewer", "ACP_AGENT_KEY": agent.key, "ACP_ID": str(uuid.uuid4())}
        with patch.dict(os.environ, environment), acpd.Client() as client:
            self.assertEqual(client.ack(*client.messages(kinds=["notify"])), 1)
            with self.assertRaises(acpd.NotFound):  # the parent that ACP_ID names
                client.query("laptop", "x")


class TestFiles(Case):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path

    def allow(self) -> None:
        """Says yes to all files of desk, as the owner of laptop."""
        waiting = until("a file waits for the owner", lambda: laptop.call("approvals")["approvals"])
        laptop.call("approvals.decide", {"id": waiting[0]["id"], "answer": "always"})

    def test_file_arrives(self) -> None:
        content = os.urandom(300_000)
        path = self.write("build.log", content)
        owner = threading.Thread(target=self.allow)
        owner.start()
        sender = self.client(desk)
        sent = sender.send_file("laptop", path, text="the log")
        owner.join()
        self.assertEqual(sent["state"], "held")
        self.assertTrue(sender.send_file("laptop", path, text="the log", id=sent["id"])["had"])

        self.agent(laptop, "fixer")
        taker = acpd.Client(laptop.home + "/acp.sock")
        self.addCleanup(taker.close)
        came = [f for f in taker.files(peers=["desk"]) if f["id"] == sent["id"]][0]
        self.assertEqual((came["name"], came["size"], came["text"], came["state"]), ("build.log", len(content), "the log", "here"))
        there = self.folder / "there"
        there.mkdir()
        saved = taker.take_file(sent["id"], there)
        self.assertEqual((saved, saved.read_bytes(), saved.stat().st_mode & 0o777), (there / "build.log", content, 0o600))
        with self.assertRaises(FileExistsError):
            taker.take_file(sent["id"], saved)

        with self.assertRaises(acpd.UnknownPeer) as failed:
            sender.send_file("nobody", path, id=sent["id"])
        self.assertEqual(failed.exception.id, sent["id"])

        # An agent takes what is for it, and another does not find it.
        sent = sender.send_file("laptop/reviewer", self.write("x", b""))
        with self.client(laptop).attach("reviewer") as reviewer:
            self.assertEqual(reviewer._client.take_file(sent["id"], self.folder / "y").read_bytes(), b"")
        with self.assertRaises(acpd.NotFound), self.client(laptop).attach("planner") as planner:
            planner._client.take_file(sent["id"], self.folder / "z")

    def test_file_that_changes_while_it_is_hashed(self) -> None:
        self.assertEqual(hash_beginning(io.BytesIO(b"abcd"), 3, threading.Event()), hashlib.sha256(b"abc").hexdigest())
        with self.assertRaises(acpd.Invalid):
            hash_beginning(io.BytesIO(b"ab"), 3, threading.Event())
        ended = threading.Event()
        ended.set()
        with self.assertRaises(EOFError):
            hash_beginning(io.BytesIO(b"abc"), 3, ended)

    def test_what_has_no_size(self) -> None:
        os.mkfifo(self.folder / "fifo")
        in_proc = ["/proc/self/status"] if sys.platform == "linux" else []
        for path in (str(self.folder / "fifo"), "/dev/zero", *in_proc):
            with self.assertRaisesRegex(acpd.Invalid, "known size"):
                self.client(desk).send_file("laptop", path)
        with self.assertRaises(IsADirectoryError):
            self.client(desk).send_file("laptop", self.folder)

    def test_transfer_that_breaks(self) -> None:
        fake = self.fake(lambda message: {"result": {"name": "n", "size": 3, "sha256": "0" * 64} if message["method"] == "file.take" else {}})
        client = acpd.Client(fake.socket)
        self.addCleanup(client.close)

        def follow(*said: bytes) -> None:
            """Has what the fake daemon answers followed by this, and by the end."""
            def serve(connection: socket.socket) -> None:
                with connection, connection.makefile("rb") as calls:
                    message = json.loads(calls.readline())
                    answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], **(fake.answer(message) or {})}).encode() + b"\n"
                    connection.sendall(answer + b"".join(said))

            fake.serve = serve  # type: ignore[method-assign]

        path = self.write("n", b"abc")
        follow()
        with self.assertRaises(acpd.DaemonUnavailable):
            client.send_file("laptop", path)
        follow(b'{"range":[0,3],"moved":0}\n', b'{"error":{"code":"not_authorized","message":"no"}}\n')
        with self.assertRaises(acpd.NotAuthorized):
            client.send_file("laptop", path)
        follow(b'{"range":[1,3],"moved":0}\n')
        with self.assertRaises(acpd.Invalid):
            client.send_file("laptop", path)
        for content, error in ((b"ab", acpd.DaemonUnavailable), (b"abc", acpd.Internal)):
            follow(content)
            with self.assertRaises(error):
                client.take_file(str(uuid.uuid4()), self.folder / "new")
            self.assertFalse((self.folder / "new").exists())

    def test_transfers_leave_threads_to_others(self) -> None:
        fake = self.fake(lambda message: {"result": {}} if message["method"] == "file.send" else {})
        path, many = self.write("n", b"abc"), 40  # asyncio has 32 threads at most

        async def run() -> None:
            async with acpd.AsyncClient(fake.socket) as client:
                sendings = [asyncio.create_task(client.send_file("laptop", path)) for _ in range(many)]
                async with asyncio.timeout(PATIENCE):
                    while len(fake.calls) < many:
                        await asyncio.sleep(0.01)
                    self.assertEqual(await asyncio.to_thread(lambda: 1), 1)
                sendings[0].cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await sendings[0]
                await client.close()
                for failed in await asyncio.gather(*sendings[1:], return_exceptions=True):
                    self.assertIsInstance(failed, acpd.DaemonUnavailable)

        asyncio.run(run())

    def test_cancelled_transfer_leaves_nothing(self) -> None:
        fake = self.fake(lambda message: {"result": {"name": "n", "size": 3, "sha256": "0" * 64}})
        new = self.folder / "new"

        async def run() -> None:
            async with acpd.AsyncClient(fake.socket) as client:
                taking = asyncio.create_task(client.take_file(str(uuid.uuid4()), new))
                while not new.exists():
                    await asyncio.sleep(0.01)
                taking.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await taking
                self.assertFalse(new.exists())

        asyncio.run(run())


class TestRestarts(Case):
    def test_a_call_under_way_is_never_repeated(self) -> None:
        fake = self.fake(lambda message: None)
        with acpd.Client(fake.socket) as client, self.assertRaises(acpd.DaemonUnavailable) as caught:
            client.query("desk", "Which schema?")
        self.assertEqual((caught.exception.delivered, caught.exception.retryable), ("unknown", True))
        self.assertEqual([(m["method"], m["params"]["id"]) for m in fake.calls], [("query", caught.exception.id)])

    def test_a_connection_that_ended_is_renewed(self) -> None:
        fake = self.fake(lambda message: {"result": {"name": "desk"}})
        with acpd.Client(fake.socket) as client:
            for n in range(1, 4):
                client.whoami()
                self.assertEqual((fake.connections, len(fake.calls)), (n, n))
                connection = client._async._connection
                fake.drop()
                until("the client sees it", lambda: connection and connection.ended)

    def test_a_daemon_that_is_silent(self) -> None:
        fake = self.fake(lambda message: {})
        with acpd.Client(fake.socket, patience=0.1) as client:
            with self.assertRaises(acpd.DaemonUnavailable) as caught:
                client.whoami()
            self.assertEqual(caught.exception.delivered, "unknown")
            with self.assertRaises(acpd.DaemonUnavailable):
                client.delegation(str(uuid.uuid4())).result()
            until("all is given up", lambda: len(fake.calls) == 6)
        self.assertEqual([m["method"] for m in fake.calls], ["whoami", "rpc.cancel", "wait", "whoami", "rpc.cancel", "rpc.cancel"])

    def test_a_daemon_that_says_nonsense(self) -> None:
        fake = self.fake(lambda message: {"result": {}})
        with acpd.Client(fake.socket) as client:
            client.whoami()
            fake.open[0].sendall(b'{"id": 1, "result"\n')
            connection = client._async._connection
            until("the connection has ended", lambda: connection and connection.ended)
            client.whoami()
            fake.open[1].sendall(b'[1]\n"x"\n{}\n{"id": 99, "result": {}}\n{"method": "rpc.cancel"}\n')
            client.whoami()
        self.assertEqual(fake.connections, 2)

    def test_a_number_that_python_does_not_read(self) -> None:
        long = b"9" * 5000
        fake = self.fake(lambda message: {"result": {}} if message.get("method") == "whoami" else {})
        with acpd.Client(fake.socket) as client:
            client.whoami()
            connection = fake.open[-1]
            connection.sendall(b'{"id": 7, "method": "query", "params": {"payload": {"question": ' + long + b"}}}\n")
            until("the request is refused", lambda: any(m.get("id") == 7 and m["error"]["data"]["code"] == "invalid" for m in fake.calls))
            caught: list[Exception] = []

            def call() -> None:
                try:
                    client.call("wait")
                except acpd.Error as e:
                    caught.append(e)

            waiting = threading.Thread(target=call)
            waiting.start()
            until("it waits", lambda: fake.calls[-1].get("method") == "wait")
            connection.sendall(b'{"id": %d, "result": [%s]}\n' % (fake.calls[-1]["id"], long))
            waiting.join(PATIENCE)
            self.assertIsInstance(caught[0], acpd.Invalid)
            client.whoami()
            self.assertEqual(fake.connections, 1)

    def test_lines_with_other_types(self) -> None:
        fake = self.fake(lambda message: {"result": {}} if message["method"] == "whoami" else {})
        lines = (b'{"id": 2, "error": "no"}', b'{"method": "rpc.cancel", "params": [1]}', b'{"id": {}, "method": "query"}', b"[" * 100_000)
        with acpd.Client(fake.socket) as client, self.assertNoLogs("asyncio", "ERROR"):
            for line in lines:
                client.whoami()
                connection = client._async._connection
                waiting = threading.Thread(target=lambda: self.assertRaises(acpd.DaemonUnavailable, client.call, "wait"))
                waiting.start()
                until("it waits", lambda: fake.calls[-1]["method"] == "wait")
                fake.open[-1].sendall(line + b"\n")
                waiting.join(PATIENCE)
                self.assertTrue(connection and connection.ended)
            client.close()
            gc.collect()

    def test_a_daemon_that_reads_nothing(self) -> None:
        async def run() -> None:
            with socket.socket(socket.AF_UNIX) as listener, tempfile.TemporaryDirectory() as folder:
                listener.bind(f"{folder}/acp.sock")
                listener.listen()
                async with acpd.AsyncClient(f"{folder}/acp.sock", patience=0.2) as client:
                    large = "x" * (1 << 20)
                    got = await asyncio.gather(*(client.notify("desk", "x", large) for _ in range(20)), return_exceptions=True)
                    self.assertEqual([getattr(e, "delivered", e) for e in got], ["unknown"] + ["no"] * 19)

        asyncio.run(run())

    def test_no_repeat_when_a_daemon_is_killed(self) -> None:
        asked: list[str] = []
        release = threading.Event()

        def answer(question: acpd.Question) -> str:
            asked.append(question.question)
            release.wait(PATIENCE)
            return "at last"

        self.agent(desk, "reviewer", query=answer)
        client, caught = self.client(laptop), []

        def ask() -> None:
            try:
                client.query("desk", "once")
            except acpd.DaemonUnavailable as e:
                caught.append(e)

        asking = threading.Thread(target=ask)
        asking.start()
        until("the question is there", lambda: asked)
        laptop.restart()
        asking.join()
        self.assertEqual([e.delivered for e in caught], ["unknown"])
        laptop.connected(desk)
        self.assertEqual(client.whoami()["name"], "laptop")
        self.assertEqual(asked, ["once"])
        release.set()
        self.assertEqual(client.query("desk", "once", id=caught[0].id)["payload"]["summary"], "at last")

    def test_an_agent_comes_back(self) -> None:
        agent = self.agent(desk, "reviewer", query=lambda q: "here")
        key = agent.key
        for _ in range(2):
            desk.restart()
            desk.attached("reviewer")
            self.assertEqual(agent.key, key)
            client = self.client(laptop)
            try:
                answer = client.query("desk", "who?")
            except acpd.Unreachable as e:  # laptop has not noticed the restart yet
                answer = client.query("desk", "who?", id=e.id)
            self.assertEqual(answer["payload"]["summary"], "here")

    def test_what_is_kept_is_sent_when_the_peer_is_back(self) -> None:
        client = self.client(laptop)
        client.attach("keeper")  # what is kept is the agent's
        desk.process.terminate()
        desk.process.wait(PATIENCE)
        until("desk has gone", lambda: all(p["state"] != "connected" for p in laptop.call("peers")["peers"]))
        with self.assertRaises(acpd.Kept) as told:
            client.notify("desk", "build.done", "late", keep=600)
        kept = told.exception.kept
        self.assertEqual(kept and kept["id"], told.exception.id)
        self.assertEqual(told.exception.delivered, "no")
        self.assertNotIn(desk.listen, str(told.exception) + str(kept))  # agents hear of no addresses
        self.assertIn(str(kept and kept["until"])[:16], str(told.exception))
        with self.assertRaises(acpd.Kept) as withdrawn:
            client.query("desk", "Never?", keep=600)
        never = client.delegation(withdrawn.exception.id)
        self.assertEqual(never.status()["state"], "kept")
        self.assertTrue(never.cancel())
        with self.assertRaises(acpd.Cancelled):
            never.result()
        desk.start()
        self.assertIn(client.delegation(told.exception.id).result(timeout=PATIENCE)["outcome"], ("held", "handed"))

    def test_delegations_outlive_restarts(self) -> None:
        begun, release = threading.Event(), threading.Event()
        runs: list[str] = []

        def work(work: acpd.Work) -> str:
            runs.append(work.id)
            begun.set()
            release.wait(PATIENCE)
            return "done"

        self.agent(desk, "worker", delegate=work)
        self.addCleanup(laptop.detached, "planner")
        client, guest = self.client(laptop), self.client(laptop)
        client.attach("planner", query=lambda q: "")
        given, lost = client.delegate("desk", "the tests"), guest.delegate("desk", "more tests")
        self.assertTrue(begun.wait(PATIENCE))
        got: list[Any] = []
        waiting = threading.Thread(target=lambda: got.append(given.result()))
        waiting.start()
        laptop.restart()
        with self.assertRaisesRegex(acpd.NotFound, "attach"):  # it called as nobody, and nobody comes back
            lost.result()
        desk.kill()
        release.set()  # the work ends while its daemon is away
        time.sleep(0.1)
        desk.start()
        waiting.join(PATIENCE)
        self.assertEqual([r["outcome"] for r in got], ["done"])
        self.assertEqual(sorted(runs), sorted([given.id, lost.id]))

    def test_waiting_for_a_daemon_ends(self) -> None:
        fake = self.fake(lambda message: None)
        with acpd.Client(fake.socket, reconnect=0.3) as client:
            fake.answer = lambda message: fake.vanish()
            began = time.monotonic()
            with self.assertRaises(acpd.DaemonUnavailable):
                client.delegation(str(uuid.uuid4())).result()
            self.assertTrue(0.3 <= time.monotonic() - began < PATIENCE)
        self.assertEqual([m["method"] for m in fake.calls], ["wait"])

    def test_an_agent_that_may_not_come_back(self) -> None:
        refused = {"error": {"code": -32000, "message": "no", "data": {"code": "invalid", "message": "no", "retryable": False}}}
        answers: list[dict[str, Any]] = [{"result": {"key": "ab"}}, refused]
        fake = self.fake(lambda message: answers.pop(0))
        with acpd.Client(fake.socket) as client:
            agent = client.attach("reviewer", query=lambda q: "")
            fake.drop()
            with self.assertRaises(acpd.Invalid):
                agent.wait()
        self.assertEqual([m["params"].get("key") for m in fake.calls], [None, "ab"])

    def test_a_stopped_daemon(self) -> None:
        client = self.client(laptop, patience=0.5)
        client.whoami()
        laptop.process.send_signal(signal.SIGSTOP)
        os.waitpid(laptop.process.pid, os.WUNTRACED)
        try:
            with self.assertRaises(acpd.DaemonUnavailable):
                client.whoami()
        finally:
            laptop.process.send_signal(signal.SIGCONT)
        until("the daemon answers again", lambda: answers(client))

    def test_a_client_that_is_closed_ends_its_calls(self) -> None:
        async def run() -> None:
            fake = self.fake(lambda message: {})
            client = acpd.AsyncClient(fake.socket)
            waiting = asyncio.create_task(client.delegation(str(uuid.uuid4())).result())
            await asyncio.to_thread(until, "it waits", lambda: fake.calls)
            await client.close()
            with self.assertRaisesRegex(acpd.DaemonUnavailable, "client was closed"):
                await asyncio.wait_for(waiting, PATIENCE)
            self.assertEqual(fake.connections, 1)

        asyncio.run(run())

    def test_an_iterator_of_a_client_that_is_closed(self) -> None:
        page = {"result": {"tasks": [{"id": "1"}, {"id": "2"}], "next": 0}}
        client = acpd.Client(self.fake(lambda message: page).socket)
        tasks = client.tasks()
        self.assertEqual(next(tasks)["id"], "1")
        client.close()
        before = threading.active_count()
        with self.assertRaisesRegex(acpd.DaemonUnavailable, "the client was closed"):
            next(tasks)
        self.assertEqual(threading.active_count(), before)  # no other connection is opened for it

    def test_threads_that_call_while_another_one_closes(self) -> None:
        fake = self.fake(lambda message: {"result": {}})
        client, done, wrong = acpd.Client(fake.socket), threading.Event(), []

        def call() -> None:
            while not done.is_set():
                try:
                    client.whoami()
                except acpd.DaemonUnavailable:
                    pass
                except BaseException as e:
                    wrong.append(e)

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(50):
            client.close()
        done.set()
        for thread in threads:
            thread.join(PATIENCE)
            self.assertFalse(thread.is_alive())
        client.close()
        self.assertEqual(wrong, [])

    def test_waiting_for_the_end_of_an_agent_may_be_cancelled(self) -> None:
        async def run() -> None:
            fake = self.fake(lambda message: {"result": {"key": "ab"}})
            async with acpd.AsyncClient(fake.socket) as client:
                agent = await client.attach("reviewer")
                waiting = asyncio.create_task(agent.wait())
                await asyncio.sleep(0)
                assert agent._keeping
                agent._keeping.cancel()
                waiting.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiting

        asyncio.run(run())

    def test_a_connection_that_is_closed_at_once(self) -> None:
        async def run() -> None:
            async def handler(method: str, params: dict[str, Any]) -> None: ...

            fake = self.fake(lambda message: {"result": {}})
            connection = await Connection.open(fake.socket, handler)
            call = asyncio.create_task(connection.call("whoami", None))
            await asyncio.sleep(0)
            closing = asyncio.create_task(connection.close())
            await asyncio.sleep(0)
            self.assertTrue(connection.ended)
            self.assertTrue(connection._writer.transport.is_closing())
            await closing
            with self.assertRaises(acpd.DaemonUnavailable):
                await call

        asyncio.run(run())

    def test_a_connection_that_has_not_begun_to_read(self) -> None:
        async def run() -> None:
            async def handler(method: str, params: dict[str, Any]) -> None: ...

            fake = self.fake(lambda message: {"result": {}})
            connection = await Connection.open(fake.socket, handler)
            closing = asyncio.create_task(connection.close())
            await asyncio.sleep(0)
            self.assertTrue(connection.ended and connection._writer.transport.is_closing())
            await closing

        asyncio.run(run())

    def test_what_is_no_time_to_wait(self) -> None:
        for none in (-1, float("nan"), float("inf")):
            with self.assertRaisesRegex(acpd.Invalid, "seconds: give a number") as caught:
                self.client(laptop).query("desk", "What?", deadline=none)
            self.assertEqual(caught.exception.delivered, "no")

    def test_a_client_that_was_closed_connects_again(self) -> None:
        client = self.client(laptop)
        for _ in range(3):
            self.assertEqual(client.whoami()["name"], "laptop")
            client.close()
        client.close()


def answers(client: acpd.Client) -> Optional[acpd.types.Whoami]:
    try:
        return client.whoami()
    except acpd.DaemonUnavailable:
        return None


if __name__ == "__main__":
    unittest.main()
