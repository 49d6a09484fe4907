"""A real server on the loopback whose answers, and faults, a test scripts.

It decodes the image it is sent and derives its answer from the pixels, so a test knows what each image's answer must
be without asking the code under test, whatever order, retries or threads were involved.
"""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from misdetect.detectors.http.endpoint import HttpDetector, load_http
from misdetect.nouns.detections import Detections
from misdetect.nouns.spec import Spec

NAMES = ["cat", "dog", "bird"]


def picture(value: int, width: int = 40, height: int = 30) -> Any:
    """An image of one colour; the colour is the server's answer."""
    return np.full((height, width, 3), (value, 255 - value, 7), dtype=np.uint8)


def seen(body: bytes) -> tuple[int, int, int]:
    """What the server sees: the red of the first pixel, the width and the height."""
    image = cv2.imdecode(np.frombuffer(body, dtype=np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1]
    assert image[0, 0, 1] == 255 - image[0, 0, 0], "red and blue are swapped, or the image was compressed"
    return int(image[0, 0, 0]), image.shape[1], image.shape[0]


def honest(body: bytes) -> Any:
    red, width, height = seen(body)
    return {"detections": [{"box": [1, 2, width, height], "score": red / 255, "label": NAMES[red % 3]}]}


def expected(value: int, width: int = 40, height: int = 30) -> Detections:
    return Detections(np.array([[1.0, 2, width, height]]), np.array([value / 255]), np.array([value % 3]))


class Server:
    """A server that answers request number ``n`` (from 0) by ``script(handler, n, body)``."""

    def __init__(self) -> None:
        self.script: Callable[[Any, int, bytes], None] = lambda handler, n, body: handler.reply(honest(body))
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.times: list[float] = []
        self.busy = self.most_busy = 0
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            counted = False

            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(length)
                if len(body) < length:  # its sender was killed while sending: nothing that could be answered
                    self.close_connection = True
                    return
                with outer.lock:
                    n = len(outer.requests)
                    outer.requests.append((self.command, self.path, dict(self.headers), body))
                    outer.times.append(time.monotonic())
                    outer.busy += 1
                    self.counted = True
                    outer.most_busy = max(outer.most_busy, outer.busy)
                try:
                    outer.script(self, n, body)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True
                finally:
                    self.no_longer_busy()

            def no_longer_busy(self) -> None:
                with outer.lock:
                    outer.busy -= self.counted
                    self.counted = False

            do_GET = do_POST = handle_any

            def reply(self, document: Any, status: int = 200, length: int | None = None, **headers: str) -> None:
                raw = document if isinstance(document, bytes) else json.dumps(document).encode()
                self.no_longer_busy()  # before the answer is on its way, or the next request overtakes the count
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(raw) if length is None else length))
                self.end_headers()
                self.wfile.write(raw)

            def hang_up(self) -> None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

            def log_message(self, *_: Any) -> None:
                pass

        class Loopback(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_: Any) -> None:
                pass

        self.http = Loopback(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/detect"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()


@contextmanager
def running_server() -> Iterator[Server]:
    """A server, reached directly whatever proxy this machine is set up to use."""
    running = Server()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            patch.delenv(name, raising=False)
        yield running
    running.stop()


@contextmanager
def detectors_of(server: Server, folder: Path) -> Iterator[Callable[..., HttpDetector]]:
    """A function that makes detectors of ``server`` by their further options; they are closed in the end."""
    made: list[HttpDetector] = []
    (folder / "names.txt").write_text("\n".join(NAMES))

    def build(options: str = "", url: str = "") -> HttpDetector:
        made.append(load_http(Spec.parse(f"{url or server.url},names={folder / 'names.txt'},backoff=0.01{options}")))
        return made[-1]

    yield build
    for detector in made:
        detector.close()
