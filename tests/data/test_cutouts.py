"""Cutouts: exactly the masked pixels, tightly cropped, crowd left out."""

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO

from misdetect.data import load_data
from misdetect.data.cutouts import cut, cutouts
from misdetect.data.dataset import Dataset, Sample
from misdetect.data.faults import NothingToCut
from misdetect.nouns.detections import Truth
from misdetect.nouns.masks import Masks
from misdetect.nouns.picture import Pixels, digest

COCO66 = Path(__file__).parents[2] / "../shared/fixtures/coco66/instances.json"


class Drawn:
    """A source that counts how often it is read."""

    def __init__(self, pixels: Pixels) -> None:
        self.pixels, self.reads = pixels, 0

    def read(self) -> Pixels:
        self.reads += 1
        return self.pixels

    def key(self) -> str:
        return digest(self.pixels)


def sample_of(masks: np.ndarray, crowd: list[bool] | None = None) -> Sample:
    count, height, width = masks.shape
    pixels = np.random.default_rng(0).integers(1, 256, (height, width, 3), dtype=np.uint8)
    truth = Truth(
        np.tile([0, 0, width, height], (count, 1)), np.arange(count), crowd=crowd, masks=Masks.from_array(masks)
    )
    return Sample("s", Drawn(pixels), truth, width, height)


NAMES = ("cat", "dog", "bird")


@given(mask=hnp.arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_pasting_a_cutout_back_gives_the_photo_and_nothing_else(mask: np.ndarray) -> None:
    sample = sample_of(mask[None])
    if not mask.any():
        with pytest.raises(NothingToCut, match="covers no pixel"):
            cut(sample, 0, NAMES)
        return
    found = cut(sample, 0, NAMES)
    (left, top), (width, height) = found.at, found.size
    alpha = np.zeros_like(mask)
    alpha[top : top + height, left : left + width] = found.mask
    np.testing.assert_array_equal(alpha, mask)
    np.testing.assert_array_equal(found.rgba[found.mask][:, :3], sample.image[mask])
    assert not found.rgba[~found.mask].any()
    for edge in (found.mask[0], found.mask[-1], found.mask[:, 0], found.mask[:, -1]):
        assert edge.any()  # tight
    assert found.area == mask.sum()


def test_an_image_is_read_once_and_only_if_something_is_cut() -> None:
    masks = np.ones((3, 4, 5), dtype=bool)
    sample = sample_of(masks, crowd=[False, True, False])
    dataset = Dataset("here:", NAMES, 1, lambda _: sample, fingerprint="")
    assert [(c.label, c.truth, c.data) for c in cutouts(dataset)] == [("cat", 0, "here:"), ("bird", 2, "here:")]
    assert sample.source.reads == 1
    assert list(cutouts(dataset, labels={"dog"})) == []
    assert list(cutouts(dataset, min_area=21)) == []
    assert sample.source.reads == 1


def test_keys_tell_pixels_and_label_apart() -> None:
    sample = sample_of(np.array([[[1, 0]], [[1, 0]], [[0, 1]]], dtype=bool))
    same, renamed, moved = cut(sample, 0, NAMES), cut(sample, 1, NAMES), cut(sample, 2, NAMES)
    assert same.key == cut(sample, 0, NAMES).key
    assert len({same.key, renamed.key, moved.key}) == 3


def test_data_without_masks_cannot_be_cut() -> None:
    truth = Truth(np.array([[0, 0, 2, 2]]), np.array([0]))
    sample = Sample("s", Drawn(np.zeros((4, 4, 3), np.uint8)), truth, 4, 4)
    with pytest.raises(NothingToCut, match="no mask"):
        cut(sample, 0, NAMES)
    assert list(cutouts(Dataset("here:", NAMES, 1, lambda _: sample, fingerprint=""))) == []


@pytest.mark.skipif(not COCO66.exists(), reason="needs ../shared/fixtures/coco66")
def test_real_photos_are_cut_where_pycocotools_puts_the_mask() -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        oracle = COCO(str(COCO66))
    found = {c.truth: c for c in cutouts(load_data(f"coco:{COCO66}"))}
    assert set(found) == set(oracle.getAnnIds(iscrowd=False))
    assert len(found) == 552
    for number, cutout in found.items():
        runs = oracle.annToRLE(oracle.anns[number])
        assert [*cutout.at, *cutout.size] == coco_mask.toBbox(runs).tolist()
        assert cutout.area == coco_mask.area(runs)
