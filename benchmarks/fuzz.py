"""What a campaign finds and what it costs: strategies compared at equal budgets, and its speed over the detector's.

    python benchmarks/fuzz.py yield [--queries 1000] [--seeds 5] [--models yolox fastestdet] [--half 1] [--recheck 10]
    python benchmarks/fuzz.py speed [--queries 1000] [--rounds 3]

``yield``: distinct attributable failures (background, affected object, type) per 1,000 queries of random, guided and
adaptive insertion on the photos of coco66; questions about clean backgrounds and controls are queries like any
other. The mean over seeds, and the ratio to guided insertion with its 90 % interval (seeds drawn again, paired); the
same of those that do harm. ``--half 0`` and ``--half 1`` are every other photo: what is tuned on one is measured on the
other. ``--recheck 10`` asks about each attributable failure with ten further patches, beyond the budget: how many fail
with none of them, and with at least half. ``--patches 1 --sure 0.6`` is the rule of one patch.
``speed``: queries per second of a whole campaign into a new run directory over those of ``detector.detect`` alone on
the same images, drawn before the clock starts, in the same process and with the same threads (the campaign draws and
compares in a second one), asked once before the campaign and once after it, the mean of both, since machines drift;
imports, the model and the pool are in neither. Two workers over one, and over the detector alone: from the first fifth
of the cases to the last, since starting processes is no matter of speed. The median of the rounds.
"""

import json
import statistics
import tempfile
import time
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from _measuring import FIXTURES, PHOTOS, YOLOX_NANO, Parser, need_fixtures

from misdetect.data import load_data
from misdetect.data.opened import Opened
from misdetect.detectors import load_detector
from misdetect.engine import run_study
from misdetect.engine.backend import Asking
from misdetect.metrics.metamorphic import compare
from misdetect.pools.pool import load_pool
from misdetect.studies.documents import document_of
from misdetect.studies.fuzz.results import Campaign
from misdetect.studies.fuzz.rows import Insertion
from misdetect.studies.fuzz.settings import FuzzSettings
from misdetect.studies.fuzz.study import FuzzStudy

ROOT = Path(__file__).parents[1]
MODELS = {
    "yolox": f"{YOLOX_NANO},threads=1",
    "fastestdet": f"onnx:{FIXTURES}/models/fastestdet.onnx,decoder=python:{ROOT}/examples/fastestdet.py:decode,"
    "size=352,resize=stretch,colour=bgr,scale=1/255,names=coco,score=0.05,threads=1",
}
ARMS = {  # name: strategy, reach
    "random": ("random", 0),
    "guided": ("guided", 0),
    "guided, reach 3": ("guided", 3),
    "adaptive, reach 0": ("adaptive", 0),
    "adaptive": ("adaptive", 3),
}


def campaign(
    detector, pool, strategy, reach, queries, seed, folder, spec=None, cached=True, data=PHOTOS, rule=None, **options
):
    """Run one campaign into ``folder``; its outcome and study."""
    own = {"strategy": strategy, "queries": queries, "reach": reach, "seed": seed, "relocate": False, "shrink": False}
    study = FuzzStudy(Opened(data), pool, detector.names, FuzzSettings(**own, **(rule or {})))
    make = None if spec is None else partial(load_detector, spec)
    asking = Asking(cached=cached)
    return run_study(study, detector, folder, make_detector=make, asking=asking, **options), study


def measure_yield(args) -> dict:
    """Attributable failures, and those that do harm, per 1,000 queries, by model and arm, one number per seed."""
    pool = load_pool(PHOTOS)
    data = PHOTOS if args.half is None else load_data(PHOTOS)[args.half :: 2]
    rule = {name: getattr(args, name) for name in ("patches", "chance", "sure")}
    result = {}
    for model in args.models:
        detector = load_detector(MODELS[model])
        found, harmful = {arm: [] for arm in args.arms}, {arm: [] for arm in args.arms}
        checked = {arm: np.zeros(3, dtype=int) for arm in args.arms}
        for seed in range(args.first, args.first + args.seeds):
            for arm in args.arms:
                strategy, reach = ARMS[arm]
                with tempfile.TemporaryDirectory() as folder:
                    outcome, study = campaign(
                        detector, pool, strategy, reach, args.queries, seed, Path(folder) / "run", data=data, rule=rule
                    )
                    summary = document_of(outcome.run)
                    checked[arm] += recheck(detector, study, outcome.run, args.recheck)
                found[arm].append(summary["attributable_per_1000"])
                harmful[arm].append(summary["harmful_per_1000"])
                if not args.json:
                    keys = ("attributable", "queries", "insertions", "failing_insertions", "flicker", "by_control")
                    told = {key: summary[key] for key in keys} | {"harmful": summary["harm"]["harmful"]}
                    print(model, seed, arm, told, "rechecked", checked[arm].tolist(), flush=True)
        result[model] = {
            arm: _against(found[arm], found.get("guided"))
            | {"harmful": _against(harmful[arm], harmful.get("guided"))}
            | {"rechecked": dict(zip(("all", "none", "half"), checked[arm].tolist(), strict=True))}
            for arm in found
        }
    return result


