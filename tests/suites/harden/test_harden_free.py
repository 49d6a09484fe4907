"""Free adversarial training: each family takes the steps of a loop written by hand, and a resume changes nothing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from training_toys import Colourist, same, squares, tiny, weights  # noqa: E402

from misdetect.data import load_data  # noqa: E402
from misdetect.detectors import load_detector  # noqa: E402
from misdetect.detectors.zoo.models import FAMILIES  # noqa: E402
from misdetect.nouns.detections import Truth  # noqa: E402
from misdetect.said.errors import BadSpec, LevelTooLow, RunMismatch  # noqa: E402
from misdetect.suites.harden.free import Free  # noqa: E402
from misdetect.training.batches import DatasetBatches, Replayed  # noqa: E402
from misdetect.training.loop import Training  # noqa: E402
from misdetect.training.recipe import Recipe  # noqa: E402
from misdetect.training.zoo import recipe_of  # noqa: E402

torch.set_num_threads(1)
RECIPE = Recipe(steps=12, batch=4, warmup=2, precision="float32", seed=3)
EPS = 8.0


class Watched(Free):
    """Keeps what is learnt from, as arrays, and the batches as they came."""

    def __call__(self, detector, images, truths, step):
        found, truths = super().__call__(detector, images, truths, step)
        copies = [torch.as_tensor(image).detach().numpy().copy() for image in found]
        self.learnt = [*getattr(self, "learnt", []), copies]
        self.came = [*getattr(self, "came", []), images]
        return found, truths


def train(folder: Path, detector=None, free=None, recipe=RECIPE, batches=None, **how):
    detector, free = detector or tiny(), free or Free()
    training = Training(detector, Replayed(batches or squares(), free.replays), recipe, folder, change=free)
    training.run(**how)
    return weights(detector)


def by_hand(detector, batches, recipe, replays, alpha, clean):
    """Algorithm 1 on one tensor ``[N, H, W, 3]``, of which the first ``clean`` images are left alone: the images that
    each step learns from, and the weights in the end."""
    optimiser = torch.optim.AdamW(detector.module.parameters(), weight_decay=0.0)
    module, seen = detector.module.train(), []
    for step in range(recipe.steps):
        torch.manual_seed(1_000_003 * recipe.seed + step)
        images, truths = batches.batch(step // replays, recipe.batch, recipe.seed)
        images = torch.tensor(np.stack(images))
        low, high = (images - EPS).clamp(min=0), (images + EPS).clamp(max=255)
        low[:clean] = high[:clean] = images[:clean]
        if step % replays == 0:
            dice = np.random.default_rng(int(torch.randint(1 << 62, ())))
            shares = torch.tensor(dice.random(images[clean:].shape, dtype=np.float32))
            x = torch.cat([images[:clean], low[clean:] + shares * (high - low)[clean:]])
        x = x.detach().requires_grad_()
        seen.append(x.detach().numpy().copy())
        total = sum(detector._training_losses(list(x.permute(0, 3, 1, 2) / 255), truths).values())
        optimiser.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), recipe.clip)
        optimiser.param_groups[0]["lr"] = recipe.rate(step)
        optimiser.step()
        x = torch.minimum(torch.maximum(x + alpha * x.grad.sign(), low), high)
    return seen, weights(detector)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("family", "alpha"), [*((family, None) for family in FAMILIES), ("yolox", 3.0)])
def test_it_takes_the_steps_of_a_loop_written_by_hand(tmp_path: Path, family: str, alpha: float | None) -> None:
    """The signs of tiny slopes may differ between two computations, and Adam's first steps with them: few do."""
    data = load_data("rooms:val,count=8")
    batches = DatasetBatches(data, data.names)
    recipe = Recipe(steps=5, batch=4, warmup=0, learning_rate=1e-4, weight_decay=0.0, average=0.0, precision="float32")
    free = Watched(replays=3, eps=EPS, alpha=alpha, clean=0.25)
    before = weights(load_detector(f"zoo:{family}"))
    found = train(tmp_path / "run", load_detector(f"zoo:{family}"), free, recipe, batches)
    seen, expected = by_hand(load_detector(f"zoo:{family}"), batches, recipe, 3, alpha or EPS, 1)
    for ours, theirs in zip(free.learnt, seen, strict=True):
        assert np.mean(np.abs(np.stack(ours) - theirs) < 1e-3) > 0.99
    apart, moved = (
        np.concatenate([np.abs(found[n] - other[n]).ravel() for n in found]) for other in (expected, before)
    )
    assert np.quantile(apart, 0.9) < 0.1 * np.median(moved)


