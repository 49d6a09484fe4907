"""What breaks first: what a case costs the parent, where it saturates, and how long a large run takes to open.

Workers are simulated: they sleep by a clock that only the parent's own computing and waiting moves forward, so a
thousand of them need no machine. Everything that the parent does is real: planning, the conversation (what crosses a
pipe is pickled), taking down, parts and their compaction. Then fresh processes open the run and query it.

    python benchmarks/scale.py [--cases 300000] [--workers 1 8 64 256 1000] [--seconds 0.05]
    python benchmarks/scale.py --cases 10000000 --workers 1000       # minutes
    python benchmarks/scale.py --before --cases 10000000             # reads only: as older versions wrote, compacted
"""

import heapq
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _measuring import Parser, memory_kb

from misdetect import engine
from misdetect.engine.requests import Case, Finished
from misdetect.engine.store import Run
from misdetect.studies.detect.study import DetectStudy

NAMES = tuple(f"class {i}" for i in range(20))
SEND_EVERY = 0.02
"""Seconds for which a worker gathers finished cases, as real ones do."""
READS = {
    "md.open and its cases": "run = md.open(folder); assert len(run.directory.done()) == run.directory.cases",
    "misdetect show": "main(['show', folder])",
    "ledger --sql, a count per class": "main(['ledger', folder, '--sql', "
    "'SELECT label, count(*), avg(score) FROM ledger GROUP BY label'])",
    "query of one case": "md.open(folder).query(f'SELECT * FROM rows WHERE case_index = {cases // 2}')",
}
_READ = """
import contextlib, io, json, resource, sys, time
import misdetect as md
from misdetect.cli import main as command
def main(line):
    sys.argv = ["misdetect", *line]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        command()
def step(folder, cases):
    {step}
folder, cases, small = sys.argv[1], int(sys.argv[2]), sys.argv[3]
step(small, 1)  # what is imported is not counted
before, start, cpu = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter(), time.process_time()
step(folder, cases)
took, cpu = time.perf_counter() - start, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({{"seconds": round(took, 2), "cpu_seconds": round(cpu, 2), "mb": round((peak - before) / 1024)}}))
"""


@dataclass
class Images:
    """Data that is nothing but a number of images."""

    count: int
    spec: str = "toy:"
    fingerprint: str = "toy"
    names: tuple[str, ...] = NAMES

    def __len__(self) -> int:
        return self.count


@dataclass
class Sleeping:
    """As many cases as wanted, with a row each."""

    count: int
    name: str = "detect"
    schema: pa.Schema = DetectStudy.schema

    @property
    def data(self) -> Images:
        return Images(self.count)

    def settings(self) -> dict[str, Any]:
        return {}

    def __len__(self) -> int:
        return self.count

    def cases(self) -> Iterator[Case]:
        return (Case(i, f"image-{i:08d}.jpg") for i in range(self.count))


class Nobody:
    """A detector that is never asked."""

    names, fingerprint, spec = NAMES, "toy", "toy:"


def row(case: Case) -> dict[str, Any]:
    """What a worker finds."""
    place, label = float(case.index % 97), NAMES[case.index % len(NAMES)]
    box = {"x0": place, "y0": place, "x1": place + 30.0, "y1": place + 20.0}
    return {"image": case.id, "label": label, "score": place / 97, **box, "mask": None}


class Clock:
    """Seconds of computing, between looks at the process's own: that is dear to look at, and other processes come
    between."""

    def __init__(self) -> None:
        self._wall, self._cpu, self._share = time.perf_counter(), time.process_time(), 1.0

    def __call__(self) -> float:
        wall = time.perf_counter()
        if wall - self._wall > _LOOK:
            cpu = time.process_time()
            self._share = min(1.0, max(0.05, (cpu - self._cpu) / (wall - self._wall)))
            self._wall, self._cpu = wall, max(cpu, self._cpu)
        return self._cpu + (wall - self._wall) * self._share


_LOOK = 0.1
CLOCK = Clock()


@dataclass
class Costs:
    """Seconds of the parent by what it does; ``worker`` are those of simulated workers, which are not its own."""

    planning: float = 0.0
    taking_down: float = 0.0
    writing: float = 0.0
    worker: float = 0.0
    idle: float = 0.0
    began: float = field(default_factory=CLOCK)

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        start = CLOCK()
        try:
            yield
        finally:
            setattr(self, what, getattr(self, what) + CLOCK() - start)

    @property
    def parent(self) -> float:
        return CLOCK() - self.began - self.worker

    @property
    def now(self) -> float:
        """The clock by which workers sleep."""
        return self.parent + self.idle


