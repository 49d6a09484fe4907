"""For the tests of scan: a detector that is a function of the pixels, a scan written a second time without the library,
and runs whose rows are made up."""

from dataclasses import asdict, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from misdetect.data import load_data
from misdetect.data.opened import Opened
from misdetect.engine import run_study
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case, Finished
from misdetect.engine.store import Run
from misdetect.metrics.harm import EFFECTS, HARMS
from misdetect.metrics.mechanisms import MECHANISMS
from misdetect.nouns.boxes import SIDES
from misdetect.nouns.detections import Detections
from misdetect.studies.scan.adaptive import AdaptiveScan, Search
from misdetect.studies.scan.pairs import Transplant, grid, transplants
from misdetect.studies.scan.rows import MEASURES, SCHEMA
from misdetect.studies.scan.settings import ScanSettings, stored
from misdetect.studies.scan.study import ScanStudy

TILE = 16


class TileDetector:
    """Every 16 × 16 tile is a box; its colours decide class, score and how far the box reaches. Not local: a tile's
    score also depends on how bright the whole image is, so pasting anywhere moves all scores."""

    names = ("cat", "chair", "table")
    batch_size = 4
    fingerprint = "tiles"

    def detect(self, images):
        return [self._one(image.astype(np.float64)) for image in images]

    def _one(self, image):
        boxes, scores, labels = [], [], []
        whole = image.mean() / 255
        for top in range(0, image.shape[0] - TILE + 1, TILE):
            for left in range(0, image.shape[1] - TILE + 1, TILE):
                red, green, blue = image[top : top + TILE, left : left + TILE].mean(axis=(0, 1))
                score = float((red + 2 * blue + 20 * whole) % 64 / 64)
                grow = green / 60
                boxes.append([left, top, min(left + TILE + grow, image.shape[1]), top + TILE])
                scores.append(score)
                labels.append(int(green // 24) % 3)
        return Detections(boxes, scores, labels)


def make_tiles():
    return TileDetector()


class BrokenTiles(TileDetector):
    """Fails on every seventh picture as long as it is ``broken``."""

    broken = True

    def detect(self, images):
        if self.broken and any(int(image.sum()) % 7 == 0 for image in images):
            raise ValueError("broken")
        return super().detect(images)


def naive_iou(a, b):
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def naive_positions(data, pair, step, score, detector):
    """{(x, y): (S, agnostic S, coverage, class difference)} of paper 1, pixel by pixel and pair by pair."""
    from toys import taken  # commands that load this file's detectors do not know those of the engine's tests

    background, source = data[pair.background], data[pair.source]
    image, donor, mask = background.image, source.image, source.truth.masks[pair.truth]
    rows, columns = np.nonzero(mask)
    top, left = rows.min(), columns.min()
    height, width = rows.max() - top + 1, columns.max() - left + 1

    def strong(picture):
        found = taken(detector.detect([picture])[0])
        return [(found.boxes[i], int(found.labels[i])) for i in range(len(found.boxes)) if found.scores[i] >= score]

    clean = strong(image)
    results = {}
    for y in range(0, image.shape[0] - height + 1, step):
        for x in range(0, image.shape[1] - width + 1, step):
            edited = image.copy()
            for r, c in zip(rows, columns, strict=True):
                edited[y + r - top, x + c - left] = donor[r, c]
            now = strong(edited)
            values = []
            for agnostic in (False, True):
                weights = np.zeros((len(now), len(clean)))
                for i, (a, al) in enumerate(now):
                    for j, (b, bl) in enumerate(clean):
                        weights[i, j] = naive_iou(a, b) if agnostic or al == bl else 0
                chosen = linear_sum_assignment(-weights)
                most = max(len(now) - 1, len(clean))
                values.append(weights[chosen].sum() / most if most else 1.0)
            t = (x, y, x + width, y + height)
            covered = [
                max(min(b[2], t[2]) - max(b[0], t[0]), 0)
                * max(min(b[3], t[3]) - max(b[1], t[1]), 0)
                / ((b[2] - b[0]) * (b[3] - b[1]))
                for b, _ in clean
            ]
            classes = {label for _, label in now} - {label for _, label in clean}
            results[x, y] = (*values, max(covered, default=0.0), len(classes))
    return results


def scan_of(data, pairs, names=TileDetector.names, **settings):
    """The study of a scan of ``pairs``, adaptive where the settings say so."""
    how = ScanSettings(**settings)
    opened = Opened(data)
    kind = AdaptiveScan if how.adaptive else ScanStudy
    return kind(opened, transplants(opened.data, pairs, how.step), names, how)


def scanned(study, detector, out, **options):
    """The finished run of ``study``; nothing is answered from a cache."""
    return run_study(study, detector, out, asking=Asking(cached=False), **options)


def annotated_rooms():
    """Rooms whose annotations are tiles: some as ``TileDetector`` sees them, some of another class, some crowds
    or absent; so all that can become of a detection happens. The classes have another order and other spellings than
    the detector's, and there is one that it lacks."""
    random, names, pairs = np.random.default_rng(7), ("table", "cat", "sofa", "Chair"), []
    for sample in load_data("rooms:val,size=64,count=8"):
        found = TileDetector().detect([sample.image])[0]
        chosen = np.flatnonzero(random.random(len(found)) < 0.7)
        labels = [{0: "cat", 1: "Chair", 2: "table"}[int(found.labels[i])] for i in chosen]
        masks = np.zeros((len(chosen), 64, 64), bool)
        for mask, box in zip(masks, found.boxes[chosen].astype(int), strict=True):
            mask[box[1] : box[1] + TILE, box[0] : box[0] + TILE] = True
        truth = {
            "boxes": found.boxes[chosen],
            "labels": [str(random.choice(names)) if random.random() < 0.3 else label for label in labels],
            "masks": masks,
            "ids": 100 + 10 * np.arange(len(chosen)) + 1000 * len(pairs),
            "crowd": random.random(len(chosen)) < 0.15,
            "states": random.choice(["intact", "damaged", "absent"], len(chosen), p=[0.5, 0.3, 0.2]).tolist(),
        }
        pairs.append((sample.image, truth))
    return load_data(pairs, names)


NAMES = ("cat", "chair", "table", "lamp")
FATES = ("suppressed", "score", "gone", None)


def random_run(path, seed, *, adaptive=False, control=True, fail=()):
    """A run directory with made-up rows in which everything that a document looks at varies, so that nothing can be
    mistaken for something else. Of its six pairs the third has no detections, and the fourth has the background of the
    first. Cases in ``fail`` failed."""
    random = np.random.default_rng(seed)
    images = [(96, 64), (80, 80), (64, 64), (96, 64), (72, 72), (64, 90)]
    drawn = [_random_transplant(random, i, size) for i, size in enumerate(images)]
    how = ScanSettings(step=8, control=control, adaptive=adaptive, precision=7.0, seed=seed)
    search = Search(7.0, how.tau, how.policy)
    stored_search = {**asdict(search), "tau": list(search.tau)} if adaptive else None
    settings = {
        **stored(replace(how, trace=True), stored_search),
        "transplants": [each.document() for each in drawn],
        "positions": sum(each.positions for each in drawn),
    }
    identity = {
        "study": "scan",
        "settings": settings,
        "detector": {"spec": "made", "fingerprint": "made", "names": list(NAMES)},
        "data": {"spec": "made", "fingerprint": "made", "names": list(NAMES), "limit": None, "part": None},
    }
    run = Run.start(path, identity, SCHEMA, command=[], versions={}, detector_settings={})
    index = 0
    for number, each in enumerate(drawn):
        originals = [] if number == 2 else _random_originals(random, each, 2 + number % 3)
        places = each.grid(8).tolist()
        if adaptive:
            places = [place for place in places if random.random() < 0.5] or places[:1]
        for condition in ("object", "control") if control else ("object",):
            rows = [_random_row(random, number, each, condition, place, originals, adaptive) for place in places]
            failed = "made up" if index in fail else None
            run.add(Finished(Case(index, f"{number}/{condition}"), [] if failed else rows, failed))
            index += 1
    run.note(cases=index, view=how.document("view"))
    run.close()
    return Run.open(path)


def _random_transplant(random, number, size):
    width, height = (int(side) for side in random.integers(12, 30, 2))
    background = "image-0" if number in (0, 3) else f"image-{number}"
    places = len(grid(*size, (width, height), 8))
    return Transplant(
        (number, number + 1, 0), background, f"from-{number}", 100 + number, "cat", *size, width, height, places
    )


def _random_originals(random, transplant, count):
    found = []
    for i in range(count):
        x, y = random.uniform(0, transplant.width - 20), random.uniform(0, transplant.height - 20)
        box = dict(zip(SIDES, (x, y, x + random.uniform(5, 20), y + random.uniform(5, 20)), strict=True))
        right = random.choice([True, False, None])
        found.append(
            {
                "label": NAMES[i % 4],
                "score": random.uniform(0.5, 1),
                **box,
                "right": right,
                "object": i if right else None,
            }
        )
    return found


def _random_row(random, number, transplant, condition, place, originals, adaptive):
    x, y = place
    values = {name: round(float(random.uniform()), 2) for name in MEASURES}  # also a τ itself, which is not below it
    values["coverage"] = float(random.choice([0.0, 0.1, 0.2, 0.6])) if originals else 0.0
    detected = bool(random.random() < 0.6)
    objects = [_random_fate(random, original, transplant) for original in originals]
    return {
        "pair": number,
        "condition": condition,
        "background": transplant.background,
        "source": transplant.source,
        "annotation": transplant.annotation,
        "width": transplant.width,
        "height": transplant.height,
        "x": x,
        "y": y,
        "weight": float(random.uniform(1, 9)) if adaptive else 1.0,
        **values,
        "class_difference": 0,
        "before": len(originals),
        "after": len(originals),
        "t_class": "cat",
        "t_detected": detected,
        "t_label": str(random.choice(NAMES[:2])) if detected else None,
        "t_score": 0.9 if detected else None,
        "t_confidence": float(random.uniform()),
        "objects": objects,
        "new": [_random_new(random) for _ in range(random.integers(0, 3))],
    }


def _random_fate(random, original, transplant):
    outcome = str(random.choice(["kept", "kept", "moved", "renamed", "lost"]))
    changed = outcome != "kept"
    diagonal = float(np.hypot(transplant.width, transplant.height))
    lost = outcome == "lost"
    return {
        **original,
        "coverage": float(random.choice([0.0, 0.0, 0.3])),
        "distance": float(random.choice([0.0, random.uniform(0, 0.8) * diagonal])),
        "outcome": outcome,
        "new_label": None if lost else str(random.choice(NAMES)),
        "new_score": None if lost else float(random.uniform(0.5, 1)),
        "iou": float(random.uniform()),
        "score_left": float(random.uniform(0, 0.5)),
        "flicker": bool(outcome in ("lost", "renamed") and random.random() < 0.3),
        "effect": str(random.choice(EFFECTS)) if changed and random.random() < 0.8 else None,
        "harm": str(random.choice(HARMS)) if changed else None,
        "fate": random.choice(FATES) if lost else None,
        "chain": ["a", "b"] if lost else None,
        "mechanism": str(random.choice(MECHANISMS)) if lost else None,
    }


def _random_new(random):
    kind = random.choice(["own", "renamed", "fresh", "fresh"])
    fresh = kind == "fresh"
    return {
        "label": str(random.choice(NAMES)),
        "score": float(random.uniform(0.5, 1)),
        **dict.fromkeys(SIDES, 1.0),
        "own": kind == "own",
        "on_parts": bool(kind == "own" or (fresh and random.random() < 0.6)),
        "renamed": kind == "renamed",
        "flicker": bool(fresh and random.random() < 0.3),
        "object": int(random.integers(9)) if fresh and random.random() < 0.3 else None,
        "effect": str(random.choice(EFFECTS)) if fresh and random.random() < 0.8 else None,
        "harm": str(random.choice(HARMS)) if fresh else None,
    }
