"""What the engine costs: ratios against calling the detector directly, measured in one run.

    python benchmarks/engine.py [--model SPEC] [--photos SPEC] [--cases 200] [--rounds 5]

``engine_vs_direct``: throughput of a trivial study (pastes on photos, one question each, rows stored) over calling the
same detector on the same images, already rendered, with the same batch size and threads. ``two_workers_vs_one``: the
same study on two processes. ``requests_per_second``: with a detector that does nothing. ``memory_50k_vs_1k``: peak
memory of that with 50,000 cases over 1,000. Rounds alternate and the median is taken, because machines are noisy.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from _measuring import PHOTOS, YOLOX_NANO, Parser, memory_kb, need_fixtures

from misdetect.compose.paste import Paste
from misdetect.data import load_data
from misdetect.data.cutouts import cut
from misdetect.data.dataset import Dataset
from misdetect.detectors import load_detector
from misdetect.engine import run_study
from misdetect.engine.backend import Asking, Cluster
from misdetect.engine.requests import Case, Detect
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Raw


@dataclass
class PasteStudy:
    """One object moved over a few photos: what scan does, without its arithmetic."""

    spec: str
    count: int
    name: str = "bench"
    schema: pa.Schema = field(default_factory=lambda: pa.schema([("found", pa.int32()), ("best", pa.float64())]))

    @property
    def data(self) -> Dataset:
        if not hasattr(self, "_data"):
            self._data = load_data(self.spec)
        return self._data

    def settings(self) -> dict[str, int]:
        return {"count": self.count}

    def __len__(self) -> int:
        return self.count

    def cases(self):
        return (Case(i, str(i)) for i in range(self.count))

    def picture(self, index: int) -> Paste:
        if not hasattr(self, "_photos"):
            data = self.data
            self._photos = [data[i] for i in range(4)]
            thing = next(s for s in data if s.truth.masks is not None and (s.truth.areas < 5000).any())
            self._cutout = cut(
                thing, int(np.argmax((thing.truth.areas < 5000) & (thing.truth.areas > 500))), data.names
            )
        photo = self._photos[index * 4 // self.count]
        return Paste(photo, self._cutout, (7 * index % 200, 11 * index % 150))

    def run(self, case: Case):
        found = yield Detect(self.picture(case.index))
        return [{"found": len(found), "best": float(found.scores.max(initial=0))}]

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if not k.startswith("_")}


class Nothing:
    """A detector that takes no time."""

    names = ("thing",)
    batch_size = 32
    _answer = Detections([[0, 0, 4, 4]], [0.5], [0])

    def detect(self, images):
        return [self._answer for _ in images]


@dataclass
class EmptyStudy(PasteStudy):
    def picture(self, index: int) -> Raw:
        pixels = np.zeros((8, 8, 3), np.uint8)
        return Raw(pixels, key=str(index))


def seconds(study, detector, **options) -> float:
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        run_study(study, detector, Path(folder) / "run", asking=Asking(cached=False), **options)
        return time.perf_counter() - started


def worker_seconds(study, make, workers: int, cluster: Cluster | None = None, start: float = 1 / 5) -> float:
    """Seconds per case after the share ``start`` of them: starting processes is not what is compared."""
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
    first = int(start * len(stamps))
    return (stamps[-1] - stamps[first]) / (len(stamps) - 1 - first)


def peak_memory(cases: int) -> float:
    """Peak MB of a process that runs ``cases`` empty cases."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import engine; engine.measure({cases})"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return float(output)


def measure(cases: int) -> None:
    seconds(EmptyStudy("rooms:val,count=1", cases), Nothing())
    print(memory_kb("VmHWM") / 1024)


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--model", default=f"{YOLOX_NANO},score=0.3,nms=0.6")
    parser.add_argument("--photos", default=PHOTOS)
    parser.add_argument("--cases", type=int, default=200, short=12)
    parser.add_argument("--rounds", type=int, default=5, short=1)
    parser.add_argument("--requests", type=int, default=20_000, short=200)
    parser.add_argument("--memory", type=int, nargs=2, default=[1_000, 50_000], short=[10, 100], help="cases")
    options = parser.parse_args()
    if options.model.startswith(YOLOX_NANO) or options.photos == PHOTOS:
        need_fixtures()
    results: dict[str, float] = {}

    study = PasteStudy(options.photos, options.cases)
    detector = load_detector(options.model)
    images = [study.picture(i).render() for i in range(options.cases)]
    ratios = []
    for _ in range(options.rounds):
        started = time.perf_counter()
        for start in range(0, len(images), detector.batch_size):
            detector.detect(images[start : start + detector.batch_size])
        direct = time.perf_counter() - started
        ratios.append(direct / seconds(study, detector))
    results["direct_images_per_second"] = round(options.cases / direct, 1)
    results["engine_vs_direct"] = round(statistics.median(ratios), 3)

    large = PasteStudy(study.spec, 3 * options.cases)
    ratios = []
    make = partial(load_detector, options.model)
    for _ in range(min(3, options.rounds)):
        one = worker_seconds(large, make, 1)
        ratios.append(one / worker_seconds(large, make, 2))
    results["two_workers_vs_one"] = round(statistics.median(ratios), 3)

    empty = EmptyStudy("rooms:val,count=1", options.requests)
    rates = [options.requests / seconds(empty, Nothing()) for _ in range(min(3, options.rounds))]
    results["requests_per_second"] = round(statistics.median(rates))
    small, big = map(peak_memory, options.memory)
    results["memory_50k_vs_1k"] = round(big / small, 3)
    results["memory_50k_mb"] = round(big, 1)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
