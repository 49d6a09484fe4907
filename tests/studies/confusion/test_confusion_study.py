"""confusion: the document against a naive matrix of its rows, planted confusions found in their cell, nothing lost."""

import json
import re
import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path

import confusion_oracles as naive
import numpy as np
import pytest
from explain_toys import Grey, Random, dataset

import misdetect as md
from misdetect.data import load_data
from misdetect.data.dataset import Dataset, Sample
from misdetect.detectors.glassbox.detector import GlassBox
from misdetect.detectors.glassbox.faults import OtherClass, Sink
from misdetect.nouns.detections import Truth
from misdetect.said.errors import BadData, BadSpec, LevelTooLow
from misdetect.studies.coco_results import coco_results, write_results


@pytest.fixture(scope="module")
def made():
    return dataset(images=60, seed=3)


def confused(data, **settings):
    return md.confusion(Random(data), data, **{"score": 0.1, **settings})


def expected(run, policy, mode, threshold=0.5, score=0.1):
    """The naive matrix of the boxes and scores in the rows of ``run``."""
    names = run.document["labels"][:-1]
    rows = run.rows().to_pylist()
    box = lambda row: tuple(row[side] for side in ("x0", "y0", "x1", "y1"))  # noqa: E731
    there = [
        (row["case_index"], box(row), names.index(row["label"]), row["reason"] == "crowd")
        for row in rows
        if row["kind"] == "object" or (row["kind"], row["reason"]) == ("ignored", "crowd")
    ]
    kept = [row for row in rows if row["kind"] == "detection" and row["score"] >= score]
    found = [(row["case_index"], box(row), names.index(row["label"]), row["score"]) for row in kept]
    truth, detections = naive.columns(there, found, run.directory.cases, names)
    vectors = [row["vector"] or [row["best"]] for row in kept]
    owner = naive.owners(truth, detections, policy, threshold)
    return naive.matrix(truth, detections, owner, mode, [row["background"] for row in kept], vectors)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("policy", ["paper", "greedy"])
