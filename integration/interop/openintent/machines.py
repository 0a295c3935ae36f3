"""Does one thing with the published SDK: python machines.py VERB URL AGENT ARGUMENTS… Results go to standard output, one a line."""

import asyncio
import sys
import threading
import time

from openintent import AsyncOpenIntentClient, OpenIntentClient
from openintent.exceptions import OpenIntentError

verb, url, agent, *args = sys.argv[1:]
client = OpenIntentClient(url, "any", agent)


def create(title: str, name: str) -> None:
    intent = client.create_intent(title)
    print(intent.id, client.create_channel(intent.id, name, options={"audit": True})["id"])


def echo(intent: str) -> None:
    """Answers every request with its payload, until it is ended."""
    client.list_channels(intent)
    for event in client.subscribe_sse(intent):
        if event.type == "channel_message" and event.data["message_type"] == "request" and event.data["to"] == agent:
            client.reply_to(event.data["channel_id"], event.data["id"], agent, {"echo": event.data["payload"]})


def ask(channel: str, to: str, count: str, timeout: str) -> None:
    """Asks so often at once, from threads, and again from one loop; each gets its own answer."""
    end = time.monotonic() + int(timeout)
    while True:  # until the other one follows: its stream begins with what comes then
        try:
            client.ask(channel, agent, to, {}, timeout=1)
            break
        except (TimeoutError, OpenIntentError):
            assert time.monotonic() < end, f"{to} never answers"
            time.sleep(0.1)
    answers: list = [None] * int(count)

    def one(n: int) -> None:
        answers[n] = OpenIntentClient(url, "any", agent).ask(channel, agent, to, {"n": n}, timeout=int(timeout))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(int(count))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [a["payload"] for a in answers] == [{"echo": {"n": n}} for n in range(int(count))], answers

    async def all_of_them() -> list:
        async with AsyncOpenIntentClient(url, "any", agent) as other:
            return await asyncio.gather(*[other.ask(channel, agent, to, {"n": n}, timeout=int(timeout)) for n in range(int(count))])

    assert [a["payload"]["echo"]["n"] for a in asyncio.run(all_of_them())] == list(range(int(count)))


def fail(channel: str, to: str) -> None:
    """Asks what nobody can answer."""
    try:
        client.ask(channel, agent, to, {}, timeout=1)
    except (TimeoutError, OpenIntentError) as e:
        print(type(e).__name__, getattr(e, "status_code", ""))


def send(channel: str, first: str, last: str) -> None:
    for n in range(int(first), int(last) + 1):
        print(client.send_message(channel, agent, message_type="notify", payload={"n": n})["status"])


def numbers(channel: str) -> None:
    """Prints what send has sent, as it is listed here."""
    for m in client.list_messages(channel):
        if m["message_type"] == "notify":
            print(m["payload"]["n"], m["status"])


def lifecycle(channel: str) -> None:
    """Reads what is there, answers it and closes the channel."""
    got = client.get_channel(channel)
    assert got["status"] == "open" and got["created_by"] == agent, got
    m = client.send_message(channel, agent, payload={"n": -1})
    assert client.get_message(channel, m["id"]) == m
    client.close_channel(channel)


{f.__name__: f for f in (create, echo, ask, fail, send, numbers, lifecycle)}[verb](*args)
