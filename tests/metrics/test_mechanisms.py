"""Algorithm 1: against the naive loop for every family, by its laws, and against what a hand-made inside must say."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanism_oracles import CELLS, NETWORKS, algorithm_1, is_missed, network, objects, overlap

from misdetect.metrics.diagnosis import REASONS, diagnose
from misdetect.metrics.mechanisms import MECHANISMS, Thresholds, attribute, fitting, missed, reading_of
from misdetect.nouns.candidates import Candidates, Dropped, Pairs, Reason
from misdetect.nouns.detections import Detections
from misdetect.said.errors import BadArray


def inside(proposals, refined, scores, kept=(), dropped=(), **more) -> Candidates:
    scores = np.asarray(scores, dtype=np.float32)
    rows = np.array(dropped, dtype=np.int64).reshape(-1, 4)
    pairs = np.array(kept, dtype=np.int64).reshape(-1, 2)
    return Candidates(
        np.asarray(proposals, np.float32).reshape(-1, 4),
        np.asarray(refined, np.float32).reshape(-1, 4),
        scores,
        1 - scores.max(axis=1, initial=0),
        np.arange(len(scores)),
        Pairs(pairs[:, 0], pairs[:, 1]),
        Dropped(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3]),
        **more,
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", NETWORKS)
def test_the_naive_algorithm_agrees_on_every_miss(family):
    met = Counter()
    for seed in range(3):
        detector, image, classes = network(family, seed)
        (seen,) = detector.trace([image])
        assert reading_of(seen) == ("cells" if family in CELLS else "boxes")
        boxes, labels = objects(seen, classes, image, 60, seed)
        # where nearly every random score passes .3, a threshold that a quarter of them passes meets more branches
        cls = float(max(0.3, np.quantile(seen.scores, 0.75)))
        lost = missed(seen.select(), boxes, labels, Thresholds(cls=cls))
        naive = [is_missed(box, label, seen.select(), score=cls) for box, label in zip(boxes, labels, strict=True)]
        assert lost.tolist() == naive
        found = diagnose(seen, boxes[lost], labels[lost], Thresholds(cls=cls))
        assert attribute(seen, boxes[lost], labels[lost], Thresholds(cls=cls)).tolist() == found.mechanism.tolist()
        for i, (box, label) in enumerate(zip(boxes[lost], labels[lost], strict=True)):
            name = MECHANISMS[found.mechanism[i]]
            assert name == algorithm_1(box, label, seen, cls=cls, cells=family in CELLS)
            assert found.reason[i] in REASONS[name]
            met[name] += 1
    assert len(met) >= 2, f"too little was met to compare: {met}"


@given(
    st.integers(0, 10**6),
    st.sampled_from([0.3, 0.5, 0.75]),
    st.sampled_from([0.1, 0.3, 0.6]),
    st.sampled_from([np.float32, np.float64]),
)
def test_the_naive_algorithm_agrees_on_coarse_boxes_at_any_threshold(seed, loc, cls, dtype):
    rng = np.random.default_rng(seed)  # whole numbers and tenths: thresholds are met exactly, again and again
    k, c, m = int(rng.integers(0, 30)), int(rng.integers(1, 4)), 8
    corner = rng.integers(0, 12, (2, k, 2))
    boxes = [np.concatenate([a, a + rng.integers(1, 9, (k, 2))], axis=1).astype(dtype) for a in corner]
    seen = inside(boxes[0], boxes[1], rng.integers(0, 9, (k, c)) / 10)
    seen = replace(seen, proposals=boxes[0], refined=boxes[1])
    corner = rng.integers(0, 12, (m, 2))
    truth, labels = np.concatenate([corner, corner + rng.integers(1, 9, (m, 2))], axis=1), rng.integers(0, c, m)
    found = diagnose(seen, truth, labels, Thresholds(loc, cls), "boxes")
    expected = [algorithm_1(box, label, seen, loc, cls) for box, label in zip(truth, labels, strict=True)]
    assert [MECHANISMS[i] for i in found.mechanism] == expected
    assert attribute(seen, truth, labels, Thresholds(loc, cls), "boxes").tolist() == found.mechanism.tolist()
    for i, box in enumerate(truth):
        assert found.refined_iou[i] == pytest.approx(max((overlap(box, b) for b in seen.refined), default=0), abs=1e-6)
        assert found.localised[i] == sum(overlap(box, b) >= loc for b in seen.refined)


@given(st.integers(0, 10**6), st.sampled_from([0, 100, 5000, 10**6]), st.sampled_from([0.3, 0.5, 0.7]))
def test_small_objects_far_from_the_origin_are_not_lost_to_rounding(seed, away, loc):
    """Boxes of a few pixels whose overlaps lie at the threshold, where single precision may know no tenths of a pixel;
    inverted boxes and objects without area among them."""
    rng = np.random.default_rng(seed)
    corner = away + rng.uniform(0, 3, (6, 2))
    truth = np.concatenate([corner, corner + rng.uniform(0, 6, (6, 2)) * (rng.random((6, 1)) < 0.9)], axis=1)
    side = np.tile(truth[:, 2:] - truth[:, :2], 2)
    shift = np.array([1.0, 0, 1, 0]) * (1 - loc) / (1 + loc)  # moved by this, IoU is the threshold
    others = np.concatenate(
        [truth + shift * side, truth + rng.normal(0, 0.1, side.shape) * side, truth[:, [2, 1, 0, 3]]]
    )
    for boxes in (others.astype(np.float32), others):
        expected = [(m, k) for m in range(6) for k in range(len(boxes)) if overlap(truth[m], boxes[k]) >= loc]
        assert list(zip(*(part.tolist() for part in fitting(truth, boxes, loc)), strict=True)) == expected


def test_a_chunk_at_a_time_is_the_same_as_all_at_once(monkeypatch):
    detector, image, classes = network("retinanet")
    (seen,) = detector.trace([image])
    boxes, labels = objects(seen, classes, image, 40, 1)
    whole = diagnose(seen, boxes, labels)
    monkeypatch.setattr("misdetect.metrics.mechanisms.AT_ONCE", 3 * len(seen))
    monkeypatch.setattr("misdetect.metrics.diagnosis.AT_ONCE", 3 * len(seen))
    parts = diagnose(seen, boxes, labels)
    assert attribute(seen, boxes, labels).tolist() == whole.mechanism.tolist()
    for name in vars(whole):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


OBJECT = np.array([[10.0, 10, 30, 30]])
GOOD, POOR, FAR = [10, 10, 30, 30], [10, 10, 18, 30], [60, 60, 80, 80]


@pytest.mark.parametrize(
    ("seen", "mechanism", "reason"),
    [
        (inside([FAR], [FAR], [[0.9, 0]]), "proposal", "unfitted"),
        (inside([GOOD], [FAR], [[0.1, 0.1]]), "regressor", "unseen"),
        (inside([GOOD], [FAR], [[0.1, 0.4]]), "regressor", "seen"),
        (inside([GOOD], [GOOD], [[0.1, 0.5]], kept=[(0, 1)]), "interclass", "reported"),
        (inside([GOOD], [GOOD], [[0.1, 0.5]]), "interclass", "hidden"),
        (inside([GOOD], [GOOD], [[0.2, 0.1]]), "background", "right-class"),
        (inside([GOOD], [GOOD], [[0.1, 0.2]]), "background", "wrong-class"),
        (
            inside([GOOD] * 2, [POOR, GOOD], [[0.8, 0], [0.6, 0]], [(0, 0)], [(1, 0, Reason.SUPPRESSED, 0)]),
            "discarded",
            "suppressed",
        ),
        (inside([GOOD], [GOOD], [[0.6, 0]], dropped=[(0, 0, Reason.TOP_K, -1)]), "discarded", "top-k"),
        (inside([GOOD], [GOOD], [[0.6, 0]], dropped=[(0, 0, Reason.CAP, -1)]), "discarded", "cap"),
        (inside([GOOD], [GOOD], [[0.6, 0]], dropped=[(0, 0, Reason.TOO_SMALL, -1)]), "discarded", "too-small"),
        (inside([GOOD], [GOOD], [[0.4, 0]]), "discarded", "score"),
        (inside([GOOD], [GOOD], [[0.4, 0.5]], kept=[(0, 1)]), "discarded", "score"),
        (inside([GOOD] * 2, [GOOD, FAR], [[0.4, 0.5], [0.35, 0]], [(0, 1), (1, 0)]), "discarded", "outvoted"),
    ],
)
def test_each_reason_by_hand(seen, mechanism, reason):
    found = diagnose(seen, OBJECT, np.array([0]))
    assert (MECHANISMS[found.mechanism[0]], found.reason[0]) == (mechanism, reason)
    if reason == "suppressed":
        assert found.suppressor[0] == 0
        assert found.suppressor_iou[0] == pytest.approx(0.4)
        assert found.own[0] == pytest.approx(0.6)
    if reason == "reported":
        assert (found.rival[0], found.rival_score[0]) == (1, pytest.approx(0.5))


def test_a_first_stage_tells_what_was_ranked_too_low_from_what_was_never_fitted():
    for box, dropped, expected in (
        (GOOD, (1, 0, Reason.TOP_K, -1), "ranked-top-k"),
        (GOOD, (1, 0, Reason.SUPPRESSED, 0), "ranked-suppressed"),
        (POOR, (1, 0, Reason.TOP_K, -1), "unfitted"),
    ):
        rpn = inside([FAR] * 2, [FAR, box], [[0.9], [0.4]], [(0, 0)], [dropped])
        found = diagnose(inside([FAR], [FAR], [[0.5, 0]], [(0, 0)], first=rpn), OBJECT, np.array([0]))
        assert found.reason[0] == expected
        assert found.first_iou[0] == pytest.approx(overlap(OBJECT[0], box))
        assert found.first_score[0] == pytest.approx(0.4) if box == GOOD else np.isnan(found.first_score[0])


def test_a_box_per_class_can_hide_the_own_class():
    boxes = np.array([[FAR, GOOD]], np.float32)  # the best class, 1, fits; the object's own box does not
    seen = inside([GOOD], [GOOD], [[0.4, 0.5]], [(0, 0)], class_boxes=boxes)
    assert diagnose(seen, OBJECT, np.array([0])).reason[0] == "class-box"


def test_one_detection_may_find_two_objects_unless_told_otherwise():
    found = Detections([GOOD], [0.9], [0])
    twins = np.array([GOOD, [11, 10, 31, 30]], dtype=float)
    assert missed(found, twins, np.array([0, 0])).tolist() == [False, False]
    assert missed(found, twins, np.array([0, 0]), miss="exclusive").tolist() == [False, True]
    assert missed(found, twins, np.array([0, 0]), Thresholds(score=0.95)).all()


def test_a_detector_that_looks_at_nothing_proposes_nothing():
    found = diagnose(inside(np.zeros((0, 4)), np.zeros((0, 4)), np.zeros((0, 2))), OBJECT, np.array([0]))
    assert MECHANISMS[found.mechanism[0]] == "proposal"
    assert len(diagnose(inside([GOOD], [GOOD], [[1, 0]]), np.zeros((0, 4)), np.zeros(0, int))) == 0


def test_labels_and_thresholds_are_checked():
    with pytest.raises(BadArray, match="2 classes"):
        diagnose(inside([GOOD], [GOOD], [[1, 0]]), OBJECT, np.array([2]))
    with pytest.raises(BadArray, match="threshold cls"):
        Thresholds(cls=0)