def simulated(workers: int, seconds: float, costs: Costs) -> Any:
    """A backend of ``workers`` that take ``seconds`` for a case."""
    from misdetect.engine.backend import Asking
    from misdetect.engine.conversation import Conversation, Seat

    class Sleeper(Seat):
        """A worker that sleeps; ``due`` is when it has something to say."""

        def __init__(self) -> None:
            super().__init__()
            self.cases: list[Case] = []
            self.free = self.due = costs.now
            self.loaded = False

        def send(self, cases: list[Case]) -> None:
            data = pickle.dumps(cases)
            with costs.of("worker"):
                self.cases += pickle.loads(data)  # noqa: S301 - its own
                self.free = max(self.free, costs.now) if not self.cases[: -len(cases) or None] else self.free
                if self.due == float("inf") or not cases:
                    self.due = max(costs.now, self.free) + (seconds if cases else 0)
                    heapq.heappush(waiting, (self.due, id(self), self))

        def hear(self) -> Sequence[Any]:
            with costs.of("worker"):
                said = [pickle.dumps(message) for message in self.said()]
            return [pickle.loads(each) for each in said]  # noqa: S301 - its own

        def said(self) -> Iterator[tuple[str, Any]]:
            if not self.loaded:
                self.loaded, self.due = True, float("inf")
                yield "hungry", 1
                return
            done = min(len(self.cases), int((costs.now - self.free) / seconds + 1e-6))
            finished = [Finished(case, [row(case)]) for case in self.cases[:done]]
            self.cases, self.free = self.cases[done:], self.free + done * seconds
            if finished:
                yield "cases", finished
            if self.cases:
                self.due = max(self.free + seconds, costs.now + SEND_EVERY)
                heapq.heappush(waiting, (self.due, id(self), self))
            elif self.closed:
                yield "end", ({}, False, ())
            else:
                self.due = float("inf")
                yield "hungry", 1

        def gone(self) -> None:
            return None

        def end(self) -> None:
            pass

    class Simulated(Conversation):
        def _start(self, study: Any) -> Sleeper:
            with costs.of("worker"):
                made = Sleeper()
                heapq.heappush(waiting, (made.due, id(made), made))
                return made

        def _ready(self, seats: Any, patience: float) -> Any:
            with costs.of("worker"):
                if waiting and waiting[0][0] > costs.now:
                    costs.idle += waiting[0][0] - costs.now
                ready = {}
                while waiting and waiting[0][0] <= costs.now + 1e-9:
                    due, _, seat = heapq.heappop(waiting)
                    if seat.due == due:
                        ready[id(seat)] = seat
                return list(ready.values())

    waiting: list[tuple[float, int, Any]] = []
    return Simulated(workers, Nobody, Asking(cached=False))


