"""What the engine costs: ratios against calling the detector directly, measured in one run.

    python benchmarks/engine.py [--model yolox_nano.onnx] [--photos instances.json]

``engine_vs_direct``: throughput of a trivial study (pastes on photos, one question each, rows stored) over calling the
same detector on the same images, already rendered, with the same batch size and threads. ``two_workers_vs_one``: the
same study on two processes. ``requests_per_second``: with a detector that does nothing. ``memory_50k_vs_1k``: peak
memory of that with 50,000 cases over 1,000. Rounds alternate and the median is taken, because machines are noisy.
"""

import argparse
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

from misdetect.compose.paste import Paste
from misdetect.data import load_data
from misdetect.data.cutouts import cut
from misdetect.data.dataset import Dataset
from misdetect.detectors import load_detector
from misdetect.engine import run_study
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case, Detect
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Raw

FIXTURES = Path(__file__).parents[2] / "shared" / "fixtures"


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


def worker_seconds(study, make, workers: int) -> float:
    """Time from the first finished case to the last: starting processes is not what is compared."""
    stamps: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        run_study(
            study,
            make(),
            Path(folder) / "run",
            asking=Asking(cached=False),
            make_detector=make,
            workers=workers,
            progress=lambda done, total, counts: stamps.append(time.perf_counter()),
        )
    start = len(stamps) // 5
    return (stamps[-1] - stamps[start]) / (len(stamps) - 1 - start)


def peak_memory(cases: int) -> float:
    """Peak MB of a process that runs ``cases`` empty cases."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import engine; engine.measure({cases})"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return float(output)


def measure(cases: int) -> None:
    seconds(EmptyStudy("rooms:val,count=1", cases), Nothing())
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(float(peak.split()[1]) / 1024)  # getrusage would report the parent's peak where that is higher


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=FIXTURES / "models" / "yolox_nano.onnx")
    parser.add_argument("--photos", default=FIXTURES / "coco66" / "instances.json")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    spec = f"onnx:{options.model},decoder=yolox,names=coco,score=0.3,nms=0.6"
    results: dict[str, float] = {}

    study = PasteStudy(f"coco:{options.photos}", options.cases)
    detector = load_detector(spec)
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
    for _ in range(3):
        one = worker_seconds(large, partial(load_detector, spec), 1)
        ratios.append(one / worker_seconds(large, partial(load_detector, spec), 2))
    results["two_workers_vs_one"] = round(statistics.median(ratios), 3)

    rates = [20_000 / seconds(EmptyStudy("rooms:val,count=1", 20_000), Nothing()) for _ in range(3)]
    results["requests_per_second"] = round(statistics.median(rates))
    small, big = peak_memory(1_000), peak_memory(50_000)
    results["memory_50k_vs_1k"] = round(big / small, 3)
    results["memory_50k_mb"] = round(big, 1)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
