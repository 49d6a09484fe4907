"""Serve any misdetect detector over HTTP, to try the ``http://`` detector or to lend a detector to another program.

    python examples/serve_detector.py zoo:yolox 8000
    misdetect detect --detector http://127.0.0.1:8000 --data rooms:val --json

``GET`` answers the class names, ``POST`` of an image file its detections (the ``misdetect`` format of docs/http.md).
For trying things out: it listens on this machine only, asks for no password and works on one image at a time.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

import cv2
import numpy as np

from misdetect.detectors import load_detector


def server(spec: Any, port: int) -> ThreadingHTTPServer:
    """A server of the detector ``spec`` on 127.0.0.1; start it with ``serve_forever()``."""
    detector: Any = load_detector(spec)
    lock = Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self.answer(200, {"names": list(detector.names)})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            image = cv2.imdecode(np.frombuffer(body, np.uint8), cv2.IMREAD_COLOR) if body else None
            if image is None:
                return self.answer(400, {"error": "Expected an image file as the body."})
            with lock:
                (found,) = detector.detect([np.ascontiguousarray(image[:, :, ::-1])])
            rows = zip(found.boxes.tolist(), found.scores.tolist(), found.labels.tolist(), strict=True)
            hits = [{"box": box, "score": score, "label": detector.names[label]} for box, score, label in rows]
            return self.answer(200, {"detections": hits})

        def answer(self, status: int, document: Any) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    server(sys.argv[1], int(sys.argv[2])).serve_forever()
