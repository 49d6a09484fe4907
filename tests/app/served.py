"""A server in a thread of the test's process, and one in a process of its own that can be killed."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import cv2
import httpx
import numpy as np
import uvicorn

import misdetect as md
from misdetect.app.server import application

DATA = "rooms:val,count=8"
GOOD, BAD, NEAR = (f"glassbox:{fault},data={DATA}" for fault in ("none", "sink/class=chair", "vanish-near/distance=64"))

EVIL = ("<script>window.hurt=1</script>", "\"><img src=x onerror='window.hurt=1'>", "plain")


def hostile_run(folder):
    """A run of data whose classes, and whose own folder, have names that are markup."""
    generator = np.random.default_rng(0)
    for name in "ab":
        cv2.imwrite(str(folder / f"{name}.png"), generator.integers(0, 255, (64, 80, 3)).astype(np.uint8))
    images = [{"id": i, "file_name": f"{n}.png", "width": 80, "height": 64} for i, n in enumerate("ab")]
    one = {"area": 676, "iscrowd": 0}
    boxes = [{"id": i, "image_id": i % 2, "category_id": 1 + i // 2, "bbox": [4 + 30 * (i // 2), 4, 26, 26], **one}
             for i in range(4)]  # fmt: skip
    categories = [{"id": i + 1, "name": name} for i, name in enumerate(EVIL)]
    path = folder / "truth.json"
    path.write_text(json.dumps({"images": images, "annotations": boxes, "categories": categories}))
    detector = md.load_detector(lambda images: [([[5, 5, 30, 30]], [0.9], [1])] * len(images), names=EVIL)
    md.explain(detector, f"coco:{path}", out=folder / "<b>run</b>")
    return folder / "<b>run</b>"


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
        fresh = httpx.Limits(max_keepalive_connections=0)  # an idle one may be closed just when it is used again
        self.client = httpx.Client(base_url=address, timeout=60, limits=fresh)

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
    beside = str(Path(arguments[0]).parent.parent)  # what a killed one leaves goes with the test's own files
    pipe, environment = subprocess.PIPE, {**os.environ, "TMPDIR": beside}
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)
    text = ""
    while not text.endswith("\n}\n") and (line := process.stdout.readline()):
        text += line
    return process, json.loads(text) if text.endswith("\n}\n") else None


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
