"""AP of resamples: the number itself with every image once, and AP of data in which images really occur repeatedly."""

import numpy as np
import pytest

from misdetect.metrics.ap import average_precision
from misdetect.metrics.columns import DetectionColumns, ImageRow, TruthColumns
from misdetect.metrics.paired import ap_of_draws, resampled_ap


def world(seed, images=7, classes=3, crowds=True):
    """Objects, some of them crowds, and detections near and far."""
    rng = np.random.default_rng(seed)
    truth, found = [], []
    for image in range(images):
        for _ in range(int(rng.integers(0, 5))):
            corner, label = rng.uniform(0, 60, 2), int(rng.integers(classes))
            box = np.concatenate([corner, corner + rng.uniform(10, 30, 2)])
            truth.append((image, label, box, crowds and rng.random() < 0.15))
            for _ in range(int(rng.integers(0, 3))):
                said = label if rng.random() < 0.8 else int(rng.integers(classes))
                found.append((image, said, box + rng.normal(0, 2.5, 4), round(float(rng.random()), 2)))
        for _ in range(int(rng.integers(0, 3))):
            corner = rng.uniform(0, 60, 2)
            found.append((image, int(rng.integers(classes)), [*corner, *(corner + 15)], round(float(rng.random()), 2)))
    return columns(truth, found, images, classes)


def columns(truth, found, images, classes):
    boxes = np.array([t[2] for t in truth], float).reshape(-1, 4)
    return TruthColumns(
        images=tuple(ImageRow(str(i), i, 100, 100) for i in range(images)),
        names=tuple("abcdef"[:classes]),
        image=np.array([t[0] for t in truth], np.int64),
        label=np.array([t[1] for t in truth], np.int64),
        boxes=boxes,
        areas=np.prod(boxes[:, 2:] - boxes[:, :2], axis=1),
        crowd=np.array([t[3] for t in truth], np.bool_),
        ids=np.arange(len(truth)),
    ), DetectionColumns.of([f[0] for f in found], [f[1] for f in found], [f[2] for f in found], [f[3] for f in found])


def repeated(truth, found, draws):
    """The same data with image i written down ``draws[i]`` times."""
    objects, detections, number = [], [], 0
    for image, times in enumerate(draws.astype(int).tolist()):
        for _ in range(times):
            for t in np.flatnonzero(truth.image == image).tolist():
                objects.append((number, int(truth.label[t]), truth.boxes[t], bool(truth.crowd[t])))
            for d in np.flatnonzero(found.image == image).tolist():
                detections.append((number, int(found.label[d]), found.boxes[d], float(found.scores[d])))
            number += 1
    return columns(objects, detections, number, len(truth.names))


@pytest.mark.parametrize("seed", range(12))
def test_drawing_each_image_once_is_the_number_itself(seed):
    truth, found = world(seed)
    overall = average_precision(truth, found).overall
    (ap,), (ap50,) = ap_of_draws(truth, found, np.ones((1, 7)))
    assert ap == pytest.approx(overall["AP"], abs=1e-9)
    assert ap50 == pytest.approx(overall["AP50"], abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_a_resample_is_the_ap_of_data_in_which_images_occur_so_often(seed):
    truth, found = world(seed, crowds=False)
    draws = np.random.default_rng(seed).multinomial(7, np.full(7, 1 / 7), size=3).astype(float)
    ap, ap50 = ap_of_draws(truth, found, draws)
    for r in range(3):
        overall = average_precision(*repeated(truth, found, draws[r])).overall
        # among equal scores the copies of an image stand together here and apart there
        assert ap[r] == pytest.approx(overall["AP"], abs=0.01)
        assert ap50[r] == pytest.approx(overall["AP50"], abs=0.01)


def test_the_interval_of_one_image_is_a_point_and_of_no_detection_nothing():
    truth, found = world(1, images=1)
    ap, ap50 = resampled_ap(truth, found, repeats=20)
    assert np.ptp(ap) == np.ptp(ap50) == 0
    truth, _ = world(2)
    nothing = DetectionColumns.of([], [], np.zeros((0, 4)), [])
    assert not np.nan_to_num(resampled_ap(truth, nothing, repeats=20)[0]).any()
