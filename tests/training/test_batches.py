"""Batches: a function of (seed, step), with boxes that follow their objects, from laid-out images or any data set."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from training_toys import COLOURS, NAMES, squares

from misdetect.data import load_data
from misdetect.nouns.detections import Truth
from misdetect.said.errors import BadData, BadSpec
from misdetect.training.batches import DatasetBatches, Replayed, places
from misdetect.training.images import training_images


def rectangles(count: int = 12):
    """Images of several sizes with one coloured rectangle each, and its mask."""
    dice = np.random.default_rng(8)
    pairs = []
    for i in range(count):
        height, width = dice.integers(40, 90, 2)
        x0, y0 = dice.integers(0, [width - 20, height - 20])
        x1, y1 = x0 + dice.integers(6, 20), y0 + dice.integers(6, 20)
        image = np.full((height, width, 3), 90, np.uint8)
        image[y0:y1, x0:x1] = COLOURS[i % 2]
        mask = np.zeros((1, height, width), bool)
        mask[0, y0:y1, x0:x1] = True
        pairs.append((image, {"boxes": [[x0, y0, x1, y1]], "labels": [NAMES[i % 2]], "masks": mask}))
    return load_data(pairs)


def hull(mask: np.ndarray) -> list[int]:
    rows, columns = np.nonzero(mask)
    return [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]


def alike(one, other) -> bool:
    images = all(np.array_equal(a, b) for a, b in zip(one[0], other[0], strict=True))
    pairs = list(zip(one[1], other[1], strict=True))
    return images and all(np.array_equal(a.boxes, b.boxes) and np.array_equal(a.labels, b.labels) for a, b in pairs)


@pytest.mark.parametrize("batches", [squares(), DatasetBatches(rectangles(24), NAMES)], ids=["laid out", "data set"])
def test_batches_depend_on_seed_and_step_only(batches) -> None:
    first = batches.batch(7, 4, 1)
    batches.batch(3, 4, 1)
    assert alike(first, batches.batch(7, 4, 1))
    assert not alike(first, batches.batch(7, 4, 2))
    assert not alike(first, batches.batch(6, 4, 1))
    assert all(image.dtype == np.float32 and 0 <= image.min() <= image.max() <= 255 for image in first[0])


def test_replays_are_the_same_batch_in_a_row_read_once() -> None:
    class Counting(DatasetBatches):
        reads = 0

        def batch(self, step, size, seed):
            self.reads += 1
            return super().batch(step, size, seed)

    batches = Counting(rectangles(), NAMES)
    replayed = Replayed(batches, 3)
    found = [replayed.batch(step, 4, 1) for step in range(7)]
    assert batches.reads == 3
    assert all(found[step] is found[step // 3 * 3] for step in range(7))
    for step in range(7):
        assert alike(found[step], DatasetBatches(rectangles(), NAMES).batch(step // 3, 4, 1))
    assert alike(replayed.batch(4, 2, 9), batches.batch(1, 2, 9))  # another size and seed
    assert (replayed.names, replayed.spec, len(replayed)) == (batches.names, batches.spec, len(batches))
    assert len({batches.fingerprint, replayed.fingerprint, Replayed(batches, 2).fingerprint}) == 3
    with pytest.raises(BadSpec, match=r"replays should be at least 1\. Got 0"):
        Replayed(batches, 0)


def test_an_epoch_shows_every_image_once() -> None:
    images = squares(flip=False)
    shown = [tuple(t.boxes.ravel()) for step in range(6) for t in images.batch(step, 4, 1)[1]]
    assert sorted(shown) == sorted(tuple(images.truth(i)[0].ravel()) for i in range(24))


def test_images_that_fill_no_batch_wait_and_too_few_are_repeated() -> None:
    waiting = {int(i) for step in range(40) for i in places(7, step, 3, 0)}
    assert waiting == set(range(7))
    assert len(set(np.concatenate([places(7, step, 3, 0) for step in range(2)]))) == 6
    for step in range(3):
        few = places(3, step, 8, 0)
        assert sorted(np.bincount(few).tolist()) == [2, 3, 3]
    assert len({tuple(places(3, step, 8, 0)) for step in range(20)}) == 6  # every order of three


def test_boxes_follow_flipped_objects() -> None:
    """Whatever the augmentation did, the coloured pixels' own extent is the box."""
    images = squares()
    flipped = 0
    for step in range(12):
        pixels, truths = images.batch(step, 4, 11)
        for image, truth in zip(pixels, truths, strict=True):
            coloured = np.abs(image[..., 0] - image[..., 1]) > 60
            assert hull(coloured) == [*truth.boxes[:, :2].min(0), *truth.boxes[:, 2:].max(0)]
            known = any(np.array_equal(truth.boxes, images.truth(i)[0]) for i in range(len(images)))
            flipped += not known
    assert 10 < flipped < 38


