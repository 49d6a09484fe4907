"""The study by what it is sent: conservation, evidence, TIDE types, the black box, truth from elsewhere."""

import json
from collections import Counter

import numpy as np
import pytest
from explain_toys import NAMES, Grey, Random, dataset, explained
from hypothesis import given
from hypothesis import strategies as st

import misdetect as md
from misdetect.data.dataset import Dataset, Sample
from misdetect.data.opened import Opened, with_truth
from misdetect.engine.requests import Detect, Trace
from misdetect.metrics.mechanisms import MECHANISMS
from misdetect.nouns.boxes import iou
from misdetect.nouns.candidates import Candidates, Dropped, Pairs, Reason
from misdetect.nouns.detections import Detections, Truth
from misdetect.said.errors import BadData
from misdetect.studies.explain.compare import by_mechanism, judged, shared_misses
from misdetect.studies.explain.regions import average_precision, curve
from misdetect.studies.explain.rows import SWEEP, TIDE_TYPES
from misdetect.studies.explain.settings import ExplainSettings
from misdetect.studies.explain.study import ExplainStudy


def shared(*runs):
    """The misses that two runs share."""
    return shared_misses(*(judged(run.directory) for run in runs))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("miss", ["any", "exclusive"])
@pytest.mark.parametrize("inside", [True, False])
def test_everything_is_counted_once_and_sums_agree(tmp_path, miss, inside):
    data = dataset(20)
    found = explained(data, tmp_path / "run", miss=miss, inside=inside)
    document, rows = found.document, found.rows().to_pylist()
    annotated = Counter((s.id, int(i)) for s in data for i in s.truth.ids)
    assert Counter((r["image"], r["id"]) for r in rows if r["kind"] in ("object", "ignored")) == annotated
    crowds = sum(int(s.truth.crowd.sum()) for s in data)
    assert document["ignored"] == {"crowd": crowds}
    assert document["objects"] == sum(annotated.values()) - crowds
    missed = document["missed"]
    assert missed > 10
    assert missed == sum(document["mechanisms"].values()) == sum(document["tide"].values())
    assert missed == sum(count for _, _, count in document["sankey"])
    assert set(document["tide"]) == set(TIDE_TYPES)
    for entry in document["images"]:
        lost = [not r["found"] for r in rows if r["kind"] == "object" and r["image"] == entry["image"]]
        assert (
            (entry["objects"], entry["missed"])
            == (len(lost), sum(lost))
            == (len(lost), sum(entry["mechanisms"].values()))
        )
        low, high = entry["interval"]
        assert 0 <= low <= entry["miss_rate"] == sum(lost) / len(lost) <= high <= 1
    for name, count in document["mechanisms"].items():
        assert sum(document["reasons"].get(name, {}).values()) == count
        assert sum(c["mechanisms"][name] for c in document["by_class"].values()) == count
        assert sum(n for _, m, n in document["sankey"] if m == name) == count
    assert sum(c["objects"] for c in document["by_class"].values()) == document["objects"]
    assert set(MECHANISMS) <= set(document["mechanisms"])
    json.dumps(document, allow_nan=False)


def test_fewer_are_missed_where_one_detection_may_find_several(tmp_path):
    data = dataset(20)
    loose, strict = (explained(data, tmp_path / miss, miss=miss).document for miss in ("any", "exclusive"))
    assert loose["missed"] <= strict["missed"]


def drive(data, names, answer, **settings):
    """The rows of the first image of ``data``, its answer made by hand."""
    study = ExplainStudy(Opened(data), names, ExplainSettings(**settings))
    steps = study.run(next(iter(study.cases())))
    request = next(steps)
    assert isinstance(request, Trace if study.how.inside else Detect)
    with pytest.raises(StopIteration) as end:
        steps.send(answer)
    return end.value.value


def one(truth):
    sample = Sample("one", Grey(3), truth, 120, 100)
    return Dataset("one", NAMES, 1, lambda i: sample, fingerprint="one")


