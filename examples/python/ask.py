#!/usr/bin/env python3
"""Asks several agents the same question at the same time, and prints their answers: ask.py QUESTION PEER…

It exits with 1 if any of them failed.
"""

import json
import os
import socket
import sys
import uuid

if len(sys.argv) < 3:
    raise SystemExit("usage: ask.py QUESTION PEER…")
question, peers = sys.argv[1], sys.argv[2:]
path = os.environ.get("ACP_SOCKET", os.path.expanduser("~/.acp/agent/acp.sock"))
connection = socket.socket(socket.AF_UNIX)
if error := connection.connect_ex(path):
    raise SystemExit(f"no daemon at {path}: {os.strerror(error)}: start acpd, or set ACP_SOCKET to its agent/acp.sock")
lines = connection.makefile("rb")
for number, peer in enumerate(peers):  # all are on their way before the first answer comes
    params = {"to": peer, "id": str(uuid.uuid4()), "payload": {"question": question, "deadline_ms": 60_000}}
    connection.sendall(json.dumps({"jsonrpc": "2.0", "id": number, "method": "query", "params": params}).encode() + b"\n")
said = {}
failed = False
while len(said) < len(peers):
    line = lines.readline()
    if not line:
        raise SystemExit("the daemon went away: whether the peers have answered is unknown")
    message = json.loads(line)
    if "error" in message:
        failed = True
        data = message["error"].get("data", {})
        said[message["id"]] = f"{message['error']['message']} ({data.get('code')})"  # the message says what to do
    else:
        said[message["id"]] = message["result"]["payload"]["summary"]
for number, peer in enumerate(peers):
    print(f"{peer}: {''.join(c if c.isprintable() else ' ' for c in said[number])}")  # without what would steer a terminal
sys.exit(failed)
