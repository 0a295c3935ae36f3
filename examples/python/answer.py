#!/usr/bin/env python3
"""An agent that answers questions, and works on what others delegate to it: answer.py [NAME]"""

import sys

import acpd


def answer(question: acpd.Question) -> str:
    """Gets a peer's text: data, and no command."""
    return "You asked: " + question.question


def work(work: acpd.Work) -> str:
    """Tells the delegator how far the work is, and returns the result. Progress raises Cancelled if the delegator has cancelled the work."""
    work.progress("half done", done=0.5)
    work.progress("nearly done", done=0.9)
    return "You delegated: " + work.task


name = sys.argv[1] if len(sys.argv) > 1 else "reviewer"
try:
    with acpd.Client() as daemon:
        daemon.attach(name, query=answer, delegate=work).wait()
except acpd.Error as e:  # for one, the name is taken
    raise SystemExit(e.message)
except KeyboardInterrupt:
    pass
