"""Runs against a daemon: ACP_HOME is its state directory, OPENINTENT_URL its loopback address, where the key "any" is good."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import threading
import time
import unittest
from typing import Any
from unittest.mock import patch

import acp_openintent
import httpx
from acp_openintent import Agent, AsyncClient, BaseAgent, Client, MessageTimeoutError, socket_url
from openintent import on_assignment, on_message
from openintent.exceptions import ConflictError, NotFoundError, OpenIntentError
from openintent.models import EventType, IntentStatus
from openintent.streaming import SSEEvent, SSEEventType

PATIENCE = 120.0


@Agent("reviewer")
class Reviewer:
    """Answers on two channels, and asks itself in between."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    @on_message("questions")
    async def answer(self, message):
        self.seen.append(("answer", message.payload))
        if message.payload.get("wait"):
            await asyncio.sleep(message.payload["wait"])
        return {"got": message.payload}

    @on_message("relay")
    async def relay(self, message):
        tester = await self.channels.open("testers", message.payload["intent"])
        return (await tester.ask("tester", {"from": "reviewer"}))["payload"]

    @on_message()
    def note(self, message):
        self.seen.append(("note", message.payload))

    @on_message("broken")
    def fail(self, message):
        raise RuntimeError("as it should")

    @on_assignment
    async def work(self, intent):
        return {"worked": True}


class Tester(BaseAgent):
    _agent_id = "tester"

    @on_message("testers")
    def answer(self, message):
        return {"tester": message.payload["from"]}


