"""The Detection Confusion Matrix: a loop over single detections is the oracle, and nothing may be lost or doubled."""

from typing import get_args

import confusion_oracles as naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.metrics import confusion as module
from misdetect.metrics.confusion import POLICIES, Mode, assign, confusion, found_by_class, in_data_columns
from misdetect.metrics.matching import greedy_match
from misdetect.nouns.detections import Detections, Truth
from misdetect.said.errors import BadArray

NAMES = ("cat", "dog")
MODES = get_args(Mode)
sides = st.integers(0, 8)
grid_boxes = st.tuples(sides, sides, st.integers(1, 6), st.integers(1, 6)).map(
    lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])
)
images, labels = st.integers(0, 1), st.integers(0, 1)


@st.composite
def scenes(draw):
    """Two small images of few places, so that shared objects, equal scores and equal overlaps are common; scores over
    all classes and background for every detection, the first of which is its own."""
    there = draw(st.lists(st.tuples(images, grid_boxes, labels, st.booleans()), max_size=6))
    found = draw(st.lists(st.tuples(images, grid_boxes, labels, st.integers(0, 4).map(lambda s: s / 4)), max_size=8))
    truth, detections = naive.columns(there, found, 2, NAMES)
    rest = draw(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=len(found), max_size=len(found)))
    vectors = np.zeros((len(found), 2))
    for d, (other, _) in enumerate(rest):
        vectors[d, detections.label[d]], vectors[d, 1 - detections.label[d]] = detections.scores[d], other / 10
    background = np.array([b / 6 for _, b in rest])
    return truth, detections, background, vectors


@given(scenes(), st.sampled_from(("paper", "greedy")), st.sampled_from(MODES), st.sampled_from([0.3, 0.5, 1.0]))
def test_equals_the_naive_loop(scene, policy, mode, threshold):
    truth, found, background, vectors = scene
    result = _confusion(scene, policy, mode, threshold)
    owner = naive.owners(truth, found, policy, threshold)
    counts, confidence, histograms = naive.matrix(truth, found, owner, mode, background, vectors)
    assert np.allclose(result.counts, counts)
    assert np.allclose(result.confidence, confidence)
    assert np.allclose(result.histograms, histograms)


@given(scenes(), st.sampled_from([0.3, 0.5]))
def test_the_optimal_policy_is_one_to_one_and_optimal(scene, threshold):
    truth, found = scene[0], scene[1]
    if len(found) > 6:
        found = naive.columns(
            [], list(zip(found.image, found.boxes, found.label, found.scores, strict=True))[:6], 2, NAMES
        )[1]
    result = assign(truth, found, "optimal", threshold)
    taken = result.truth_of[result.truth_of >= 0]
    assert len(set(taken.tolist())) == len(taken)
    own = np.flatnonzero(result.truth_of >= 0)
    fits = [naive.overlap(found.boxes[d], truth.boxes[result.truth_of[d]]) for d in own]
    assert all(fit >= threshold for fit in fits)
    assert sum(fits) == pytest.approx(naive.largest_sum(truth, found, threshold))
    assert np.allclose(result.overlap[own], fits)


@given(scenes(), st.sampled_from(POLICIES), st.sampled_from(MODES))
def test_each_detection_and_each_object_is_counted_exactly_once(scene, policy, mode):
    truth, found, _, _ = scene
    result = _confusion(scene, policy, mode)
    assert result.counts.sum() + result.ignored == pytest.approx(len(found))
    assert np.allclose(result.histograms.sum(axis=2), result.counts)
    assert np.allclose(result.counts_by_policy[policy], result.counts)
    assert result.missed_by_policy[policy].tolist() == result.missed.tolist()
    for name in POLICIES:
        moved = result.counts_by_policy[name] != result.counts
        assert (result.policy_dependent | ~moved | np.isclose(result.counts_by_policy[name], result.counts)).all()
    parts = result.right + result.confused + result.sunk + result.missed
    assert parts.tolist() == result.objects.tolist()
    assert result.objects.tolist() == [int(((truth.label == c) & ~truth.crowd).sum()) for c in range(2)]
    on_objects = result.counts[:2].sum(axis=1)
    if policy == "paper":  # several may share an object
        assert (on_objects + 1e-9 >= result.objects - result.missed).all()
    else:
        assert np.allclose(on_objects, result.objects - result.missed)


@given(scenes(), st.sampled_from(MODES))
def test_marked_cells_are_those_whose_detections_a_policy_moves(scene, mode):
    truth, found, background, vectors = scene
    rows = {}
    for policy in POLICIES:
        each = assign(truth, found, policy)
        rows[policy] = [
            None if each.ignored[d] else 2 if each.truth_of[d] < 0 else truth.label[each.truth_of[d]]
            for d in range(len(found))
        ]
    expected = np.zeros((3, 3), bool)
    for d in range(len(found)):
        columns = [found.label[d]]
        if mode == "hard" and background[d] > vectors[d].max():
            columns = [2]
        if mode == "soft":
            every = [*vectors[d], background[d]]
            columns = [c for c in range(3) if every[c] / sum(every) >= 0.01]
        places = {rows[policy][d] for policy in POLICIES}
        for place in places - {None} if len(places) > 1 else ():
            expected[place, columns] = True
    assert (_confusion(scene, "paper", mode).policy_dependent == expected).all()