def recheck(detector, study, run, patches) -> np.ndarray:
    """Attributable failures, those that fail with none of ``patches`` further patches, and with at least half."""
    counts = np.zeros(3, dtype=int)
    bench, found = study.bench, Campaign.of(run)
    if not patches:
        return counts
    clean = {row["image"]: bench.classes.detections(row["detections"]) for row in found.clean}
    for failure in found.attributable:
        insertion, change = Insertion.of_row(failure.row), bench.classes.change(failure.change)
        used = len(failure.change["patches"])
        pictures = [patch.render() for patch in islice(bench.controls(insertion), used, used + patches)]
        answers = [answer for image in pictures for answer in detector.detect([image])]
        before = clean[failure.row["image"]]
        same = [
            any(change.same_as(other) for other in compare(before, after, insertion.box, study.how.rules))
            for after in answers
        ]
        counts += [1, not any(same), 2 * sum(same) >= len(same)]
    return counts


def _against(values, guided) -> dict:
    entry = {"per_1000": round(statistics.mean(values), 2), "seeds": [round(v, 2) for v in values]}
    if guided is not None and sum(guided):
        draws = np.random.default_rng(0).integers(0, len(values), (2000, len(values)))
        one, other = np.array(values)[draws].sum(axis=1), np.array(guided)[draws].sum(axis=1)
        ratios = one[other > 0] / other[other > 0]
        low, high = np.quantile(ratios, [0.05, 0.95])
        entry["times_guided"] = round(sum(values) / sum(guided), 2)
        entry["interval"] = [round(float(low), 2), round(float(high), 2)]
    return entry


def measure_speed(args) -> dict:
    """Throughput of guided and adaptive campaigns over the detector's own, and two workers over one."""
    pool, spec = load_pool(PHOTOS), MODELS["yolox"]
    detector = load_detector(spec)
    ratios = {name: [] for name in ("guided", "adaptive", "two_workers", "two_workers_over_detector")}
    for turn in range(args.rounds):
        for strategy in ("guided", "adaptive"):
            images, _ = _campaign_rate(detector, pool, strategy, args.queries, turn)
            before = _own_rate(detector, images)
            _, rate = _campaign_rate(detector, pool, strategy, args.queries, turn)
            ratios[strategy].append(2 * rate / (before + _own_rate(detector, images)))
        own = _own_rate(detector, images)
        one, two = (_steady_rate(detector, pool, spec, args.queries, turn, workers) for workers in (1, 2))
        ratios["two_workers"].append(two / one)
        ratios["two_workers_over_detector"].append(2 * two / (own + _own_rate(detector, images)))
    return {name: round(statistics.median(values), 3) for name, values in ratios.items()}


def _campaign_rate(detector, pool, strategy, queries, seed):
    """The images of a campaign (half as many as queries) and its queries per second."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        outcome, study = campaign(detector, pool, strategy, 0, queries, seed, Path(folder) / "run", cached=False)
        rate = outcome.stats["queries"] / (time.perf_counter() - started)
        asked = Campaign.of(outcome.run).asked[: queries // 2]
        return [study.bench.picture(Insertion.of_row(row)).render() for row in asked], rate


def _steady_rate(detector, pool, spec, queries, seed, workers) -> float:
    """Queries per second of a guided campaign from the first fifth of its cases on."""
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        outcome, _ = campaign(
            detector, pool, "guided", 0, queries, seed, Path(folder) / "run", spec, cached=False, workers=workers,
            progress=lambda *_: times.append(time.perf_counter()),
        )  # fmt: skip
    first = len(times) // 5
    return (len(times) - first) / (times[-1] - times[first]) * outcome.stats["queries"] / outcome.done


def _own_rate(detector, images) -> float:
    batch = detector.batch_size
    started = time.perf_counter()
    for start in range(0, len(images), batch):
        detector.detect(images[start : start + batch])
    return len(images) / (time.perf_counter() - started)


def main() -> None:
    """Measure one of the two, or both, and print it."""
    parser = Parser(__doc__)
    parser.add_argument("what", nargs="?", choices=["yield", "speed"], help="both by default")
    parser.add_argument("--queries", type=int, default=1000, short=60)
    parser.add_argument("--seeds", type=int, default=5, short=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--half", type=int, choices=[0, 1], help="every other photo only")
    parser.add_argument("--recheck", type=int, default=0, help="further patches per attributable failure")
    parser.add_argument("--patches", type=int, default=FuzzSettings.patches)
    parser.add_argument("--chance", type=float, default=FuzzSettings.chance)
    parser.add_argument("--sure", type=float, default=FuzzSettings.sure)
    parser.add_argument("--rounds", type=int, default=3, short=1)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS), short=["guided", "adaptive"])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    need_fixtures()
    pa.Table.from_pylist([{"a": 1}])  # imports pandas where that is installed; imports are in neither
    for what, measure in {"yield": measure_yield, "speed": measure_speed}.items():
        if args.what in (None, what):
            print(json.dumps(measure(args), indent=None if args.json else 2, sort_keys=True))


if __name__ == "__main__":
    main()
