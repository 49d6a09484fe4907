"""The arithmetic of paper 1 against a naive second implementation, and the laws it must keep."""

from itertools import permutations
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.metrics.transplant import Own, Rules, compare_all, match_score
from misdetect.nouns.detections import Detections
from misdetect.said.errors import BadSpec

T = np.array([40.0, 40, 60, 60])
OWN = get_args(Own)


def compare(clean, edited, t_box, t_label, rules):
    """One position of T."""
    return compare_all(clean, [edited], t_box[None], t_label, rules)[0]


def naive_iou(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return shared / union if union > 0 else 0.0


def naive_matching(before, after, agnostic):
    """Total weight of the best matching, by trying every assignment of the smaller side to the larger."""
    weights = [[naive_iou(b, a) if agnostic or bl == al else 0.0 for a, al in after] for b, bl in before]
    if len(before) > len(after):
        weights = [list(column) for column in zip(*weights, strict=True)] if after else []
    if not weights:
        return 0.0
    return max(
        sum(weights[i][j] for i, j in enumerate(chosen))
        for chosen in permutations(range(len(weights[0])), len(weights))
    )


def naive_score(before, after, rules, t_label, agnostic=False, t=T):
    """Eq. 1 with the three policies, in words: filter, match, divide."""
    old = [(b, c) for b, s, c in before if s >= rules.score]
    new = [(b, c) for b, s, c in after if s >= rules.score]
    if rules.own == "matched":
        new = [
            (b, c)
            for b, c in new
            if not (naive_iou(b, t) >= 0.5 and all(naive_iou(b, t) > naive_iou(b, o) for o, _ in old))
        ]
    if rules.own == "ignore-class":
        old, new = ([(b, c) for b, c in side if c != t_label] for side in (old, new))
    most = max(len(new) - (rules.own == "minus-one"), len(old))
    return naive_matching(old, new, agnostic) / most if most > 0 else 1.0


def naive_share_inside(box, t):
    shared = max(min(box[2], t[2]) - max(box[0], t[0]), 0) * max(min(box[3], t[3]) - max(box[1], t[1]), 0)
    return shared / ((box[2] - box[0]) * (box[3] - box[1]))


def all_best_pairings(before, after):
    """Every way to pair boxes of equal class that reaches the largest total IoU, as lists of (row, column, IoU)."""

    def pairings(row, free):
        if row == len(before):
            yield []
            return
        yield from pairings(row + 1, free)
        for column in free:
            weight = naive_iou(before[row][0], after[column][0])
            if before[row][1] == after[column][1] and weight > 0:
                for rest in pairings(row + 1, free - {column}):
                    yield [(row, column, weight), *rest]

    ways = list(pairings(0, frozenset(range(len(after)))))
    most = max(sum(weight for *_, weight in way) for way in ways)
    return [way for way in ways if sum(weight for *_, weight in way) >= most - 1e-9]


boxes = st.tuples(*[st.integers(0, 80)] * 2, *[st.integers(1, 40)] * 2).map(
    lambda v: (float(v[0]), float(v[1]), float(v[0] + v[2]), float(v[1] + v[3]))
)
scored = st.tuples(boxes, st.sampled_from([0.2, 0.47, 0.5, 0.52, 0.9]), st.integers(0, 2))


def detections(found):
    return Detections([b for b, _, _ in found], [s for _, s, _ in found], [c for _, _, c in found])


@given(st.lists(scored, max_size=5), st.lists(scored, max_size=5), st.sampled_from(OWN), st.integers(-1, 2))
def test_score_agrees_with_trying_every_assignment(before, after, own, label):
    rules = Rules(own=own)
    found = compare(detections(before), detections(after), T, label, rules)
    assert found.score == pytest.approx(naive_score(before, after, rules, label))
    assert found.agnostic == pytest.approx(naive_score(before, after, rules, label, agnostic=True))
    assert found.agnostic >= found.score - 1e-12, "more edges cannot match worse"
    assert 0 <= found.score <= 1 + 1e-12


@given(
    st.lists(scored, max_size=4),
    st.lists(st.tuples(boxes, st.lists(scored, max_size=4)), max_size=5),
    st.sampled_from(OWN),
    st.integers(-1, 2),
)
def test_a_position_does_not_depend_on_those_compared_with_it(before, positions, own, label):
    rules = Rules(own=own)
    places = np.array([box for box, _ in positions]).reshape(-1, 4)
    found = compare_all(detections(before), [detections(after) for _, after in positions], places, label, rules)
    assert len(found) == len(positions)
    for (box, after), here in zip(positions, found, strict=True):
        assert here.score == pytest.approx(naive_score(before, after, rules, label, t=box))
        assert here.agnostic == pytest.approx(naive_score(before, after, rules, label, agnostic=True, t=box))
        strong = [(b, s, c) for b, s, c in after if s >= rules.score]
        assert here.after.boxes.tolist() == [list(b) for b, _, _ in strong]
        on_t = [s for b, s, c in after if c == label and naive_iou(b, box) >= 0.5]
        assert here.confidence == max(on_t, default=0.0)
        scores_left = [
            max((s for b, s, c in after if s < rules.score and c == c0 and naive_iou(b, b0) >= 0.5), default=0.0)
            for b0, s0, c0 in before
            if s0 >= rules.score
        ]
        assert here.originals.score_left.tolist() == scores_left


near_t = st.tuples(*[st.integers(30, 55)] * 2, *[st.integers(2, 25)] * 2).map(
    lambda v: (float(v[0]), float(v[1]), float(v[0] + v[2]), float(v[1] + v[3]))
)
crowded = st.tuples(near_t | boxes, st.sampled_from([0.2, 0.47, 0.5, 0.52, 0.9]), st.integers(0, 1))


@given(st.lists(crowded, max_size=4), st.lists(crowded, max_size=5), st.sampled_from(OWN))
def test_the_scene_is_scored_without_what_lies_on_t_and_its_parts(before, after, own):
    """Many boxes near T, so that parts compete with originals; ties between matchings make several answers right."""
    found = compare(detections(before), detections(after), T, 0, Rules(own=own))
    old = [(b, c, s) for b, s, c in before if s >= 0.5]
    new = [(b, c, s) for b, s, c in after if s >= 0.5]
    faint = [(b, c, s) for b, s, c in before if s < 0.5]
    continuing = set(found.originals.partner.tolist())
    on_t = [
        naive_iou(b, T) >= 0.5 and all(naive_iou(b, T) > naive_iou(b, original) for original, *_ in old)
        for b, *_ in new
    ]
    parts = [on_t[j] or (j not in continuing and naive_share_inside(b, T) >= 0.5) for j, (b, *_) in enumerate(new)]
    assert found.on_parts.tolist() == parts
    assert found.own.tolist() == on_t

    others = [j for j in range(len(new)) if not parts[j]]
    most = max(len(old), len(others))
    rest = [new[j] for j in others]
    assert found.scene == pytest.approx(
        naive_matching([x[:2] for x in old], [x[:2] for x in rest], agnostic=False) / most if most else 1.0
    )

    def only_blinks(j):
        box, label, score = new[j]
        was = max((s for b, c, s in faint if c == label and naive_iou(b, box) >= 0.5), default=0.0)
        return bool(found.new[j]) and (score < 0.55 or was > 0.45)

    steady = [i for i in range(len(old)) if not found.originals.flickers[i]]
    steady_after = [k for k, j in enumerate(others) if not only_blinks(j)]
    most = max(len(steady), len(steady_after))
    possible = [
        sum(weight for i, k, weight in way if i in steady and k in steady_after) / most if most else 1.0
        for way in all_best_pairings(old, rest)
    ]
    assert any(found.scene_settled == pytest.approx(value) for value in possible)


@given(st.lists(crowded, max_size=4), st.lists(crowded, max_size=5))
def test_the_scene_does_not_depend_on_what_is_done_about_t(before, after):
    scenes = [compare(detections(before), detections(after), T, 0, Rules(own=own)).scene for own in OWN]
    assert scenes == pytest.approx([scenes[0]] * len(OWN))


beside_t = st.tuples(st.integers(0, 20), st.integers(0, 80), *[st.integers(1, 20)] * 2).map(
    lambda v: (float(v[0]), float(v[1]), float(v[0] + v[2]), float(v[1] + v[3]))
)
scored_beside = st.tuples(beside_t, st.sampled_from([0.2, 0.47, 0.5, 0.52, 0.9]), st.integers(0, 1))


@given(st.lists(crowded, max_size=4), st.lists(scored_beside, max_size=5))
def test_with_nothing_on_t_the_scene_is_all_there_is(before, after):
    found = compare(detections(before), detections(after), T, 0, Rules(own="matched"))
    assert not found.on_parts.any()
    assert (found.scene, found.scene_settled) == (found.score, found.settled)


@given(st.lists(scored, max_size=6), st.sampled_from(OWN))
def test_nothing_changed_means_nothing_affected(before, own):
    found = compare(detections(before), detections(before), T, -1, Rules(own=own, on_t=1.0))
    if own != "matched":
        assert found.score == pytest.approx(1)
        assert found.least == pytest.approx(1)
    assert not len(found.new_classes)


@given(st.lists(scored, max_size=5), st.lists(scored, max_size=5))
def test_every_original_has_one_outcome_and_no_partner_is_shared(before, after):
    found = compare(detections(before), detections(after), T, 0, Rules())
    partners = [p for p in found.originals.partner.tolist() if p >= 0]
    assert len(partners) == len(set(partners))
    for i, outcome in enumerate(found.originals.outcome):
        partner = int(found.originals.partner[i])
        assert (partner < 0) == (outcome == "lost")
        if partner >= 0:
            same = found.before.labels[i] == found.after.labels[partner]
            assert same == (outcome != "renamed")
            assert not found.own[partner]
            assert found.originals.iou[i] == pytest.approx(naive_iou(found.before.boxes[i], found.after.boxes[partner]))
            assert (found.originals.iou[i] >= 0.7) == (outcome == "kept") or outcome == "renamed"


def one(box, score=0.9, label=0):
    return (tuple(map(float, box)), score, label)


CHAIR, CUP = one((0, 0, 20, 20)), one((80, 80, 100, 100), label=1)
ELEPHANT = one((40, 40, 60, 60), label=2)


def test_the_paper_subtracts_one_for_t():
    """With T detected beside two untouched originals S is 1; a spurious detection with T unseen is free; T seen twice
    is not."""
    rules = Rules()
    base = detections([CHAIR, CUP])
    assert compare(base, detections([CHAIR, CUP, ELEPHANT]), T, 2, rules).score == 1
    assert compare(base, detections([CHAIR, CUP, one((5, 70, 20, 90))]), T, 2, rules).score == 1
    twice = detections([CHAIR, CUP, ELEPHANT, one((40, 40, 60, 58), label=0)])
    assert compare(base, twice, T, 2, rules).score == pytest.approx(2 / 3)
    assert compare(base, twice, T, 2, Rules(own="matched")).score == 1
    spurious = detections([CHAIR, CUP, one((5, 70, 20, 90))])
    assert compare(base, spurious, T, 2, Rules(own="matched")).score == pytest.approx(2 / 3)
    more_elephants = detections([CHAIR, CUP, ELEPHANT, one((0, 60, 20, 80), label=2)])
    assert compare(base, more_elephants, T, 2, Rules(own="ignore-class")).score == 1


HEAD, LEG = one((42, 42, 50, 50), label=0), one((50, 50, 58, 64), label=3)


@pytest.mark.parametrize("own", OWN)
def test_an_object_seen_in_parts_leaves_the_scene_as_it_was(own):
    """T is not recognised, its head and a leg are (the leg sticks out of T's box): eq. 1 blames the scene for it."""
    found = compare(detections([CHAIR, CUP]), detections([CHAIR, HEAD, CUP, LEG]), T, 2, Rules(own=own))
    assert found.originals.outcome == ("kept", "kept")
    assert found.on_parts.tolist() == [False, True, False, True]
    assert not found.own.any()
    assert found.score < 1
    assert found.scene == found.scene_settled == 1


def test_what_is_lost_or_appears_away_from_t_is_an_effect_on_the_scene():
    after = detections([CHAIR, ELEPHANT, HEAD, one((0, 60, 20, 80))])
    found = compare(detections([CHAIR, CUP]), after, T, 2, Rules())
    assert found.on_parts.tolist() == [False, True, True, False]
    assert found.scene == 0.5
    assert compare(detections([CHAIR]), after, T, 2, Rules()).scene == 0.5


def test_what_lies_on_t_may_stick_out_of_it():
    """With a laxer rule for T's own detections, one of them may have less than half of its box inside T's."""
    large = one((40, 40, 60, 85))
    found = compare(detections([CUP]), detections([CUP, large]), T, 2, Rules(on_t=0.4))
    assert found.own.tolist() == found.on_parts.tolist() == [False, True]
    assert not compare(detections([CUP]), detections([CUP, large]), T, 2, Rules()).on_parts.any()


def test_half_of_the_box_must_lie_inside_t():
    half, less = one((50, 40, 70, 60)), one((50.1, 0, 69.9, 10))
    found = compare(detections([CUP]), detections([CUP, half, less]), T, 2, Rules())
    assert found.on_parts.tolist() == [False, True, False]
    assert found.scene == 0.5


def test_an_original_under_t_is_no_part_of_it_even_if_renamed():
    hidden = one((45, 45, 55, 55), label=0)
    for label, outcome, scene in ((0, "kept", 1), (1, "renamed", 0)):
        found = compare(detections([hidden]), detections([one((45, 45, 55, 55), label=label)]), T, 2, Rules())
        assert found.originals.outcome == (outcome,)
        assert not found.on_parts.any()
        assert found.scene == scene


def test_a_part_does_not_stand_in_for_an_original_of_its_class():
    """A chair's place is taken by a part of T with a small IoU: eq. 1 gives it credit, the scene does not."""
    chair = one((30, 40, 46, 60))
    found = compare(detections([chair]), detections([one((42, 40, 50, 60))]), T, 2, Rules(own="matched"))
    assert found.originals.outcome == ("lost",)
    assert found.score == pytest.approx(0.2)
    assert found.scene == 0


def test_a_flicker_is_no_lasting_effect_on_the_scene():
    before = detections([CUP, one((0, 0, 20, 20), 0.9)])
    after = detections([CUP, HEAD, one((0, 0, 20, 20), 0.48), one((0, 60, 20, 80), 0.51)])
    found = compare(before, after, T, 2, Rules())
    assert found.scene == 0.5
    assert found.scene_settled == 1


def test_body_and_caption_differ_as_the_paper_does():
    """Eq. 1 averages, the caption looks at the worst original."""
    found = compare(detections([CHAIR, CUP]), detections([CHAIR]), T, 2, Rules())
    assert found.score == 0.5
    assert found.least == 0


def test_coverage_distance_and_outcomes():
    left = one((10, 40, 50, 60))  # half of it under T
    away = one((40, 0, 60, 10))  # 30 px above T
    after = detections([one((12, 40, 50, 60), label=1), ELEPHANT])
    found = compare(detections([left, away]), after, T, 2, Rules())
    assert found.coverage == pytest.approx(0.25)
    assert found.originals.distance.tolist() == [0, 30]
    assert found.originals.outcome == ("renamed", "lost")
    assert found.new_classes.tolist() == [1, 2]
    assert found.own.tolist() == [False, True]
    assert found.confidence == 0.9


@pytest.mark.parametrize(
    ("clean", "edited", "flickers"),
    [(0.9, 0.48, True), (0.53, 0.1, True), (0.9, 0.3, False), (0.9, None, False), (0.52, None, True)],
)
def test_flicker_is_a_change_that_a_nearby_threshold_would_not_see(clean, edited, flickers):
    before = detections([CUP, one((0, 0, 20, 20), clean)])
    after = detections([CUP] if edited is None else [CUP, one((0, 0, 20, 20), edited)])
    found = compare(before, after, T, 2, Rules())
    assert found.score == 0.5
    assert found.originals.flickers.tolist() == [False, flickers]
    assert found.settled == (1.0 if flickers else 0.5)


def test_a_new_detection_flickers_the_same_way_but_ts_own_does_not():
    before = detections([CUP, one((0, 0, 20, 20), 0.46)])
    appears = detections([CUP, one((0, 0, 20, 20), 0.8), one((0, 60, 20, 80), 0.8)])
    found = compare(before, appears, T, 2, Rules())
    assert found.score == pytest.approx(1 / 2)
    assert found.settled == 1.0
    weak_t = detections([CUP, one((40, 40, 60, 60), 0.51, 2), one((0, 60, 20, 80), 0.8)])
    found = compare(detections([CUP]), weak_t, T, 2, Rules())
    assert found.settled == found.score == pytest.approx(1 / 2)


def test_zero_by_zero_is_one():
    assert match_score(0.0, 0, 0) == 1
    assert match_score(0.0, -1, 0) == 1
    assert compare(Detections.empty(), Detections.empty(), T, 0, Rules()).score == 1


def test_bad_rules_are_refused():
    with pytest.raises(BadSpec, match="own should be minus-one or"):
        Rules(own="sometimes")  # type: ignore[arg-type]
    with pytest.raises(BadSpec, match="score should be from 0 to 1"):
        Rules(score=50)
