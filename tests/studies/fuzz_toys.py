"""Detectors whose failures are known (functions of the pixels, or of the truth), data whose annotations are partly
wrong, campaigns of both, and paper 4's oracle written again."""

import numpy as np

import misdetect as md
from misdetect.data import load_data
from misdetect.data.dataset import Dataset, Sample
from misdetect.detectors.glassbox.detector import GlassBox
from misdetect.detectors.glassbox.faults import MoveNear, RenameNear, VanishNear
from misdetect.nouns.boxes import iou
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.picture import digest

TILE = 32
SPEC = "rooms:val,count=24"


def cut_out(rooms, folder):
    """The pool of all objects of ``rooms``, kept in a new folder in ``folder``."""
    md.pool(rooms, keep=1.0, border=0, min_side=10, out=folder / "pool")
    return folder / "pool"


def without_searches(settings):
    """Settings of a campaign that neither relocates nor shrinks."""
    return {"queries": 150, "relocate": False, "shrink": False, "seed": 1, "cache": False, **settings}


class BlotDetector:
    """Every 32 × 32 tile is a box whose class and score depend on its colours and, not locally, on the image's mean: so
    inserting anything anywhere moves all scores a little."""

    names = ("chair", "plant", "ball")
    batch_size = 4
    fingerprint = "blots"

    def detect(self, images):
        return [self._one(image.astype(np.float64)) for image in images]

    def _one(self, image):
        boxes, scores, labels = [], [], []
        whole = image.mean()
        for top in range(0, image.shape[0] - TILE + 1, TILE):
            for left in range(0, image.shape[1] - TILE + 1, TILE):
                red, green, blue = image[top : top + TILE, left : left + TILE].mean(axis=(0, 1))
                scores.append(float(0.15 + 0.6 * ((red + 2 * blue + whole) % 64) / 64))
                boxes.append([left + 4, top + 4, left + TILE - 4, top + TILE - 4])
                labels.append(int(green // 40) % 3)
        return Detections(np.array(boxes, dtype=float), np.array(scores), np.array(labels))


def make_blots():
    return BlotDetector()


class Restless(BlotDetector):
    """The same with scores that differ from call to call."""

    fingerprint = None

    def __init__(self):
        self._generator = np.random.default_rng(0)

    def detect(self, images):
        return [
            Detections(d.boxes, np.clip(d.scores + self._generator.normal(0, 0.1, len(d)), 0, 1), d.labels)
            for d in super().detect(images)
        ]


class Twofold(BlotDetector):
    """The same with two classes of one name: every other ball is a ball of the second kind."""

    names = ("chair", "plant", "ball", "ball")
    fingerprint = "twofold"

    def detect(self, images):
        return [
            Detections(d.boxes, d.scores, np.where((d.labels == 2) & (d.scores * 1e4 % 2 < 1), 3, d.labels))
            for d in super().detect(images)
        ]


class Nervous:
    """Sees what is there, but near an inserted object some classes vanish, are renamed or move, and some come up only
    then."""

    def __init__(self, rooms, distance=14):
        self.names = names = tuple(rooms.names)
        kinds = (VanishNear, {}), (RenameNear, {"to": "cat"}), (MoveNear, {})
        faults = [kind(distance=distance, classes=names[i::5], **more) for i, (kind, more) in enumerate(kinds)]
        self._box = GlassBox(rooms, faults)
        self._plain, self._without = GlassBox(rooms, []), GlassBox(rooms, [VanishNear(distance=distance)])
        self._shy = [i for i, name in enumerate(names) if name in names[3::5]]

    def detect(self, images):
        return self._all(box.detect(images) for box in (self._box, self._plain, self._without))

    def detect_pictures(self, pictures, images=None):
        return self._all(box.detect_pictures(pictures, images) for box in (self._box, self._plain, self._without))

    def _all(self, answers):
        return [self._one(*found) for found in zip(*answers, strict=True)]

    def _one(self, found, plain, without):
        open_ = found[~np.isin(found.labels, self._shy)]
        shy = plain[np.isin(plain.labels, self._shy)]
        near = shy[(iou(shy.boxes, without.boxes) < 0.5).all(axis=1)]  # what would vanish
        parts = open_, near, Detections(np.array([[0.0, 0, 4, 4]]), np.array([0.2]), np.array([0]))  # one is faint
        columns = ([getattr(part, name) for part in parts] for name in ("boxes", "scores", "labels"))
        return Detections(*map(np.concatenate, columns))


class Shaky:
    """Sees what is annotated; on any picture that is not one of ``rooms`` itself each object is missed with
    probability ``rate``, by a hash of the pixels: whatever was pasted, an object or a patch of texture."""

    def __init__(self, rooms, rate):
        self.names, self._rate = tuple(rooms.names), rate
        self._truths, self._known = [sample.truth for sample in rooms], np.stack([sample.image for sample in rooms])

    def detect(self, images):
        return [self._one(image) for image in images]

    def _one(self, image):
        nearest = int((image[::5, ::5] != self._known[:, ::5, ::5]).sum(axis=(1, 2, 3)).argmin())
        truth = self._truths[nearest]
        kept = np.ones(len(truth), dtype=bool)
        if (image != self._known[nearest]).any():
            kept = np.random.default_rng(int(digest(image)[:12], 16)).random(len(truth)) >= self._rate
        boxes = np.vstack([truth.boxes[kept], [[0.0, 0.0, 4.0, 4.0]]])  # the last one is faint
        return Detections(boxes, np.append(np.full(kept.sum(), 0.9), 0.2), np.append(truth.labels[kept], 0))


class Hiding:
    """``detector`` behind a threshold of its own."""

    def __init__(self, detector, least):
        self.names, self._detector, self._least = detector.names, detector, least

    def detect(self, images):
        return [found.above(self._least) for found in self._detector.detect(images)]


class Adjustable(Hiding):
    """Blots behind a threshold that its spec can set."""

    fingerprint = None

    def __init__(self, score="0.5"):
        super().__init__(BlotDetector(), float(score))
        self.settings = {"score": float(score)}


def misannotated(rooms):
    """``rooms`` with some annotations left out, some that call the object a cat, and some crowds: what a detector finds
    that sees what is there is right, wrong, or cannot be judged."""

    def sample(i):
        own, cat = rooms[i], rooms.names.index("cat")
        ids = np.asarray(own.truth.ids)
        kept = ids % 4 != 1
        truth = Truth(
            own.truth.boxes[kept],
            np.where(ids % 4 == 3, cat, own.truth.labels)[kept],
            ids[kept],
            crowd=(ids % 8 == 6)[kept],
        )
        return Sample(own.id, own.source, truth, own.width, own.height, own.image_id, own.file_name)

    return Dataset("misannotated:", rooms.names, len(rooms), sample, fingerprint=f"other than {rooms.fingerprint}")


def nervous_campaign(folder, pool, **settings):
    """A campaign in which every kind of change, effect and harm occurs, on data that is known here only."""
    rooms = load_data("rooms:val,count=24")
    chosen = {"strategy": "guided", "reach": 3, "queries": 300, "oracle": "strict", "seed": 1, "cache": False}
    return md.fuzz(Nervous(rooms), misannotated(rooms), pool=pool, out=folder, **chosen | settings)


def naive_iou(a, b):
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return shared / union if union else 0.0


def naive_fails(before, after, pasted, score=0.5, iou=0.5):
    """Whether mAP (PASCAL VOC, every point) of ``after`` against ``before`` is below 100 %."""

    def records(found):
        zipped = zip(found.boxes.tolist(), found.scores.tolist(), found.labels.tolist(), strict=True)
        return [(box, s, label) for box, s, label in zipped if s >= score]

    def continues(box):
        overlap = max((naive_iou(box, one) for one, _, _ in records(before)), default=0.0)
        return overlap >= iou and overlap > naive_iou(box, pasted)

    def own(box):
        centre = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        near = abs(box[0] - pasted[0]) < 10 and abs(box[1] - pasted[1]) < 10
        return near or (pasted[0] <= centre[0] <= pasted[2] and pasted[1] <= centre[1] <= pasted[3])

    reference = records(before)
    found = [record for record in records(after) if not own(record[0]) or continues(record[0])]
    for label in {record[2] for record in reference}:
        truths = [record[0] for record in reference if record[2] == label]
        taken, hits = set(), []
        for box, _, _ in sorted((r for r in found if r[2] == label), key=lambda r: -r[1]):
            overlaps = [naive_iou(box, truth) for truth in truths]
            best = overlaps.index(max(overlaps))
            hits.append(overlaps[best] >= iou and best not in taken)
            taken |= {best} if hits[-1] else set()
        precision = [sum(hits[: n + 1]) / (n + 1) for n in range(len(hits))]
        recall = [sum(hits[: n + 1]) / len(truths) for n in range(len(hits))]
        area = sum((recall[n] - (recall[n - 1] if n else 0)) * max(precision[n:]) for n in range(len(hits)))
        if area < 1 - 1e-12:
            return True
    return False
