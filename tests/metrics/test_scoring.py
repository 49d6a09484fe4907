"""The document: contracts, conservation, and what is said about caps, ties and limits."""

import json

import numpy as np
import pytest
from score_oracles import cocoapi100, columns, dataset_of, random_coco, stored

from misdetect.detectors.predictions import detection_columns
from misdetect.metrics.ap import METRICS
from misdetect.metrics.columns import truth_columns
from misdetect.metrics.scoring import score
from misdetect.metrics.tide import DETECTION_TYPES, MAIN, SPECIAL, TRUTH_TYPES, TideSettings
from misdetect.said.errors import BadArray, BadData


def crowd_of(count, labels=1):
    """An image of ``count`` objects, each perfectly detected."""
    boxes = [[float(12 * (i % 25)), float(12 * (i // 25)), 8.0, 8.0] for i in range(count)]
    truth = {
        "images": [{"id": 1, "width": 400, "height": 400, "file_name": "1.jpg"}],
        "categories": [{"id": c + 1, "name": f"class {c}"} for c in range(labels)],
        "annotations": [
            {"id": i, "image_id": 1, "category_id": i % labels + 1, "bbox": b, "area": 64.0, "iscrowd": 0}
            for i, b in enumerate(boxes)
        ],
    }
    records = [
        {"image_id": 1, "category_id": i % labels + 1, "bbox": b, "score": 0.5 + i / 1000} for i, b in enumerate(boxes)
    ]
    return truth, records


@pytest.mark.parametrize(("truth_kept", "records_kept"), [(True, True), (False, True), (True, False), (False, False)])
def test_the_document_keeps_its_contract_even_when_a_side_is_empty(tmp_path, truth_kept, records_kept):
    truth, records = random_coco(0, crowd=0.1, without_truth=1)
    truth = truth if truth_kept else {**truth, "annotations": []}
    document = score(*columns(truth, records if records_kept else [], tmp_path)).document()
    json.dumps(document, allow_nan=False)
    assert set(document["ap"]) == set(METRICS)
    assert set(document["tide"]) == {*MAIN, *SPECIAL}
    assert set(document["by_class"]) == {c["name"] for c in truth["categories"]}
    undefined = [v is None for v in (*document["ap"].values(), *document["tide"].values())]
    assert all(undefined) if not truth_kept else not any(undefined)


@pytest.mark.parametrize("shape", [{"images": []}, {"categories": []}, {"images": [], "categories": []}])
def test_nothing_at_all_can_be_scored(tmp_path, shape):
    truth = {**random_coco(0)[0], "annotations": [], **shape}
    result = score(*columns(truth, [], tmp_path))
    assert set(result.document()["ap"].values()) == {None}


def test_class_numbers_add_up_to_the_whole(tmp_path):
    document = score(*columns(*random_coco(5, crowd=0.1), tmp_path)).document()
    classes = document["by_class"].values()
    for kind in (*MAIN, "TP"):
        assert sum(c["counts"][kind] for c in classes) == document["counts"][kind]
    for kind in ("objects", "detections"):
        assert sum(c[kind] for c in classes) == document["counts"][kind]
    assert np.mean([c["AP"] for c in classes]) == pytest.approx(document["ap"]["AP"])
    for kind, value in document["tide"].items():
        assert np.mean([c["tide"][kind] for c in classes]) == pytest.approx(value, abs=1e-9)


def test_classes_of_one_name_stay_apart(tmp_path):
    truth, records = random_coco(0, classes=2)
    for category in truth["categories"]:
        category["name"] = "thing"
    document = score(*columns(truth, records, tmp_path)).document()
    assert list(document["by_class"]) == ["thing (0)", "thing (1)"]


def test_image_ids_may_be_text(tmp_path):
    truth, records = random_coco(2, crowd=0.1)
    by_number = score(*columns(truth, records, tmp_path)).document()
    for item in (*truth["images"], *truth["annotations"], *records):
        key = "image_id" if "image_id" in item else "id"
        item[key] = f"photo-{item[key]:03d}"
    result = score(*columns(truth, records, tmp_path))
    assert result.document()["ap"] == pytest.approx(by_number["ap"])
    assert result.document()["tide"] == pytest.approx(by_number["tide"])
    assert result.worst_images()[0]["image_id"].startswith("photo-")


def test_perfect_predictions_of_300_objects_have_no_error_and_the_cap_is_named(tmp_path):
    both = columns(*crowd_of(300), tmp_path)
    document = score(*both).document()
    assert set(document["tide"].values()) == {0.0}
    assert document["worst_images"] == []
    assert document["settings"]["tide_cap"] is None
    assert document["ap"]["AP"] < 1
    assert any("200 detections beyond the best 100" in note for note in document["notes"])
    assert any("more than 100 objects of one class" in note for note in document["notes"])
    raised = score(*both, max_detections=300).document()
    assert raised["ap"]["AP"] == pytest.approx(1)
    assert raised["notes"] == []


def test_the_cap_of_ap_counts_per_class_and_that_of_tide_per_image(tmp_path):
    both = columns(*crowd_of(180, labels=2), tmp_path)
    result = score(*both, tide_settings=TideSettings(cap=100)).document()
    assert result["ap"]["AP"] == pytest.approx(1)
    assert result["counts"]["capped"] == 80
    assert result["notes"] == ["TIDE leaves out 80 detections beyond the best 100 of their image."]


def test_one_detection_beyond_a_cap_is_named(tmp_path):
    both = columns(*crowd_of(101), tmp_path)
    notes = score(*both, tide_settings=TideSettings(cap=100)).notes()
    assert [note.split(";")[0] for note in notes] == [
        "AP and AR leave out 1 detections beyond the best 100 of their image and class",
        "1 times an image has more than 100 objects of one class, so AR100 cannot reach 1",
        "TIDE leaves out 1 detections beyond the best 100 of their image.",
    ]
    assert score(*both, max_detections=101).notes() == []


def test_a_note_counts_classes_that_are_only_ever_detected(tmp_path):
    truth, records = random_coco(3, classes=6, without_truth=3)
    silent = [r for r in records if r["category_id"] != 6]  # one is neither annotated nor detected
    one = [r for r in silent if r["category_id"] != 5]
    alone = next(r for r in silent if r["category_id"] == 5)
    for kept, count in ((silent, 2), ([*one, alone], 2), (one, 1)):
        both = columns(truth, kept, tmp_path)
        said = [note for note in score(*both).notes() if "no objects" in note]
        assert len(said) == 1
        assert said[0].startswith(f"{count} classes have detections but no objects")
        assert f"its base ({score(*both).tide.base:.1f})" in said[0]
        assert score(*both, tide_settings=TideSettings(classes="with-truth")).notes() == []
    crowds = {**truth, "annotations": [{**a, "iscrowd": int(a["category_id"] == 1)} for a in truth["annotations"]]}
    assert any(note.startswith("2 classes") for note in score(*columns(crowds, one, tmp_path)).notes())


def test_a_note_says_where_ties_decide(tmp_path):
    """Where the order of equal scores moves any of TIDE's numbers by 0.05 or more, and nowhere else."""
    told = []
    for seed in range(12):
        both = columns(*random_coco(seed, decimals=3 if seed % 2 else 1, images=40), tmp_path)
        found, other = score(*both), score(*both, tide_settings=TideSettings(ties="file"))
        assert other.notes() == []
        gaps = {name: abs(value - other.tide.delta[name]) for name, value in found.tide.delta.items()}
        worst = max(gaps, key=gaps.get)
        expected = (
            f"{worst} is {found.tide.delta[worst]:.2f} as tidecv counts (errors first) and "
            f"{other.tide.delta[worst]:.2f} in the file's order (--tide-ties file)."
        )
        assert [expected in note for note in found.notes()] == [True] * (gaps[worst] >= 0.05)
        told.append((gaps[worst] >= 0.05, gaps[worst] > 0))
    assert set(told) == {(True, True), (False, True), (False, False)}
    assert score(*columns(*random_coco(0), tmp_path)).notes() == []


@pytest.mark.parametrize(("cap", "caps"), [(1, [1, 1, 1]), (7, [1, 7, 7]), (100, [1, 10, 100]), (300, [1, 10, 300])])
def test_the_settings_name_the_caps(tmp_path, cap, caps):
    settings = score(*columns(*random_coco(0), tmp_path), max_detections=cap).document()["settings"]
    assert (settings["max_detections"], settings["detection_caps"], settings["iou_type"]) == (cap, caps, "bbox")


def test_the_worst_images_are_what_counting_gives(tmp_path):
    truth, records = random_coco(7, crowd=0.2)
    found = score(*columns(truth, [r for r in records if r["image_id"] % 3], tmp_path))  # some see nothing
    types, kinds = found.assignment.detection_type, found.assignment.truth_type
    expected = []
    for i, image in enumerate(found.truth.images):
        lost = [k for k in kinds[found.truth.image == i] if TRUTH_TYPES[k] in ("Cls", "Loc", "Miss")]
        own = found.detections.image == i
        scored = zip(types[own], found.detections.scores[own], strict=True)
        wrong = [score for kind, score in scored if DETECTION_TYPES[kind] in MAIN]
        objects = sum(not crowd for crowd in found.truth.crowd[found.truth.image == i])
        if lost or wrong:
            entry = {"image": image.name, "image_id": image.image_id, "objects": objects}
            cost = len(lost) + sum(wrong)
            expected.append({**entry, "not_found": len(lost), "false_detections": len(wrong), "cost": cost})
    expected.sort(key=lambda entry: -entry["cost"])
    assert found.worst_images(None) == [{**e, "cost": pytest.approx(e["cost"])} for e in expected]
    assert len(expected) > 20
    assert found.document()["worst_images"] == found.worst_images(None)[:10]
    assert any(e["not_found"] and not e["false_detections"] for e in expected)


def test_the_worst_image_is_the_one_that_was_spoiled(tmp_path):
    truth, _ = random_coco(3, images=6, objects=5)
    perfect = [
        {"image_id": a["image_id"], "category_id": a["category_id"], "bbox": a["bbox"], "score": 0.9}
        for a in truth["annotations"]
    ]
    victim = truth["annotations"][0]["image_id"]
    spoiled = [r for r in perfect if r["image_id"] != victim]
    spoiled.append({"image_id": victim, "category_id": 1, "bbox": [380, 380, 5, 5], "score": 0.25})
    worst = score(*columns(truth, spoiled, tmp_path)).worst_images()
    objects = sum(a["image_id"] == victim for a in truth["annotations"])
    assert [(w["image_id"], w["not_found"], w["false_detections"]) for w in worst] == [(victim, objects, 1)]
    assert worst[0]["cost"] == pytest.approx(objects + 0.25)


def test_a_limit_leaves_out_other_images_and_equals_scoring_only_those(tmp_path):
    truth, records = random_coco(4)
    data = dataset_of(truth)
    flat = truth_columns(data.limit(10))
    limited = score(flat, detection_columns(stored(records, tmp_path), flat, data)).document()
    ids = {i["id"] for i in truth["images"][:10]}
    small = {
        **truth,
        "images": truth["images"][:10],
        "annotations": [a for a in truth["annotations"] if a["image_id"] in ids],
    }
    alone = score(*columns(small, [r for r in records if r["image_id"] in ids], tmp_path)).document()
    assert limited["counts"]["left_out"] == sum(r["image_id"] not in ids for r in records)
    assert (limited["ap"], limited["tide"]) == (alone["ap"], alone["tide"])


def test_predictions_of_unknown_images_are_an_error_that_names_the_record(tmp_path):
    truth, records = random_coco(0)
    records.insert(3, {"image_id": 999, "category_id": 1, "bbox": [0, 0, 5, 5], "score": 0.5})
    with pytest.raises(BadData, match="record 3 is about image 999"):
        columns(truth, records, tmp_path)


def test_masks_are_scored_only_where_both_sides_have_them(tmp_path):
    truth, records = cocoapi100("bbox")
    both = columns(truth, records, tmp_path, masks=True)
    with pytest.raises(BadArray, match="the predictions have boxes"):
        score(*both, masks=True)
    # box-only predictions of masked truth score by boxes as ever
    assert score(*both).document()["ap"]["AP"] == pytest.approx(0.505, abs=5e-4)


def test_no_predictions_can_be_scored_by_masks(tmp_path):
    document = score(*columns(cocoapi100("segm")[0], [], tmp_path, masks=True), masks=True).document()
    assert document["ap"]["AP"] == 0
    assert document["settings"]["iou_type"] == "segm"
    assert document["counts"]["Miss"] == document["counts"]["objects"]


def test_a_mask_of_another_size_is_refused_by_record(tmp_path):
    truth, records = cocoapi100("segm")
    records[5]["segmentation"] = {"size": [3, 3], "counts": "09"}
    with pytest.raises(BadData, match="record 5 "):
        columns(truth, records, tmp_path, masks=True)