def of_several_sizes() -> DatasetBatches:
    """Corners of rooms, with the objects that are wholly inside."""
    data, pairs = load_data("rooms:val,count=4"), []
    for (height, width), sample in zip(((128, 128), (113, 97), (80, 128), (128, 96)), data, strict=True):
        inside = (sample.truth.boxes[:, 2:] <= (width, height)).all(axis=1)
        pairs.append((sample.image[:height, :width], Truth(sample.truth.boxes[inside], sample.truth.labels[inside])))
    return DatasetBatches(load_data(pairs, names=data.names), data.names)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_where_nothing_is_learnt_the_loss_rises_within_the_ball(tmp_path: Path, family: str) -> None:
    """With a learning rate of 0, in the family's own precision, on images that it has to resize or pad."""
    recipe = replace(recipe_of(family), steps=4, batch=4, learning_rate=0.0, log_every=1)
    free = Watched(replays=4, eps=EPS, alpha=2.0, clean=0.25)
    told = []
    train(
        tmp_path / "run",
        load_detector(f"zoo:{family}"),
        free,
        recipe,
        of_several_sizes(),
        watch=lambda step, steps, losses: told.append(sum(losses.values())),
    )
    assert told[-1] > 1.5 * told[0]
    for learnt, came in zip(free.learnt, free.came, strict=True):
        assert np.array_equal(learnt[0], came[0])
        for image, clean in zip(learnt[1:], came[1:], strict=True):
            assert image.shape == clean.shape
            assert 0 < np.abs(image - clean).max() <= EPS + 1e-4
            assert 0 <= image.min() <= image.max() <= 255
    started, ended = free.learnt[0][1], free.learnt[-1][1]
    assert 2.0 < np.abs(ended - started).max() <= 6.0 + 1e-4  # three steps of 2


@pytest.mark.heavy
def test_stopped_after_whole_batches_it_ends_the_same(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole")
    for until in (4, 8):
        train(tmp_path / "parts", until=until)
    assert same(train(tmp_path / "parts"), whole)


@pytest.mark.heavy
def test_killed_amid_replays_it_ends_the_same(tmp_path: Path) -> None:
    class Deadly(Free):
        def __call__(self, detector, images, truths, step):
            if step == 7:
                raise KeyboardInterrupt
            return super().__call__(detector, images, truths, step)

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", free=Deadly(), save_every=4)
    free = Watched()
    assert same(train(tmp_path / "parts", free=free), train(tmp_path / "whole"))
    assert len(free.learnt) == 8


def test_saved_amid_replays_it_says_that_it_cannot_go_on(tmp_path: Path) -> None:
    train(tmp_path / "parts", until=6)
    with pytest.raises(
        RunMismatch, match=r"stands at step 6, amid the 4 replays.*save after multiples of 4 steps only"
    ):
        train(tmp_path / "parts", free=Free())
    other = Free()
    train(tmp_path / "other", free=other, until=5)
    with pytest.raises(RunMismatch, match="stands at step 6"):
        train(tmp_path / "parts", free=other)  # what it keeps is not of this training


@pytest.mark.heavy
def test_with_nothing_attacked_it_is_training_on_replays(tmp_path: Path) -> None:
    attacked, clean = train(tmp_path / "attacked"), train(tmp_path / "clean", free=Free(clean=1.0))
    plain = tiny()
    Training(plain, Replayed(squares(), 4), RECIPE, tmp_path / "plain").run()
    assert same(clean, weights(plain))
    assert not same(attacked, clean)


def test_another_attack_is_another_training(tmp_path: Path) -> None:
    assert Free().settings == {"replays": 4, "eps": 8.0, "alpha": 8.0, "clean": 0.5}
    train(tmp_path / "run", until=4)
    with pytest.raises(RunMismatch, match=r"settings\.change\.alpha was 8\.0, now 2\.0"):
        train(tmp_path / "run", free=Free(alpha=2.0))
    with pytest.raises(RunMismatch, match="another run"):
        train(tmp_path / "run", free=Free(replays=2))


def test_what_cannot_be_trained_so_is_told_in_one_sentence(tmp_path: Path) -> None:
    class Opaque(Colourist):
        """Differentiable, yet its losses look at numbers only."""

        def gradient(self, images, truths, loss):
            raise NotImplementedError

        def losses(self, images, truths):
            return super().losses([torch.as_tensor(image).detach().numpy() for image in images], truths)

    with pytest.raises(BadSpec, match=r"Steps 0 and 1 brought different batches.*Replayed\(batches, 4\)"):
        Training(tiny(), squares(), RECIPE, tmp_path / "once", change=Free()).run()
    with pytest.raises(
        LevelTooLow, match=r"free adversarial training needs a detector that gives gradients.*; Colourist"
    ):
        train(tmp_path / "blind", Colourist())
    with pytest.raises(LevelTooLow, match=r"those of Opaque cannot: train with Adversarial\."):
        train(tmp_path / "opaque", Opaque())
