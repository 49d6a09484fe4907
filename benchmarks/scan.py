"""What the scan costs over its detector, what two workers gain, and what adaptive scanning saves: ratios, in one run.

    python benchmarks/scan.py [--positions 2000] [--rounds 3] [--replay RUN]

``scan_vs_detector``: throughput of a scan (render, matching, storage included) over that of the same detector called on
the same pictures, already drawn. ``two_workers_vs_one``: the same on two processes. ``peak_mb``: of the scanning
process, with ``positions`` and with a quarter of them. With ``--replay RUN``, a finished full scan (``--no-null``):
``adaptive``, the share of questions asked and the error of the rates at several precisions. Rounds alternate and the
median is taken, because machines are noisy.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from misdetect.data import load_data
from misdetect.detections import Detections
from misdetect.detectors import load_detector
from misdetect.engine import run_study
from misdetect.engine.requests import Case
from misdetect.engine.store import Run
from misdetect.report.figures import curve, save_png
from misdetect.studies.scan import Pair, Scanning, ScanStudy, choose_pairs
from misdetect.studies.scan.adaptive import AdaptiveScan, Search
from misdetect.studies.scan.pairs import candidates
from misdetect.studies.scan.results import ROWS, View, table_one
from misdetect.studies.scan.rows import BOX

FIXTURES = Path(__file__).parents[2] / "shared" / "fixtures"


class Shortened(ScanStudy):
    """The first ``cut`` cases of a scan."""

    cut = 0

    def __len__(self):
        return min(self.cut, super().__len__())

    def cases(self):
        return islice(super().cases(), self.cut)


def scan_of(data: str, names, positions: int) -> Shortened:
    dataset = load_data(data)
    study = Shortened(data, choose_pairs(dataset, 4, candidates(dataset, 0)), names, Scanning(step=12, null=False))
    study.cut = positions // 8
    return study


def pictures_of(study: Shortened, count: int):
    for case in islice(study.cases(), -(-count // 8)):
        number, condition, first, last = case.content
        scene = study.scene(number)
        for x, y in scene.positions[first:last].tolist():
            yield scene.picture(condition, x, y, 0).render()


def seconds_of_scan(study, detector, **options) -> float:
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        run_study(study, detector, Path(folder) / "run", {}, cached=False, **options)
        return time.perf_counter() - started


def seconds_between(study, make, workers: int) -> float:
    """Seconds from a fifth of the cases to the last: starting processes is not what is compared."""
    stamps: list[float] = []
    seconds_of_scan(
        study, make(), make_detector=make, workers=workers, progress=lambda *_: stamps.append(time.perf_counter())
    )
    start = len(stamps) // 5
    return (stamps[-1] - stamps[start]) / (len(stamps) - 1 - start)


def speed(model: str, data: str, positions: int, rounds: int) -> dict[str, float]:
    make = partial(load_detector, model)
    detector = make()
    study = scan_of(data, detector.names, positions)
    images = list(pictures_of(study, min(positions, 400)))
    ratios, gains = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        for image in images:
            detector.detect([image])
        direct = (time.perf_counter() - started) / len(images)
        scanned = seconds_of_scan(study, detector) / (8 * len(study))
        ratios.append(direct / scanned)
        gains.append(seconds_between(study, make, 1) / seconds_between(study, make, 2))
    return {"scan_vs_detector": statistics.median(ratios), "two_workers_vs_one": statistics.median(gains)}


def peak_megabytes(model: str, data: str, positions: int) -> float:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import scan; "
        f"scan.scan_and_report({model!r}, {data!r}, {positions})"
    )
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def scan_and_report(model: str, data: str, positions: int) -> None:
    import resource

    detector = load_detector(model)
    seconds_of_scan(scan_of(data, detector.names, positions), detector)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


class Replayed(AdaptiveScan):
    """An adaptive scan that gets its answers from the rows of a full one."""

    rows: dict
    opened: dict

    def ask(self, scene, condition, places, before):
        yield from ()
        return [dict(self.rows[scene.number, x, y]) for x, y in scene.positions[places].tolist()]

    def scene(self, number):
        if number not in self.opened:
            self.opened[number] = super().scene(number)
        return self.opened[number]

    def all_rows(self):
        for number in range(len(self.pairs)):
            steps = self.run(Case(number, str(number), number))
            next(steps)
            things = next(row["objects"] for key, row in self.rows.items() if key[0] == number)
            clean = Detections(
                [[thing[side] for side in BOX] for thing in things],
                [thing["score"] for thing in things],
                [thing["label"] for thing in things],
            )
            try:
                steps.send(clean)
            except StopIteration as stop:
                yield from stop.value


def adaptive(path: str, seeds: int = 5) -> list[dict[str, object]]:
    """Share of questions, error and stated half-width (points) of Table I's 20 rates, at several precisions."""
    full = Run.open(path)
    identity = full.document["identity"]
    settings = identity["settings"]
    rows = {
        (row["pair"], row["x"], row["y"]): row
        for row in full.query("SELECT * FROM rows WHERE condition = 'object' ORDER BY case_index, row").to_pylist()
    }
    truth = table_one(full, View(repeats=1))
    opened: dict = {}
    results = []
    for precision in (8, 6, 4, 3, 2, 1.5, 1):
        errors, widths, shares = [], [], []
        for seed in range(seeds):
            scanning = Scanning(step=settings["step"], seed=seed, null=False)
            pairs = [Pair(*pair) for pair in settings["pairs"]]
            study = Replayed(identity["data"]["spec"], pairs, (), scanning, search=Search(precision))
            study.rows, study.opened = rows, opened
            found = list(study.all_rows())
            with tempfile.TemporaryDirectory() as folder:
                replay = run_study(_Given(study, found), None, Path(folder) / "run", {}, cached=False).run
                table, known = table_one(replay, View(repeats=1)), study.uncertainty(replay, "positions")
            errors.append([[table[r][t] - truth[r][t] for t in truth[r]] for r in ROWS])
            widths.append([list(known["half_width"][r].values()) for r in ROWS])
            shares.append(known["asked"] / study.positions)
        error, width = np.array(errors), np.array(widths)
        results.append(
            {
                "precision": precision,
                "share_asked": round(float(np.mean(shares)), 3),
                "rms_error": round(float(np.sqrt((error**2).mean())), 2),
                "largest_error": round(float(np.abs(error).max()), 2),
                "mean_half_width": round(float(width.mean()), 2),
                "largest_half_width": round(float(width.max()), 2),
                "within_interval": round(float((np.abs(error) <= width + 0.01).mean()), 3),
            }
        )
    return results


