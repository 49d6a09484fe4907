"""Ray workers against local ones, as ratios and differences measured in one run:

* ``speed_two``: throughput of two Ray workers over one, with a real detector (wanted: at least 1.8 on two idle cores);
  ``speed_two_local`` of local workers, ``speed_two_bare`` of two processes that do nothing but detect: no more can be
  had on this machine now. One and two take turns, the median of the rounds' ratios is told;
* ``overhead_ms``: milliseconds per query that Ray workers take beyond local ones, with a detector that takes no time
  (wanted: at most 1);
* ``idle``: share of time in which 8 workers of 50 ms per query wait in an adaptive fuzz campaign of so many queries,
  in simulated time (wanted: at most 0.1).

    python benchmarks/cluster.py [--cases 300] [--rounds 3] [--queries 1000 3000] [--detector SPEC]
                                 [--only speed overhead idle]
"""

import json
import multiprocessing
import os
import statistics
import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = Path(__file__).parent
RAY = find_spec("ray") is not None
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "engine")]

from _measuring import PHOTOS, YOLOX_NANO, Parser, need_fixtures  # noqa: E402
from engine import EmptyStudy, Nothing, PasteStudy, worker_seconds  # noqa: E402
from simulated import Simulated  # noqa: E402

import misdetect as md  # noqa: E402
from misdetect import engine  # noqa: E402
from misdetect.detectors import load_detector  # noqa: E402
from misdetect.engine.backend import Cluster  # noqa: E402

per_case = partial(worker_seconds, start=1 / 3)
"""Seconds per case, without the first third: Ray's workers take longer to start."""


def bare(study, make, processes: int) -> float:
    """Seconds per case of ``processes`` that detect at the same time, each in the images of a third of the cases."""
    spawn = multiprocessing.get_context("spawn")
    together, took = spawn.Barrier(processes), spawn.Queue()
    started = [spawn.Process(target=_detect, args=(study, make, together, took)) for _ in range(processes)]
    for process in started:
        process.start()
    seconds = max(took.get() for _ in started)
    for process in started:
        process.join()
    return seconds / processes


def _detect(study, make, together, took) -> None:
    detector = make()
    size = detector.batch_size
    images = [study.picture(i).render() for i in range(study.count // 3)]
    detector.detect(images[:size])
    together.wait()
    start = time.perf_counter()
    for at in range(0, len(images), size):
        detector.detect(images[at : at + size])
    took.put((time.perf_counter() - start) / len(images))


def speeds(cases: int, rounds: int) -> dict[str, float]:
    """How much faster two are than one: Ray's workers, local ones, and bare detectors."""
    study, make = PasteStudy(PHOTOS, cases), partial(load_detector, f"{YOLOX_NANO},score=0.3,nms=0.6")
    kinds = {"speed_two": lambda count: per_case(study, make, count, Cluster("local"))} if RAY else {}
    kinds |= {
        "speed_two_local": lambda count: per_case(study, make, count, None),
        "speed_two_bare": lambda count: bare(study, make, count),
    }
    ratios: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, measured in kinds.items():
            one, two = measured(1), measured(2)
            ratios[name].append(one / two)
            print(f"{name}: {1000 * one:.1f} ms, {1000 * two:.1f} ms, {one / two:.2f}", file=sys.stderr, flush=True)
    return {name: statistics.median(found) for name, found in ratios.items()}


def idle(detector: str, queries: int, workers: int = 8) -> float:
    """Of an adaptive campaign in simulated time; its rows are those of any other number of workers."""
    made: list[Simulated] = []

    def backend(detector, *_):
        made.append(Simulated(workers, detector))
        return made[-1]

    before, engine._backend = engine._backend, backend
    try:
        md.fuzz(detector, "rooms:val,count=60", queries=queries, cache=False)
    finally:
        engine._backend = before
    return made[0].idle()


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--cases", type=int, default=300, short=12)
    parser.add_argument("--rounds", type=int, default=3, short=1)
    parser.add_argument("--queries", type=int, nargs="*", default=[1000, 3000], short=[60])
    parser.add_argument("--detector", default="glassbox:vanish-near,data=rooms:val", help="that is asked in them")
    parser.add_argument("--only", nargs="*", default=["speed", "overhead", "idle"])
    options = parser.parse_args()
    found: dict[str, float] = {"load": os.getloadavg()[0]}
    if not RAY:
        print("Ray is not installed: only local workers are measured.", file=sys.stderr)
    if "speed" in options.only:
        need_fixtures()
        found |= speeds(options.cases, options.rounds)
    if "overhead" in options.only and RAY:
        empty = EmptyStudy("rooms:val,count=1", 50 * options.cases)
        found["overhead_ms"] = 1000 * (
            per_case(empty, Nothing, 2, Cluster("local")) - per_case(empty, Nothing, 2, None)
        )
    if "idle" in options.only:
        found |= {f"idle_{queries}": idle(options.detector, queries) for queries in options.queries}
    print(json.dumps({name: round(value, 3) for name, value in found.items()}, indent=2))


if __name__ == "__main__":
    main()
