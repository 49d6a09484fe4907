"""What a scan costs over its detector, and what two workers gain: ratios, measured in one run.

    python benchmarks/scan.py [--positions 2000] [--rounds 3]

A position here is one composite to ask about; half of them are controls. None of the figures has imports or the
loading of the model in it, and each is the median of the rounds.

- ``scan_vs_detector``: composites per second of a scan as the command runs it (describing, drawing, detecting,
  matching, a new prediction cache, storing, opening and closing the run directory) over those of ``detector.detect``
  alone on the same composites, drawn before the clock starts, as many per call as the engine gives it. Half of the
  detector's turn comes before the scan and half after it, so that a drift of the machine cancels. Both sides have one
  inference thread; the scan has a second one that draws and matches meanwhile, which a second core hides.
- ``scan_vs_detector_cpu``: the same ratio in processor seconds, which no second core hides.
- ``two_workers_vs_one``: rate of a scan on two processes over that on one, from a fifth of the cases to the last.
- ``two_detectors_vs_one``: two bare detectors side by side over one, about the most that this machine can give.
- ``peak_mb``: of the scanning process, with a quarter of the positions and with all.
"""

import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import islice
from pathlib import Path

from _measuring import PHOTOS, YOLOX_NANO, Parser, memory_kb, need_fixtures

from misdetect.data.opened import Opened
from misdetect.detectors import load_detector
from misdetect.engine import run_study
from misdetect.engine.backend import Asking
from misdetect.studies.scan.pairs import transplants
from misdetect.studies.scan.prepare import draw_pairs
from misdetect.studies.scan.settings import ScanSettings
from misdetect.studies.scan.study import CHUNK, ScanStudy

_PAIRS, _STEP = 29, 40
_TURNS = (0, None, 1, None)
"""Which of two detectors works alone; None: both."""


class Shortened(ScanStudy):
    """The first cases of a scan, ``cut`` composites in all."""

    cut = 0

    def __len__(self):
        return sum(1 for _ in self.cases())

    def cases(self):
        left = self.cut
        for case in super().cases():
            if left <= 0:
                return
            *_, first, last = case.content
            left -= last - first
            yield case

    @property
    def composites(self) -> int:
        return sum(case.content[-1] - case.content[-2] for case in self.cases())

    def pictures(self):
        for case in self.cases():
            number, condition, first, last = case.content
            pair = self.open_pair(number)
            for x, y in pair.positions[first:last].tolist():
                yield pair.picture(condition, x, y, self.how.seed)


def scan_of(data: str, detector, positions: int) -> Shortened:
    """29 pairs on images with detections, as the command draws them, cut to ``positions`` composites."""
    how, opened = ScanSettings(pairs=_PAIRS, step=_STEP), Opened(data)
    pairs = draw_pairs(detector, opened.data, how, Asking(cached=False))
    study = Shortened(opened, transplants(opened.data, pairs, how.step), detector.names, how)
    study.cut = positions
    if study.composites < positions:
        sys.exit(f"these photos give only {study.composites} composites at a step of {_STEP}; ask for fewer.")
    return study


class Clock:
    """Wall-clock and processor seconds spent inside ``with``, added up."""

    wall = cpu = 0.0

    def __enter__(self) -> None:
        self._started = time.perf_counter(), time.process_time()

    def __exit__(self, *_) -> None:
        self.wall += time.perf_counter() - self._started[0]
        self.cpu += time.process_time() - self._started[1]


def detect_alone(detector, pictures, clock: Clock) -> None:
    """Ask about ``pictures``, drawn just before their turn on the clock."""
    while images := [picture.render() for picture in islice(pictures, detector.images_per_call)]:
        with clock:
            detector.detect(images)


def scan_once(study, detector, **options) -> list[float]:
    """When each case was done, in a scan with a new run directory and a new prediction cache."""
    stamps: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MISDETECT_CACHE"] = f"{folder}/predictions.sqlite"
        run_study(
            study,
            detector,
            Path(folder) / "run",
            progress=lambda *_: stamps.append(time.perf_counter()),
            **options,
        )
    return stamps


def seconds_per_case(stamps: list[float]) -> float:
    """Between a fifth of the cases and the last: starting processes is not what is compared."""
    start = len(stamps) // 5
    return (stamps[-1] - stamps[start]) / (len(stamps) - 1 - start)


def speed(model: str, data: str, positions: int, rounds: int) -> dict[str, object]:
    make = partial(load_detector, model)
    detector = make()
    study = scan_of(data, detector, positions)
    warm = scan_of(data, detector, 4 * CHUNK)
    scan_once(warm, detector)  # imports
    found: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    for _ in range(rounds):
        alone, scanning = Clock(), Clock()
        pictures = study.pictures()
        detect_alone(detector, islice(pictures, study.composites // 2), alone)
        with scanning:
            stamps = scan_once(study, detector)
        detect_alone(detector, pictures, alone)
        note("scan_vs_detector", alone.wall / scanning.wall)
        note("scan_vs_detector_cpu", alone.cpu / scanning.cpu)
        note("detector_ms", 1e3 * alone.wall / study.composites)
        two = scan_once(study, detector, make_detector=make, workers=2)
        note("two_workers_vs_one", seconds_per_case(stamps) / seconds_per_case(two))
        note("two_detectors_vs_one", two_detectors(model, data, min(200, positions)))
    return {"composites": study.composites} | {k: round(statistics.median(v), 3) for k, v in found.items()}


def two_detectors(model: str, data: str, count: int) -> float:
    """Throughput of two bare detectors side by side over one's: one works alone, then both, twice over; the best of
    each counts."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    workers = [context.Process(target=_side_by_side, args=(model, data, count, i, barrier, results)) for i in (0, 1)]
    for worker in workers:
        worker.start()
    seconds: dict[int, float] = {}
    for _ in range(2 * len(_TURNS)):
        turn, spent = results.get()
        seconds[turn] = seconds.get(turn, 0.0) + spent
    for worker in workers:
        worker.join()
    alone, both = (
        min(spent for turn, spent in seconds.items() if (_TURNS[turn] is None) is side) for side in (False, True)
    )
    return 4 * alone / both


def _side_by_side(model: str, data: str, count: int, me: int, barrier, results) -> None:
    detector = load_detector(model)
    study = scan_of(data, detector, count)
    detect_alone(detector, islice(study.pictures(), 2 * CHUNK), Clock())
    for turn, whose in enumerate(_TURNS):
        clock = Clock()
        barrier.wait()
        if whose in (me, None):
            detect_alone(detector, study.pictures(), clock)
        barrier.wait()
        results.put((turn, clock.wall))


def peak_megabytes(model: str, data: str, positions: int) -> int:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import scan; "
        f"scan.scan_and_report({model!r}, {data!r}, {positions})"
    )
    return round(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout))


def scan_and_report(model: str, data: str, positions: int) -> None:
    detector = load_detector(model)
    scan_once(scan_of(data, detector, positions), detector)
    print(memory_kb("VmHWM") / 1024)


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--model", default=YOLOX_NANO)
    parser.add_argument("--data", default=PHOTOS)
    parser.add_argument("--positions", type=int, default=2000, short=64)
    parser.add_argument("--rounds", type=int, default=3, short=1)
    arguments = parser.parse_args()
    if arguments.model == YOLOX_NANO or arguments.data == PHOTOS:
        need_fixtures()
    document = speed(arguments.model, arguments.data, arguments.positions, arguments.rounds)
    document["peak_mb"] = {
        count: peak_megabytes(arguments.model, arguments.data, count)
        for count in (arguments.positions // 4, arguments.positions)
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
