"""Gradient requests: batched by loss, each answer to the one who asked for it."""

import time

import numpy as np
import pyarrow as pa
import pytest
from toys import DATA

from misdetect.engine.pump import Pump
from misdetect.engine.requests import Case, Gradient
from misdetect.nouns.detections import Truth

LOSSES = ("cls", "loc", "all")
NOTHING = Truth.empty()


class Slope:
    """A differentiable toy: the loss of an image is its sum times a factor of the loss, so its slope is that factor."""

    names = ("thing",)
    batch_size = 4

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def detect(self, images):
        raise AssertionError("nobody asks for detections here")

    def gradient(self, images, truths, loss):
        factor = 1.0 + LOSSES.index(loss)
        self.calls.append((loss, len(images)))
        values = np.array([factor * float(image.sum()) for image in images])
        return values, [np.full(image.shape, factor, dtype=np.float32) for image in images]


class Climb:
    """Case ``i`` climbs loss ``i % 3`` for three steps."""

    name, schema, data = "climb", pa.schema([]), DATA

    def __init__(self, count: int) -> None:
        self.count = count

    def settings(self):
        return {}

    def __len__(self):
        return self.count

    def cases(self):
        return (Case(i, str(i)) for i in range(self.count))

    def run(self, case):
        pixels = np.full((2, 2, 3), float(case.index), dtype=np.float32)
        values = []
        for _ in range(3):
            value, slope = yield Gradient(pixels, NOTHING, LOSSES[case.index % 3])
            pixels = pixels + slope
            values.append(value)
        return [{"values": values}]


def naive(index: int) -> list[float]:
    factor, pixel, values = 1.0 + index % 3, float(index), []
    for _ in range(3):
        values.append(factor * 12 * pixel)
        pixel += factor
    return values


@pytest.mark.parametrize("count", [1, 3, 12, 25])
def test_answers_reach_those_who_asked(count):
    study, detector = Climb(count), Slope()
    found = {f.case.index: f.rows[0]["values"] for f in Pump(detector, study).run(study.cases())}
    assert found == {i: pytest.approx(naive(i)) for i in range(count)}
    assert sum(size for _, size in detector.calls) == 3 * count


def test_a_mixture_of_losses_does_not_cost_more_calls():
    """24 cases of three losses, three steps, batches of four: 18 calls, as many as if there were one loss."""
    study, detector = Climb(24), Slope()
    list(Pump(detector, study).run(study.cases()))
    assert len(detector.calls) == 18
    assert {size for _, size in detector.calls} == {4}


class Slow(Slope):
    def gradient(self, images, truths, loss):
        answers = super().gradient(images, truths, loss)
        time.sleep(0.02)
        return answers


class TwoHalves:
    """Cases 0 and 3 at once, 6 and 9 while the detector is busy with them: all climb the same loss."""

    def __init__(self, detector: Slope) -> None:
        self.cases, self.detector, self.waited = [0, 3, 6, 9], detector, False

    def next(self, block):
        if not self.cases:
            raise StopIteration
        if self.cases[0] == 6 and not self.waited:
            self.waited = True
            return None
        while self.cases[0] == 6 and not self.detector.calls:
            time.sleep(0.001)
        place = self.cases.pop(0)
        return Case(place, str(place))


def test_those_who_climb_step_by_step_come_together_again():
    detector = Slow()
    found = {done.case.index: done.rows for done in Pump(detector, Climb(12)).run(TwoHalves(detector))}
    assert {index: rows[0]["values"] for index, rows in found.items()} == {i: naive(i) for i in (0, 3, 6, 9)}
    assert [n for _, n in detector.calls] == [2, 4, 4, 2]
