"""Times the published SDK against the server at URL, and prints milliseconds as JSON."""

import json
import sys
import threading
import time

import httpx
from openintent import OpenIntentClient

url, key, posts, asks = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
planner = OpenIntentClient(url, key, "planner")
intent = planner.create_intent("bench").id
talk, log = (planner.create_channel(intent, name)["id"] for name in ("talk", "log"))


def answer():
    """Answers requests as soon as a list shows them. acpd holds the list until there is one."""
    reviewer = OpenIntentClient(url, key, "reviewer")
    lists = httpx.Client(base_url=url, headers={"X-API-Key": key, "X-Agent-ID": "reviewer"}, timeout=60)
    query = {"to": "reviewer", "wait": "30"}
    while True:
        began = time.monotonic()
        for m in lists.get(f"/api/v1/channels/{talk}/messages", params=query).json():
            query["since"] = m["id"]
            reviewer.reply_to(talk, m["id"], "reviewer", {"answer": 1})
        time.sleep(max(0, 0.002 - (time.monotonic() - began)))  # for one that does not hold it


threading.Thread(target=answer, daemon=True).start()


def timed(n, call):
    call()
    took = []
    for _ in range(n):
        began = time.perf_counter()
        call()
        took.append((time.perf_counter() - began) * 1000)
    return took


post = timed(posts, lambda: planner.send_message(log, "planner", payload={"progress": 1}))
ask = timed(asks, lambda: planner.ask(talk, "planner", "reviewer", {"question": 1}, timeout=10))
print(json.dumps({"post": post, "ask": ask}))
