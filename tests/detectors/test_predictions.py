"""Stored COCO results: columns equal to a record-by-record reading, masks' boxes equal to pycocotools', bad records."""

import json
from pathlib import Path

import numpy as np
import pytest

from misdetect.data.dataset import Dataset, Sample
from misdetect.detectors import load_any as load_detector
from misdetect.detectors import predictions
from misdetect.detectors.predictions import StoredPredictions, read_results
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.protocols import level
from misdetect.said.errors import BadData, BadSpec

FIXTURES = Path(__file__).parents[2] / "../shared/fixtures/cocoapi100"
needs_fixtures = pytest.mark.skipif(not FIXTURES.is_dir(), reason="../shared/fixtures is absent")
GOOD = {"image_id": 7, "category_id": 3, "bbox": [1, 2, 30, 40], "score": 0.5}


def stored(tmp_path, records):
    path = tmp_path / "results.json"
    path.write_text(records if isinstance(records, str) else json.dumps(records))
    return path


def dataset(image_ids, names=("cat", "dog"), category_ids=(3, 9)):
    samples = [Sample(str(i), None, Truth.empty(), 100, 80, image_id=i) for i in image_ids]
    return Dataset("coco:t.json", names, len(samples), samples.__getitem__, fingerprint="", category_ids=category_ids)


@needs_fixtures
def test_columns_are_the_records():
    path = FIXTURES / "instances_val2014_fakebbox100_results.json"
    records, results = json.loads(path.read_text()), read_results(path)
    assert len(results) == len(records) == 734
    for i in range(0, 734, 37):
        x, y, w, h = records[i]["bbox"]
        assert results.boxes[i].tolist() == [x, y, x + w, y + h]
        assert (results.image_ids[i], results.category_ids[i]) == (records[i]["image_id"], records[i]["category_id"])
        assert results.scores[i] == records[i]["score"]
    for image_id in results.images:
        expected = [i for i, record in enumerate(records) if record["image_id"] == image_id]
        assert results.rows_of(image_id).tolist() == expected


@needs_fixtures
def test_results_with_masks_only_get_the_boxes_that_pycocotools_gives_them():
    mask = pytest.importorskip("pycocotools.mask")
    path = FIXTURES / "instances_val2014_fakesegm100_results.json"
    records, results = json.loads(path.read_text()), read_results(path)
    x, y, w, h = mask.toBbox([r["segmentation"] for r in records]).T
    np.testing.assert_allclose(results.boxes, np.stack([x, y, x + w, y + h], axis=1))
    sample = Sample("42", None, Truth.empty(), 640, 478, image_id=42)
    data = Dataset("coco:t", ["x"] * 90, 1, [sample].__getitem__, fingerprint="")
    masks = StoredPredictions(results).for_sample(sample, data).masks
    of_42 = [r["segmentation"] for r in records if r["image_id"] == 42]
    np.testing.assert_array_equal(masks[0], mask.decode(of_42[0]).astype(bool))
    assert len(masks) == len(of_42)


def test_each_image_gets_its_own_with_the_labels_of_the_data(tmp_path):
    records = [GOOD, GOOD | {"image_id": 8, "category_id": 9}, GOOD | {"category_id": 9, "score": 1}]
    predictions = load_detector(f"predictions:{stored(tmp_path, records)}")
    data = dataset([7, 8, 11])
    predictions.check(data)
    assert predictions.for_sample(data[0], data) == Detections([[1, 2, 31, 42]] * 2, [0.5, 1], [0, 1])
    assert predictions.for_sample(data[1], data) == Detections([[1, 2, 31, 42]], [0.5], [1])
    assert predictions.for_sample(data[2], data) == Detections.empty()
    assert level(predictions) == "none"


def test_with_truth_categories_are_joined_by_name(tmp_path):
    (tmp_path / "truth.json").write_text(
        json.dumps({"categories": [{"id": 3, "name": "dog"}, {"id": 4, "name": "eel"}]})
    )
    path = stored(tmp_path, [GOOD])
    predictions = load_detector(f"predictions:{path},truth={tmp_path}/truth.json")
    data = dataset([7])
    assert predictions.for_sample(data[0], data).labels.tolist() == [1]
    eel = StoredPredictions(read_results(stored(tmp_path, [GOOD | {"category_id": 4}])), predictions.categories)
    with pytest.raises(BadData, match="category ids 4"):
        eel.for_sample(data[0], data)


def test_image_ids_may_be_text_and_a_file_may_be_empty(tmp_path):
    results = read_results(stored(tmp_path, [GOOD | {"image_id": "b"}, GOOD | {"image_id": "a"}]))
    assert results.images == {"a", "b"}
    assert results.rows_of("a").tolist() == [1]
    nothing = read_results(stored(tmp_path, []))
    assert (len(nothing), nothing.boxes.shape, nothing.images) == (0, (0, 4), set())


