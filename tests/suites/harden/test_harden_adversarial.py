"""The batches of adversarial training: attacked within ε, as was asked for, the same when asked again."""

import numpy as np
import pytest
import torch
from attack_toys import Tiles, data, drive

from misdetect.data import load_data
from misdetect.detectors import load_detector
from misdetect.said.errors import LevelTooLow
from misdetect.studies.climb import Ball, Pace, class_aware, climb, uphill
from misdetect.suites.harden.adversarial import Adversarial, together

SAMPLES = list(data(6))
IMAGES = [sample.image.astype(np.float32) for sample in SAMPLES]
TRUTHS = [sample.truth for sample in SAMPLES]


def changed(detector=None, seed=3, **how):
    torch.manual_seed(seed)
    return Adversarial(half=False, **how)(detector or Tiles(), IMAGES, TRUTHS, 0)[0]


def test_climbs_end_side_by_side_where_they_end_alone():
    balls, pace = [Ball(sample.image, 8) for sample in SAMPLES], Pace(3, 2.0)
    slopes = [(class_aware if i % 2 else uphill)(truth, "cls" if i % 3 else "loc") for i, truth in enumerate(TRUTHS)]

    def climbs():
        return [climb(ball, ball.clean, slope, pace) for ball, slope in zip(balls, slopes, strict=True)]

    ends = together(Tiles(), climbs())
    alone = [drive(each, Tiles()) for each in climbs()]
    assert [end.losses for end in ends] == [end.losses for end in alone]
    assert all(np.array_equal(a.x, b.x) for a, b in zip(ends, alone, strict=True))


def test_gradients_of_one_loss_are_asked_for_in_one_call():
    class Counting(Tiles):
        calls = 0

        def gradient(self, images, truths, loss):
            self.calls += 1
            return super().gradient(images, truths, loss)

    counting = Counting()
    changed(counting, how="pgd", steps=3)
    assert counting.calls == 3


@pytest.mark.parametrize("how", ["pgd", "mtd", "cwat"])
def test_a_share_stays_clean_and_the_rest_is_attacked_within_eps(how):
    found = changed(how=how, eps=8, clean=1 / 3)
    assert all(np.array_equal(a, b) for a, b in zip(found[:2], IMAGES[:2], strict=True))
    for image, clean, truth in zip(found[2:], IMAGES[2:], TRUTHS[2:], strict=True):
        assert 0 < np.abs(image - clean).max() <= 8
        assert Tiles().slope(image, truth, "all")[0] > Tiles().slope(clean, truth, "all")[0]


def test_mtd_takes_the_stronger_attack_of_each_image():
    torch.manual_seed(3)
    dice = np.random.default_rng(int(torch.randint(1 << 62, ())))
    starts = [Ball(image, 8).somewhere(dice) for image in IMAGES]
    for image, start, truth, found in zip(IMAGES, starts, TRUTHS, changed(how="mtd", clean=0.0), strict=True):
        ends = [
            drive(climb(Ball(image, 8), start, uphill(truth, loss), Pace(2, 4)), Tiles()).x for loss in ("cls", "loc")
        ]
        harm = [Tiles().slope(end, truth, "all")[0] for end in ends]
        assert np.array_equal(found, ends[int(harm[1] > harm[0])])


def test_the_same_dice_give_the_same_images():
    assert all(np.array_equal(a, b) for a, b in zip(changed(), changed(), strict=True))
    assert not np.array_equal(changed()[-1], changed(seed=4)[-1])


def test_half_precision_attacks_as_well():
    detector = load_detector("zoo:ssd")
    torch.manual_seed(0)
    samples = list(load_data("rooms:val,count=4"))
    images, truths = [s.image.astype(np.float32) for s in samples], [s.truth for s in samples]
    found, _ = Adversarial(clean=0.0)(detector, images, truths, 0)
    before, after = (detector.gradient(each, truths, "all")[0] for each in (images, found))
    assert (after > 2 * before).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["pgd", "mtd", "cwat"])
def test_nothing_is_computed_to_fill_up_a_batch(how):
    """Three images of two sizes, where the detector is used to eight of one."""
    detector = load_detector("zoo:yolox")
    computed, asked = 0, 0
    losses, gradient = detector._image_losses, detector.gradient

    def counted_losses(images, truths):
        nonlocal computed
        computed += len(images)
        return losses(images, truths)

    def counted_gradient(images, truths, loss):
        nonlocal asked
        asked += len(images)
        return gradient(images, truths, loss)

    detector._image_losses, detector.gradient = counted_losses, counted_gradient
    samples = list(load_data("rooms:val,count=3"))
    images = [sample.image[:height].astype(np.float32) for sample, height in zip(samples, (128, 96, 128), strict=True)]
    found, _ = Adversarial(how=how, clean=0.0)(detector, images, [sample.truth for sample in samples], 0)
    assert [image.shape for image in found] == [image.shape for image in images]
    assert computed == asked >= 6
    assert detector.batch_size == 8


def test_a_black_box_cannot_be_attacked():
    class Blind:
        names = Tiles.names

        def detect(self, images):
            return []

    with pytest.raises(LevelTooLow, match="no gradients"):
        changed(Blind())