def chart(points: list[dict[str, object]]):
    """The trade-off as a picture."""
    shares = [100 * point["share_asked"] for point in points]
    lines = [
        (name, shares, [point[key] for point in points])
        for name, key in (
            ("stated half-width, mean", "mean_half_width"),
            ("largest error", "largest_error"),
            ("rms error", "rms_error"),
        )
    ]
    title = "Adaptive scan: points of error against questions asked"
    return curve(lines, title=title, across="positions asked, percent of the full scan")


class _Given:
    """A study whose rows are known already."""

    name = "scan"

    def __init__(self, study, rows) -> None:
        self.schema, self.rows = study.schema, rows

    def __len__(self) -> int:
        return 1

    def cases(self):
        return iter([Case(0, "all")])

    def run(self, case):
        yield []
        return self.rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=f"onnx:{FIXTURES / 'models' / 'yolox_nano.onnx'},decoder=yolox,names=coco")
    parser.add_argument("--data", default=f"coco:{FIXTURES / 'coco66' / 'instances.json'}")
    parser.add_argument("--positions", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--replay", help="Run directory of a full scan, for the adaptive trade-off.")
    parser.add_argument("--chart", type=Path, help="Draw that trade-off into this PNG.")
    parser.add_argument("--only-replay", action="store_true")
    arguments = parser.parse_args()
    document: dict[str, object] = {}
    if not arguments.only_replay:
        if not FIXTURES.exists():
            print("skipped: the photos and the model of this benchmark are not here.", file=sys.stderr)
            return
        document |= speed(arguments.model, arguments.data, arguments.positions, arguments.rounds)
        document["peak_mb"] = {
            count: round(peak_megabytes(arguments.model, arguments.data, count))
            for count in (arguments.positions // 4, arguments.positions)
        }
    if arguments.replay:
        document["adaptive"] = curve_points = adaptive(arguments.replay)
        if arguments.chart:
            save_png(arguments.chart, chart(curve_points))
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
