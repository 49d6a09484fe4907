"""What a change means against the truth: a naive second implementation, laws, and every line of the table by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.metrics.harm import (
    CHANGES,
    EFFECTS,
    HARMS,
    Annotations,
    Standing,
    effects_of,
    standing_after,
    standing_of,
)
from misdetect.metrics.transplant import Rules, compare_all
from misdetect.nouns.detections import Detections
from misdetect.said.errors import BadArray

CLASSES = 3
KNOWN = np.array([True, True, False])
"""The data has classes 0 and 1; the detector also knows class 2."""


def detections(found):
    return Detections([b for b, _, _ in found], [s for _, s, _ in found], [c for _, _, c in found])


def known(found):
    return KNOWN[np.array([c for _, _, c in found], dtype=int)]


def annotations(things):
    """From (box, label, kind), kind "object", "ignored", "crowd", or "counted crowd", which is no object either."""
    return Annotations(
        np.array([b for b, _, _ in things], dtype=float).reshape(-1, 4),
        np.array([c for _, c, _ in things], dtype=np.int64),
        np.array([kind in ("object", "counted crowd") for *_, kind in things], dtype=bool),
        np.array(["crowd" in kind for *_, kind in things], dtype=bool),
    )


def shared(a, b):
    return max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)


def size(a):
    return (a[2] - a[0]) * (a[3] - a[1])


def overlap(a, b):
    return shared(a, b) / (size(a) + size(b) - shared(a, b))


def naive_standing(found, things, least, may_take=lambda i, t: True, own=()):
    """One detection after the other, the best first: its object and 1 (right), 0 (wrong) or -1 (cannot be judged)."""
    taken, answer = set(), {}
    for i, (box, _, label) in sorted(enumerate(found), key=lambda item: -item[1][1]):
        if label == 2 or i in own:
            answer[i] = (-1, -1)
            continue
        mine = [(t, b, kind) for t, (b, c, kind) in enumerate(things) if c == label]
        fits = [
            (overlap(box, b), t)
            for t, b, kind in mine
            if kind == "object" and t not in taken and may_take(i, t) and overlap(box, b) >= least
        ]
        excuses = [
            t
            for t, b, kind in mine
            if ("crowd" in kind and shared(box, b) / size(box) >= 0.5)
            or (kind == "ignored" and overlap(box, b) >= least)
        ]
        if fits:
            taken.add(max(fits)[1])
            answer[i] = (max(fits)[1], 1)
        else:
            answer[i] = (-1, -1 if excuses else 0)
    return [answer[i] for i in range(len(found))]


def pairs_of(standing):
    return list(zip(standing.object.tolist(), standing.right.tolist(), strict=True))


sides = st.integers(0, 8)
boxes = st.tuples(sides, sides, st.integers(1, 6), st.integers(1, 6)).map(
    lambda b: (float(b[0]), float(b[1]), float(b[0] + b[2]), float(b[1] + b[3]))
)
labels = st.integers(0, CLASSES - 1)
scored = st.tuples(boxes, st.integers(1, 4).map(lambda v: v / 4), labels)
annotated = st.tuples(
    boxes, st.integers(-1, 1), st.sampled_from(["object", "object", "ignored", "crowd", "counted crowd"])
)
thresholds = st.sampled_from([0.3, 0.5, 0.75])


@given(st.lists(scored, max_size=7), st.lists(annotated, max_size=6), thresholds)
def test_standing_equals_the_naive_loop(found, things, least):
    standing = standing_of(detections(found), known(found), annotations(things), least)
    assert pairs_of(standing) == naive_standing(found, things, least)


@st.composite
def edits(draw):
    """A clean and an edited scene, who has become what, and which of the edited scene is the pasted object."""
    before = draw(st.lists(scored, max_size=5))
    after = draw(st.lists(scored, max_size=5))
    order = draw(st.permutations([*range(len(after)), *[-1] * len(before)]))
    own = draw(st.sets(st.sampled_from(range(len(after))))) if after else set()
    partner = [j if j not in own else -1 for j in order[: len(before)]]
    return before, after, partner, own


@given(edits(), st.lists(annotated, max_size=6), thresholds)
def test_standing_after_an_edit_equals_the_naive_loop(edit, things, least):
    before, after, partner, own = edit
    truth = annotations(things)
    clean = standing_of(detections(before), known(before), truth, least)
    finder = {t: i for i, (t, _) in enumerate(naive_standing(before, things, least)) if t >= 0}
    found = standing_after(
        detections(after),
        known(after),
        np.array([j in own for j in range(len(after))], dtype=bool),
        truth,
        clean,
        np.array(partner, dtype=np.int64),
        least,
    )
    expected = naive_standing(after, things, least, lambda j, t: t not in finder or partner[finder[t]] == j, own)
    assert pairs_of(found) == expected


@given(st.lists(scored, max_size=7), st.lists(annotated, max_size=6), st.data())
def test_the_order_of_detections_does_not_matter(found, things, data):
    found = [(b, (i + 1) / 10, c) for i, (b, _, c) in enumerate(found)]  # equal scores go by order, as in COCO
    shuffled = data.draw(st.permutations(found))
    truth = annotations(things)
    one = standing_of(detections(found), known(found), truth)
    other = standing_of(detections(shuffled), known(shuffled), truth)
    by_score = {found[i][1]: answer for i, answer in enumerate(pairs_of(one))}
    assert {shuffled[i][1]: answer for i, answer in enumerate(pairs_of(other))} == by_score


@given(st.lists(scored, max_size=7))
def test_with_nothing_annotated_every_detection_of_a_known_class_is_wrong(found):
    standing = standing_of(detections(found), known(found), annotations([]))
    assert standing.right.tolist() == [-1 if c == 2 else 0 for _, _, c in found]
    assert (standing.object == -1).all()


@given(st.lists(st.tuples(boxes, st.integers(0, 1)), max_size=6, unique=True))
def test_perfect_detections_are_all_right(things):
    found = [(b, 0.9, c) for b, c in things]
    standing = standing_of(detections(found), known(found), annotations([(b, c, "object") for b, c in things]))
    assert standing.object.tolist() == list(range(len(things)))
    assert (standing.right == 1).all()


@given(edits(), st.lists(annotated, max_size=6))
def test_an_edit_that_changes_nothing_changes_no_standing(edit, things):
    before, *_ = edit
    truth, unchanged = annotations(things), np.arange(len(before))
    clean = standing_of(detections(before), known(before), truth)
    none = np.zeros(len(before), dtype=bool)
    after = standing_after(detections(before), known(before), none, truth, clean, unchanged)
    assert pairs_of(after) == pairs_of(clean)


DOG, OTHER_DOG = (0.0, 0, 10, 10), (50.0, 50, 60, 60)
FAR = (80.0, 0, 90, 10)


@pytest.mark.parametrize(
    ("box", "label", "kind", "right"),
    [
        ((0, 0, 10, 10), 0, "object", 1),
        ((0, 0, 10, 20), 0, "object", 1),  # IoU of exactly one half
        ((0, 0, 10, 21), 0, "object", 0),
        ((0, 0, 10, 10), 1, "object", 0),
        ((0, 0, 10, 10), 0, "ignored", -1),
        ((0, 0, 10, 20), 0, "ignored", -1),
        ((0, 0, 10, 21), 0, "ignored", 0),
        ((0, 0, 100, 100), 0, "crowd", -1),
        ((0, 0, 10, 10), 0, "counted crowd", -1),
        ((0, 0, 5, 100), 0, "crowd", -1),  # half of the detection's box
        ((0, 0, 4, 100), 0, "crowd", 0),
        ((0, 0, 100, 100), 1, "crowd", 0),
    ],
)
def test_what_is_right_wrong_or_not_to_be_judged(box, label, kind, right):
    found = [(DOG, 0.9, 0)]
    assert standing_of(detections(found), known(found), annotations([(box, label, kind)])).right.tolist() == [right]


def test_each_object_is_found_once_and_by_the_best_score():
    found = [(DOG, 0.6, 0), (DOG, 0.9, 0), (DOG, 0.7, 2)]
    standing = standing_of(detections(found), known(found), annotations([(DOG, 0, "object")]))
    assert pairs_of(standing) == [(-1, 0), (0, 1), (-1, -1)]


def test_standing_at_a_row_that_is_not_there_is_unknown():
    standing = Standing(np.array([3, -1]), np.array([1, 0], dtype=np.int8))
    assert standing.at(np.array([1, -1, 0])).tolist() == [0, -1, 1]
    nothing = Standing(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int8))
    assert nothing.at(np.array([-1, -1])).tolist() == [-1, -1]


def changed(before, after, things, partner=(), covered=0.0):
    """The change of one scene by hand: what has become of its first detection, or its one new detection."""
    truth = annotations(things)
    clean = standing_of(detections(before), known(before), truth)
    none = np.zeros(len(after), dtype=bool)
    partner = np.array(partner, dtype=np.int64)
    edited = standing_after(detections(after), known(after), none, truth, clean, partner)
    fresh = [j for j in range(len(after)) if j not in partner.tolist()]
    if fresh:
        change, was, now = "new", np.array([-1]), edited.right[fresh[-1:]]
    else:
        was, now = clean.right[:1], edited.at(partner[:1])
        same_class = bool(after) and after[0][2] == before[0][2]
        change = "lost" if partner[0] < 0 else "moved" if same_class else "renamed"
    effect, harm = effects_of([change], was, now, covered)
    return change, effect[0], harm[0]


def seen(box, label=0, score=0.9):
    return [(tuple(map(float, box)), score, label)]


THERE = [(DOG, 0, "object")]
CAT_THERE = [(DOG, 1, "object")]
CROWD = [((0.0, 0, 100, 100), 0, "crowd")]
ASIDE = (0, 4, 10, 14)  # IoU with DOG of 6/14


@pytest.mark.parametrize(
    ("before", "after", "partner", "things", "expected"),
    [
        (seen(DOG), [], [-1], THERE, ("lost", "lost right", "harmful")),
        (seen(DOG), [], [-1], [], ("lost", "lost wrong", "improvement")),
        (seen(DOG), [], [-1], CROWD, ("lost", None, "unknown")),
        (seen(DOG, 2), [], [-1], THERE, ("lost", None, "unknown")),
        ([], seen(DOG), [], THERE, ("new", "found missed", "improvement")),
        ([], seen(DOG), [], [], ("new", "new hallucination", "harmful")),
        ([], seen(DOG), [], CAT_THERE, ("new", "new hallucination", "harmful")),
        ([], seen(DOG), [], CROWD, ("new", None, "unknown")),
        ([], seen(DOG, 2), [], THERE, ("new", None, "unknown")),
        # a duplicate of an object that is found already, though its score is higher
        (seen(DOG, 0, 0.6), seen(DOG, 0, 0.6) + seen(DOG), [0], THERE, ("new", "new hallucination", "harmful")),
        # two new ones on one missed object: the second is a duplicate
        ([], seen(DOG) + seen(DOG, 0, 0.6), [], THERE, ("new", "new hallucination", "harmful")),
        (seen(DOG, 1), seen(DOG, 0), [0], THERE, ("renamed", "renamed to right", "improvement")),
        (seen(DOG, 0), seen(DOG, 1), [0], THERE + CAT_THERE, ("renamed", "renamed to right", "harmless")),
        (seen(DOG, 0), seen(DOG, 1), [0], THERE, ("renamed", "renamed to wrong", "harmful")),
        (seen(DOG, 0), seen(DOG, 1), [0], [], ("renamed", "renamed to wrong", "harmless")),
        # to and from a class that the data lacks
        (seen(DOG, 0), seen(DOG, 2), [0], THERE, ("renamed", "lost right", "harmful")),
        (seen(DOG, 2), seen(DOG, 0), [0], THERE, ("renamed", "found missed", "improvement")),
        (seen(DOG, 0), seen(DOG, 2), [0], [], ("renamed", None, "unknown")),
        (seen(DOG, 2), seen(DOG, 0), [0], [], ("renamed", None, "unknown")),
        (seen(DOG, 0), seen(DOG, 1), [0], CROWD, ("renamed", None, "unknown")),
        # renamed to a class whose object another detection has found: it is a duplicate now
        (
            seen(DOG, 1) + seen(DOG, 0, 0.6),
            seen(DOG, 0) + seen(DOG, 0, 0.6),
            [0, 1],
            THERE,
            ("renamed", "renamed to wrong", "harmless"),
        ),
        (seen(DOG), seen((0, 0, 10, 12)), [0], THERE, ("moved", "moved", "harmless")),
        (seen(DOG), seen(ASIDE), [0], THERE, ("moved", "lost right", "harmful")),
        (seen(ASIDE), seen(DOG), [0], THERE, ("moved", "found missed", "improvement")),
        (seen(DOG), seen(ASIDE), [0], [], ("moved", "moved", "harmless")),
        (seen(DOG), seen(ASIDE), [0], CROWD, ("moved", None, "unknown")),
    ],
)
def test_every_line_of_the_table(before, after, partner, things, expected):
    assert changed(before, after, things, partner) == expected


@pytest.mark.parametrize(
    ("before", "after", "partner", "things", "expected"),
    [
        (seen(DOG), [], [-1], THERE, ("lost", "lost right", "harmless")),
        (seen(DOG), seen(ASIDE), [0], THERE, ("moved", "lost right", "harmless")),
        (seen(DOG), [], [-1], [], ("lost", "lost wrong", "improvement")),
        (seen(DOG), [], [-1], CROWD, ("lost", None, "unknown")),
        (seen(DOG, 0), seen(DOG, 1), [0], THERE, ("renamed", "renamed to wrong", "harmful")),
        (seen(DOG, 0), seen(DOG, 2), [0], THERE, ("renamed", "lost right", "harmless")),
    ],
)
def test_what_is_mostly_hidden_is_not_expected_to_be_found(before, after, partner, things, expected):
    assert changed(before, after, things, partner, covered=0.51) == expected


def test_half_hidden_is_not_hidden():
    right = np.ones(3, dtype=np.int8)
    _, harm = effects_of(["lost"] * 3, right, right, np.array([0.5, 0.6, 0.9]))
    assert harm.tolist() == ["harmful", "harmless", "harmless"]
    _, harm = effects_of(["lost"] * 3, right, right, np.array([0.5, 0.6, 0.9]), hidden=0.8)
    assert harm.tolist() == ["harmful", "harmful", "harmless"]


@given(
    st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(-1, 1), st.integers(-1, 1), st.floats(0, 1)), max_size=12)
)
def test_changes_are_judged_one_by_one_and_only_the_judged_have_an_effect(changes):
    kinds = [kind for kind, *_ in changes]
    was, now = (np.array([c[i] for c in changes], dtype=np.int8) for i in (1, 2))
    effect, harm = effects_of(kinds, was, now, np.array([c[3] for c in changes]))
    assert set(harm) <= set(HARMS)
    assert set(effect) - {None} <= set(EFFECTS)
    assert [e is None for e in effect] == [h == "unknown" for h in harm]
    looked_at = {"lost": [0], "new": [1], "renamed": [0, 1], "moved": [0, 1]}
    for i, (kind, *sides_of, covered) in enumerate(changes):
        alone = effects_of([kind], was[i : i + 1], now[i : i + 1], covered)
        assert (effect[i], harm[i]) == (alone[0][0], alone[1][0])
        told = [sides_of[side] for side in looked_at[kind]]
        assert (harm[i] == "unknown") == (-1 in told and not (kind == "renamed" and 1 in told))


@pytest.mark.parametrize("kind", ["renamed", "moved"])
def test_a_change_and_its_reverse_are_not_both_harm(kind):
    """What is harmful one way is an improvement the other way, and what is neither stays so."""
    reverse = {"harmful": "improvement", "improvement": "harmful", "harmless": "harmless", "unknown": "unknown"}
    was, now = (a.reshape(-1) for a in np.meshgrid([-1, 0, 1], [-1, 0, 1]))
    _, there = effects_of([kind] * 9, was, now)
    _, back = effects_of([kind] * 9, now, was)
    assert back.tolist() == [reverse[harm] for harm in there]


def test_a_change_by_another_name_is_refused():
    with pytest.raises(BadArray, match=r"among lost, new, renamed, moved\. Got 'missed'"):
        effects_of(["lost", "missed"], np.array([1, 1]), np.array([1, 1]))


def test_with_what_a_transplant_finds():
    """Two dogs and a false cat; the object pasted at FAR hides nothing: one dog is lost, the cat becomes the missed
    cat, a hallucination appears, and the pasted object, a dog, is nobody's business."""
    things = [(DOG, 0, "object"), (OTHER_DOG, 0, "object"), ((20.0, 20, 30, 30), 1, "object"), (FAR, 0, "object")]
    before = seen(DOG) + seen(OTHER_DOG) + seen((20, 20, 30, 30), 0)
    after = seen(DOG) + seen((20, 20, 30, 30), 1) + seen((0, 60, 10, 70)) + seen(FAR)
    truth = annotations(things)
    (compared,) = compare_all(detections(before), [detections(after)], np.array([FAR]), 0, Rules())
    clean = standing_of(compared.before, known(before), truth)
    partner = compared.originals.partner
    edited = standing_after(compared.after, known(after), compared.on_parts, truth, clean, partner)
    assert clean.right.tolist() == [1, 1, 0]
    assert edited.right.tolist() == [1, 1, 0, -1]
    gone = [i for i, outcome in enumerate(compared.originals.outcome) if outcome != "kept"]
    outcomes = [compared.originals.outcome[i] for i in gone]
    effect, harm = effects_of(outcomes, clean.right[gone], edited.at(partner[gone]), compared.originals.coverage[gone])
    assert list(zip(effect, harm, strict=True)) == [("lost right", "harmful"), ("renamed to right", "improvement")]
    fresh = compared.new & ~compared.on_parts & ~np.isin(np.arange(len(after)), partner)
    assert fresh.tolist() == [False, False, True, False]
    effect, harm = effects_of(["new"], edited.right[fresh], edited.right[fresh])
    assert (effect[0], harm[0]) == ("new hallucination", "harmful")