@pytest.mark.parametrize("mode", ["hard", "soft", "reported"])
def test_the_document_is_the_naive_matrix_of_the_rows(made, policy, mode):
    run = confused(made, policy=policy, background=mode)
    counts, confidence, histograms = expected(run, policy, mode)
    assert counts.sum() > 100
    assert np.allclose(run.document["counts"], counts, atol=1e-5)
    assert np.allclose(run.document["confidence"], confidence, atol=1e-5)
    told = {(a, b): by_iou for a, b, by_iou in run.document["iou_histograms"]["cells"]}
    labels = run.document["labels"]
    for a, b in np.argwhere(counts > 1e-6).tolist():
        assert told[labels[a], labels[b]] == pytest.approx(histograms[a, b].tolist(), abs=1e-5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("policy", ["paper", "greedy", "optimal"])
def test_nothing_is_lost_or_counted_twice(made, policy):
    run = confused(made, policy=policy)
    document, rows = run.document, run.rows().to_pylist()
    assert document["conservation"]["holds"]
    found = Random(made).detect_pictures(list(made))
    strange = sum(int(((each.labels == 3) & (each.scores.round(4) < 0.1)).sum()) for each in found)
    said = document["conservation"]["detections"]
    assert said["all"] == sum(map(len, found)) - strange  # of classes unknown to the data, those that are reported
    assert said["all"] == sum(said[name] for name in ("in_cells", "in_crowds", "below_score", "left_out"))
    assert said["in_crowds"] > 0 < said["left_out"]
    objects = sum(int((~sample.truth.crowd).sum()) for sample in made)
    assert sum(document["outcomes"].values()) == document["objects"] == objects
    assert np.array(document["became"]).sum() == objects
    assert document["became"] == [
        [sum(r["label"] == a and (r["became"] or "missed") == b for r in rows if r["kind"] == "object") for b in
         (*document["labels"], "missed")] for a in document["labels"][:-1]
    ]  # fmt: skip
    cells = Counter((r["actual"], r["predicted"]) for r in rows if r["actual"] is not None)
    table = np.array(document["counts"])
    assert {(a, b): int(n) for a, b, n in _cells(document, table) if n} == cells


def test_the_document_is_a_function_of_the_run_directory(made, tmp_path):
    run = confused(made, out=tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "document.json").unlink()
    assert md.open(tmp_path / "elsewhere").document == run.document
    assert json.loads(json.dumps(run.document, allow_nan=False)) == run.document


def test_swapped_labels_are_found_in_their_cell():
    rooms = load_data("rooms:val,count=30")
    box = GlassBox(rooms, [OtherClass(classes=("chair",), to="cup"), Sink(classes=("lamp",))])
    document = md.confusion(box, rooms, cache=False).document
    of = {(s.id, int(i)): rooms.names[k] for s in rooms for i, k in zip(s.truth.ids, s.truth.labels, strict=True)}
    hit = [row for row in box.planted_table() if row["mechanism"] is not None]
    planted = Counter((of[row["sample"], row["object"]], row["fault"]) for row in hit)
    labels, counts = document["labels"], np.array(document["counts"])
    chair, cup = labels.index("chair"), labels.index("cup")
    assert planted["chair", "other-class"] > 10 < planted["lamp", "sink"]
    assert counts[chair, cup] == planted["chair", "other-class"]
    assert document["missed"]["lamp"] == planted["lamp", "sink"]
    assert document["by_class"]["chair"]["confused"] == planted["chair", "other-class"]
    assert document["confusions"][0] | {"confidence": 0} == {
        "actual": "chair", "predicted": "cup", "count": counts[chair, cup], "objects": counts[chair, cup],
        "policy_dependent": False, "confidence": 0,
    }  # fmt: skip
    counts[chair, cup] = 0
    assert counts.sum() == np.trace(counts), "and in no other"
    assert document["by_class"]["ball"]["recall"] == 1
    assert document["by_class"]["cup"]["precision"] < 1
    assert document["notes"] == [], "nothing sank into the background, nothing was left out"


@pytest.mark.heavy
def test_recall_goes_step_by_step_from_that_of_ap_to_that_of_the_matrix(made):
    run = confused(made, score=0.3)
    steps = run.document["recall_steps"]
    assert [step["step"] for step in steps] == ["any-score", "score", "any-class", "matrix"]
    assert [step["objects"] - before["objects"] for before, step in pairwise(steps)] == [
        step["change"] for step in steps[1:]
    ]
    assert steps[0]["objects"] > steps[1]["objects"] > steps[3]["objects"] == run.document["outcomes"]["right"]
    assert steps[3]["recall"] == run.document["recall"]["value"]
    reported = confused(made, score=0.3, background="reported").document
    assert steps[2]["recall"] == reported["recall"]["value"]
    exclusive = md.explain(Random(made), made, score=0.3, miss="exclusive").document
    assert steps[1]["objects"] == exclusive["objects"] - exclusive["missed"]


def test_a_cell_lists_what_is_behind_it_the_worst_first(made):
    document = confused(made, cell="Cup, background", listed=1000).document
    cell = document["cell"]
    labels = document["labels"]
    assert (cell["actual"], cell["predicted"]) == ("cup", "background")
    assert len(cell["entries"]) == document["counts"][labels.index("cup")][-1] > 3
    scores = [each["background"] for each in cell["entries"]]
    assert scores == sorted(scores, reverse=True)
    truths = {
        (sample.id, i): box for sample in made for i, box in zip(sample.truth.ids, sample.truth.boxes, strict=True)
    }
    for each in cell["entries"]:
        assert each["object_box"] == pytest.approx(truths[each["image"], each["object"]].tolist(), abs=0.06)
        assert naive.overlap(each["box"], each["object_box"]) == pytest.approx(each["iou"], abs=0.02)
        assert each["file"].startswith("a/")
    missed = confused(made, score=0.6, cell="cup,missed").document
    entries = missed["cell"]["entries"]
    assert len(entries) == missed["missed"]["cup"] > 3
    areas = [(e["box"][2] - e["box"][0]) * (e["box"][3] - e["box"][1]) for e in entries]
    assert areas == sorted(areas, reverse=True)
    right = confused(made, cell="cup,cup").document["cell"]["entries"]
    assert [e["iou"] for e in right] == sorted(e["iou"] for e in right)


def test_the_ledger_says_what_each_object_became(made):
    run = confused(made)
    ledger = [row for row in run.ledger().to_pylist() if row["object"] is not None]
    rows = {(r["image"], r["id"]): r for r in run.rows().to_pylist() if r["kind"] == "object"}
    outcomes = {"right": "found", "confused": "renamed", "background": "missed", "missed": "missed"}
    told = [row for row in ledger if row["outcome"] != "ignored"]
    assert len(told) == len(rows)
    for row in told:
        own = rows[row["image"], row["object"]]
        assert row["outcome"] == outcomes[own["outcome"]]
        assert row["became"] == (own["became"] if own["outcome"] != "right" else None)
        assert row["harm"] == ("harmless" if own["outcome"] == "right" else "harmful")
    assert {row["became"] for row in told} >= {None, "background", "cup"}
    assert len([row for row in ledger if row["outcome"] == "ignored"]) == sum(int(s.truth.crowd.sum()) for s in made)
    extra = [row for row in run.ledger().to_pylist() if row["outcome"] == "extra"]
    document, table = run.document, np.array(run.document["counts"])
    wrong = sum(int(n) for a, b, n in _cells(document, table) if a != b and b != "background")
    assert len(extra) == wrong - document["outcomes"]["confused"]


def test_what_lies_on_an_absent_part_is_on_the_background_and_unknown_classes_are_rows_without_recall():
    box, away = [10.0, 10, 40, 40], [60.0, 60, 90, 90]
    truth = Truth(np.array([box, away]), [0, 1], states=("absent", "intact"))
    made = [Sample("i", Grey(1), truth, 120, 100, image_id=1, file_name="i.png")]
    data = Dataset("made", ("bell", "lock"), 1, lambda i: made[i], fingerprint="parts")

    class Bells:
        names = ("bell",)

        def detect(self, images):
            return [(np.array([box, away]), [0.9, 0.8], [0, 0]) for _ in images]

    document = md.confusion(Bells(), data).document
    assert document["settings"]["background"] == "reported"
    assert document["counts"] == [[0, 0, 0], [1, 0, 0], [1, 0, 0]]
    assert document["conservation"]["ignored"] == {"absent": 1, "crowd": 0}
    assert (
        document["by_class"]["lock"] | {"known": False, "recall": None, "confused": 1} == document["by_class"]["lock"]
    )
    assert document["recall"]["value"] is None
    assert any("lock" in note for note in document["notes"])


@pytest.mark.parametrize("mode", ["hard", "soft", "reported"])
def test_of_a_detector_that_finds_nothing_every_object_is_missed(mode):
    data = "rooms:val,count=3"
    run = md.confusion(f"glassbox:sink,data={data}", data, background=mode)
    objects = sum(row["kind"] == "object" for row in run.rows().to_pylist())
    assert run.document["outcomes"] == {"right": 0, "confused": 0, "background": 0, "missed": objects}
    assert not np.any(run.document["counts"])
    assert run.document["conservation"]["holds"]


def test_what_cannot_be_done_is_said_before_anything_is_asked(made, tmp_path):
    class Silent:
        names = ("cup",)

        def detect(self, images):
            raise AssertionError("nothing was to be asked")

    with pytest.raises(LevelTooLow, match="--background reported"):
        md.confusion(Silent(), made, background="hard", out=tmp_path / "run")
    with pytest.raises(BadSpec, match="'spoon' is not known"):
        md.confusion(Silent(), made, cell="cup,spoon", out=tmp_path / "run")
    with pytest.raises(BadSpec, match="iou should be from"):
        md.confusion(Silent(), made, iou=0, out=tmp_path / "run")
    bare = Dataset("bare", (), len(made), lambda i: made[i], fingerprint="bare")
    with pytest.raises(BadData, match="no annotations"):
        md.confusion(Silent(), bare, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_every_key_of_the_document_is_explained(made):
    page = (Path(__file__).parents[3] / "docs" / "confusion.md").read_text()
    named = set(re.findall(r"`([a-z_]+)`", page.partition("## The document")[2]))
    document = confused(made, cell="cup,bowl").document
    assert set(document) - {"study", "detector", "data"} <= named
    assert set(document["by_class"]["cup"]) - {"recall_interval", "precision_interval"} <= named
    assert set(document["recall_steps"][0]) <= named


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["run", "directory", "results"])
def test_stored_predictions_give_the_matrix_of_their_detector(kind, tmp_path):
    data = "rooms:val,count=12"
    detector = f"glassbox:other-class/class=chair/to=cup+shift/rate=.2,data={data}"
    asked = md.confusion(detector, data, background="reported").document
    detected = md.detect(detector, data, out=tmp_path / "run")
    results = tmp_path / "results.json"
    given = {"run": detected, "directory": str(tmp_path / "run"), "results": f"predictions:{results}"}[kind]
    if kind == "results":
        write_results(results, coco_results(detected.directory, load_data(data)))
    document = md.confusion(given, data, workers=3, out=tmp_path / "matrix").document
    assert document["settings"]["background"] == "reported"
    assert document["counts"] == asked["counts"]
    assert document["outcomes"] == asked["outcomes"]
    assert np.allclose(document["confidence"], asked["confidence"], atol=1e-3)
    assert document["outcomes"]["confused"] > 3 < document["outcomes"]["missed"]
    with pytest.raises(LevelTooLow, match="--background reported"):
        md.confusion(given, data, background="soft")


def _cells(document, table):
    labels = document["labels"]
    return [(labels[a], labels[b], table[a, b]) for a in range(len(labels)) for b in range(len(labels))]
