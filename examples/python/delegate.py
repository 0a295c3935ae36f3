#!/usr/bin/env python3
"""Gives an agent a task, prints its progress, and then the result: delegate.py PEER TASK

It exits with 1 unless the task is completed.
"""

import sys

import acpd

if len(sys.argv) != 3:
    raise SystemExit("usage: delegate.py PEER TASK")
peer, task = sys.argv[1:]


def show(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)  # without what would steer a terminal


try:
    with acpd.Client() as daemon:
        given = daemon.delegate(peer, task)
        for part in given.progress():
            print(f"progress: {show(part['outcome'])}", flush=True)
        print("completed: " + show(given.result()["outcome"]))
except acpd.Error as e:  # of the daemon, or how the task has ended
    raise SystemExit(show(e.message))
