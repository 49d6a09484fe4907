"""Attribution of misses: its time against paper 3's algorithm as plain loops, and its memory on RetinaNet-sized traces.

Synthetic traces of the size of COCO val2017 (5,000 images, 36k objects, 1,000 proposals, 80 classes and background).
Making them is not timed. Prints one JSON document; times are the processor's, whatever else the machine is doing.

The plain loops are Algorithm 1 as the tests have it (``naive``: one object after the other, IoU computed box by box),
and the same written twice more: without turning each coordinate into a Python float first (``arrays``), and over lists
that were converted before the clock starts (``lists``), about the fastest that plain Python gets.

    python benchmarks/explain.py [--images N]
    python benchmarks/explain.py --confusion [--outside]      planted faults against diagnoses
"""

import json
import statistics
import subprocess
import sys
import time
from argparse import SUPPRESS
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from _measuring import Parser, memory_kb

import misdetect as md
from misdetect.data.dataset import Sample
from misdetect.metrics.diagnosis import diagnose
from misdetect.metrics.mechanisms import MECHANISMS, attribute, missed
from misdetect.nouns.candidates import Candidates, Dropped, Pairs, Reason
from misdetect.nouns.detections import Detections, Truth
from misdetect.studies.explain.rows import Seen, image_rows
from misdetect.studies.explain.settings import ExplainSettings

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "metrics"))
from mechanism_oracles import algorithm_1, is_missed

CLASSES, PROPOSALS, OBJECTS, ANCHORS = 80, 1000, 7.2, 160_000
WIDTH, HEIGHT = 640, 480
CHUNK, PASSES = 50, 3


def boxes(rng: np.random.Generator, count: int) -> np.ndarray:
    side = np.exp(rng.normal(4.2, 0.8, (count, 2)))
    corner = rng.uniform(0, 1, (count, 2)) * np.maximum([WIDTH, HEIGHT] - side, 1)
    return np.concatenate([corner, corner + side], axis=1)


def scene(seed: int, count: int) -> tuple[Candidates, np.ndarray, np.ndarray]:
    """A trace of ``count`` candidates, two thirds of them around objects. About three in ten objects are missed, by
    mechanisms in about the shares that paper 3 has for Faster R-CNN on COCO."""
    rng = np.random.default_rng(seed)
    objects = int(rng.poisson(OBJECTS))
    truth, labels = boxes(rng, objects), rng.integers(0, CLASSES, objects)
    fate = rng.choice(["found", *MECHANISMS], objects, p=[0.71, 0.058, 0.007, 0.035, 0.168, 0.022])
    near = rng.integers(0, max(objects, 1), count)
    away = (rng.random(count) < 1 / 3) | (objects == 0)
    base = boxes(rng, count)
    base[~away] = truth[near[~away]]
    side = np.tile(base[:, 2:] - base[:, :2], 2)
    # those of an object without a proposal lie beside it, those that the regressor spoils are moved beside it
    step = np.array([0.7, 0, 0.7, 0]) * side
    beside, spoilt = np.zeros(count, bool), np.zeros(count, bool)
    scores = rng.random((count, CLASSES), dtype=np.float32) ** 2 * np.float32(0.05)
    if objects:
        beside, spoilt = ~away & (fate[near] == "proposal"), ~away & (fate[near] == "regressor")
        guess = np.where(fate == "interclass", (labels + 1) % CLASSES, labels)
        strength = np.where(fate == "background", 0.2, 0.9)
        scores[np.arange(count), guess[near]] = np.where(away, 0.01, strength[near] * rng.uniform(0.5, 1, count))
    proposals = base + rng.normal(0, 0.12, base.shape) * side + step * beside[:, None]
    refined = base + rng.normal(0, 0.07, base.shape) * side + step * (beside | spoilt)[:, None]
    top = scores.argmax(axis=1)
    above = np.flatnonzero(scores[np.arange(count), top] >= 0.05)
    order = above[np.argsort(-scores[above, top[above]])]
    cut = fate[near[order]] == "discarded" if objects else np.zeros(len(order), bool)
    _, first = np.unique(near[order], return_index=True)  # the best of each object is kept
    best = np.isin(np.arange(len(order)), first) & ~cut
    kept, rest = order[best], order[~best]
    reasons = np.full(len(rest), int(Reason.TOP_K))
    return (
        Candidates(
            proposals.astype(np.float32),
            refined.astype(np.float32),
            scores,
            1 - scores.max(axis=1),
            np.arange(count),
            Pairs(kept, top[kept]),
            Dropped(rest, top[rest], reasons, np.full(len(rest), -1)),
        ),
        truth,
        labels,
    )


