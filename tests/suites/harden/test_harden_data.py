"""What a hardening learns from and is tested by: no photo in two roles, and batches as paper 4 mixes them."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from misdetect.data import load_data  # noqa: E402
from misdetect.data.dataset import Dataset  # noqa: E402
from misdetect.data.memory import from_pairs  # noqa: E402
from misdetect.said.errors import BadData  # noqa: E402
from misdetect.suites.harden.lessons import concatenated, drawn_from  # noqa: E402
from misdetect.suites.harden.mixture import Mixture  # noqa: E402
from misdetect.suites.harden.split import divided  # noqa: E402

NAMES = ("cup", "lamp")


def photos(count: int, shade: int = 0) -> Dataset:
    """Photos that are told apart by their colour, with one cup each, whose width is the photo's number."""
    pairs = []
    for i in range(count):
        image = np.full((16, 16, 3), (shade, i, 0), np.uint8)
        pairs.append((image, {"boxes": [[0, 2, 1 + i / 8, 10]], "labels": [0]}))
    return from_pairs(pairs, NAMES)


def test_drawn_data_brings_its_own_splits() -> None:
    split = divided("rooms:train,count=40,size=64,seed=3", load_data("rooms:train").names)
    assert (split.held_out, split.test) == ("rooms:val,size=64,seed=3", "rooms:test,size=64,seed=3")
    assert len(split.train) == 40
    named = divided("rooms:train,count=40", load_data("rooms:train").names, test="rooms:val,count=5")
    assert (named.held_out, named.test) == ("rooms:val", "rooms:val,count=5")


@pytest.mark.parametrize("drawn", ["rooms:val,count=60", None])
def test_other_data_is_divided_and_no_photo_has_two_roles(drawn: str | None) -> None:
    data = load_data(drawn) if drawn else photos(60)
    split = divided(drawn or data, data.names)
    parts = [split.train, split.held_out, split.test]
    ids = [[sample.id for sample in part] for part in parts]
    assert [len(part) for part in ids] == [48, 6, 6]
    assert sorted(name for part in ids for name in part) == sorted(sample.id for sample in data)


def test_what_is_named_is_not_set_aside() -> None:
    data = photos(60)
    split = divided(data, NAMES, held_out="rooms:val,count=4")
    assert (len(split.train), split.held_out, len(split.test)) == (54, "rooms:val,count=4", 6)
    both = divided(data, NAMES, held_out="rooms:val", test="rooms:test")
    assert len(both.train) == 60


def test_too_little_data_and_data_without_annotations_are_refused() -> None:
    with pytest.raises(BadData, match="30 images, too few to set some aside; name data with --held-out and --test"):
        divided(photos(30), NAMES)
    bare = from_pairs([(np.zeros((8, 8, 3), np.uint8), {"boxes": [], "labels": []})] * 50, NAMES)
    with pytest.raises(BadData, match="no annotations, so there is nothing to learn"):
        divided(bare, NAMES)


def shades(batch) -> list[int]:
    """By red: which images are synthetic. Brightness is varied by little."""
    return [int(image[..., 0].mean() > 100) for image in batch[0]]


def test_a_share_of_every_batch_is_synthetic_and_each_image_comes_once_per_epoch() -> None:
    mixed = Mixture(photos(8), NAMES, synthetic=photos(4, shade=250), share=0.25, flip=False)
    assert len(mixed) == 12
    for step in range(6):
        assert shades(mixed.batch(step, 4, 0)) == [0, 0, 0, 1]
    for part, epoch in ((slice(3), 8 // 3), (slice(3, 4), 4)):
        seen = [truth.boxes[0, 2] for step in range(epoch) for truth in mixed.batch(step, 4, 0)[1][part]]
        assert len(seen) == len(set(seen))
    again = Mixture(photos(8), NAMES, synthetic=photos(4, shade=250), share=0.25, flip=False)
    for step in (3, 0, 3):
        one, other = mixed.batch(step, 4, 5), again.batch(step, 4, 5)
        assert all(np.array_equal(a, b) for a, b in zip(one[0], other[0], strict=True))
    assert not all(map(np.array_equal, mixed.batch(0, 4, 0)[0], mixed.batch(0, 4, 1)[0]))


def test_without_synthetic_images_it_is_more_of_the_same() -> None:
    plain, unmixed = Mixture(photos(8), NAMES, flip=False), Mixture(photos(8), NAMES, synthetic=photos(4), flip=False)
    assert plain.fingerprint == unmixed.fingerprint
    assert shades(plain.batch(0, 8, 0)) == [0] * 8
    mixed = Mixture(photos(8), NAMES, synthetic=photos(4, 250), share=0.5, flip=False)
    other = Mixture(photos(8), NAMES, synthetic=photos(3, 250), share=0.5, flip=False)
    assert len({each.fingerprint for each in (plain, mixed, other)}) == 3


def test_concatenated_data_is_one_after_the_other() -> None:
    parts = [photos(3), photos(2, 9), photos(4, 20)]
    joined = concatenated(parts)
    colours = [tuple(sample.image[0, 0].tolist()) for sample in joined]
    assert colours == [(s, i, 0) for s, n in ((0, 3), (9, 2), (20, 4)) for i in range(n)]
    assert concatenated(parts[:2]).part != joined.part
    some = drawn_from(joined, 4, 1)
    assert len({sample.image.tobytes() for sample in some}) == 4
    assert len(drawn_from(joined, 99, 1)) == 9
