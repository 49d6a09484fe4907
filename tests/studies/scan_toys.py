"""A detector that is a function of the pixels, and a scan written a second time without the library, for the tests."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from misdetect.detections import Detections

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


def naive_iou(a, b):
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def naive_positions(data, pair, step, score, detector):
    """{(x, y): (S, agnostic S, coverage, class difference)} of paper 1, pixel by pixel and pair by pair."""
    background, source = data[pair.background], data[pair.source]
    image, donor, mask = background.image, source.image, source.truth.masks[pair.truth]
    rows, columns = np.nonzero(mask)
    top, left = rows.min(), columns.min()
    height, width = rows.max() - top + 1, columns.max() - left + 1

    def strong(picture):
        found = detector.detect([picture])[0]
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
