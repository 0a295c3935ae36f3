"""Stands between an agent and a daemon, and holds each line against docs/local-api.json.

local_api_check.py DESCRIPTION DAEMON AGENT: DAEMON is the daemon's socket, AGENT the one that it
makes for agents. It ends when its standard input does, and prints which methods it has seen.
Its exit code is 1 if a line was not as the description says.
"""

import json
import os
import socket
import sys
import threading

import jsonschema

description = json.load(open(sys.argv[1]))
calls = {m["name"]: m for m in description["methods"]}
agent_calls = {m["name"]: m for m in description["x-agent-methods"]}
seen, wrong = set(), []


def check(schema, value, what):
    validator = jsonschema.Draft7Validator({**schema, "components": description["components"]})
    for error in validator.iter_errors(value):
        wrong.append(f"{what}: {error.message[:200]} at {list(error.absolute_path)}")


def carry(source, target, methods, own, others):
    """Carries lines from source to target. own has the calls that source has made, others those of target."""
    for line in source.makefile("rb"):
        message = json.loads(line)
        method = message.get("method")
        if method == "rpc.cancel":
            pass
        elif method is not None:
            own[message["id"]] = method
            if method not in methods:
                wrong.append(f"{method}: not described")
            elif "x-params" in methods[method]:
                check(methods[method]["x-params"], message.get("params", {}), f"params of {method}")
        elif "error" in message:
            check({"$ref": "#/components/schemas/ErrorData"}, message["error"].get("data"), f"error of {others[message['id']][0]}")
        else:
            name, called = others[message["id"]]
            seen.add(name)
            check(called["result"]["schema"], message["result"], f"result of {name}")
        target.sendall(line)
    target.shutdown(socket.SHUT_RDWR)


class Calls(dict):
    """Calls under way, by their ids: what was called, and how it is described."""

    def __init__(self, methods, prefix):
        self.methods, self.prefix = methods, prefix

    def __setitem__(self, id, method):
        super().__setitem__(id, (self.prefix + method, self.methods[method]))


def serve(agent):
    daemon = socket.socket(socket.AF_UNIX)
    daemon.connect(sys.argv[2])
    from_agent, from_daemon = Calls(calls, ""), Calls(agent_calls, "agent: ")
    threading.Thread(target=carry, args=(agent, daemon, calls, from_agent, from_daemon), daemon=True).start()
    carry(daemon, agent, agent_calls, from_daemon, from_agent)


for schema in description["components"]["schemas"].values():
    jsonschema.Draft7Validator.check_schema(schema)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[3] + ".new")
listener.listen()
os.rename(sys.argv[3] + ".new", sys.argv[3])  # who sees it may connect


def accept():
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


threading.Thread(target=accept, daemon=True).start()
sys.stdin.read()
print("\n".join(sorted(seen)))
for one in wrong:
    print(one, file=sys.stderr)
sys.exit(bool(wrong))