def test_boxes_and_masks_follow_in_images_of_several_sizes() -> None:
    data = rectangles()
    batches = DatasetBatches(data, ("green", "red"), masks=True)
    shapes, mirrored = set(), 0
    for step in range(9):
        for image, truth in zip(*batches.batch(step, 4, 2), strict=True):
            coloured = np.abs(image[..., 0] - image[..., 1]) > 60
            (box,) = truth.boxes.tolist()
            assert hull(coloured) == box == hull(truth.masks[0])
            assert truth.labels.tolist() == [0 if image[coloured][0, 1] > image[coloured][0, 0] else 1]  # by name
            shapes.add(image.shape)
            mirrored += not any(np.array_equal(truth.boxes, sample.truth.boxes) for sample in data)
    assert len(shapes) > 6
    assert 8 < mirrored < 28


def test_a_data_set_gives_the_batches_of_its_layout(tmp_path: Path) -> None:
    data = load_data("bikes:val,count=6")
    laid_out = training_images(data.spec, tmp_path, states=("intact", "damaged"))
    batches = DatasetBatches(data, data.names)
    for step in range(4):
        assert alike(laid_out.batch(step, 4, 5), batches.batch(step, 4, 5))


def test_what_is_not_there_to_be_found_is_left_out() -> None:
    image = np.full((50, 60, 3), 90, np.uint8)
    fields = {
        "boxes": [[i, i, i + 9, i + 9] for i in range(6)],
        "labels": ["Red", "green", "blue", "Red", "Red", "green"],
        "crowd": [False, True, False, False, False, False],
        "states": ("intact", "intact", "intact", "absent", "damaged", "occluded"),
        "ids": [10, 11, 12, 13, 14, 15],
    }
    batches = DatasetBatches(load_data([(image, fields)]), NAMES, flip=False)
    (truth,) = batches.batch(0, 1, 0)[1]
    assert truth.ids.tolist() == [10, 14]  # a crowd, a class that the detector lacks, and two that are not there
    assert truth.labels.tolist() == [0, 0]
    assert truth.boxes[:, 0].tolist() == [0, 4]
    assert truth.masks is None
    empty = DatasetBatches(load_data([(image, Truth.empty())], names=NAMES), NAMES)
    assert len(empty.batch(0, 1, 0)[1][0]) == 0


def test_fingerprints_tell_batches_apart() -> None:
    data = rectangles()
    different = [
        DatasetBatches(data, NAMES),
        DatasetBatches(data, NAMES, flip=False),
        DatasetBatches(data, NAMES, masks=True),
        DatasetBatches(data, NAMES[::-1]),
        DatasetBatches(data.limit(5), NAMES),
        DatasetBatches(data.subset([0, 1, 2, 3, 4]), NAMES),
        squares(),
        squares(flip=False),
        squares(side=65),
        squares(content="known"),
    ]
    assert len({batches.fingerprint for batches in different}) == len(different)
    assert DatasetBatches(rectangles(), NAMES).fingerprint == different[0].fingerprint
    assert squares().fingerprint == different[6].fingerprint


def test_data_that_cannot_be_learnt_from_is_refused() -> None:
    with pytest.raises(BadData, match="no images to train on"):
        DatasetBatches(rectangles().subset([]), NAMES)
    with pytest.raises(BadSpec, match="no class name in common"):
        DatasetBatches(rectangles(), ("cat", "dog"))


def test_layout_of_real_data_is_the_data(tmp_path: Path) -> None:
    spec = "rooms:val,count=5"
    images = training_images(spec, tmp_path)
    for i, sample in enumerate(load_data(spec)):
        boxes, labels = images.truth(i)
        assert np.array_equal(images.pixels[i], sample.image)
        assert np.array_equal(boxes, sample.truth.boxes)
        assert np.array_equal(labels, sample.truth.labels)
    again = training_images(spec, tmp_path, progress=lambda done, total: pytest.fail("laid out a second time"))
    assert np.array_equal(again.pixels, images.pixels)
    assert again.fingerprint == images.fingerprint


def test_objects_in_other_states_are_left_out(tmp_path: Path) -> None:
    spec, present = "bikes:val,count=4", ("intact", "damaged")
    images = training_images(spec, tmp_path, states=present)
    for i, sample in enumerate(load_data(spec)):
        states = np.array(sample.truth.states)
        assert np.array_equal(images.truth(i)[1], sample.truth.labels[np.isin(states, present)])
    assert len(images.boxes) < sum(len(sample.truth) for sample in load_data(spec))


def test_images_of_different_sizes_are_not_laid_out(tmp_path: Path) -> None:
    import cv2

    for i, side in enumerate((32, 40)):
        cv2.imwrite(str(tmp_path / f"{i}.png"), np.zeros((side, side, 3), np.uint8))
    with pytest.raises(BadData, match=r"one size can be laid out.*DatasetBatches takes them"):
        training_images(f"folder:{tmp_path}", tmp_path / "cache")
