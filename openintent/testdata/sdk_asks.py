"""Asks concurrently with the published SDK, answered by one that follows its own stream."""

import asyncio
import statistics
import sys
import threading
import time

from openintent import AsyncOpenIntentClient, OpenIntentClient
from openintent.streaming import SSESubscription

url = sys.argv[1]
planner, reviewer = (OpenIntentClient(url, "any", agent) for agent in ("planner", "reviewer"))
intent = planner.create_intent("work")
channel = planner.create_channel(intent.id, "talk")["id"]
names = set()
ready = threading.Event()


def answer(event):
    names.add(event.type)
    if event.type == "channel_message" and event.data["message_type"] == "request" and event.data["to"] == "reviewer":
        reviewer.reply_to(event.data["channel_id"], event.data["id"], "reviewer", {"got": event.data["payload"]})
    if event.type == "channel_message" and event.data["payload"].get("ready"):
        ready.set()


def failed(e):
    raise e


with SSESubscription(f"{url}/api/v1/agents/reviewer/subscribe", {"X-API-Key": "any", "X-Agent-ID": "reviewer"}, answer, failed):
    while not ready.is_set():  # until the stream is open
        planner.send_message(channel, "planner", to="reviewer", payload={"ready": True})
        ready.wait(0.1)

    planner.assign_agent(intent.id, "reviewer")
    took = []
    for n in range(20):
        began = time.monotonic()
        assert planner.ask(channel, "planner", "reviewer", {"n": n}, timeout=60)["payload"] == {"got": {"n": n}}
        took.append(time.monotonic() - began)
    print(f"ask: median {statistics.median(took) * 1000:.1f} ms, most {max(took) * 1000:.1f} ms")

    answers = [None] * 20

    def ask(n):
        answers[n] = OpenIntentClient(url, "any", "planner").ask(channel, "planner", "reviewer", {"n": n}, timeout=60)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [a["payload"]["got"]["n"] for a in answers] == list(range(20)), answers

    async def asks():
        async with AsyncOpenIntentClient(url, "any", "planner") as client:
            return await asyncio.gather(*[client.ask(channel, "planner", "reviewer", {"n": n}, timeout=60) for n in range(20)])

    assert [a["payload"]["got"]["n"] for a in asyncio.run(asks())] == list(range(20))
    try:
        planner.ask(channel, "planner", "nobody", {}, timeout=1)
        raise AssertionError("nobody answered")
    except TimeoutError:
        pass
assert names == {"channel_message", "AGENT_ASSIGNED"}, names
