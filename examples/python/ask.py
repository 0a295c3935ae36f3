#!/usr/bin/env python3
"""Asks several agents the same question at the same time, and prints their answers: ask.py QUESTION PEER…

It exits with 1 if any of them failed.
"""

import sys

import acpd

if len(sys.argv) < 3:
    raise SystemExit("usage: ask.py QUESTION PEER…")
question, peers = sys.argv[1], sys.argv[2:]
failed = False
try:
    with acpd.Client() as daemon:
        daemon.whoami()
        answers = daemon.query_all(peers, question, deadline=60)
except acpd.DaemonUnavailable as e:
    raise SystemExit(e.message)
for peer, answer in zip(peers, answers):
    if isinstance(answer, acpd.Error):
        failed = True
        said = str(answer)  # it says what to do
    else:
        said = answer["payload"]["summary"]
    print(f"{peer}: {''.join(c if c.isprintable() else ' ' for c in said)}")  # without what would steer a terminal
sys.exit(failed)
