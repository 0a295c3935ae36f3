"""Does what desk.go wants, with the package of python/acpd: scenario.py NAME"""

import json
import sys

import acpd

name = sys.argv[1]
daemon = acpd.Client()
agent = daemon.attach(name, query=lambda q: f"{name} was asked by {q.peer}: {q.question}")

print("who:", daemon.whoami()["name"])
print("answer:", daemon.query("desk/echo", 'é "1" 😀')["payload"]["summary"])
answers = daemon.query_all(["desk/echo"] * 3, "0")
print("answers:", ", ".join(a["payload"]["summary"] if isinstance(a, dict) else repr(a) for a in answers))
for to, question in ("nobody", "x"), ("desk/nobody", "x"), ("desk/echo", "busy"), ("desk/echo", ""):
    try:
        daemon.query(to, question)
    except acpd.Error as e:
        print("error:", e.code, json.dumps(e.retryable), int((e.retry_after or 0) * 1000))
print("back:", daemon.query("desk/echo", "ask " + name)["payload"]["summary"])

given = daemon.delegate("desk", "steps")
for part in given.progress():
    print("progress:", part["outcome"], part["progress"])
    daemon.notify("desk", "next", given.id)
result = given.result()
print("result:", result["status"], result["outcome"], json.dumps(result["data"], separators=(",", ":")))
for task in "fail", "refuse me":
    given = daemon.delegate("desk", task)
    try:
        given.result()
    except acpd.Error as e:
        print("failed:", given.status()["state"], e.code, e.message)
given = daemon.delegate("desk", "for ever")
print("cancelled:", json.dumps(given.cancel()), given.status()["state"])

receipts = daemon.notify(["desk", "nobody"], "nobody.takes.it")
print("receipts:", receipts[0]["state"], receipts[1]["error"]["code"])
daemon.query("desk/echo", "write " + name)
messages = list(daemon.messages(kinds=["notify"]))
print("inbox:", len(messages), json.dumps(messages[0].get("agent") == name), messages[0]["envelope"]["payload"]["topic"])
print("removed:", daemon.ack(messages[0]))
daemon.close()