CUP = [10, 10, 50, 50]


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ([], "Miss"),
        ([(CUP, 0.9, 1)], "Cls"),
        ([([10, 10, 50, 24], 0.9, 0)], "Loc"),
        ([([10, 10, 50, 24], 0.9, 1)], "Both"),
        ([([10, 10, 50, 24], 0.9, 1), ([10, 10, 50, 24], 0.5, 0)], "Loc"),
        ([([10, 10, 50, 24], 0.9, 0), (CUP, 0.5, 1)], "Loc"),
        ([([10, 10, 50, 24], 0.5, 0), (CUP, 0.9, 1)], "Cls"),
        ([(CUP, 0.2, 1)], "Miss"),  # below what is reported
        ([([80, 80, 99, 99], 0.9, 0)], "Miss"),
    ],
)
def test_the_tide_type_of_a_miss(reported, expected):
    found = Detections(
        [b for b, _, _ in reported] or np.zeros((0, 4)), [s for _, s, _ in reported], [c for *_, c in reported]
    )
    rows = drive(one(Truth([CUP], [0])), NAMES, found, inside=False)
    assert next(r for r in rows if r["kind"] == "object")["tide"] == expected


@pytest.mark.parametrize(
    ("reported", "mechanism", "reason"),
    [
        ([], "unknown", "nothing"),
        ([([10, 10, 50, 24], 0.9, 0)], "unknown", "poor-box"),
        ([([10, 10, 50, 24], 0.9, 2)], "unknown", "poor-box-other-class"),
        ([(CUP, 0.9, 1)], "interclass", "reported"),
        ([(CUP, 0.2, 0)], "background", "right-class"),
        ([(CUP, 0.1, 0), (CUP, 0.2, 1)], "background", "wrong-class"),
    ],
)
def test_what_a_black_box_lets_one_say(reported, mechanism, reason):
    found = Detections(
        [b for b, _, _ in reported] or np.zeros((0, 4)), [s for _, s, _ in reported], [c for *_, c in reported]
    )
    row = next(r for r in drive(one(Truth([CUP], [0])), NAMES, found, inside=False) if r["kind"] == "object")
    assert (row["mechanism"], row["reason"]) == (mechanism, reason)


def test_a_black_box_never_contradicts_the_inside_but_for_what_was_suppressed(tmp_path):
    data = dataset(20)
    inner, outer = (explained(data, tmp_path / str(i), inside=i) for i in (True, False))
    pairs = shared(inner, outer)
    assert pairs["only_first_missed"] == pairs["only_second_missed"] == 0
    for a, b, _ in pairs["both_missed"]:
        # what survived can hide a better candidate that was dropped: then the inside says calibration, or interclass
        # where the output shows a weaker box
        assert b in ("unknown", a) or a == "discarded" or (a, b) == ("interclass", "background")


def test_the_evidence_names_the_suppressor_and_its_neighbour():
    truth = Truth([CUP, [10, 10, 50, 36]], [0, 0], ids=[7, 8])
    refined = np.array([[10, 10, 50, 27], CUP, [10, 10, 50, 36]], np.float32)
    scores = np.array([[0.9, 0, 0], [0.6, 0.1, 0], [0.01, 0, 0]], np.float32)
    seen = Candidates(
        refined, refined, scores, 1 - scores.max(axis=1), np.array([4, 5, 6]), Pairs([0], [0]),
        Dropped([1], [0], [Reason.SUPPRESSED], [0]), pyramid=np.array([0, 1, 2]),
    )  # fmt: skip
    rows = drive(one(truth), NAMES, seen, inside=True)
    row = next(r for r in rows if r["kind"] == "object" and r["id"] == 7)
    assert (row["mechanism"], row["reason"], row["suppressor_object"]) == ("discarded", "suppressed", 8)
    assert (row["suppressor_y1"], row["suppressor_score"]) == (27, pytest.approx(0.9))
    assert (row["candidate"], row["pyramid"], row["own_score"]) == (5, 1, pytest.approx(0.6))
    assert row["top_labels"][:2] == ["cup", "bowl"]
    detection = next(r for r in rows if r["kind"] == "detection")
    assert (detection["tide"], detection["matched"], detection["candidate"]) == ("TP", 8, 4)