def campaign(folder: Path, cases: int, workers: int, seconds: float) -> dict[str, Any]:
    """Run ``cases`` with ``workers`` into ``folder``; what it cost."""
    costs = Costs()
    study = Sleeping(cases)
    planned, add, flush = study.cases, Run.add, Run.flush

    def planning() -> Iterable[Case]:
        source = planned()
        while True:
            with costs.of("planning"):
                case = next(source, None)
            if case is None:
                return
            yield case

    def adding(run: Run, *args: Any, **more: Any) -> None:
        with costs.of("taking_down"):
            add(run, *args, **more)

    def flushing(run: Run) -> None:
        with costs.of("writing"):
            flush(run)

    study.cases = planning  # type: ignore[method-assign, assignment]
    Run.add, Run.flush = adding, flushing  # type: ignore[method-assign]
    backend, engine._backend = engine._backend, lambda *how: simulated(workers, seconds, costs)  # type: ignore[assignment]
    before, memory = _megabytes(), {}

    def watch(done: int, total: int, counts: Any) -> None:
        if done % max(1, total // 20) == 0:
            memory[done] = round(_megabytes() - before)

    try:
        outcome = engine.run_study(study, Nobody(), folder, make_detector=Nobody, workers=workers, progress=watch)
    finally:
        Run.add, Run.flush, engine._backend = add, flush, backend  # type: ignore[method-assign]
    assert outcome.done == cases
    mine, each = costs.parent, 1e6 / cases
    took = mine + costs.idle
    return {
        "workers": workers,
        "cases per second": round(cases / took),
        "asked for": round(workers / seconds),
        "parent idle": round(costs.idle / took, 3),
        "us per case": {
            "planning": round(costs.planning * each, 2),
            "queue": round((mine - costs.planning - costs.taking_down) * each, 2),
            "taking down": round((costs.taking_down - costs.writing) * each, 2),
            "writing": round(costs.writing * each, 2),
            "all": round(mine * each, 2),
        },
        "mb after so many cases": memory,
        **kept(folder),
    }


def _megabytes() -> float:
    """What this process holds in memory now."""
    return memory_kb("VmRSS") / 1024


def kept(folder: Path) -> dict[str, int]:
    parts = list((folder / "parts").glob("part-*.parquet"))
    return {"parts": len(parts), "bytes": sum(part.stat().st_size for part in parts)}


def pipes(workers: int) -> float:
    """Milliseconds to wait for so many pipes, of which a tenth has something to say: once per round of the parent."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * workers + 64)), hard))
    lines = [Pipe() for _ in range(workers)]
    for _, theirs in lines[:: max(1, workers // 10)]:
        theirs.send(None)
    start, rounds = time.process_time(), 20
    for _ in range(rounds):
        wait([ours for ours, _ in lines], timeout=1)
    took = time.process_time() - start
    for pair in lines:
        for end in pair:
            end.close()
    return round(1000 * took / rounds, 2)


def as_before(folder: Path, cases: int, size: int = 4096) -> dict[str, int]:
    """A run as older versions left it: a part per 4,096 rows, which lists each case by itself."""
    study = Sleeping(cases)
    identity = engine.identity(study.name, {}, Nobody(), study.data)
    run = Run.start(folder, identity, study.schema, command=[], versions={}, detector_settings={})
    run.note(cases=cases, view={})
    schema, number = run._schema, run.about["id"]
    run.close()
    assert schema is not None
    (folder / "parts").mkdir(exist_ok=True)
    for at, first in enumerate(range(0, cases, size), start=1):
        index = np.arange(first, min(cases, first + size))
        place = (index % 97).astype(np.float64)
        own = {
            "case_index": index,
            "row": np.zeros(len(index), np.int32),
            "label": [NAMES[i % len(NAMES)] for i in index.tolist()],
            "case": (called := [f"image-{i:08d}.jpg" for i in index.tolist()]),
            "image": called,
            "score": place / 97,
            "x0": place,
            "y0": place,
            "x1": place + 30.0,
            "y1": place + 20.0,
        }
        columns = [own.get(name, pa.nulls(len(index), pa.string())) for name in schema.names]
        said = {"run": number, "part": str(at), "cases": json.dumps(index.tolist()), "failed": "[]"}
        table = pa.table(columns, schema=schema)
        sink = pa.BufferOutputStream()
        footer = {f"misdetect.{key}": value for key, value in said.items()}
        pq.write_table(table.replace_schema_metadata(footer), sink, compression="zstd")
        data = sink.getvalue().to_pybytes()
        name = f"part-{at:06d}-{blake2b(data, digest_size=8).hexdigest()}.parquet"
        (folder / "parts" / name).write_bytes(data)
    return kept(folder)


def compact(folder: Path) -> dict[str, int]:
    """Make few parts of the many, as a run does while it is written."""
    from misdetect.engine.store import MOST_SMALL

    run = Run.open(folder)
    parts = run._parts()
    for first in range(0, len(parts), MOST_SMALL):
        run._compact(parts[first : first + MOST_SMALL])
    run._remove_replaced()
    return kept(folder)


def read(folder: Path, cases: int) -> dict[str, Any]:
    """Seconds and megabytes of each way to read the run, in a fresh process, beyond importing."""
    found = {}
    if not (folder.parent / "small").exists():
        as_before(folder.parent / "small", 1)
    for name, step in READS.items():
        code = [sys.executable, "-c", _READ.format(step=step), str(folder), str(cases), str(folder.parent / "small")]
        done = subprocess.run(code, capture_output=True, text=True, check=True, env={**os.environ, "NO_COLOR": "1"})
        found[name] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--cases", type=int, default=300_000, short=500)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 64, 256, 1000], short=[1, 8])
    parser.add_argument("--seconds", type=float, default=0.05, help="that a simulated worker takes for a case")
    parser.add_argument("--before", action="store_true", help="only read a run as older versions wrote it")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found: dict[str, Any] = {"cases": asked.cases}
        if asked.before:
            found["run"] = as_before(Path(place) / "run", asked.cases)
        else:
            found["runs"] = []
            for workers in asked.workers:
                found["runs"].append(campaign(Path(place) / "run" / str(workers), asked.cases, workers, asked.seconds))
                print(json.dumps(found["runs"][-1]), file=sys.stderr, flush=True)
            found["ms to wait for pipes"] = {workers: pipes(workers) for workers in asked.workers}
        last = Path(place) / "run" / ("" if asked.before else str(asked.workers[-1]))
        found["read"] = read(last, asked.cases)
        if asked.before and hasattr(Run, "_compact"):  # older versions, for which this is meant too, have none
            found["compacted"] = {**compact(last), "read": read(last, asked.cases)}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
