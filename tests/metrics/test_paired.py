"""AP of any weights against hotcoco's on images that are really repeated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.metrics.ap import average_precision
from misdetect.metrics.bootstrap import resamples
from misdetect.metrics.columns import DetectionColumns, ImageRow, TruthColumns
from misdetect.metrics.paired import Boxes, Objects, Precision, difference


def world(seed, images=4, classes=3):
    """Random objects, some of them crowds, and detections near and far of them, with distinct scores."""
    rng = np.random.default_rng(seed)
    image = np.sort(rng.integers(0, images, 12))
    corner = rng.uniform(0, 60, (12, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(10, 40, (12, 2))], axis=1)
    label = rng.integers(0, classes, 12)
    crowd = rng.random(12) < 0.1
    chosen = rng.integers(0, 12, 30)
    near = boxes[chosen] + rng.normal(0, 3, (30, 4))
    near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1)
    order = np.argsort(image[chosen], kind="stable")
    wrong = np.where(rng.random(30) < 0.2, rng.integers(0, classes, 30), label[chosen])
    scores = rng.permutation(30) / 30
    found = Boxes(image[chosen][order], wrong[order], near[order], scores)
    return Objects(images, image, label, boxes, crowd), found


def by_hotcoco(objects, found, times, classes=3, pooled=False):
    """COCO's AP where image i is there ``times[i]`` times."""
    rows = [i for i, n in enumerate(times) for _ in range(int(n))]
    o, f = objects.of(rows), found.of(rows)
    zero = np.zeros_like
    names = ("all",) if pooled else tuple(map(str, range(classes)))
    areas = (o.boxes[:, 2:] - o.boxes[:, :2]).prod(axis=1)
    images = tuple(ImageRow(str(i), i, 200, 200) for i in range(len(rows)))
    label = zero(o.label) if pooled else o.label
    truth = TruthColumns(images, names, o.image, label, o.boxes, areas, o.crowd, np.arange(len(o.label)))
    return average_precision(
        truth, DetectionColumns.of(f.image, zero(f.label) if pooled else f.label, f.boxes, f.scores)
    ).overall["AP"]


@given(st.integers(0, 10_000), st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(any))
def test_weights_are_repeated_images(seed, times):
    objects, found = world(seed)
    expected = by_hotcoco(objects, found, times)
    value = Precision(objects, found).values([times])[0]
    if expected is None:
        assert np.isnan(value)
    else:
        assert value == pytest.approx(expected, abs=1e-9)


@given(st.integers(0, 10_000))
def test_without_classes_there_is_one_ranking(seed):
    objects, found = world(seed)
    expected = by_hotcoco(objects, found, np.ones(4), pooled=True)
    assert Precision(objects, found, any_class=True).ap == pytest.approx(expected or 0, abs=1e-9)
    if len(set(objects.label)) == 1:
        assert Precision(objects, found, pooled=True).ap == pytest.approx(Precision(objects, found).ap)


def test_a_reading_compared_with_itself_gains_nothing_and_the_truth_gains_all():
    objects, found = world(3)
    draws = resamples(4, 50)
    one = Precision(objects, found)
    assert difference(one, one, draws, 0.9) == (0, (0, 0))
    real = ~objects.crowd
    right = Boxes(objects.image[real], objects.label[real], objects.boxes[real], np.ones(real.sum()))
    nothing = found[np.zeros(len(found), bool)]
    gain, (low, high) = difference(Precision(objects, right), Precision(objects, nothing), draws, 0.9)
    assert (gain, low, high) == pytest.approx((1, 1, 1))


def test_only_the_best_hundred_of_an_image_count():
    objects = Objects(1, np.zeros(1, int), np.zeros(1, int), np.array([[0.0, 0, 10, 10]]), np.zeros(1, bool))
    boxes = np.repeat([[50.0, 50, 60, 60]], 120, axis=0)
    boxes[-1] = [0, 0, 10, 10]
    found = Boxes(np.zeros(120, int), np.zeros(120, int), boxes, np.linspace(1, 0.1, 120))
    assert Precision(objects, found).ap == 0
    assert Precision(objects, found[np.arange(119, 19, -1)]).ap > 0
