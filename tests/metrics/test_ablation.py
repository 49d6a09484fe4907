"""ClsAVal: a loop over candidates is the oracle; with the run itself as its reference nothing may change."""

import confusion_oracles as naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanism_oracles import NETWORKS, network

from misdetect.metrics.ablation import ABLATIONS, ablate, factored, identified_by
from misdetect.nouns.grid import scores_on_grid
from misdetect.said.errors import BadArray

shares = st.integers(0, 20).map(lambda n: n / 20)


@st.composite
def runs(draw):
    """Two runs over the same places, each keeping some pairs; the second may lack some places."""
    made = []
    for number in range(2):
        places = draw(st.lists(st.integers(0, 6), unique=True, min_size=1, max_size=6))
        boxes = [(p, number, p + 5 + number, 9 + number) for p in places]
        objectness = np.array(draw(st.lists(shares, min_size=len(places), max_size=len(places))))
        rows = st.lists(shares, min_size=3, max_size=3)
        classes = np.array(draw(st.lists(rows, min_size=len(places), max_size=len(places))))
        pairs = st.tuples(st.integers(0, len(places) - 1), st.integers(0, 2))
        kept = draw(st.lists(pairs, unique=True, max_size=5))
        scores = objectness[:, None] * classes
        per_class = (
            np.arange(len(places) * 12).reshape(len(places), 3, 4).cumsum(axis=2) if draw(st.booleans()) else None
        )
        made.append(
            naive.candidates(places, boxes, scores, kept, objectness=objectness, classes=classes, class_boxes=per_class)
        )
    return made


@given(runs(), st.sampled_from(("r_idx", "r_all", "r_obj", "r_conf")), st.sampled_from(("pair", "candidate")))
def test_equals_the_naive_loop(pair, how, by):
    reliable, tested = pair
    found = ablate(reliable, tested, how, by=by)
    expected = naive.naive_ablation(reliable, tested, how, by)
    d = found.detections
    assert [tuple(box) for box in d.boxes.tolist()] == [box for box, _, _ in expected]
    assert d.scores.tolist() == pytest.approx([score for _, score, _ in expected])
    assert d.labels.tolist() == [label for _, _, label in expected]
    assert len(d) + found.absent == found.kept
    assert len(found.background) == len(found.vectors) == len(d)


@given(runs())
def test_with_itself_as_its_reference_nothing_changes(pair):
    run = pair[0]
    for how in ("vanilla", "r_all", "r_idx", "r_obj", "r_conf"):
        found = ablate(run, run, how, by="pair")
        assert found.detections == run.select()
        assert found.absent == 0


@pytest.mark.parametrize("family", NETWORKS)
def test_every_family_equals_its_own_output_with_itself_as_reference(family):
    detector, picture, _ = network(family)
    inside = detector.trace([picture])[0]
    assert len(inside.kept)
    found = ablate(inside, inside, "r_all")
    assert found.detections == inside.select()
    assert found.detections == ablate(inside, inside, "vanilla").detections
    assert (found.absent, found.stood_in) == (0, 0)


def test_the_identity_is_that_of_the_paper():
    pairs = {family: identified_by(network(family)[0].trace([network(family)[1]])[0]) for family in ("ssd", "yolox")}
    assert pairs == {"ssd": "pair", "yolox": "candidate"}


def test_the_right_place_with_a_sunk_score_and_the_right_score_with_a_moved_box():
    """Planted: the classifier of the tested run fails, then its regressor. R_all clears the first, R_idx the second."""
    clean = naive.candidates([7], [(0, 0, 10, 10)], [[0.9, 0.0]], [(0, 0)])
    unsure = naive.candidates([7], [(0, 0, 10, 10)], [[0.1, 0.0]], [])
    moved = naive.candidates([7], [(40, 40, 50, 50)], [[0.9, 0.0]], [(0, 0)])
    assert len(ablate(clean, unsure, "vanilla").detections) == 0
    assert ablate(clean, unsure, "r_idx").detections.scores.tolist() == [0.1]
    assert ablate(clean, unsure, "r_idx").background.tolist() == [0.9]
    assert ablate(clean, unsure, "r_all").detections == clean.select()
    assert ablate(clean, moved, "r_all").detections.boxes.tolist() == [[40, 40, 50, 50]]


def test_a_proposal_that_the_tested_first_stage_suppressed_is_seen_through_its_suppressor():
    boxes = [(0, 0, 10, 10), (1, 0, 11, 10), (50, 50, 60, 60)]
    clean = naive.candidates(
        [0, 2],
        [boxes[0], boxes[2]],
        [[0.9], [0.8]],
        [(0, 0), (1, 0)],
        first=naive.first_stage(boxes, [0.9, 0.5, 0.8], [0, 2]),
    )
    tested = naive.candidates(
        [1],
        [(2, 0, 12, 10)],
        [[0.3]],
        [(0, 0)],
        first=naive.first_stage(boxes, [0.5, 0.9, 0.0], [1], suppressed=[(0, 0)]),
    )
    found = ablate(clean, tested, "r_all")
    assert found.detections.boxes.tolist() == [[2, 0, 12, 10]]  # anchor 0 through anchor 1; anchor 2 was not proposed
    assert (found.kept, found.absent, found.stood_in) == (2, 1, 1)
    first = ablate(clean, tested, "r_all", stage=1)
    assert first.detections.boxes.tolist() == [list(boxes[0]), list(boxes[2])]  # every anchor has a first box
    assert first.detections.scores.tolist() == [0.9, 0.8]
    assert (first.absent, len(ablate(clean, tested, "r_idx", stage=1).detections)) == (0, 1)


def test_the_first_stage_of_a_real_one_gives_its_proposals():
    detector, picture, _ = network("faster-rcnn")
    inside = detector.trace([picture])[0]
    found = ablate(inside, inside, "vanilla", stage=1).detections
    assert np.allclose(found.boxes, inside.proposals[inside.kept.candidate], atol=1e-3)
    assert found.scores.tolist() == inside.select().scores.tolist()


def test_scores_on_the_grid_are_still_the_product_of_their_factors():
    """A study sees scores, objectness and class scores rounded, each by itself: the product is off by 1.5 steps."""
    generator = np.random.default_rng(0)
    objectness, classes = generator.random(4000), generator.random((4000, 3))
    scores = objectness[:, None] * classes
    boxes, places = [(0, 0, 1, 1)] * 4000, list(range(4000))
    told = {"objectness": scores_on_grid(objectness), "classes": scores_on_grid(classes)}
    assert factored(naive.candidates(places, boxes, scores_on_grid(scores), [(0, 0)], **told))
    assert not factored(naive.candidates(places, boxes, np.clip(scores + 5e-4, 0, 1), [(0, 0)], **told))


def test_what_a_family_does_not_have_is_refused():
    whole = naive.candidates([0], [(0, 0, 1, 1)], [[0.5]], [(0, 0)])
    assert not factored(whole)
    with pytest.raises(BadArray, match="objectness times class"):
        ablate(whole, whole, "r_obj")
    with pytest.raises(BadArray, match="two-stage"):
        ablate(whole, whole, "r_all", stage=1)
    with pytest.raises(BadArray, match="same classes"):
        ablate(whole, naive.candidates([0], [(0, 0, 1, 1)], [[0.5, 0.1]], []), "r_all")
    assert set(ABLATIONS) == {"vanilla", "r_idx", "r_all", "r_obj", "r_conf"}
