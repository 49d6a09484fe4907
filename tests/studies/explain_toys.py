"""A made-up world for explain: grey photos with random objects, and a detector with random candidates around them."""

import numpy as np

import misdetect as md
from misdetect.data.dataset import Dataset, Sample
from misdetect.nouns.candidates import Candidates, Dropped, Pairs, Reason
from misdetect.nouns.detections import Truth
from misdetect.nouns.picture import digest

NAMES = ("cup", "bowl", "lamp")


class Grey:
    """Pixels of one shade."""

    def __init__(self, seed):
        self.seed = seed

    def read(self):
        return np.full((100, 120, 3), 40 * (self.seed % 6), dtype=np.uint8)

    def key(self):
        return digest("grey", self.seed)


def boxes(rng, count):
    corner = rng.integers(0, 60, (count, 2))
    return np.concatenate([corner, corner + rng.integers(8, 40, (count, 2))], axis=1).astype(float)


def dataset(images=8, seed=0, names=NAMES, **more):
    """Up to six objects an image, the sixth a crowd."""
    rng = np.random.default_rng(seed)
    truths = [
        Truth(boxes(rng, n), rng.integers(0, len(names), n), ids=np.arange(n) + 10 * i, crowd=np.arange(n) == 5, **more)
        for i, n in enumerate(rng.integers(0, 7, images))
    ]
    made = [Sample(f"i{i}", Grey(i), t, 120, 100, image_id=i, file_name=f"a/{i}.png") for i, t in enumerate(truths)]
    return Dataset("made", names, images, lambda i: made[i], fingerprint=digest("made", images, seed))


class Random:
    """Candidates around the objects, good and bad, selected by score alone but for a few that are dropped."""

    names = (*NAMES, "unknown to the data")
    batch_size = 3

    def __init__(self, data, seed=0):
        self.of = {sample.key: (sample, seed + i) for i, sample in enumerate(data)}

    def trace_pictures(self, pictures, images=None):
        return [self._trace(*self.of[picture.key]) for picture in pictures]

    def trace(self, images):
        raise AssertionError("asked by picture")

    def detect(self, images):
        raise AssertionError("asked by picture")

    def detect_pictures(self, pictures, images=None):
        return [c.select() for c in self.trace_pictures(pictures)]

    def _trace(self, sample, seed):
        rng = np.random.default_rng(seed)
        base = np.concatenate([np.repeat(sample.truth.boxes, 4, axis=0), boxes(rng, 6)])
        sides = np.tile(base[:, 2:] - base[:, :2], 2)
        moved = [base + rng.normal(0, spread, base.shape) * sides for spread in (0.15, 0.12)]
        moved = [np.concatenate([np.minimum(b[:, :2], b[:, 2:] - 1), b[:, 2:]], 1).astype(np.float32) for b in moved]
        scores = (rng.random((len(base), 4)) ** 3).astype(np.float32)
        pairs = np.argwhere(scores > 0.05)
        out = rng.random(len(pairs)) < 0.5
        kept, lost = pairs[out], pairs[~out]
        reason = rng.choice([Reason.TOP_K, Reason.CAP], len(lost))
        return Candidates(
            *moved, scores, 1 - scores.max(axis=1, initial=0), np.arange(len(base)), Pairs(kept[:, 0], kept[:, 1]),
            Dropped(lost[:, 0], lost[:, 1], reason, np.full(len(lost), -1)),
        )  # fmt: skip


def explained(data, folder=None, seed=0, **settings):
    """The run of ``Random`` on ``data``."""
    return md.explain(Random(data, seed), data, out=folder, **settings)
