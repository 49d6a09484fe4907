"""The study by what it is sent: conservation, evidence, TIDE types, the black box, truth from elsewhere, the views."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.candidates import Candidates, Dropped, Pairs, Reason
from misdetect.data.dataset import Dataset, Sample
from misdetect.detections import Detections, Truth
from misdetect.engine import run_study
from misdetect.engine.requests import Detect, Trace
from misdetect.errors import BadData
from misdetect.metrics.mechanisms import MECHANISMS, Thresholds
from misdetect.picture import digest
from misdetect.studies.explain import Explaining, ExplainStudy
from misdetect.studies.explain.compare import shared_misses, side_by_side
from misdetect.studies.explain.regions import average_precision, curve
from misdetect.studies.explain.rows import TIDE_TYPES
from misdetect.studies.explain.study import with_truth
from misdetect.studies.explain.summary import summarise

NAMES = ("cup", "bowl", "lamp")


class Grey:
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


def run(data, folder, explaining=None, seed=0):
    detector = Random(data, seed)
    study = ExplainStudy(data, detector.names, explaining)
    outcome = run_study(study, detector, folder, {"settings": study.settings()}, cached=False)
    return study, outcome.run, summarise(outcome.run, study.settings())


@pytest.mark.parametrize("miss", ["any", "exclusive"])
@pytest.mark.parametrize("inside", [True, False])
def test_everything_is_counted_once_and_sums_agree(tmp_path, miss, inside):
    data = dataset(20)
    explaining = Explaining(miss=miss, inside=inside)
    _, found, document = run(data, tmp_path / "run", explaining)
    rows = found.table().to_pylist()
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


def test_potential_adds_up_and_never_hurts(tmp_path):
    _, _, document = run(dataset(20), tmp_path / "run")
    gains = document["potential"]
    assert gains["none"]["recall"] == pytest.approx(1 - document["miss_rate"])
    assert gains["all"]["recall"] == 1
    each = [gains[name] for name in document["mechanisms"]]
    assert sum(g["recall_gain"] for g in each) == pytest.approx(document["miss_rate"])
    assert [g["fixed"] for g in each] == list(document["mechanisms"].values())
    assert all(gains["none"]["AP50"] <= g["AP50"] + 1e-12 <= gains["all"]["AP50"] + 2e-12 for g in each)


def test_fewer_are_missed_where_one_detection_may_find_several(tmp_path):
    data = dataset(20)
    loose, strict = (run(data, tmp_path / miss, Explaining(miss=miss))[2] for miss in ("any", "exclusive"))
    assert loose["missed"] <= strict["missed"]


def drive(study, answer):
    """The rows of the first image, its answer made by hand."""
    steps = study.run(next(iter(study.cases())))
    request = next(steps)
    assert isinstance(request, Trace if study.explaining.inside else Detect)
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
        ([], "missed"),
        ([(CUP, 0.9, 1)], "cls"),
        ([([10, 10, 50, 24], 0.9, 0)], "loc"),
        ([([10, 10, 50, 24], 0.9, 1)], "cls+loc"),
        ([([10, 10, 50, 24], 0.9, 1), ([10, 10, 50, 24], 0.5, 0)], "loc"),
        ([([10, 10, 50, 24], 0.9, 0), (CUP, 0.5, 1)], "loc"),
        ([([10, 10, 50, 24], 0.5, 0), (CUP, 0.9, 1)], "cls"),
        ([(CUP, 0.2, 1)], "missed"),  # below what is reported
        ([([80, 80, 99, 99], 0.9, 0)], "missed"),
    ],
)
def test_the_tide_type_of_a_miss(reported, expected):
    study = ExplainStudy(one(Truth([CUP], [0])), NAMES, Explaining(inside=False))
    found = Detections(
        [b for b, _, _ in reported] or np.zeros((0, 4)), [s for _, s, _ in reported], [c for *_, c in reported]
    )
    rows = drive(study, found)
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
    study = ExplainStudy(one(Truth([CUP], [0])), NAMES, Explaining(inside=False))
    found = Detections(
        [b for b, _, _ in reported] or np.zeros((0, 4)), [s for _, s, _ in reported], [c for *_, c in reported]
    )
    row = next(r for r in drive(study, found) if r["kind"] == "object")
    assert (row["mechanism"], row["reason"]) == (mechanism, reason)


def test_a_black_box_never_contradicts_the_inside_but_for_what_was_suppressed(tmp_path):
    data = dataset(20)
    inner, outer = (run(data, tmp_path / str(i), Explaining(inside=i))[1] for i in (True, False))
    pairs = shared_misses(inner.path, outer.path)
    assert pairs["only_first_missed"] == pairs["only_second_missed"] == 0
    for a, b, _ in pairs["both_missed"]:
        # what survived can hide a better candidate that was dropped: then the inside says calibration, or interclass
        # where the output shows a weaker box
        assert b in ("unknown", a) or a == "calibration" or (a, b) == ("interclass", "background")


def test_the_evidence_names_the_suppressor_and_its_neighbour():
    truth = Truth([CUP, [10, 10, 50, 36]], [0, 0], ids=[7, 8])
    refined = np.array([[10, 10, 50, 27], CUP, [10, 10, 50, 36]], np.float32)
    scores = np.array([[0.9, 0, 0], [0.6, 0.1, 0], [0.01, 0, 0]], np.float32)
    seen = Candidates(
        refined, refined, scores, 1 - scores.max(axis=1), np.array([4, 5, 6]), Pairs([0], [0]),
        Dropped([1], [0], [Reason.SUPPRESSED], [0]), pyramid=np.array([0, 1, 2]),
    )  # fmt: skip
    rows = drive(ExplainStudy(one(truth), NAMES), seen)
    row = next(r for r in rows if r["kind"] == "object" and r["id"] == 7)
    assert (row["mechanism"], row["reason"], row["suppressor_object"]) == ("calibration", "suppressed", 8)
    assert (row["suppressor_y1"], row["suppressor_score"]) == (27, pytest.approx(0.9))
    assert (row["candidate"], row["level"], row["own_score"]) == (5, 1, pytest.approx(0.6))
    assert row["top_labels"][:2] == ["cup", "bowl"]
    detection = next(r for r in rows if r["kind"] == "detection")
    assert (detection["tide"], detection["matched"], detection["candidate"]) == ("TP", 8, 4)


def test_objects_of_unknown_classes_and_absent_parts_are_ignored_and_said():
    truth = Truth([CUP] * 3, [0, 1, 2], ids=[1, 2, 3], states=("intact", "absent", "damaged"))
    rows = drive(ExplainStudy(one(truth), ("cup", "bowl"), Explaining(inside=False)), Detections.empty())
    assert {r["id"]: r["reason"] for r in rows if r["kind"] == "ignored"} == {2: "absent", 3: "unknown-class"}
    assert [r["id"] for r in rows if r["kind"] == "object"] == [1]


def test_without_labels_the_suspicious_regions_are_still_ranked(tmp_path):
    labelled = dataset(6)
    bare = [Sample(s.id, s.source, Truth.empty(), s.width, s.height) for s in labelled]
    data = Dataset("bare", (), 6, lambda i: bare[i], fingerprint="bare")
    detector = Random(labelled)
    study = ExplainStudy(data, detector.names)
    found = run_study(study, detector, tmp_path / "run", {}, cached=False).run
    document = summarise(found, study.settings())
    assert document["objects"] == document["missed"] == 0
    ranked = [region["objectness"] for region in document["warning"]["suspicious"]]
    assert len(ranked) > 3
    assert ranked == sorted(ranked, reverse=True)
    json.dumps(document, allow_nan=False)


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
    _, _, document = run(data, tmp_path / "run", Explaining(Thresholds(score=0.6)))
    assert document["reasons"]["calibration"].get("score", 0) > 0
    assert document["missed"] > run(data, tmp_path / "again")[2]["missed"]


def test_runs_side_by_side(tmp_path):
    documents = {str(seed): run(dataset(10), tmp_path / str(seed), seed=seed)[2] for seed in (0, 50)}
    for row, document in zip(side_by_side(documents), documents.values(), strict=True):
        assert sum(row["shares"].values()) == pytest.approx(1)
        assert row["missed"] == document["missed"]
    pairs = shared_misses(tmp_path / "0", tmp_path / "50")
    assert pairs["objects"] == documents["0"]["objects"]
    both = sum(n for *_, n in pairs["both_missed"])
    assert both == pairs["missed_by_both"]
    assert both + pairs["only_first_missed"] == documents["0"]["missed"]
    assert both + pairs["only_second_missed"] == documents["50"]["missed"]