def test_a_duplicate_is_the_object_for_the_paper_and_background_for_one_to_one_policies():
    """A planted case with known cells: a cat found twice, called dog the second time; a dog missed."""
    box, other = (0, 0, 10, 10), (50, 50, 60, 60)
    truth, found = naive.columns(
        [(0, box, 0, False), (0, other, 1, False)], [(0, box, 0, 0.9), (0, (0, 0, 10, 9), 1, 0.6)], 1, NAMES
    )
    of_paper = confusion(truth, found, mode="reported", policy="paper")
    greedy = confusion(truth, found, mode="reported", policy="greedy")
    assert of_paper.counts.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert greedy.counts.tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert of_paper.missed.tolist() == greedy.missed.tolist() == [0, 1]
    assert of_paper.policy_dependent.tolist() == [[False, True, False], [False, False, False], [False, True, False]]
    assert of_paper.became.tolist() == [0, -1]
    assert of_paper.confidence[0].tolist() == [0.9, 0.6, 0]
    assert of_paper.histograms[0, 1].argmax() == 9  # IoU .9


def test_what_an_object_became_is_its_own_class_before_a_better_score_and_any_class_before_background():
    box = (0, 0, 10, 10)
    truth, found = naive.columns([(0, box, 0, False)], [(0, box, 1, 0.9), (0, box, 0, 0.4)], 1, NAMES)
    own = confusion(truth, found, mode="hard", background=np.array([0.1, 0.3]))
    assert own.labels[own.became[0]] == "cat"
    assert own.voice.tolist() == [1]
    other = confusion(truth, found, mode="hard", background=np.array([0.1, 0.6]))
    assert other.labels[other.became[0]] == "dog"
    sunk = confusion(truth, found, mode="hard", background=np.array([0.95, 0.6]))
    assert sunk.labels[sunk.became[0]] == "background"
    assert sunk.sunk.tolist() == [1, 0]
    assert sunk.confidence[0, 2] == pytest.approx(1.55)  # a background cell sums background scores
    truth, found = naive.columns([(0, box, 0, False)], [(0, box, 1, 0.9), (0, box, 1, 0.4)], 1, NAMES)
    weaker = confusion(truth, found, mode="hard", background=np.array([0.95, 0.1]))
    assert (weaker.labels[weaker.became[0]], weaker.voice.tolist()) == ("dog", [1])


@pytest.mark.parametrize("policy", ["paper", "greedy"])
def test_of_two_annotations_that_fit_alike_the_later_one_is_taken_as_coco_does(policy):
    box = (0, 0, 10, 10)
    truth, found = naive.columns([(0, box, 0, False), (0, box, 1, False)], [(0, box, 0, 0.9)], 1, NAMES)
    assert assign(truth, found, policy).truth_of.tolist() == [1]


@given(scenes())
def test_what_cocos_matching_finds_is_what_greedy_match_finds(scene):
    truth, found = scene[0], scene[1]
    expected = np.zeros(len(truth), bool)
    for image in range(2):
        mine, yours = truth.image == image, found.image == image
        matched = greedy_match(
            Detections(found.boxes[yours], found.scores[yours], found.label[yours]),
            Truth(truth.boxes[mine], truth.label[mine], crowd=truth.crowd[mine]),
        )
        expected[mine] = matched.detection_of >= 0
    assert found_by_class(truth, found).tolist() == expected.tolist()


def test_a_box_reported_under_two_labels_is_background_only_if_that_outscores_both():
    box = (0, 0, 10, 10)
    truth, found = naive.columns([(0, box, 0, False)], [(0, box, 0, 0.5), (0, box, 1, 0.2)], 1, NAMES)
    result = confusion(truth, found, background=np.array([0.3, 0.3]), best=np.array([0.5, 0.5]))
    assert result.counts[0].tolist() == [1, 1, 0]


@given(scenes())
def test_a_slice_of_the_pairs_at_a_time_changes_nothing(scene):
    whole = _confusion(scene, "greedy", "hard")
    before, module.PAIRS_AT_ONCE = module.PAIRS_AT_ONCE, 3
    try:
        sliced = _confusion(scene, "greedy", "hard")
    finally:
        module.PAIRS_AT_ONCE = before
    assert (whole.histograms == sliced.histograms).all()


def test_scores_of_the_detector_are_moved_to_the_columns_of_the_data():
    scores = np.array([[0.1, 0.2, 0.7, 0.4]])
    assert in_data_columns(scores, np.array([1, -1, 0, 0]), 3).tolist() == [[0.7, 0.1, 0.0]]


@pytest.mark.parametrize(("mode", "given"), [("hard", {}), ("soft", {"background": np.zeros(1)})])
def test_scores_that_a_mode_needs_are_asked_for(mode, given):
    truth, found = naive.columns([], [(0, (0, 0, 1, 1), 0, 0.5)], 1, NAMES)
    with pytest.raises(BadArray, match="background scores"):
        confusion(truth, found, mode=mode, **given)


def test_a_threshold_of_nothing_is_refused():
    with pytest.raises(BadArray, match="IoU threshold"):
        assign(*naive.columns([], [], 1, NAMES), iou_threshold=0)


def _confusion(scene, policy, mode, threshold=0.5):
    truth, found, background, vectors = scene
    return confusion(
        truth,
        found,
        iou_threshold=threshold,
        policy=policy,
        mode=mode,
        background=background,
        best=vectors.max(axis=1, initial=0),
        vectors=vectors,
    )
