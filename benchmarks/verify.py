"""What part verification costs: ratios, measured in one run.

    python benchmarks/verify.py [--images 2000] [--context 150] [--rounds 3]
    python benchmarks/verify.py --planted 30

- ``scoring_vs_naive``: a plain loop over images, parts and detections (IoU by arithmetic on lists, as the tests' naive
  recalls) over ``metrics.parts`` for the same numbers: recall of present and missing parts with and without
  localisation at 101 score thresholds. The loop is timed on a part of the images and scaled; both agree on these.
- ``context_vs_detector``: pictures per second of the context study as the command runs it (reading clean images,
  describing and drawing the edits, judging, storing) over those of ``detector.detect`` alone on the same pictures,
  drawn before the clock starts. Half of the detector's turn comes before the study and half after it. Neither has
  imports, loading of the model or the survey of the data in it. The images are files, as those of users are;
  ``context_vs_detector_drawn`` is the same where ``bikes:`` draws them meanwhile. ``…_cpu``: in processor seconds.
- ``--planted``: nothing is timed; the glass box hallucinates by one cause after the other on so many bikes, and what is
  printed is the causes that verify names.
"""

import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from _measuring import Parser, cpu_seconds

from misdetect import verify
from misdetect.data import load_data
from misdetect.data.export import export_coco
from misdetect.data.opened import Opened
from misdetect.detectors import load_detector
from misdetect.detectors.glassbox.detector import GlassBox
from misdetect.detectors.glassbox.faults import (
    Hallucinate,
    HallucinateAppearance,
    HallucinateContext,
    HallucinatePosition,
)
from misdetect.engine import run_study
from misdetect.engine.backend import Asking
from misdetect.metrics.parts import SCORES, Found, Parts, Verified
from misdetect.studies.verify.settings import VerifySettings
from misdetect.studies.verify.study import VerifyStudy

PARTS, DETECTIONS = 22, 100
_NAIVE = 40
"""Images that the naive loop is timed on."""


def world(images: int, seed: int = 0):
    """Parts of ``images`` bikes and 100 detections on each."""
    dice = np.random.default_rng(seed)

    def boxes(count):
        corner = dice.uniform(0, 120, (count, 2))
        return np.concatenate([corner, corner + dice.uniform(5, 60, (count, 2))], axis=1)

    count = images * PARTS
    missing = dice.random(count) < 0.34
    parts = Parts(np.repeat(np.arange(images), PARTS), np.tile(np.arange(PARTS), images), boxes(count), missing)
    total = images * DETECTIONS
    image, label = np.repeat(np.arange(images), DETECTIONS), dice.integers(0, PARTS, total)
    return parts, (image, label, boxes(total), dice.random(total))


def vectorised(parts, detections):
    found = Found.of(parts, *detections)
    return [Verified.at(parts, found, *ious).counts(SCORES) for ious in ((0.5, 0.1), (0.0, 0.0))]


def naive(parts, detections):
    """Counts ``[101, 4]`` with and without localisation, one part and one detection at a time."""
    thresholds = SCORES.tolist()
    counts = [[[0, 0, 0, 0] for _ in thresholds] for _ in range(2)]
    columns = [column.tolist() for column in detections]
    by_image: dict[int, list[int]] = {}
    for d, image in enumerate(columns[0]):
        by_image.setdefault(image, []).append(d)
    for p in range(len(parts)):
        missing, a = bool(parts.missing[p]), parts.boxes[p].tolist()
        best = [-1.0, -1.0]
        for d in by_image.get(int(parts.image[p]), ()):
            if columns[1][d] != int(parts.label[p]):
                continue
            b = columns[2][d]
            wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
            shared = max(wide, 0) * max(high, 0)
            union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
            for k, least in enumerate((0.1 if missing else 0.5, 0.0)):
                if shared / union >= least:
                    best[k] = max(best[k], columns[3][d])
        for k in range(2):
            for row, threshold in zip(counts[k], thresholds, strict=True):
                row[2 * missing] += best[k] >= threshold
                row[2 * missing + 1] += 1
    return counts


def scoring(images: int, rounds: int) -> dict[str, float]:
    ratios, seconds = [], []
    parts, detections = world(images)
    few, few_detections = world(_NAIVE)
    assert np.array_equal(np.array(naive(few, few_detections)), np.array(vectorised(few, few_detections)))
    for _ in range(rounds):
        slow = cpu_seconds(lambda: naive(few, few_detections)) * images / _NAIVE
        fast = cpu_seconds(lambda: vectorised(parts, detections))
        ratios.append(slow / fast)
        seconds.append(fast)
    return {"scoring_vs_naive": statistics.median(ratios), "scoring_seconds": statistics.median(seconds)}


