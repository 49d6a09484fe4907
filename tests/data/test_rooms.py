"""Laws of the procedural rooms: what is annotated is exactly what is visible, and the address decides every byte."""

import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.data.procedural.draw import generator
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.rooms.layout import NAMES
from misdetect.data.procedural.rooms.scene import LEAST_PIXELS, compose, draw
from misdetect.data.rooms import load_rooms
from misdetect.nouns.boxes import iou
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec


def rooms(spec):
    return load_rooms(Spec.parse(spec))


def tight(mask):
    """The tight box of a bool mask, by definition."""
    ys, xs = np.nonzero(mask)
    return [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]


@given(st.sampled_from(["train", "val", "test"]), st.integers(0, 999), st.sampled_from([96, 128, 150]))
def test_boxes_are_tight_masks_disjoint_and_areas_exact(split, index, size):
    sample = rooms(f"rooms:{split},size={size}")[index]
    truth = sample.truth
    masks = truth.masks.to_array()
    assert sample.image.shape == (size, size, 3)
    assert sample.image.dtype == np.uint8
    assert masks.sum(axis=0).max(initial=0) <= 1
    for box, area, mask in zip(truth.boxes, truth.areas, masks, strict=True):
        assert box.tolist() == tight(mask)
        assert area == mask.sum()


def test_ids_are_unique_within_the_data():
    ids = np.concatenate([s.truth.ids for s in rooms("rooms:val")[:20]])
    assert len(set(ids.tolist())) == len(ids)