def overlap(a: object, b: object) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height)


def loop(truth: object, labels: object, refined: object, proposals: object, scores: object) -> list[str]:
    """Algorithm 1 over arrays or over plain lists."""
    found = []
    for box, label in zip(truth, labels, strict=True):
        localised = [k for k, b in enumerate(refined) if overlap(box, b) >= 0.5]
        if localised:
            if any(scores[k][label] >= 0.3 for k in localised):
                found.append("discarded")
            elif any(s >= 0.3 for k in localised for s in scores[k]):
                found.append("interclass")
            else:
                found.append("background")
        elif any(overlap(box, b) >= 0.5 for b in proposals):
            found.append("regressor")
        else:
            found.append("proposal")
    return found


@dataclass
class Scene:
    """One image: its trace, what was detected, and its objects, with those that were missed."""

    seen: Candidates
    found: Detections
    truth: np.ndarray
    labels: np.ndarray

    @cached_property
    def lost(self) -> np.ndarray:
        return missed(self.found, self.truth, self.labels)

    @cached_property
    def lists(self) -> list:
        return [part.tolist() for part in self.arrays]

    @property
    def arrays(self) -> list:
        return [self.seen.refined, self.seen.proposals, self.seen.scores]


def named(mechanisms: np.ndarray) -> list[str]:
    return [MECHANISMS[i] for i in mechanisms.tolist()]


def attributed(s: Scene, which: np.ndarray | slice) -> list[str]:
    return named(attribute(s.seen, s.truth[which], s.labels[which]))


def naive(s: Scene, which: np.ndarray | slice) -> list[str]:
    pairs = zip(s.truth[which], s.labels[which], strict=True)
    return [algorithm_1(box, label, s.seen) for box, label in pairs]


def naive_with_finding(s: Scene) -> list[str]:
    pairs = zip(s.truth, s.labels, strict=True)
    return [algorithm_1(box, label, s.seen) for box, label in pairs if is_missed(box, label, s.found)]


def with_evidence(s: Scene) -> list[str]:
    return named(diagnose(s.seen, s.truth[s.lost], s.labels[s.lost]).mechanism)


ALL = slice(None)
Run = Callable[[Scene], list[str]]
OURS: dict[str, Run] = {
    "all objects": lambda s: attributed(s, ALL),
    "misses": lambda s: attributed(s, s.lost),
    "finding the misses, and misses": lambda s: attributed(s, missed(s.found, s.truth, s.labels)),
    "misses with evidence": with_evidence,
}
LOOPS: dict[tuple[str, str], Run] = {
    ("all objects", "naive"): lambda s: naive(s, ALL),
    ("all objects", "arrays"): lambda s: loop(s.truth, s.labels, *s.arrays),
    ("all objects", "lists"): lambda s: loop(s.truth.tolist(), s.labels.tolist(), *s.lists),
    ("misses", "naive"): lambda s: naive(s, s.lost),
    ("misses", "arrays"): lambda s: loop(s.truth[s.lost], s.labels[s.lost], *s.arrays),
    ("misses", "lists"): lambda s: loop(s.truth[s.lost].tolist(), s.labels[s.lost].tolist(), *s.lists),
    ("finding the misses, and misses", "naive"): naive_with_finding,
}


def timed(run: Run, scenes: Sequence[Scene], passes: int = 1) -> tuple[float, list[list[str]]]:
    """Processor time of ``run`` over all ``scenes`` in turn, the median of ``passes``, and what it says."""
    took = []
    for _ in range(passes):
        start = time.process_time()
        found = [run(each) for each in scenes]
        took.append(time.process_time() - start)
    return statistics.median(took), found


