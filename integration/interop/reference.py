"""The reference tool in one process: a JSON request a line, a JSON answer a line.

The commands run as from a shell, with their arguments, output and exit codes; "load" is
the loader that every one of them reads messages with, and "render" their writer.
Text that may be anything travels as base64.
"""

import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

import oacp

sys.path.insert(0, os.path.join(os.path.dirname(oacp.__file__), "_scripts"))

import send_inbox_message
import validate_message


def command(main, args):
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["oacp", *args]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main()
        except SystemExit as stop:
            code = stop.code
    return {"exit": code, "stdout": out.getvalue(), "stderr": err.getvalue()}


def on_file(data, run):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "message.yaml")
        path.write_bytes(base64.b64decode(data))
        return run(str(path))


def load(text):
    """The fields, or why there are none."""
    try:
        return {"fields": validate_message._load_message(base64.b64decode(text).decode("utf-8"))}
    except Exception as error:
        return {"error": str(error)}


def validate(request):
    result = on_file(request["data"], lambda path: command(validate_message.main, [path]))
    return {"exit": result["exit"]}


def render(request):
    """What the writer makes of fields, and what the loader makes of that."""
    text = send_inbox_message.render_yaml(json.loads(base64.b64decode(request["fields"]))).encode("utf-8")
    data = base64.b64encode(text).decode("ascii")
    return {"data": data, **load(data)}


OPERATIONS = {
    "validate": validate,
    "load": lambda request: load(request["data"]),
    "render": render,
    "send": lambda request: command(send_inbox_message.main, request["args"]),
}

for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps(OPERATIONS[request["op"]](request)), flush=True)
