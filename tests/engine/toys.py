"""Toy studies and detectors for the engine's tests and benchmarks: pure functions of the picture, no model."""

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from misdetect.data import load_data
from misdetect.engine.requests import Case, Detect
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Raw


def picture(seed: int, size: int = 16) -> Raw:
    pixels = np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)
    return Raw(pixels)


DATA = load_data([(picture(0).pixels, {"boxes": [], "labels": []})], names=["thing"])
"""One image, so that a study has something to look at."""


class SumDetector:
    """Detects one box whose score is a function of the pixels alone; counts its calls."""

    names = ("thing",)

    def __init__(self, delay: float = 0.0, fingerprint: str | None = None, batch_size: int = 4) -> None:
        self.delay, self.batch_size = delay, batch_size
        self.batches: list[int] = []
        if fingerprint:
            self.fingerprint = fingerprint

    def detect(self, images):
        self.batches.append(len(images))
        time.sleep(self.delay)
        return [Detections([[0, 0, 8, 8]], [float(image.mean()) / 255], [0]) for image in images]


def make_slow() -> SumDetector:
    return SumDetector(delay=0.004, batch_size=2)


@dataclass
class ChainStudy:
    """Case ``i`` asks ``1 + i % 5`` times, each question depending on the last answer; some ask the same thing."""

    count: int = 40
    name: str = "chain"

    @property
    def data(self):
        return DATA

    def settings(self):
        return {"count": self.count}

    @property
    def schema(self):
        return pa.schema([("step", pa.int32()), ("score", pa.float64())])

    def __len__(self) -> int:
        return self.count

    def cases(self):
        return (Case(i, f"case-{i}") for i in range(self.count))

    def run(self, case: Case):
        rows = []
        seed = case.index % 17
        for step in range(case.index % 6):
            found = yield Detect(picture(seed))
            score = float(found.scores[0])
            rows.append({"step": step, "score": score})
            seed = round(score * 1e4) % 1000
        return rows


def taken(found: Detections) -> Detections:
    """``found`` as the engine takes it: scores to four decimals, boxes to 1/64 pixel, written a second time."""
    boxes = [[round(side * 64) / 64 for side in box] for box in found.boxes.tolist()]
    return Detections(boxes, [round(score, 4) for score in found.scores.tolist()], found.labels)


def score_of(seed: int) -> float:
    """What ``SumDetector`` says of ``picture(seed)``, to the four decimals that scores are taken to."""
    return round(float(picture(seed).pixels.mean()) / 255, 4)


def chain(index: int) -> list[int]:
    """The pictures that case ``index`` of ``ChainStudy`` asks about, in order."""
    seeds = [index % 17]
    for _ in range(index % 6):
        seeds.append(round(score_of(seeds[-1]) * 1e4) % 1000)
    return seeds[:-1]


def chain_rows(count: int) -> list[dict]:
    """What ``ChainStudy`` must find, computed without the engine."""
    return [
        {"case_index": i, "case": f"case-{i}", "row": step, "step": step, "score": score_of(seed)}
        for i in range(count)
        for step, seed in enumerate(chain(i))
    ]
