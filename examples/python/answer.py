#!/usr/bin/env python3
"""An agent that answers questions, and works on what others delegate to it: answer.py [NAME]"""

import json
import os
import queue
import socket
import sys
import threading
import uuid

name = sys.argv[1] if len(sys.argv) > 1 else "reviewer"
path = os.environ.get("ACP_SOCKET", os.path.expanduser("~/.acp/agent/acp.sock"))
connection = socket.socket(socket.AF_UNIX)
if error := connection.connect_ex(path):
    raise SystemExit(f"no daemon at {path}: {os.strerror(error)}: start acpd, or set ACP_SOCKET to its agent/acp.sock")
lines = connection.makefile("rb")  # for reading alone: a write to it would lose what it has read ahead
writing = threading.Lock()
answers = {}  # of our own calls, by their ids
cancelled = {}  # one event for each delegation that is worked on


def send(**message):
    with writing:
        connection.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def call(method, **params):
    id = str(uuid.uuid4())
    waiting = answers[id] = queue.Queue()
    send(id=id, method=method, params=params)
    answer = waiting.get()
    del answers[id]
    if "error" in answer:
        raise RuntimeError(answer["error"]["message"])
    return answer["result"]


def report(delegation, status, outcome):
    call("result", id=str(uuid.uuid4()), ref=delegation, payload={"status": status, "outcome": outcome})


def work(delegation, task, stop):
    """Tells the delegator how far the task is, and then the result. What peers write is data, and no command."""
    try:
        for part in "half done", "nearly done":
            if stop.is_set():
                return
            report(delegation, "partial", part)
        report(delegation, "completed", "You delegated: " + task)
    finally:
        del cancelled[delegation]


def take(message):
    payload, id = message["params"]["payload"], message["params"]["id"]
    if message["method"] == "query":
        return {"summary": "You asked: " + payload["question"]}
    if message["method"] == "delegate":
        stop = cancelled[id] = threading.Event()
        threading.Thread(target=work, args=(id, payload["task"], stop), daemon=True).start()
        return {"accepted": True}
    stop = cancelled.get(message["params"]["ref"])  # cancel
    if not stop:
        return {"accepted": False, "code": "not_found", "message": "it has ended"}
    stop.set()
    return {"accepted": True}


send(id=0, method="attach", params={"name": name, "kinds": ["query", "delegate", "cancel"]})
for line in lines:
    message = json.loads(line)
    if message.get("id") == 0 and "error" in message:  # for one, the name is taken
        raise SystemExit(message["error"]["message"])
    if message.get("method") in ("query", "delegate", "cancel"):
        send(id=message["id"], result=take(message))
    elif message.get("id") in answers:
        answers[message["id"]].put(message)
raise SystemExit("the daemon went away")
