"""Laws of the procedural bicycles: states say what is drawn, at the rates of the paper, where the parts belong."""

from collections import Counter
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.data.bikes import load_bikes
from misdetect.data.procedural.bikes.parts import PARTS
from misdetect.data.procedural.bikes.scene import ABSENT, DAMAGED, INTACT, OCCLUDED, assemble, paint, portray
from misdetect.data.procedural.draw import generator
from misdetect.data.procedural.draw.dice import Dice
from misdetect.nouns.boxes import iou
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec

DELFTBIKES = [
    "back_hand_break",
    "back_handle",
    "back_light",
    "back_mudguard",
    "back_pedal",
    "back_reflector",
    "back_wheel",
    "bell",
    "chain",
    "dress_guard",
    "dynamo",
    "front_handbreak",
    "front_handle",
    "front_light",
    "front_mudguard",
    "front_pedal",
    "front_wheel",
    "gear_case",
    "kickstand",
    "lock",
    "saddle",
    "steer",
]
PRESENT = (INTACT, DAMAGED)


def bikes(spec):
    return load_bikes(Spec.parse(spec))


def bicycle(index):
    return assemble(Dice.seeded(2, 1, 0, index))


@given(st.sampled_from(["train", "val", "test"]), st.integers(0, 999), st.sampled_from([120, 160, 200]))
def test_present_parts_have_tight_boxes_and_disjoint_masks_missing_parts_have_none(split, index, size):
    data = bikes(f"bikes:{split},size={size}")
    truth = data[index].truth
    assert list(data.names) == DELFTBIKES
    assert [data.names[k] for k in truth.labels] == DELFTBIKES
    masks = truth.masks.to_array()
    assert masks.sum(axis=0).max() <= 1
    for k, state in enumerate(truth.states):
        x0, y0, x1, y1 = truth.boxes[k]
        assert 0 <= x0 < x1 <= size
        assert 0 <= y0 < y1 <= size
        if state in PRESENT:
            ys, xs = np.nonzero(masks[k])
            assert [x0, y0, x1, y1] == [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
            assert truth.areas[k] == masks[k].sum()
        else:
            assert not truth.masks.has(k)
            assert not masks[k].any()


@pytest.mark.heavy
def test_states_have_the_rates_of_the_paper():
    """Paper 2, figure 3: 60.5 % intact, 6 % damaged, 19.5 % absent, 14 % occluded."""
    counts = Counter(state for s in bikes("bikes:train")[:500] for state in s.truth.states)
    shares = {state: 100 * n / counts.total() for state, n in counts.items()}
    assert shares[INTACT] == pytest.approx(60.5, abs=2.0)
    assert shares[DAMAGED] == pytest.approx(6.0, abs=1.0)
    assert shares[ABSENT] == pytest.approx(19.5, abs=1.5)
    assert shares[OCCLUDED] == pytest.approx(14.0, abs=1.5)


def test_an_absent_part_has_no_visible_pixel():
    """Whatever an absent part would look like, the picture is the same to the last byte."""
    for index in range(12):
        one, other = bicycle(index), bicycle(index)
        absent = [part for part in PARTS if one.states[part] == ABSENT]
        for part in absent:
            other.dice[part] = Dice.seeded(999, index, throws=24)
        assert np.array_equal(portray(one, 160).image, portray(other, 160).image)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("part", PARTS)
def test_damage_is_drawn_on_the_part_and_nowhere_else(part):
    """Damaging one part changes a good deal of that part, and no pixel away from it."""
    shares = []
    for index in range(4):
        whole = bicycle(index)
        whole.things = []
        whole.states = dict.fromkeys(PARTS, INTACT) | {"gear_case": ABSENT if part == "chain" else INTACT}
        hurt = deepcopy(whole)
        hurt.states[part] = DAMAGED
        a, b = paint(whole, 160).canvas, paint(hurt, 160).canvas
        differs = (a.pixels[..., :3] != b.pixels[..., :3]).any(axis=2)
        own = PARTS.index(part) + 1
        either = (a.pixels[..., 3] == own) | (b.pixels[..., 3] == own)
        assert not (differs & ~either).any()
        shares.append(differs.sum() / max(1, (a.pixels[..., 3] == own).sum()))
    assert np.median(shares) > 0.2


@pytest.mark.heavy
def test_an_occluded_part_changes_hardly_a_pixel_when_it_is_taken_away():
    """Removal as the oracle: what a part shows is what changes without it; for occluded parts less than a fifth."""
    found = 0
    for index in range(14):
        portrait = portray(bicycle(index), 160)
        for part, state in zip(PARTS, portrait.states, strict=True):
            if state == ABSENT or part in ("gear_case", "back_wheel", "steer"):
                continue  # taking these away uncovers or moves other things
            there, gone = bicycle(index), bicycle(index)
            gone.states[part] = ABSENT
            sheet = paint(there, 160)
            a, b = sheet.canvas.pixels[::2, ::2], paint(gone, 160).canvas.pixels[::2, ::2]
            shown = (a != b).any(axis=2).sum()
            if state == OCCLUDED:
                found += 1
                assert shown <= max(14, 0.3 * sheet.own[part])
            else:
                assert shown >= 8
    assert found >= 15


def test_the_likely_box_of_an_absent_part_is_where_it_would_be():
    overlaps = []
    for index in range(25):
        there = bicycle(index)
        there.things = []
        absent = [part for part in PARTS if there.states[part] == ABSENT]
        guess = portray(deepcopy(there), 160).likely
        there.states |= dict.fromkeys(absent, INTACT)
        really = paint(there, 160).likely
        overlaps += [iou([guess[PARTS.index(p)]], [really[p]])[0, 0] for p in absent]
    assert len(overlaps) > 60
    assert min(overlaps) > 0.6
    assert np.mean(overlaps) > 0.85


def test_parts_have_strong_position_priors_and_keep_their_relations():
    boxes = np.stack([s.truth.boxes for s in bikes("bikes:val")[:120]]) / 160
    middles = (boxes[..., :2] + boxes[..., 2:]) / 2
    within = middles.std(axis=0).mean()
    between = middles.mean(axis=0).std(axis=0).mean()
    assert within < 0.06 < 0.15 < between
    at = {part: middles[:, k] for k, part in enumerate(PARTS)}
    assert (at["back_wheel"][:, 0] < at["front_wheel"][:, 0]).all()
    assert (at["saddle"][:, 1] < at["back_wheel"][:, 1]).all()
    assert (at["steer"][:, 1] < at["front_light"][:, 1] + 0.05).all()
    assert (at["back_reflector"][:, 0] < at["chain"][:, 0]).all()


def test_a_closed_chain_case_hides_the_chain():
    """The part-to-part relation of Dutch bicycles: a present chain under a closed case is never seen."""
    seen = Counter()
    for index in range(120):
        bike = bicycle(index)
        closed = bike.build.full_case and bike.states["gear_case"] == INTACT and bike.states["chain"] != ABSENT
        if closed:
            seen[portray(bike, 160).states[PARTS.index("chain")]] += 1
    assert set(seen) == {OCCLUDED}
    assert seen[OCCLUDED] > 10


def test_without_bars_nothing_is_mounted_on_them():
    bare = [bike for bike in map(bicycle, range(400)) if bike.states["steer"] == ABSENT]
    assert bare
    for bike in bare:
        on_the_bars = ("back_handle", "front_handle", "back_hand_break", "front_handbreak", "bell")
        assert {bike.states[part] for part in on_the_bars} == {ABSENT}


def test_same_address_same_bytes_and_splits_are_disjoint():
    digests = [digest(s.image) for spec in ("bikes:train", "bikes:val", "bikes:test") for s in bikes(spec)[:10]]
    assert len(set(digests)) == 30
    generator.remembered.cache_clear()
    again = [digest(s.image) for spec in ("bikes:train", "bikes:val", "bikes:test") for s in bikes(spec)[:10]]
    assert digests == again


def test_the_same_bicycle_at_another_size_has_the_same_states_and_places():
    usual, large = bikes("bikes:test"), bikes("bikes:test,size=320")
    overlaps = []
    for i in range(15):
        a, b = usual[i].truth, large[i].truth
        assert a.states == b.states
        overlaps += np.diag(iou(a.boxes, b.boxes / 2)).tolist()
    assert np.median(overlaps) > 0.88
