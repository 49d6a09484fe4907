"""What adaptive scanning saves and how well it knows the rates: a full scan's answers, asked again by adaptive ones.

    python benchmarks/adaptive.py [--replay RUN] [--seeds 5] [--chart FILE.png]

``RUN`` is a finished full scan (``--no-control``); without one, 29 pairs are scanned first, at a step of 40 pixels. For
each precision: the share of positions asked, the error of Table I's twenty rates against the full scan, their stated
half-widths (points; the largest should not exceed the precision), and the share of rates that lie within them. No
detector is asked during the replay.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from _measuring import PHOTOS, YOLOX_NANO, Parser, need_fixtures

import misdetect as md
from misdetect.data.opened import Opened
from misdetect.drawing import charts
from misdetect.engine.requests import Finished
from misdetect.engine.store import Run
from misdetect.nouns.boxes import boxes_of
from misdetect.nouns.detections import Detections
from misdetect.studies.documents import data_of
from misdetect.studies.scan.adaptive import AdaptiveScan, uncertainty
from misdetect.studies.scan.pairs import Transplant
from misdetect.studies.scan.settings import ScanSettings
from misdetect.studies.scan.table import ROWS, table_one

PRECISIONS = [5.0, 4.0, 3.0, 2.5, 2.0, 1.5, 1.0]


class Replayed(AdaptiveScan):
    """An adaptive scan that gets its answers from the ``rows`` of a full one, by pair, x and y."""

    rows_of: dict
    opened_pairs: dict
    clean: dict

    def ask(self, pair, condition, places, before):
        yield from ()
        return [dict(self.rows_of[pair.number, x, y]) for x, y in pair.positions[places].tolist()]

    def open_pair(self, number):
        if number not in self.opened_pairs:
            self.opened_pairs[number] = super().open_pair(number)
        return self.opened_pairs[number]

    def finished(self):
        """The cases and what they return; all they ask for are the clean images."""
        for case in self.cases():
            steps, answer = self.run(case), None
            try:
                while True:
                    answer = self.clean[steps.send(answer).picture.id]
            except StopIteration as stop:
                yield Finished(case, stop.value)


def full_scan(folder: str, pairs: int) -> Run:
    """So many pairs at a step of 40 pixels, without the control."""
    out = Path(folder) / "full"
    return md.scan(YOLOX_NANO, PHOTOS, pairs=pairs, step=40, control=False, cache=False, out=out).directory


def replayed(study: Replayed, identity, folder: str) -> Run:
    """The run that ``study`` would have left."""
    replay = Run.start(Path(folder) / "run", {**identity, "settings": study.settings()}, study.schema)
    for case in study.finished():
        replay.add(case)
    replay.close()
    return replay


def trade_off(full: Run, seeds: int, precisions: list[float]) -> list[dict[str, object]]:
    identity, names = full.about["identity"], full.about["identity"]["detector"]["names"]
    rows = full.query("SELECT * FROM rows WHERE condition = 'object' ORDER BY case_index, row").to_pylist()
    rows_of = {(row["pair"], row["x"], row["y"]): row for row in rows}
    clean = {row["background"]: _detections(row["objects"], names) for row in rows}
    truth, data = table_one(full, ScanSettings()), data_of(full)
    transplants = [Transplant.of(each) for each in full.settings["transplants"]]
    opened: dict = {}
    results = []
    for precision in precisions:
        errors, widths, shares = [], [], []
        for seed in range(seeds):
            how = ScanSettings(step=full.settings["step"], seed=seed, control=False, adaptive=True, precision=precision)
            study = Replayed(Opened(data), transplants, names, how)
            study.rows_of, study.opened_pairs, study.clean = rows_of, opened, clean
            with tempfile.TemporaryDirectory() as folder:
                replay = replayed(study, identity, folder)
                table, known = table_one(replay, how), uncertainty(replay, "positions")
            errors.append([[table[r][t] - truth[r][t] for t in truth[r]] for r in ROWS])
            widths.append([list(known["half_width"][r].values()) for r in ROWS])
            shares.append(known["asked"] / study.positions)
        results.append({"precision": precision, **_summary(np.array(errors), np.array(widths), shares)})
        print(json.dumps(results[-1]), file=sys.stderr)
    return results


def _detections(things, names) -> Detections:
    labels = [names.index(thing["label"]) for thing in things]
    return Detections(boxes_of(things), [thing["score"] for thing in things], labels)


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
    curves = {
        name: (shares, [point[key] for point in points])
        for name, key in (
            ("stated half-width, largest", "largest_half_width"),
            ("stated half-width, mean", "mean_half_width"),
            ("largest error", "largest_error"),
            ("rms error", "rms_error"),
        )
    }
    title = "Adaptive scan: points of error against questions asked"
    return charts.lines(curves, title, "positions asked, percent of the full scan", "points")


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--replay", help="Run directory of a full scan.")
    parser.add_argument("--seeds", type=int, default=5, short=1)
    parser.add_argument("--pairs", type=int, default=29, short=8, help="of the full scan")
    parser.add_argument("--precisions", type=float, nargs="+", default=PRECISIONS, short=[5.0])
    parser.add_argument("--chart", type=Path, help="Draw the trade-off into this PNG.")
    arguments = parser.parse_args()
    if not arguments.replay:
        need_fixtures()
    with tempfile.TemporaryDirectory() as folder:
        full = Run.open(arguments.replay) if arguments.replay else full_scan(folder, arguments.pairs)
        points = trade_off(full, arguments.seeds, arguments.precisions)
    if arguments.chart:
        charts.save(arguments.chart, chart(points))
    print(json.dumps(points, indent=2))


if __name__ == "__main__":
    main()