@contextlib.contextmanager
def running(agent):
    """Runs an agent in a thread of its own, until its stream is open."""
    failed: list[BaseException] = []

    def run():
        try:
            agent.run()
        except BaseException as e:  # noqa: BLE001 - for the test to see
            failed.append(e)

    ready = threading.Event()
    handle = agent._handle_event

    async def first(event):
        ready.set()
        await handle(event)

    agent._handle_event = first
    thread = threading.Thread(target=run)
    thread.start()
    try:
        client = agent.client
        while not ready.is_set() and not failed:  # an assignment is an event that every stream shows
            intent = client.create_intent("to see whether the stream is open")
            client.assign_agent(intent.id, agent.agent_id)
            ready.wait(0.2)
        yield failed
    finally:
        agent.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def eventually(holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it never holds"
        time.sleep(0.01)


class OverTheSocket(unittest.TestCase):
    url = ""
    key = ""

    def client(self, agent: str) -> Client:
        client = Client(self.url, self.key, agent)
        self.addCleanup(client.close)
        return client

    def setUp(self) -> None:
        self.planner = self.client("planner")
        self.intent = self.planner.create_intent("work").id

    def channel(self, name: str, **options) -> str:
        return self.planner.create_channel(self.intent, name, **options)["id"]

    def agent(self, kind):
        return kind(self.url or None, self.key or None)

    def test_everything_of_the_sdk(self):
        channel = self.channel("questions")
        request = self.planner.send_message(channel, "planner", to="tester", message_type="request", payload={"n": 1})
        tester = self.client("tester")
        self.assertEqual([m["id"] for m in tester.list_messages(channel)], [request["id"]])
        self.assertEqual(tester.mark_read(channel, request["id"])["status"], "read")
        reply = tester.reply_to(channel, request["id"], "tester", {"n": 2})
        self.assertEqual(self.planner.list_messages(channel, since=request["id"])[0]["id"], reply["id"])
        with self.assertRaises(NotFoundError):
            self.planner.get_channel("nothing")
        with self.assertRaises(ConflictError):
            self.channel("questions")

    def test_messages_reach_their_handlers(self):
        reviewer = self.agent(Reviewer)
        questions, other, broken = self.channel("questions"), self.channel("other"), self.channel("broken")
        with running(reviewer) as failed, self.assertLogs("acp_openintent") as logged:
            answer = self.planner.ask(questions, "planner", "reviewer", {"n": 1}, timeout=PATIENCE)
            self.assertEqual(answer["payload"], {"got": {"n": 1}})
            self.assertEqual(answer["sender"], "reviewer")
            self.planner.send_message(other, "planner", payload={"n": 2})
            self.planner.send_message(broken, "planner", to="reviewer", payload={"n": 3})
            self.planner.send_message(questions, "planner", to="reviewer", payload={"n": 4})  # gets no reply
            eventually(lambda: ("answer", {"n": 4}) in reviewer.seen)
            self.assertNotIn(("answer", {"n": 2}), reviewer.seen)
            self.assertIn(("note", {"n": 2}), reviewer.seen)
            self.assertIn(("note", {"n": 3}), reviewer.seen)
            self.assertEqual(self.planner.list_messages(questions, to="planner"), [answer])
        self.assertEqual(failed, [])
        self.assertIn("as it should", "".join(logged.output))

    def test_the_other_handlers_are_called_too(self):
        with running(self.agent(Reviewer)):
            self.planner.assign_agent(self.intent, "reviewer")
            eventually(lambda: self.planner.get_intent(self.intent).state.data.get("worked"))

    def test_a_handler_that_waits_holds_up_no_other(self):
        channel = self.channel("questions")
        with running(self.agent(Reviewer)):

            async def asks():
                async with AsyncClient(self.url, self.key, "planner") as client:
                    began = time.monotonic()
                    answers = await asyncio.gather(
                        *[client.ask(channel, "planner", "reviewer", {"n": n, "wait": 0.5}, timeout=PATIENCE) for n in range(20)]
                    )
                    return [a["payload"]["got"]["n"] for a in answers], time.monotonic() - began

            got, took = asyncio.run(asks())
            self.assertEqual(got, list(range(20)))
            self.assertLess(took, 5)

    def test_a_handler_can_ask(self):
        relay = self.channel("relay")
        with running(self.agent(Reviewer)), running(self.agent(Tester)):
            self.assertEqual(self.planner.ask(relay, "planner", "reviewer", {"intent": self.intent})["payload"], {"tester": "reviewer"})

    def test_ask_all(self):
        channel = self.channel("questions")
        names = ["tester-1", "tester-2", "tester-3"]
        for name in names:
            self.client(name).register_agent(name, role_id="tester-of-" + self._testMethodName)
        role = "role:tester-of-" + self._testMethodName

        def answer(name):
            client = self.client(name)
            with client.subscribe_channel(channel) as stream:
                for event in stream:
                    if event.type == "channel_message" and event.data["message_type"] == "request":
                        client.reply_to(channel, event.data["id"], name, {"name": name})
                        return
                    opened.append(name)

        opened: list[str] = []
        threads = [threading.Thread(target=answer, args=(name,)) for name in names]
        for t in threads:
            t.start()
        while len(set(opened)) < 3:
            self.planner.send_message(channel, "planner", payload={"hello": True})
            time.sleep(0.05)
        answers = self.planner.ask_all(channel, "planner", role, {}, timeout=PATIENCE)
        self.assertEqual(sorted(a["sender"] for a in answers), names)
        for t in threads:
            t.join(PATIENCE)

        async def later():
            async with AsyncClient(self.url, self.key, "planner") as client:
                await client.ask_all(channel, "planner", role, {}, timeout=0.2)

        with self.assertRaises(MessageTimeoutError) as caught:
            asyncio.run(later())
        self.assertIsInstance(caught.exception, TimeoutError)
        self.assertEqual(caught.exception.responses, [])

    def test_nobody_answers(self):
        channel = self.channel("questions")
        began = time.monotonic()
        with self.assertRaises(MessageTimeoutError):
            self.planner.ask(channel, "planner", "nobody", {}, timeout=0.2)
        self.assertLess(time.monotonic() - began, 30)
        with self.assertRaises(OpenIntentError) as caught:
            self.planner.ask(channel, "planner", "*", {})
        self.assertEqual(caught.exception.status_code, 422)

    def test_channels_are_opened_once(self):
        agents = [self.agent(Reviewer) for _ in range(8)]

        async def opened():
            return {c.channel_id for c in await asyncio.gather(*[a.channels.open("shared", self.intent) for a in agents])}

        self.assertEqual(len(asyncio.run(opened())), 1)
        self.planner.close_channel(self.planner.list_channels(self.intent)[0]["id"])
        closed = self.channel("again")
        httpx_client = self.planner._client
        httpx_client.patch(f"/api/v1/channels/{closed}", json={"status": "closed"}).raise_for_status()

        async def again():
            agent = self.agent(Reviewer)
            channel = await agent.channels.open("again", self.intent)
            await channel.notify("tester", {"n": 1})
            with self.assertRaises(MessageTimeoutError):
                await channel.ask("tester", {}, timeout=0.05)
            with self.assertRaises(MessageTimeoutError):
                await channel.ask_all("tester", {}, timeout=0.05)
            return channel.channel_id

        self.assertNotEqual(asyncio.run(again()), closed)

    def test_the_log_of_an_audited_channel(self):
        channel = self.channel("audited", options={"audit": True})
        self.planner.send_message(channel, "planner", payload={"n": 1})
        (event,) = self.planner.get_events(self.intent, event_type=EventType.CHANNEL_MESSAGE)
        self.assertEqual(event.payload["payload"], {"n": 1})
        self.assertIs(self.planner.get_events(self.intent)[0].event_type, EventType.CHANNEL_MESSAGE)
        self.assertEqual(EventType("channel_message").name, "CHANNEL_MESSAGE")
        self.assertIn(EventType.CHANNEL_MESSAGE, list(EventType))
        self.assertEqual(SSEEventType("ACCESS_REQUESTED"), SSEEventType.ACCESS_REQUESTED)

    def test_streams_go_on_where_they_broke(self):
        channel = self.channel("talk")
        stream = self.client("tester").subscribe_sse(self.intent)
        stream.reconnect_delay = 0.05
        got = []

        def read():
            for event in stream:
                if event.type == "channel_message":
                    got.append(event.data["payload"].get("n"))
                    if len(got) == 3:
                        stream._response.close()  # as a network would
                    if got[-1] == 9:
                        stream.stop()

        thread = threading.Thread(target=read)
        thread.start()
        while not got:
            self.planner.send_message(channel, "planner", payload={"n": 0})
            time.sleep(0.05)
        for n in range(1, 10):
            self.planner.send_message(channel, "planner", payload={"n": n})
        thread.join(PATIENCE)
        self.assertEqual([n for n in got if n], list(range(1, 10)))

    def test_a_stream_that_is_refused_ends(self):
        events = list(self.planner.subscribe_sse("nothing"))
        self.assertEqual([(e.type, e.data["status_code"]) for e in events], [("error", 404)])


class OverTCP(OverTheSocket):
    url = os.environ["OPENINTENT_URL"]
    key = "any"

    def test_an_agent_that_is_refused_ends(self):
        with self.assertRaises(OpenIntentError) as caught:
            Reviewer.run(self.url, "wrong")
        self.assertEqual(caught.exception.status_code, 401)


class Alone(unittest.TestCase):
    def test_the_url_of_the_socket(self):
        with patch.dict(os.environ, {"ACP_HOME": "/desk"}):
            self.assertEqual(socket_url(), "unix:/desk/http.sock")
            self.assertEqual(socket_url("/laptop"), "unix:/laptop/http.sock")
            with self.assertRaises(httpx.ConnectError):
                Client(agent_id="planner").list_intents()
        with patch.dict(os.environ, {"HOME": "/home/planner", "ACP_HOME": ""}):
            self.assertEqual(socket_url(), "unix:/home/planner/.acp/http.sock")
            with patch.dict(os.environ, {"ACP_SOCKET": "~/agent/acp.sock"}):
                self.assertEqual(socket_url(), "unix:/home/planner/agent/http.sock")

    def test_an_agent_speaks_through_its_socket_alone(self):
        with patch.dict(os.environ, {"ACP_HOME": "/desk", "ACP_SOCKET": "/run/acp/acp.sock", "ACP_AGENT": "planner", "ACP_AGENT_KEY": "secret"}):
            self.assertEqual(socket_url(), "unix:/run/acp/http.sock")
            with self.assertRaisesRegex(ValueError, "leave the home out"):
                socket_url("/desk")
            self.assertEqual(Client(agent_id="planner", api_key="any").api_key, "secret")
            self.assertEqual(Client(agent_id="reviewer", api_key="any").api_key, "any")
            self.assertEqual(Client("unix:/desk/http.sock", "any", "planner").api_key, "any")
        for folder in "/desk/agent", "/desk/agent/", "/desk/agent/http.sock":
            with patch.dict(os.environ, {"ACP_SOCKET": folder}), self.assertRaisesRegex(ValueError, "set it to the path of acp.sock"):
                socket_url()
        with patch.dict(os.environ, {"ACP_HOME": "/desk", "ACP_SOCKET": ""}), self.assertRaisesRegex(ValueError, "ACP_SOCKET is empty"):
            socket_url()

    def test_the_owners_socket_is_no_agents(self):
        with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as elsewhere:
            os.mkdir(f"{home}/agent")
            os.symlink(f"{home}/acp.sock", f"{elsewhere}/acp.sock")
            for path in home, elsewhere:
                with patch.dict(os.environ, {"ACP_SOCKET": f"{path}/acp.sock"}), self.assertRaisesRegex(ValueError, "names the owner's socket"):
                    socket_url()
            with patch.dict(os.environ, {"ACP_SOCKET": f"{home}/agent/acp.sock"}):
                self.assertEqual(socket_url(), f"unix:{home}/agent/http.sock")

    def test_extending_twice_changes_nothing(self):
        before = list(EventType)
        acp_openintent._enums.extend()
        self.assertEqual(list(EventType), before)

    def test_completion_is_an_intent_status(self):  # the enumerations of the SDK are otherwise as they were
        self.assertEqual(IntentStatus("completed"), IntentStatus.COMPLETED)
        with self.assertRaises(ValueError):
            EventType("nothing")
        self.assertEqual(SSEEvent.from_raw("channel_message", "{}").type, SSEEventType.CHANNEL_MESSAGE)


if __name__ == "__main__":
    unittest.main()
