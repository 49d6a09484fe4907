"""A server in a thread of the test's process, and one in a process of its own that can be killed."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx
import uvicorn

from misdetect.app.server import application

DATA = "rooms:val,count=8"
GOOD, BAD, NEAR = (f"glassbox:{fault},data={DATA}" for fault in ("none", "sink/class=chair", "vanish-near/distance=64"))


@contextmanager
def serving(runs, **how):
    """The address of an application over ``runs``."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(application(runs, **how), log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)


class Asked:
    """Questions to the server at ``address``, as its page asks them."""

    def __init__(self, address):
        self.client = httpx.Client(base_url=address, timeout=60)

    def rows(self, wanted, offset=0, limit=60):
        return self.json("/api/rows", filter=json.dumps(wanted), offset=offset, limit=limit)

    def all_rows(self, wanted):
        first = self.rows(wanted, 0, 200)
        rows = first["rows"]
        while len(rows) < first["total"]:
            rows += self.rows(wanted, len(rows), 200)["rows"]
        return rows

    def facets(self, wanted):
        return self.json("/api/facets", filter=json.dumps(wanted))["facets"]

    def json(self, path, **parameters):
        answer = self.client.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()


def start(*arguments):
    """``misdetect serve`` in a process of its own, and what it printed when it was ready."""
    command = [sys.executable, "-c", "from misdetect.cli import main; main()", "serve", *map(str, arguments), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ})
    text = ""
    while not text.endswith("\n}\n") and (line := process.stdout.readline()):
        text += line
    return process, json.loads(text) if text.endswith("\n}\n") else None


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
