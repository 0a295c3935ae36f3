#!/usr/bin/env python3
"""Gives an agent a task, prints how far it is, and then the result: delegate.py PEER TASK

It exits with 1 unless the task is completed.
"""

import json
import os
import socket
import sys
import uuid

if len(sys.argv) != 3:
    raise SystemExit("usage: delegate.py PEER TASK")
peer, task = sys.argv[1:]
path = os.environ.get("ACP_SOCKET", os.path.expanduser("~/.acp/agent/acp.sock"))
connection = socket.socket(socket.AF_UNIX)
if error := connection.connect_ex(path):
    raise SystemExit(f"no daemon at {path}: {os.strerror(error)}: start acpd, or set ACP_SOCKET to its agent/acp.sock")
lines = connection.makefile("rb")


def show(text):
    return "".join(c if c.isprintable() else " " for c in text)  # without what would steer a terminal


def call(method, **params):
    connection.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
    line = lines.readline()
    if not line:
        raise SystemExit(f"{method}: the daemon went away before it answered: whether it took effect is unknown")
    answer = json.loads(line)
    if "error" in answer:
        raise SystemExit(show(answer["error"]["message"]))
    return answer["result"]


id = str(uuid.uuid4())  # a call that is repeated with the same id gives the task once
ack = call("delegate", id=id, to=peer, payload={"task": task})["payload"]
if not ack["accepted"]:
    raise SystemExit("refused: " + show(ack.get("message", "")))
seen = 0
while True:
    status = call("wait", id=id, after_partials=seen)
    if status["state"] in ("completed", "failed", "cancelled", "expired", "refused"):
        print(f"{status['state']}: {show(status['outcome'])}")
        sys.exit(status["state"] != "completed")
    print(f"progress: {show(status['partial']['outcome'])}", flush=True)
    seen = status["partials"]
