"""Ray workers against local ones, as ratios and differences measured in one run:

* ``speed_two``: throughput of two Ray workers over one, with a real detector (wanted: at least 1.8 on two idle cores);
* ``overhead_ms``: milliseconds per query that Ray workers take beyond local ones, with a detector that takes no time
  (wanted: at most 1);
* ``idle``: share of time in which 8 workers of 50 ms per query wait in an adaptive fuzz campaign, in simulated time.

    python benchmarks/cluster.py [--cases 400] [--queries 3000] [--only speed overhead idle]
"""

import argparse
import json
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "engine")]

from engine import FIXTURES, EmptyStudy, Nothing, PasteStudy  # noqa: E402
from simulated import Simulated  # noqa: E402

import misdetect as md  # noqa: E402
from misdetect import engine  # noqa: E402
from misdetect.detectors import load_detector  # noqa: E402
from misdetect.engine import run_study  # noqa: E402
from misdetect.engine.backend import Asking, Cluster  # noqa: E402


def per_case(study, make, workers: int, cluster: Cluster | None) -> float:
    """Seconds per case, without the first fifth: starting workers is not what is compared."""
    stamps: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        run_study(
            study,
            make(),
            Path(folder) / "run",
            asking=Asking(cached=False),
            make_detector=make,
            workers=workers,
            cluster=cluster,
            progress=lambda done, total, counts: stamps.append(time.perf_counter()),
        )
    start = len(stamps) // 5
    return (stamps[-1] - stamps[start]) / (len(stamps) - 1 - start)


def idle(queries: int, workers: int = 8) -> float:
    """Of an adaptive campaign in simulated time; its rows are those of any other number of workers."""
    made: list[Simulated] = []

    def backend(detector, *_):
        made.append(Simulated(workers, detector))
        return made[-1]

    before, engine._backend = engine._backend, backend
    try:
        md.fuzz("glassbox:vanish-near,data=rooms:val", "rooms:val,count=60", queries=queries, cache=False)
    finally:
        engine._backend = before
    return made[0].idle()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--queries", type=int, default=3000)
    parser.add_argument("--only", nargs="*", default=["speed", "overhead", "idle"])
    options = parser.parse_args()
    found: dict[str, float] = {"load": os.getloadavg()[0]}
    local = Cluster("local")
    if "speed" in options.only:
        spec = f"onnx:{FIXTURES}/models/yolox_nano.onnx,decoder=yolox,names=coco,score=0.3,nms=0.6"
        study, make = PasteStudy(f"coco:{FIXTURES}/coco66/instances.json", options.cases), partial(load_detector, spec)
        one, two = (per_case(study, make, count, local) for count in (1, 2))
        found["speed_two"] = one / two
        found["speed_two_local"] = per_case(study, make, 1, None) / per_case(study, make, 2, None)
    if "overhead" in options.only:
        empty = EmptyStudy("rooms:val,count=1", 50 * options.cases)
        found["overhead_ms"] = 1000 * (per_case(empty, Nothing, 2, local) - per_case(empty, Nothing, 2, None))
    if "idle" in options.only:
        found["idle"] = idle(options.queries)
    print(json.dumps({name: round(value, 3) for name, value in found.items()}, indent=2))


if __name__ == "__main__":
    main()
