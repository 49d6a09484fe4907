"""Planted mistakes of wiring and what ``doctor`` says first: ``python benchmarks/doctor.py [--images N] [--onnx]
[--alarms N]``.

By default the mistakes wrapped around ``zoo:yolox``; ``--onnx`` those of the real detectors in ``../shared/fixtures``;
``--alarms N`` counts the findings of detectors that are wired right, on N subsets of the data each (there should be
none).
"""

import sys
import time
from pathlib import Path

import numpy as np
from _measuring import Parser, need_fixtures

import misdetect as md

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "studies"))

from doctor_mistakes import COCO66, FASTESTDET, ONNX, SQUARE, WIDE, YOLOX, Remembering, Wrong, oblong

ZOO = ("ssd", "faster-rcnn", "retinanet", "yolox", "deformable-detr")
BIKES = ("faster-rcnn-bikes", "retinanet-bikes", "yolox-bikes")


def table(cases, images):
    """One line per planted mistake; returns how many were named first."""
    right = 0
    for name, detector, data, kind, word in cases:
        started = time.perf_counter()
        run = md.doctor(detector, data, images=images)
        first = next(iter(run.document["findings"]), None)
        named = first is not None and first["kind"] == kind and word in first["change"]
        right += named
        told = "nothing" if first is None else f"{first['kind']}: {first['change']}"
        if first is not None and first["after"] is not None:
            told += f", AP {first['before']:.3f} -> {first['after']:.3f}"
        asked = run.outcome.stats["queries"] + run.outcome.stats["cached"]
        took = time.perf_counter() - started
        print(
            f"{'ok ' if named else 'NO '} {name:42s} {told[:110]:110s} {asked:4d} questions {took:5.1f} s", flush=True
        )
    print(f"{right} of {len(cases)} planted mistakes are named first")


def planted():
    model = Remembering(md.load_detector("zoo:yolox"))
    rooms = md.load_data("rooms:val,count=200")
    wide = oblong(rooms, 80)
    for name, (kind, word, how) in SQUARE.items():
        yield name, Wrong(model, **how), rooms, kind, word
    for name, (kind, word, how) in WIDE.items():
        yield name, Wrong(model, **how), wide, kind, word


def alarms(subsets, images, only):
    """Findings of detectors that are wired right, on random subsets of the data."""
    rights = [(f"zoo:{name}", "rooms:val,count=120") for name in ZOO] + [
        (f"zoo:{n}", "bikes:val,count=120") for n in BIKES
    ]
    if Path(COCO66[5:].partition(",")[0]).exists():
        rights += [(YOLOX, COCO66), (FASTESTDET, COCO66)]
    total = 0
    for spec, source in [each for each in rights if only in each[0]]:
        data, found = md.load_data(source), []
        model = Remembering(md.load_detector(spec)) if spec.startswith("zoo:") else spec
        for seed in range(subsets):
            part = data.subset(np.random.default_rng(seed).permutation(len(data))[: len(data) // 2].tolist())
            run = md.doctor(model, part, images=images, seed=seed)
            found += [each["change"] for each in run.document["findings"]]
        total += len(found)
        print(f"{spec[:60]:60s} {len(found)} findings on {subsets} subsets {found[:2]}", flush=True)
    print(f"{total} false alarms")


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--images", type=int, default=48, short=12)
    parser.add_argument("--onnx", action="store_true")
    parser.add_argument("--alarms", type=int, default=0)
    parser.add_argument("--only", default="", short="scores in percent")
    given = parser.parse_args()
    if given.alarms:
        alarms(given.alarms, given.images, given.only)
    elif given.onnx:
        need_fixtures()
        cases = [(name, spec, COCO66, kind, "") for name, (spec, kind) in ONNX.items() if given.only in name]
        table(cases, given.images)
    else:
        table([case for case in planted() if given.only in case[0]], given.images)


if __name__ == "__main__":
    main()
