"""How soon the playground answers while an object is dragged, as a ratio to the detector's own time per image.

    python benchmarks/playground.py [--detector zoo:yolox ...] [--data rooms:val,count=24] [--drags 6] [--steps 25]

Each drag is done twice, in turns: the detector is called on its edited pictures by itself, and the app is asked over
HTTP about others just beside them. Printed are the medians in milliseconds and their ratio (wanted: at most 1.3; on a
machine that is busy with other things it is larger, since an answer has to wake two threads). Then a drag that asks
four times as fast as the detector answers: how many questions were computed, how many dropped, and how long after the
last of them its answer came, in the detector's own times (the one it is at, and its own).
"""

import json
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from statistics import median
from threading import Thread

import uvicorn
from _measuring import Parser
from starlette.applications import Starlette

from misdetect.app.playground import Playground
from misdetect.detectors import load_detector

WANTED = 1.3


@contextmanager
def served(playground):
    """The port of ``playground``."""
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=playground.routes()), port=0, log_level="error"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        playground.close()
        server.should_exit = True
        thread.join()


class Person:
    """Asks over a connection of its own."""

    def __init__(self, port: int, name: str = "somebody") -> None:
        self._connection, self._name = HTTPConnection("127.0.0.1", port), name

    def ask(self, edit) -> tuple[dict, float]:
        """The answer, and the seconds that it took."""
        body = json.dumps({"client": self._name, "edit": edit})
        started = time.perf_counter()
        self._connection.request("POST", "/playground/api/ask", body, {"Content-Type": "application/json"})
        found = json.loads(self._connection.getresponse().read())
        return found, time.perf_counter() - started


def path(table, photo: int, thing: int, steps: int):
    """The edits of one drag, from the top left to the bottom right."""
    sample = table.photo(photo)
    width, height = table.pool[thing].size
    shrink = min(1.0, 0.4 * sample.width / width, 0.4 * sample.height / height)
    width, height = max(4, int(width * shrink)), max(4, int(height * shrink))
    for i in range(steps):
        share = i / (steps - 1)
        x, y = int(share * (sample.width - width)), int(share * (sample.height - height))
        yield {"photo": photo, "object": thing, "x": x, "y": y, "width": width, "height": height}


def alone(table, pixels) -> float:
    """Seconds of the detector by itself."""
    started = time.perf_counter()
    table.detector.detect([pixels])
    return time.perf_counter() - started


def answers(table, port: int, drags: int, steps: int) -> dict:
    """Medians of the detector's own time and of an answer's."""
    person = Person(port)
    timed: dict[str, list[float]] = {"own": [], "told": []}
    for drag in range(drags):
        edits = list(path(table, drag % len(table.data), drag % table.objects, 2 * steps))
        person.ask(edits[0])  # looks at the photo too
        pixels = [table.bench.picture(table.insertion(edit)).render() for edit in edits]
        rounds = [
            ("own", [lambda drawn=drawn: alone(table, drawn) for drawn in pixels[::2]]),
            ("told", [lambda edit=edit: person.ask(edit)[1] for edit in edits[1::2]]),
        ]
        for name, calls in rounds if drag % 2 else reversed(rounds):
            timed[name] += [call() for call in calls][2:]  # after warming up
    own, told = timed["own"], timed["told"]
    return {
        "own_ms": round(1e3 * median(own), 2),
        "answer_ms": round(1e3 * median(told), 2),
        "ratio": round(median(told) / median(own), 3),
        "answers": len(told),
    }


def flood(table, port: int, own: float, steps: int) -> dict:
    """A drag that does not wait for answers; ``own`` is the detector's time per image in seconds."""
    found: dict[int, tuple[dict, float]] = {}
    edits = list(path(table, len(table.data) - 1, table.objects - 1, steps))
    people = [Person(port) for _ in edits]
    people[0].ask(edits[0])

    def ask(i: int) -> None:
        found[i] = people[i].ask(edits[i])

    threads = [Thread(target=ask, args=(i,)) for i in range(1, steps)]
    for thread in threads:
        thread.start()
        time.sleep(own / 4)
    for thread in threads:
        thread.join()
    dropped = sum("stale" in answer for answer, _ in found.values())
    return {
        "asked": len(found),
        "computed": len(found) - dropped,
        "dropped": dropped,
        "last_answered": "stale" not in found[steps - 1][0],
        "last_ratio": round(found[steps - 1][1] / own, 2),
    }


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--detector", nargs="+", default=["zoo:yolox", "zoo:faster-rcnn"], short=["zoo:yolox"])
    parser.add_argument("--data", default="rooms:val,count=24")
    parser.add_argument("--drags", type=int, default=10, short=1)
    parser.add_argument("--steps", type=int, default=25, short=4)
    arguments = parser.parse_args()
    for spec in arguments.detector:
        playground = Playground(load_detector(spec), arguments.data)
        with served(playground) as port:
            timed = answers(playground.table, port, arguments.drags, arguments.steps)
            dragged = flood(playground.table, port, timed["own_ms"] / 1e3, 2 * arguments.steps)
        print(json.dumps({"detector": spec, **timed, "wanted": WANTED, "drag": dragged}))


if __name__ == "__main__":
    main()