class Noted(VerifyStudy):
    """Remembers what it asks."""

    asked: list

    def run(self, case):
        steps, answer = super().run(case), None
        while True:
            try:
                asks = steps.send(answer)
            except StopIteration as stop:
                return stop.value
            self.asked += asks if isinstance(asks, list) else [asks]
            answer = yield asks


def turn(detector, pictures) -> tuple[float, float]:
    """Seconds, and processor seconds, of ``detector`` alone, pictures drawn before their turn on the clock."""
    wall = cpu = 0.0
    size = max(getattr(detector, "images_per_call", 0), getattr(detector, "batch_size", 8))
    for start in range(0, len(pictures), size):
        images = [picture.render() for picture in pictures[start : start + size]]
        began = time.perf_counter(), time.process_time()
        detector.detect(images)
        wall, cpu = wall + time.perf_counter() - began[0], cpu + time.process_time() - began[1]
    return wall, cpu


def studied(study, detector) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MISDETECT_CACHE"] = f"{folder}/predictions.sqlite"
        began = time.perf_counter(), time.process_time()
        run_study(study, detector, Path(folder) / "run", asking=Asking())
        return time.perf_counter() - began[0], time.process_time() - began[1]


def context(images: int, rounds: int, spec: str) -> dict[str, float]:
    detector, drawn = load_detector(spec), f"bikes:val,count={images}"
    with tempfile.TemporaryDirectory() as folder:
        export_coco(load_data(drawn), Path(folder) / "bikes")
        found = beside(detector, f"coco:{folder}/bikes/instances.json", rounds)
    found |= {f"{name}_drawn": value for name, value in beside(detector, drawn, rounds).items() if name != "pictures"}
    return found | {"images": images}


def beside(detector, data: str, rounds: int) -> dict[str, float]:
    """The context study of ``data`` beside ``detector`` alone."""
    how = VerifySettings(score=0.1)  # many hallucinations: it is the edits that are timed
    study = Noted(Opened(data), detector.names, how)
    study.asked = []
    studied(study, detector)
    pictures = [ask.picture for ask in study.asked]
    plain = VerifyStudy(Opened(data), detector.names, how)
    found = []
    for _ in range(rounds):
        half = len(pictures) // 2
        first, second = turn(detector, pictures[:half]), None
        own = studied(plain, detector)
        second = turn(detector, pictures[half:])
        found.append([(a + b) / c for a, b, c in zip(first, second, own, strict=True)])
    wall, cpu = (statistics.median(column) for column in zip(*found, strict=True))
    return {"context_vs_detector": wall, "context_vs_detector_cpu": cpu, "pictures": len(pictures)}


def planted(images: int) -> dict[str, dict[str, int]]:
    """Planted cause: how often each cause is named."""
    data = load_data(f"bikes:val,count={images}")
    faults = (Hallucinate(rate=0.3), HallucinateContext(), HallucinatePosition(), HallucinateAppearance())
    found = {}
    for fault in faults:
        document = verify(GlassBox(data, [fault]), data, cache=False).document
        row = document["with_localisation"]
        found[fault.name] = {cause: each["count"] for cause, each in document["causes"].items()}
        found[fault.name] |= {"missing_recall": round(row["missing_recall"], 3)}
        found[fault.name] |= {"interval": [round(end, 3) for end in row["intervals"]["missing_recall"]]}
        found[fault.name] |= {"untested": document["causes"]["none"]["reasons"].get("untested", 0)}
    return found


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--images", type=int, default=2000, short=20)
    parser.add_argument(
        "--context", type=int, default=150, short=3, help="images of the context study; 0 leaves it out"
    )
    parser.add_argument("--rounds", type=int, default=3, short=1)
    parser.add_argument("--detector", default="zoo:faster-rcnn-bikes")
    parser.add_argument("--planted", type=int, default=0, help="name planted causes on N bikes, and nothing else")
    given = parser.parse_args()
    if given.planted:
        print(json.dumps(planted(given.planted), indent=2))
        return
    found = scoring(given.images, given.rounds)
    if given.context:
        found |= context(given.context, given.rounds, given.detector)
    print(json.dumps({name: round(value, 3) for name, value in found.items()}, indent=2))


if __name__ == "__main__":
    main()
