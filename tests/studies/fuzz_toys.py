"""A detector that is a function of the pixels, one that is not deterministic, and paper 4's oracle written again."""

import numpy as np

from misdetect.detections import Detections

TILE = 32


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
