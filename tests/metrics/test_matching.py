"""Greedy matching: a naive transcription of COCO's rule and pycocotools itself are the oracles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_oracles import dataset_of, pycocotools_evaluation, random_coco

from misdetect.metrics.matching import greedy_match, overlap_of_pairs, pairs_within_images
from misdetect.nouns.boxes import coverage, iou
from misdetect.nouns.detections import Detections, Truth

sides = st.integers(0, 8)
grid_boxes = st.tuples(sides, sides, st.integers(1, 6), st.integers(1, 6)).map(
    lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])
)


@st.composite
def scenes(draw):
    """Small integer boxes, so that equal scores and equal overlaps are common."""
    found = draw(st.lists(st.tuples(grid_boxes, st.integers(0, 3), st.integers(0, 1)), max_size=8))
    there = draw(st.lists(st.tuples(grid_boxes, st.integers(0, 1), st.booleans()), max_size=6))
    detections = Detections(
        np.array([f[0] for f in found]).reshape(-1, 4), [f[1] / 4 for f in found], [f[2] for f in found]
    )
    truth = Truth(
        np.array([t[0] for t in there]).reshape(-1, 4),
        [t[1] for t in there],
        crowd=np.array([t[2] for t in there], bool),
    )
    return detections, truth


def naive(detections, truth, threshold):
    """COCO's loop, word for word: objects first, crowds last; of equal overlaps the later one."""
    taken, crowded, used = {}, {}, set()
    order = sorted(range(len(detections)), key=lambda i: -detections.scores[i])
    truths = sorted(range(len(truth)), key=lambda j: truth.crowd[j])
    for i in order:
        best, chosen = threshold, None
        for j in truths:
            if truth.labels[j] != detections.labels[i] or (j in used and not truth.crowd[j]):
                continue
            if chosen is not None and not truth.crowd[chosen] and truth.crowd[j]:
                break
            a, b = detections.boxes[i : i + 1], truth.boxes[j : j + 1]
            overlap = (coverage(a, b) if truth.crowd[j] else iou(a, b))[0, 0]
            if overlap >= best:
                best, chosen = overlap, j
        if chosen is not None:
            (crowded if truth.crowd[chosen] else taken)[i] = chosen
            used.add(chosen)
    return taken, crowded


@given(scenes(), st.sampled_from([0.1, 0.5, 0.75, 1.0]))
def test_equals_the_naive_loop(scene, threshold):
    taken, crowded = naive(*scene, threshold)
    matching = greedy_match(*scene, threshold)
    assert {i: int(t) for i, t in enumerate(matching.truth_of) if t >= 0} == taken
    assert {i: int(t) for i, t in enumerate(matching.crowd_of) if t >= 0} == crowded
    assert {int(d): j for j, d in enumerate(matching.detection_of) if d >= 0} == taken


@given(scenes())
def test_nobody_has_reason_to_complain(scene):
    detections, truth = scene
    matching = greedy_match(detections, truth, 0.5)
    overlaps = iou(detections.boxes, truth.boxes)
    for i in range(len(detections)):
        for j in np.flatnonzero((overlaps[i] >= 0.5) & (truth.labels == detections.labels[i]) & ~truth.crowd):
            better = matching.truth_of[i] >= 0 and overlaps[i, matching.truth_of[i]] >= overlaps[i, j]
            rival = matching.detection_of[j]
            assert better or (rival >= 0 and detections.scores[rival] >= detections.scores[i])


@pytest.mark.parametrize("seed", range(4))
def test_takes_the_truths_that_pycocotools_takes(seed):
    truth, records = random_coco(seed, crowd=0.2)
    evaluation = pycocotools_evaluation(truth, records)
    expected = {}
    for entry in evaluation.evalImgs[
        : len(truth["categories"]) * len(evaluation.params.areaRng) * len(truth["images"])
    ]:
        if entry is not None and entry["aRng"] == [0, 1e10]:
            real = ~np.array(entry["dtIgnore"][0], dtype=bool)
            pairs = zip(np.array(entry["dtIds"])[real], entry["dtMatches"][0][real], strict=True)
            expected |= {int(d) - 1: int(t) for d, t in pairs if t > 0}
    found = {}
    for sample in dataset_of(truth):
        rows = [i for i, r in enumerate(records) if r["image_id"] == sample.image_id]
        boxes = np.array([records[i]["bbox"] for i in rows]).reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]
        detections = Detections(
            boxes, [records[i]["score"] for i in rows], [records[i]["category_id"] - 1 for i in rows]
        )
        matching = greedy_match(detections, sample.truth, 0.5)
        found |= {rows[d]: int(sample.truth.ids[t]) for d, t in enumerate(matching.truth_of) if t >= 0}
    assert found == expected


def test_a_crowd_takes_any_number_and_an_object_one():
    box = [[0, 0, 10, 10]]
    three = Detections(np.repeat(box, 3, axis=0), [0.5, 0.9, 0.7], [0, 0, 0])
    crowd = greedy_match(three, Truth(box, [0], crowd=[True]))
    assert crowd.ignored.all()
    assert (crowd.truth_of == -1).all()
    assert greedy_match(three, Truth(box, [0])).truth_of.tolist() == [-1, 0, -1]


@given(st.lists(st.tuples(grid_boxes, grid_boxes), min_size=1, max_size=20))
def test_overlap_of_pairs_is_the_diagonal_of_the_matrix(pairs):
    a, b = np.array([p[0] for p in pairs], float), np.array([p[1] for p in pairs], float)
    none, every = np.zeros(len(a), bool), np.ones(len(a), bool)
    np.testing.assert_array_equal(overlap_of_pairs(a, b, none), np.diag(iou(a, b)))
    np.testing.assert_array_equal(overlap_of_pairs(a, b, every), np.diag(coverage(a, b)))


@given(st.lists(st.integers(0, 5), max_size=12), st.lists(st.integers(0, 5), max_size=12))
def test_pairs_within_images_are_all_pairs_that_share_one(first, second):
    first, second = np.sort(np.array(first, dtype=int)), np.sort(np.array(second, dtype=int))
    d, t = pairs_within_images(first, second)
    expected = [(i, j) for i in range(len(first)) for j in range(len(second)) if first[i] == second[j]]
    assert list(zip(d.tolist(), t.tolist(), strict=True)) == expected
