"""AP and AR: pycocotools is the oracle, the COCO API's own numbers the anchor."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from score_oracles import cocoapi100, columns, pycocotools_evaluation, random_coco

from misdetect.metrics import ap
from misdetect.metrics.ap import METRICS, average_precision
from misdetect.said.errors import BadArray

PUBLISHED = (0.505, 0.697, 0.573, 0.586, 0.519, 0.501, 0.387, 0.594, 0.595, 0.640, 0.566, 0.564)


def as_numbers(overall):
    """In pycocotools' terms, where undefined is -1."""
    return np.array([-1 if overall[k] is None else overall[k] for k in METRICS])


def per_class(evaluation):
    precision = evaluation.eval["precision"][:, :, :, 0, 2]
    return [c[c > -1].mean() if (c > -1).any() else np.nan for c in np.moveaxis(precision, 2, 0)]


def test_the_published_twelve_numbers(tmp_path):
    result = average_precision(*columns(*cocoapi100(), tmp_path))
    assert np.round(as_numbers(result.overall), 3).tolist() == list(PUBLISHED)


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_agrees_with_pycocotools_on_cocoapi100(tmp_path, kind):
    truth, records = cocoapi100(kind)
    masks = kind == "segm"
    result = average_precision(*columns(truth, records, tmp_path, masks=masks), masks=masks)
    oracle = pycocotools_evaluation(truth, records, kind)
    np.testing.assert_allclose(as_numbers(result.overall), oracle.stats, atol=1e-6)
    np.testing.assert_allclose(result.ap, per_class(oracle), atol=1e-6)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"crowd": 0.25},
        {"decimals": 1, "crowd": 0.1},
        {"without_truth": 2, "classes": 6},
        {"objects": 1, "images": 8, "copies": 1},
        {"objects": 30, "images": 4, "copies": 12, "classes": 1},
    ],
    ids=["plain", "crowds", "tied scores", "classes without truth", "sparse", "more than 100 per image"],
)
def test_agrees_with_pycocotools_on_random_data(tmp_path, seed, shape):
    truth, records = random_coco(seed, **shape)
    result = average_precision(*columns(truth, records, tmp_path))
    oracle = pycocotools_evaluation(truth, records)
    np.testing.assert_allclose(as_numbers(result.overall), oracle.stats, atol=1e-6)
    np.testing.assert_allclose(result.ap, per_class(oracle), atol=1e-6)


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_an_older_hotcoco_is_told_the_same_by_records(tmp_path, monkeypatch, kind):
    both, masks = columns(*cocoapi100(kind), tmp_path, masks=kind == "segm"), kind == "segm"
    by_columns = average_precision(*both, masks=masks)
    monkeypatch.setattr(ap, "_TAKES_COLUMNS", False)
    by_records = average_precision(*both, masks=masks)
    assert by_records.overall == by_columns.overall
    np.testing.assert_array_equal(by_records.ap, by_columns.ap)


@pytest.mark.heavy
@pytest.mark.parametrize("version", ["1.0.1", "1.3.0"])
def test_other_versions_of_hotcoco_agree_with_pycocotools(tmp_path, version):
    """``rfdetr[train]`` pins 1.0.1. Needs an index; the version is seen before the one that is installed."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(tmp_path)]
    subprocess.run([*pip, f"hotcoco=={version}"], check=True)
    tests = [str(Path(__file__).with_name(name)) for name in ("test_average_precision.py", "test_resampled_ap.py")]
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        env={**os.environ, "PYTHONPATH": path}, cwd=Path(__file__).parents[2], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_agrees_with_pycocotools_where_images_are_not_in_order(tmp_path):
    # the order of images decides among tied scores, and COCO orders them by id
    truth, records = random_coco(3, decimals=1)
    truth["images"].reverse()
    result = average_precision(*columns(truth, records, tmp_path))
    np.testing.assert_allclose(as_numbers(result.overall), pycocotools_evaluation(truth, records).stats, atol=1e-6)


def crowded(count):
    boxes = [[float(10 * (i % 20)), float(10 * (i // 20)), 8.0, 8.0] for i in range(count)]
    truth = {
        "images": [{"id": 7, "width": 400, "height": 400, "file_name": "7.jpg"}],
        "categories": [{"id": 3, "name": "bird"}],
        "annotations": [
            {"id": i, "image_id": 7, "category_id": 3, "bbox": b, "area": 64.0, "iscrowd": 0}
            for i, b in enumerate(boxes)
        ],
    }
    return truth, [{"image_id": 7, "category_id": 3, "bbox": b, "score": 0.9} for b in boxes]


def test_the_cap_costs_recall_until_it_is_raised(tmp_path):
    both = columns(*crowded(300), tmp_path)
    assert average_precision(*both).overall["AR100"] == pytest.approx(100 / 300)
    raised = average_precision(*both, max_detections=300).overall
    assert (raised["AP"], raised["AR100"]) == (pytest.approx(1), pytest.approx(1))
    assert raised["AR10"] == pytest.approx(10 / 300)


def test_a_cap_below_ten_bounds_every_recall(tmp_path):
    low = average_precision(*columns(*crowded(20), tmp_path), max_detections=5).overall
    assert (low["AR1"], low["AR10"], low["AR100"]) == pytest.approx((1 / 20, 5 / 20, 5 / 20))


def test_without_truth_everything_is_undefined(tmp_path):
    truth, records = random_coco(0)
    result = average_precision(*columns({**truth, "annotations": []}, records, tmp_path))
    assert set(result.overall.values()) == {None}
    assert np.isnan(result.ap).all()


def test_without_predictions_everything_defined_is_zero(tmp_path):
    truth, _ = random_coco(0, without_truth=1)
    result = average_precision(*columns(truth, [], tmp_path))
    assert set(result.overall.values()) == {0.0}
    assert result.ap.tolist()[:4] == [0] * 4
    assert np.isnan(result.ap[4])


def test_masks_are_refused_where_there_are_none(tmp_path):
    with pytest.raises(BadArray, match="boxes only"):
        average_precision(*columns(*random_coco(0), tmp_path, masks=True), masks=True)