def test_objects_of_unknown_classes_and_absent_parts_are_ignored_and_said():
    truth = Truth([CUP] * 3, [0, 1, 2], ids=[1, 2, 3], states=("intact", "absent", "damaged"))
    rows = drive(one(truth), ("cup", "bowl"), Detections.empty(), inside=False)
    assert {r["id"]: r["reason"] for r in rows if r["kind"] == "ignored"} == {2: "absent", 3: "unknown-class"}
    assert [r["id"] for r in rows if r["kind"] == "object"] == [1]


def test_without_labels_the_suspicious_regions_are_still_ranked(tmp_path):
    labelled = dataset(6)
    bare = [Sample(s.id, s.source, Truth.empty(), s.width, s.height) for s in labelled]
    data = Dataset("bare", (), 6, lambda i: bare[i], fingerprint="bare")
    found = md.explain(Random(labelled), data, out=tmp_path / "run")
    document = found.document
    assert document["objects"] == document["missed"] == 0
    ranked = [region["objectness"] for region in document["warning"]["suspicious"]]
    assert len(ranked) > 3
    assert ranked == sorted(ranked, reverse=True)
    assert document["potential"] is document["sweep"] is None
    assert found.sentences == ["Nothing is annotated here that the detector could miss."]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30))
def test_the_warning_curve_is_what_counting_gives(regions):
    value = np.array([v / 5 for v, _ in regions])
    hit = np.array([h for _, h in regions])
    misses = int(hit.sum()) + 2
    points = curve(value, hit, misses)
    assert [p["threshold"] for p in points] == sorted(set(value.tolist()), reverse=True)
    for point in points:
        warned = value >= point["threshold"]
        assert point["warnings"] == warned.sum()
        assert point["precision"] == pytest.approx(hit[warned].mean())
        assert point["recall"] == pytest.approx(hit[warned].sum() / misses)
    assert 0 <= average_precision(value, hit, misses) <= 1


def test_truth_from_another_data_set_is_joined_by_name():
    photos, notes = dataset(4, seed=1), dataset(4, seed=2)
    joined = with_truth(photos, notes)
    for mine, theirs in zip(joined, notes, strict=True):
        assert mine.truth == theirs.truth
    with pytest.raises(BadData, match="no annotations for image 'i3'"):
        list(with_truth(photos, notes.limit(3)))


def test_the_reported_score_may_differ_from_theta_cls(tmp_path):
    data = dataset(12)
    document = explained(data, tmp_path / "run", score=0.6).document
    assert document["reasons"]["discarded"].get("score", 0) > 0
    assert document["missed"] > explained(data, tmp_path / "again").document["missed"]


def test_runs_side_by_side(tmp_path):
    runs = {str(seed): explained(dataset(10), tmp_path / str(seed), seed=seed) for seed in (0, 50)}
    missed = {name: run.document["missed"] for name, run in runs.items()}
    entries = by_mechanism({name: run.document for name, run in runs.items()}).values()
    for i, name in enumerate(runs):
        assert sum(each[i]["share"] for each in entries) == pytest.approx(1)
        assert sum(each[i]["count"] for each in entries) == missed[name]
    pairs = shared(*runs.values())
    assert pairs["objects"] == runs["0"].document["objects"]
    both = sum(n for *_, n in pairs["both_missed"])
    assert both == pairs["missed_by_both"]
    assert both + pairs["only_first_missed"] == missed["0"]
    assert both + pairs["only_second_missed"] == missed["50"]


def test_the_best_iou_of_a_sweep_is_what_looking_at_every_detection_gives():
    rng = np.random.default_rng(3)
    truth = Truth([CUP, [60, 20, 90, 60]], [0, 1])
    near = np.repeat(truth.boxes, 12, axis=0) + rng.normal(0, 6, (24, 4))
    found = Detections(near, 0.85 * rng.random(24), rng.integers(0, 3, 24))
    objects = [r for r in drive(one(truth), NAMES, found, inside=False) if r["kind"] == "object"]
    assert len(objects) == 2
    for row, box, label in zip(objects, truth.boxes, truth.labels, strict=True):
        fits = [
            (score, iou([box], [other])[0, 0])
            for other, score, name in zip(found.boxes, found.scores, found.labels, strict=True)
            if name == label
        ]
        expected = [max((fit for score, fit in fits if score >= least), default=0) for least in SWEEP]
        assert row["best_iou"] == pytest.approx(expected)
        assert expected[0] > expected[-1]