def test_same_address_gives_same_bytes_in_any_order_and_any_process():
    first = rooms("rooms:val,count=8")
    forwards = [digest(s.image, s.truth.boxes, s.truth.masks.to_array()) for s in first]
    generator.remembered.cache_clear()
    again = rooms("rooms:val,count=8,seed=0")
    backwards = [
        digest(again[i].image, again[i].truth.boxes, again[i].truth.masks.to_array()) for i in range(7, -1, -1)
    ]
    assert forwards == backwards[::-1]
    code = (
        "from misdetect.data.rooms import load_rooms; from misdetect.nouns.spec import Spec; "
        "from misdetect.nouns.picture import digest; "
        "d = load_rooms(Spec.parse('rooms:val')); "
        "print(*[digest(s.image, s.truth.boxes, s.truth.masks.to_array()) for s in d[:8]])"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.split() == forwards


def test_splits_seeds_and_indices_never_share_an_image():
    seen = Counter(
        digest(s.image)
        for spec in ("rooms:train", "rooms:val", "rooms:test", "rooms:val,seed=1")
        for s in rooms(spec)[:15]
    )
    assert len(seen) == 60


@pytest.mark.heavy
def test_no_two_rooms_look_alike():
    """Even shrunk to 16 × 16 the most similar two of 120 rooms differ clearly."""
    small = np.stack([s.image.reshape(16, 8, 16, 8, 3).mean(axis=(1, 3)).ravel() for s in rooms("rooms:val")[:120]])
    apart = np.abs(small[:, None] - small[None]).mean(axis=2) + np.eye(120) * 999
    assert apart.min() > 8


def test_the_same_scene_at_another_size_is_the_same_scene():
    usual, large = rooms("rooms:test"), rooms("rooms:test,size=256")
    overlaps = []
    for i in range(12):
        a, b = usual[i].truth, large[i].truth
        assert a.labels.tolist() == b.labels.tolist()
        assert a.ids.tolist() == b.ids.tolist()
        overlaps += np.diag(iou(a.boxes, b.boxes / 2)).tolist()
        shrunk = large[i].image.reshape(128, 2, 128, 2, 3).mean(axis=(1, 3))
        assert np.abs(shrunk - usual[i].image).mean() < 9
    assert np.median(overlaps) > 0.92
    assert np.mean(np.array(overlaps) > 0.7) > 0.97


def test_an_object_shows_no_more_than_it_would_alone():
    """Painter's law: what is visible in the scene is part of what the object paints when all others are gone."""
    for index in range(6):
        scene = compose(Dice.seeded(1, 1, 0, index))
        full = draw(scene, 128)
        everything = [*scene.flats, *scene.items]
        solos = [i for i in everything if i.kind and not i.children]
        order = [i for top in everything for i in (top, *top.children) if i.kind]
        for item in solos:
            owner = next(k for k, other in enumerate(order) if other is item) + 1
            lonely = replace(scene, flats=[], items=[item])
            alone = draw(lonely, 128).owners == 1
            assert not (full.owners == owner)[~alone].any()


def test_nothing_visible_of_a_class_is_left_unannotated():
    """After drawing, each object in the scene owns enough pixels and each owner is an object in the scene."""
    for index in range(80):
        scene = compose(Dice.seeded(1, 1, 0, index))
        drawing = draw(scene, 128)
        everything = [*scene.flats, *scene.items]
        in_scene = [i.kind for top in everything for i in (top, *top.children) if i.kind]
        assert list(drawing.kinds) == in_scene
        shown = np.bincount(drawing.owners.ravel(), minlength=len(in_scene) + 1)[1:]
        assert len(shown) == len(in_scene)
        assert (shown >= LEAST_PIXELS).all()


@pytest.fixture(scope="module")
def census():
    """Labels and boxes of 300 images."""
    return [(s.truth.labels, s.truth.boxes) for s in rooms("rooms:train")[:300]]


@pytest.mark.heavy
def test_classes_are_all_there_and_none_is_rare(census):
    counts = np.bincount(np.concatenate([labels for labels, _ in census]), minlength=len(NAMES))
    assert {"chair", "couch", "table", "cup", "book", "tv", "lamp", "plant", "clock", "ball", "elephant"} <= set(NAMES)
    assert counts.min() * 6 >= counts.max()
    assert 4 <= counts.sum() / len(census) <= 9


@pytest.mark.heavy
def test_objects_hide_each_other(census):
    """In most pictures boxes overlap, so that occlusion is part of the task."""
    overlapping = sum(bool((np.triu(iou(boxes, boxes), 1) > 0.02).any()) for _, boxes in census)
    assert overlapping > 0.7 * len(census)


@pytest.mark.heavy
def test_cups_stand_on_tables(census):
    """Context: most cups end on a table's box, although tables cover less than a third of the picture."""
    on = total = 0
    for labels, boxes in census:
        tables = boxes[labels == NAMES.index("table")]
        for x0, _, x1, y1 in boxes[labels == NAMES.index("cup")]:
            middle = (x0 + x1) / 2
            on += bool(
                (
                    (tables[:, 0] <= middle)
                    & (middle <= tables[:, 2])
                    & (tables[:, 1] - 2 <= y1)
                    & (y1 <= tables[:, 3])
                ).any()
            )
            total += 1
    assert on / total > 0.6


def test_elephants_live_outdoors_and_clocks_do_not():
    outdoors: Counter[tuple[bool, str]] = Counter()
    images: Counter[bool] = Counter()
    for index in range(250):
        scene = compose(Dice.seeded(1, 0, 0, index))
        outside = scene.room is None
        images[outside] += 1
        for top in (*scene.flats, *scene.items):
            for item in (top, *top.children):
                outdoors[outside, item.kind] += 1
    assert 0.12 < images[True] / 250 < 0.27
    assert outdoors[True, "elephant"] / images[True] > 20 * outdoors[False, "elephant"] / images[False]
    assert outdoors[True, "clock"] == 0 < outdoors[False, "clock"]
    assert outdoors[False, "elephant"] > 0, "context must also mislead, rarely"


def test_opening_draws_nothing_and_keys_need_no_pixels(monkeypatch):
    def refuse(*_):
        raise AssertionError("drawn")

    generator.remembered.cache_clear()
    data = rooms("rooms:train")
    monkeypatch.setattr(generator.Dice, "seeded", refuse)
    keys = {sample.key for sample in data[:500]}
    assert len(data) == 20_000
    assert len(keys) == 500
    assert rooms("rooms:val,size=64")[0].key != rooms("rooms:val")[0].key


def test_an_image_is_drawn_once_though_its_data_is_opened_again(monkeypatch):
    first = rooms("rooms:val,count=3")[2]
    first.image  # noqa: B018
    monkeypatch.setattr(generator.Dice, "seeded", lambda *_: pytest.fail("drawn again"))
    second = rooms("rooms:val")[2]
    assert second.image is first.image
    assert second.truth is first.truth


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("rooms:training", "train, val, test"),
        ("rooms:val,size=9", "32"),
        ("rooms:val,count=0", "count=0"),
        ("rooms:val,seed=-1", "seed=-1"),
        ("rooms:val,sise=64", "sise"),
        ("rooms:val,size=big", "int"),
    ],
)
def test_bad_specs_are_refused_by_name(spec, said):
    with pytest.raises(BadSpec, match=said):
        rooms(spec)