def test_results_of_other_data_are_refused(tmp_path):
    predictions = StoredPredictions(read_results(stored(tmp_path, [GOOD])))
    with pytest.raises(BadData, match=r"none of its image ids \(7, …\)"):
        predictions.check(dataset([1, 2]))
    with pytest.raises(BadData, match="category ids 3 are not among"):
        predictions.check(dataset([7], category_ids=(1, 2)))


BAD = [
    ("{", "is not valid JSON"),
    ("[" * 100_000, "nested too deeply"),
    ('{"annotations": []}', "a COCO annotation file"),
    ("3", "JSON list"),
    ([GOOD, 3], "record 1 is 3"),
    ([GOOD, [1]], r"record 1 is \[1\]"),
    *[([GOOD, {k: v for k, v in GOOD.items() if k != key}], f"record 1 has no '{key}'") for key in GOOD],
    ([GOOD, GOOD | {"score": 1.5}], "record 1 has score 1.5"),
    ([GOOD, GOOD | {"score": -0.1}], "record 1 has score -0.1"),
    ([GOOD, GOOD | {"score": float("nan")}], "record 1 has score NaN"),
    ([GOOD, GOOD | {"score": "0.5"}], 'record 1 has score "0.5"'),
    ([GOOD, GOOD | {"score": None}], "record 1 has score null"),
    ([GOOD, GOOD | {"score": [0.5]}], r"record 1 has score \[0.5\]"),
    ([GOOD, GOOD | {"bbox": [1, 2, 3]}], r"record 1 has bbox \[1, 2, 3\]"),
    ([GOOD, GOOD | {"bbox": [1, 2, 3, float("inf")]}], "record 1 has bbox .*Infinity"),
    ([GOOD, GOOD | {"bbox": [1, 2, -3, 4]}], "record 1 has bbox .*at least 0"),
    ([GOOD, GOOD | {"bbox": ["1", "2", "3", "4"]}], "record 1 has bbox"),
    ([GOOD, GOOD | {"bbox": None}], "record 1 has bbox null"),
    ([GOOD, GOOD | {"category_id": 1.5}], "record 1 has category_id 1.5"),
    ([GOOD, GOOD | {"category_id": "cat"}], 'record 1 has category_id "cat"'),
    ([GOOD, GOOD | {"category_id": 2**70}], "record 1 has category_id"),
    ([GOOD, GOOD | {"image_id": "a"}], "number in some records and text in others"),
    ([GOOD, GOOD | {"image_id": None}], "record 1 has image_id null"),
    ([{"image_id": 1, "category_id": 1, "score": 1, "segmentation": {"size": [2, 2]}}], "record 0 has a segmentation"),
]


@pytest.mark.parametrize(("records", "says"), BAD, ids=[says[:40] for _, says in BAD])
def test_a_bad_file_names_the_record(tmp_path, records, says):
    with pytest.raises(BadData, match=says) as caught:
        read_results(stored(tmp_path, records))
    assert "results.json" in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "kind", "says"),
    [
        ("predictions:", BadSpec, "predictions:FILE"),
        ("predictions:/no/such/results.json", BadData, "does not exist"),
        ("predictions:{good},truth=/no/such", BadData, "does not exist"),
        ("predictions:{good},truth={good}", BadData, "'categories'"),
        ("predictions:{good},thruth=x", BadSpec, "unknown option 'thruth'"),
    ],
)
def test_a_bad_spec_is_one_sentence(tmp_path, spec, kind, says):
    with pytest.raises(kind, match=says):
        load_detector(spec.format(good=stored(tmp_path, [GOOD])))


@pytest.mark.parametrize("count", [0, 1, 3, 4, 7])
def test_results_read_in_pieces_are_those_read_at_once(monkeypatch, count):
    monkeypatch.setattr(predictions, "_AT_ONCE", 3)
    mask = {"size": [4, 5], "counts": [3, 17]}
    records = [
        {"image_id": i % 3, "category_id": i, "bbox": [i, 1, 2, 3.5], "score": i / 10, "segmentation": mask}
        for i in range(count)
    ]
    for record in records[1:4]:
        del record["segmentation"]
    whole, joined = (
        read(records, Path("here"), "print") for read in (predictions.results_of, predictions.results_in_pieces)
    )
    for name in ("image_ids", "category_ids", "boxes", "scores"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
        assert getattr(joined, name).dtype == getattr(whole, name).dtype
    assert (joined.segments, joined.fingerprint) == (whole.segments, whole.fingerprint)


def test_ids_of_two_kinds_are_refused_in_pieces_too(monkeypatch):
    monkeypatch.setattr(predictions, "_AT_ONCE", 1)
    records = [{"image_id": i, "category_id": 1, "bbox": [0, 1, 2, 3], "score": 0.5} for i in (1, "a")]
    with pytest.raises(BadData, match="number in some records"):
        predictions.results_in_pieces(records, Path("here"), "print")
