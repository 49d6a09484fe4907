"""What adaptive scanning saves and how well it knows the rates: a full scan's answers, asked again by adaptive ones.

    python benchmarks/adaptive.py [--replay RUN] [--seeds 5] [--chart FILE.png]

``RUN`` is a finished full scan (``--no-null``); without one, 29 pairs are scanned first, at a step of 40 pixels. For
each precision: the share of positions asked, the error of Table I's twenty rates against the full scan, their stated
half-widths (points; the largest should not exceed the precision), and the share of rates that lie within them. No
detector is asked during the replay.
"""

import argparse
import json
import sys
import tempfile
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
from misdetect.studies.scan.backgrounds import with_detections
from misdetect.studies.scan.results import ROWS, View, table_one
from misdetect.studies.scan.rows import BOX

FIXTURES = Path(__file__).parents[2] / "shared" / "fixtures"
PRECISIONS = (5, 4, 3, 2.5, 2, 1.5, 1)


class Replayed(AdaptiveScan):
    """An adaptive scan that gets its answers from the ``rows`` of a full one, by pair, x and y."""

    rows_of: dict
    opened: dict
    clean: dict

    def ask(self, scene, condition, places, before):
        yield from ()
        return [dict(self.rows_of[scene.number, x, y]) for x, y in scene.positions[places].tolist()]

    def scene(self, number):
        if number not in self.opened:
            self.opened[number] = super().scene(number)
        return self.opened[number]

    def all_rows(self):
        """What the cases return; all they ask for are the clean images."""
        for case in self.cases():
            steps, answer = self.run(case), None
            try:
                while True:
                    answer = self.clean[steps.send(answer).picture.id]
            except StopIteration as stop:
                yield from stop.value


class Given:
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


def full_scan(folder: str) -> Run:
    """29 pairs at a step of 40 pixels, without the null control."""
    data, model = f"coco:{FIXTURES / 'coco66' / 'instances.json'}", FIXTURES / "models" / "yolox_nano.onnx"
    detector, dataset = load_detector(f"onnx:{model},decoder=yolox,names=coco"), load_data(data)
    pairs = choose_pairs(dataset, 29, with_detections(detector, dataset, 29, 0.5, cached=False))
    study = ScanStudy(data, pairs, detector.names, Scanning(step=40, null=False))
    identity = {"settings": study.settings(), "data": {"spec": data}}
    return run_study(study, detector, Path(folder) / "full", identity, cached=False).run


def trade_off(full: Run, seeds: int) -> list[dict[str, object]]:
    identity = full.document["identity"]
    settings = identity["settings"]
    rows = full.query("SELECT * FROM rows WHERE condition = 'object' ORDER BY case_index, row").to_pylist()
    rows_of = {(row["pair"], row["x"], row["y"]): row for row in rows}
    clean = {row["background"]: _detections(row["objects"]) for row in rows}
    truth = table_one(full, View(repeats=1))
    opened: dict = {}
    results = []
    for precision in PRECISIONS:
        errors, widths, shares = [], [], []
        for seed in range(seeds):
            scanning = Scanning(step=settings["step"], seed=seed, null=False)
            pairs = [Pair(*pair) for pair in settings["pairs"]]
            study = Replayed(identity["data"]["spec"], pairs, (), scanning, search=Search(precision))
            study.rows_of, study.opened, study.clean = rows_of, opened, clean
            with tempfile.TemporaryDirectory() as folder:
                found = Given(study, list(study.all_rows()))
                replay = run_study(found, None, Path(folder) / "run", {}, cached=False).run
                table, known = table_one(replay, View(repeats=1)), study.uncertainty(replay, "positions")
            errors.append([[table[r][t] - truth[r][t] for t in truth[r]] for r in ROWS])
            widths.append([list(known["half_width"][r].values()) for r in ROWS])
            shares.append(known["asked"] / study.positions)
        results.append({"precision": precision, **_summary(np.array(errors), np.array(widths), shares)})
        print(json.dumps(results[-1]), file=sys.stderr)
    return results


def _detections(things) -> Detections:
    return Detections(
        [[thing[side] for side in BOX] for thing in things],
        [thing["score"] for thing in things],
        [thing["label"] for thing in things],
    )


def _summary(error, width, shares) -> dict[str, float]:
    return {
        "share_asked": round(float(np.mean(shares)), 3),
        "largest_share": round(float(np.max(shares)), 3),
        "rms_error": round(float(np.sqrt((error**2).mean())), 2),
        "largest_error": round(float(np.abs(error).max()), 2),
        "mean_half_width": round(float(width.mean()), 2),
        "largest_half_width": round(float(width.max()), 2),
        "within_interval": round(float((np.abs(error) <= width + 0.01).mean()), 3),
    }


def chart(points: list[dict[str, object]]):
    """The trade-off as a picture."""
    shares = [100 * point["share_asked"] for point in points]
    lines = [
        (name, shares, [point[key] for point in points])
        for name, key in (
            ("stated half-width, largest", "largest_half_width"),
            ("stated half-width, mean", "mean_half_width"),
            ("largest error", "largest_error"),
            ("rms error", "rms_error"),
        )
    ]
    title = "Adaptive scan: points of error against questions asked"
    return curve(lines, title=title, across="positions asked, percent of the full scan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", help="Run directory of a full scan.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--chart", type=Path, help="Draw the trade-off into this PNG.")
    arguments = parser.parse_args()
    if not arguments.replay and not FIXTURES.exists():
        print("skipped: the photos and the model of this benchmark are not here.", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder:
        full = Run.open(arguments.replay) if arguments.replay else full_scan(folder)
        points = trade_off(full, arguments.seeds)
    if arguments.chart:
        save_png(arguments.chart, chart(points))
    print(json.dumps(points, indent=2))


if __name__ == "__main__":
    main()