def speed(images: int) -> dict[str, object]:
    """All 36k objects, and only the three in ten that are missed, by chunks of images that fit into memory. The loops
    run on the first chunk right after ours; of each the median of a few passes counts, so that both meet the same
    machine."""
    spent, objects, counts, ratios = Counter(), 0, Counter(), {}
    for first in range(-CHUNK, images, CHUNK):  # one chunk to warm up
        scenes = []
        for seed in range(first, min(first + CHUNK, images)):
            seen, truth, labels = scene(abs(seed), PROPOSALS)
            scenes.append(Scene(seen, seen.select(), truth, labels))
            _ = scenes[-1].lost, first or scenes[-1].lists  # made before the clock starts
        told = {}
        for name, run in OURS.items():
            took, told[name] = timed(run, scenes)
            spent[name] += took if first >= 0 else 0
        if first < 0:
            continue
        objects += sum(len(each.truth) for each in scenes)
        counts.update(name for each in told["misses"] for name in each)
        assert told["misses"] == told["misses with evidence"] == told["finding the misses, and misses"]
        if first == 0:
            ours = {name: timed(run, scenes, 7 * PASSES)[0] for name, run in OURS.items()}
            for (name, kind), run in LOOPS.items():
                took, theirs = timed(run, scenes, PASSES)
                assert theirs == told[name], f"the loop ({kind}) disagrees"
                ratios.setdefault(name, {})[kind] = round(took / ours[name], 1)
    return {
        "images": images,
        "objects": objects,
        "mechanisms_of_misses": dict(counts),
        "seconds": {name: round(value, 2) for name, value in spent.items()},
        "loop_to_vectorised": ratios,
        "loop_images": min(CHUNK, images),
    }


def memory() -> dict[str, object]:
    """In a process of its own: all rows of a few images with RetinaNet's number of anchors."""

    class Nowhere:
        def read(self):
            return np.zeros((HEIGHT, WIDTH, 3), np.uint8)

        def key(self):
            return "nowhere"

    names = [str(i) for i in range(CLASSES)]
    start, rows = 0.0, 0
    for seed in range(3):
        seen, truth, labels = scene(seed, ANCHORS)
        sample = Sample(str(seed), Nowhere(), Truth(truth, labels), WIDTH, HEIGHT)
        found = seen.select()
        how = ExplainSettings(reading="boxes")
        looked = Seen(sample, labels, names, names, found, np.ones(len(found), bool), seen, how)
        before = time.process_time()
        rows += len(image_rows(looked, sample.image))
        start += time.process_time() - before
    peak = memory_kb("VmHWM") / 1024
    return {"anchors": ANCHORS, "rows": rows, "peak_mb": round(peak), "seconds_per_image": round(start / 3, 3)}


def confusion(images: int, inside: bool) -> str:
    """Planted (rows) × diagnosed (columns), over all faults, as a Markdown table; from the inside, or from without."""
    import tempfile

    from misdetect.data import load_data
    from misdetect.detectors.glassbox.detector import GlassBox
    from misdetect.detectors.glassbox.faults import Cap, Misrank, NoProposal, OtherClass, Shift, Sink, TopK

    data = load_data("rooms:val").limit(images)
    names = MECHANISMS if inside else (*MECHANISMS, "unknown")
    lines = ["| planted | hit | " + " | ".join(names) + " | reason | TIDE type |", "|" + "---|" * (len(names) + 4)]
    for fault in (NoProposal(), Shift(), OtherClass(), Sink(), Misrank(), TopK(k=3), Cap(cap=3)):
        box = GlassBox(data, [fault])
        with tempfile.TemporaryDirectory() as folder:
            run = md.explain(box, data, out=f"{folder}/run", inside=inside, cache=False)
            rows = {(r["image"], r["id"]): r for r in run.rows().to_pylist() if r["kind"] == "object"}
        planted = [p for p in box.planted_table() if p["mechanism"] is not None]
        told = [rows[p["sample"], p["object"]] for p in planted]
        counts = Counter(row["mechanism"] for row in told)
        cells = [str(counts[name]) for name in names]
        why = [p["reason"].replace("_", "-") == r["reason"] for p, r in zip(planted, told, strict=True) if p["reason"]]
        type_ = [p["tide"] == r["tide"] for p, r in zip(planted, told, strict=True) if p["tide"]]
        shares = [f"{sum(part)} of {len(part)}" if part else "–" for part in (why, type_)]
        expected = planted[0]["mechanism"]
        lines.append(f"| `{fault.name}` ({expected}) | {len(planted)} | " + " | ".join([*cells, *shares]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--images", type=int, default=5000, short=3)
    parser.add_argument("--confusion", action="store_true", help="planted faults against diagnoses")
    parser.add_argument("--outside", action="store_true", help="with --confusion: look at the output only")
    parser.add_argument("--memory", action="store_true", help=SUPPRESS)
    given = parser.parse_args()
    if given.confusion:
        print(confusion(min(given.images, 100), not given.outside))
    elif given.memory:
        print(json.dumps(memory()))
    else:
        document = speed(given.images)
        document["retinanet"] = json.loads(subprocess.check_output([sys.executable, __file__, "--memory"]))
        print(json.dumps(document, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()
