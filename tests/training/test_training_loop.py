"""The loop: resuming changes nothing, any ``Trainable`` learns, a change stands between batch and loss."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from training_toys import NAMES, Colourist, Counted, Darker, same, squares, tiny, weights  # noqa: E402

from misdetect.engine.store import Run  # noqa: E402
from misdetect.said.errors import BadSpec, BadWeights, DetectorFailed, LevelTooLow, RunMismatch  # noqa: E402
from misdetect.training.loop import Training  # noqa: E402
from misdetect.training.measure import measure  # noqa: E402
from misdetect.training.precision import widened  # noqa: E402
from misdetect.training.recipe import Recipe  # noqa: E402

RECIPE = Recipe(steps=6, batch=4, warmup=2, precision="float32", seed=3)


def test_three_steps_and_three_more_end_where_six_steps_end(tmp_path: Path) -> None:
    whole = tiny()
    Training(whole, squares(), RECIPE, tmp_path / "whole").run()
    Training(tiny(), squares(), RECIPE, tmp_path / "parts").run(until=3)
    resumed = tiny()
    training = Training(resumed, squares(), RECIPE, tmp_path / "parts")
    assert training.step == 3
    training.run()
    assert same(weights(whole), weights(resumed))


@pytest.mark.heavy
def test_so_do_kernels_that_are_laid_out_channels_last(tmp_path: Path) -> None:
    """A checkpoint is row by row; the optimiser's memory of a kernel has to come back in the kernel's own layout."""

    def last():
        detector = tiny()
        detector.module.to(memory_format=torch.channels_last)
        return detector

    whole, resumed = last(), last()
    Training(whole, squares(), RECIPE, tmp_path / "whole").run()
    Training(last(), squares(), RECIPE, tmp_path / "parts").run(until=3)
    Training(resumed, squares(), RECIPE, tmp_path / "parts").run()
    assert same(weights(whole), weights(resumed))


def test_the_same_object_can_go_on(tmp_path: Path) -> None:
    """Between two calls the detector holds the average; the second one starts from the weights themselves."""
    whole, again = Colourist(), Colourist()
    Training(whole, squares(), RECIPE, tmp_path / "whole").run()
    training = Training(again, squares(), RECIPE, tmp_path / "parts")
    training.run(until=2)
    assert same(weights(again), {name: value.numpy() for name, value in training.average.items()})
    for until in (4, None):
        training.run(until=until)
    assert same(weights(whole), weights(again))


def test_a_detector_that_is_no_torch_detector_learns(tmp_path: Path) -> None:
    detector = Colourist()
    recipe = Recipe(steps=60, batch=8, warmup=5, average=0.9, precision="float32", learning_rate=0.3)
    Training(detector, squares(), recipe, tmp_path / "run").run()
    assert np.mean([heard["colour"] for heard in detector.heard[-5:]]) < 0.2 < 0.6 < detector.heard[0]["colour"]
    assert int(detector.seen) == 60  # a counter is copied, not averaged
    detector.save(tmp_path / "learnt.safetensors")
    other = Colourist()
    other.load(tmp_path / "learnt.safetensors")
    assert same(weights(other), weights(detector))


class Changed:
    """``batches`` as ``change`` leaves them."""

    def __init__(self, batches, change, recipe) -> None:
        self.batches, self.change, self.recipe = batches, change, recipe
        self.names, self.spec, self.fingerprint = batches.names, batches.spec, "changed"

    def __len__(self) -> int:
        return len(self.batches)

    def batch(self, step, size, seed):
        return self.change(None, *self.batches.batch(step, size, seed), step)


def test_a_change_stands_between_batch_and_loss(tmp_path: Path) -> None:
    """Learning from changed batches is the same as learning from batches that come so, and not as learning from others;
    the change is called once per step, also across a resume."""
    change, same_change = Darker(), Darker()
    plain, changed, brought = Colourist(), Colourist(), Colourist()
    Training(plain, squares(), RECIPE, tmp_path / "plain").run()
    Training(Colourist(), squares(), RECIPE, tmp_path / "changed", change=change).run(until=2)
    Training(changed, squares(), RECIPE, tmp_path / "changed", change=change).run()
    Training(brought, Changed(squares(), same_change, RECIPE), RECIPE, tmp_path / "brought").run()
    assert change.steps == same_change.steps == list(range(6))
    assert same(weights(changed), weights(brought))
    assert not same(weights(changed), weights(plain))


def test_a_change_sees_the_detector_as_it_is(tmp_path: Path) -> None:
    seen = []

    class Looking(Darker):
        def __call__(self, detector, images, truths, step):
            seen.append(weights(detector))
            return super().__call__(detector, images, truths, step)

    detector = Colourist()
    training = Training(detector, squares(), RECIPE, tmp_path / "run", change=Looking())
    start = weights(detector)
    training.run(until=2)
    assert same(seen[0], start)
    assert not np.array_equal(seen[1]["weight"], seen[0]["weight"])


OTHERS = {
    "settings.steps": {"recipe": replace(RECIPE, steps=7)},
    "settings.change": {"change": None},
    "settings.change.share": {"change": Darker(0.4)},
    "settings.check": {"check": None},
    "data.fingerprint": {"batches": squares(flip=False)},
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_folder_of_another_training_is_refused_with_what_differs(tmp_path: Path, what: str) -> None:
    def start(batches=None, recipe=RECIPE, change=Darker(0.5), check=Counted(), detector=None):  # noqa: B008
        detector = detector or Colourist()
        return Training(detector, batches or squares(), recipe, tmp_path / "run", change=change, check=check)

    start().run(until=1)
    assert start().step == 1
    with pytest.raises(RunMismatch, match=rf"holds another run \({what} was .*, now "):
        start(**OTHERS[what])


def test_a_folder_of_another_detector_is_refused(tmp_path: Path) -> None:
    trained = tiny()
    Training(trained, squares(), RECIPE, tmp_path / "run").run(until=1)
    for other in (tiny(seed=9), trained):  # other first weights, and what has been trained already
        with pytest.raises(RunMismatch, match=r"detector\.fingerprint was"):
            Training(other, squares(), RECIPE, tmp_path / "run")
    moved = Colourist()
    Training(Colourist(), squares(), RECIPE, tmp_path / "toy").run(until=1)
    moved.bias.data += 1  # it has no fingerprint: its weights tell
    with pytest.raises(RunMismatch, match=r"detector\.fingerprint was"):
        Training(moved, squares(), RECIPE, tmp_path / "toy")


def test_a_broken_or_foreign_checkpoint_is_refused(tmp_path: Path) -> None:
    for name, seed in (("one", 3), ("other", 4)):
        Training(tiny(), squares(), replace(RECIPE, seed=seed), tmp_path / name).run(until=1)
    path = tmp_path / "one" / "checkpoint.safetensors"
    path.write_bytes((tmp_path / "other" / path.name).read_bytes())
    with pytest.raises(RunMismatch, match="checkpoint of another training"):
        Training(tiny(), squares(), RECIPE, tmp_path / "one")
    path.write_bytes(b"half a checkpoint")
    with pytest.raises(BadWeights, match="delete it to start again"):
        Training(tiny(), squares(), RECIPE, tmp_path / "one")
    path.unlink()
    whole, again = tiny(), tiny()
    Training(whole, squares(), RECIPE, tmp_path / "whole").run()
    Training(again, squares(), RECIPE, tmp_path / "one").run()
    assert same(weights(whole), weights(again))


def test_what_cannot_be_trained_is_told_in_one_sentence(tmp_path: Path) -> None:
    class Forgetful(Colourist):
        def state(self):
            return {name: value for name, value in super().state().items() if name != "bias"}

    class Frozen(Colourist):
        def parameters(self):
            return []

    class Foreign(Colourist):
        names = ("red", "blue")

    def start(detector, recipe=RECIPE, **more):
        return Training(detector, squares(), recipe, tmp_path / "run", **more)

    with pytest.raises(LevelTooLow, match="training needs a detector that can be retrained"):
        start(object())
    with pytest.raises(BadSpec, match="1 parameters of Forgetful are not in its state"):
        start(Forgetful())
    with pytest.raises(BadSpec, match="Frozen has no parameters to train"):
        start(Frozen())
    with pytest.raises(BadSpec, match=r"Foreign and memory: have other classes \(red, blue, … and red, green, …\)"):
        start(Foreign())
    with pytest.raises(BadSpec, match="Colourist has no `module` to find 'head' in"):
        start(Colourist(), replace(RECIPE, widened=("head",)))
    with pytest.raises(BadSpec, match="should have a `name` and a mapping `settings`"):
        start(Colourist(), change=lambda detector, images, truths, step: (images, truths))
    with pytest.raises(BadSpec, match=r"batch should be at least 1\. Got 0"):
        replace(RECIPE, batch=0)
    assert not (tmp_path / "run").exists()


@pytest.mark.heavy
def test_a_backbone_can_learn_more_slowly_and_resume(tmp_path: Path) -> None:
    # Adam's first step is the learning rate itself, whatever the slope
    recipe = replace(RECIPE, weight_decay=0.0, backbone_rate=0.25)
    detector = tiny()
    before = weights(detector)
    training = Training(detector, squares(), recipe, tmp_path / "whole")
    training._one_step()
    moved = {name: np.abs(p.detach().numpy() - before[name]) for name, p in detector.module.named_parameters()}
    for part, times in (("backbone.", 0.25), ("head.", 1.0)):
        steps = np.concatenate([value.ravel() for name, value in moved.items() if name.startswith(part)])
        assert np.median(steps) == pytest.approx(times * recipe.rate(0), rel=0.01), part
    training.run()
    Training(tiny(), squares(), recipe, tmp_path / "parts").run(until=3)
    resumed = tiny()
    Training(resumed, squares(), recipe, tmp_path / "parts").run()
    assert same(weights(detector), weights(resumed))


def test_only_matrices_decay(tmp_path: Path) -> None:
    """With no slope at all, weight decay is all that moves."""

    class Indifferent(Colourist):
        def losses(self, images, truths):
            return {"nothing": 0.0 * (self.weight.sum() + self.bias.sum())}

    detector = Indifferent()
    detector.bias.data += 1
    before = weights(detector)
    Training(detector, squares(), replace(RECIPE, weight_decay=0.5, average=0.0), tmp_path / "run").run()
    shrunk = np.prod([1 - RECIPE.rate(step) * 0.5 for step in range(6)])
    assert np.allclose(weights(detector)["weight"], before["weight"] * shrunk, rtol=1e-5)
    assert np.array_equal(weights(detector)["bias"], before["bias"])


def test_the_average_is_the_weights_followed_slowly(tmp_path: Path) -> None:
    """An independent average of the weights after each step, kept in float64."""
    detector = tiny()
    training = Training(detector, squares(), RECIPE, tmp_path / "run")
    name = "head.reg_preds.0.weight"
    average = detector.module.state_dict()[name].double().clone()
    for step in range(1, 6):
        training._one_step()
        keep = min(RECIPE.average, step / (9 + step))
        average = keep * average + (1 - keep) * detector.module.state_dict()[name].double()
    assert torch.allclose(training.average[name].double(), average, atol=1e-6)
    own = detector.module.state_dict()[name].clone()
    with training.averaged():
        assert torch.equal(detector.module.state_dict()[name], training.average[name])
    assert torch.equal(detector.module.state_dict()[name], own)


@pytest.mark.heavy
def test_it_learns(tmp_path: Path) -> None:
    """120 steps on 24 images of coloured rectangles: the loss falls, and most are found."""
    detector, images = tiny(), squares()
    seen: list[float] = []
    recipe = Recipe(steps=120, batch=8, warmup=10, average=0.9, precision="float32", learning_rate=3e-3)
    before = measure(detector, images)["AP50"]
    Training(detector, images, recipe, tmp_path / "run").run(
        watch=lambda step, steps, losses: seen.append(sum(losses.values()))
    )
    assert seen[-1] < 0.7 * seen[0]
    assert measure(detector, images)["AP50"] > before + 0.3


def test_a_loss_that_is_no_number_stops_with_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    detector = tiny()
    with torch.no_grad():
        detector.module.head.obj_preds[0].bias.fill_(float("nan"))
    with pytest.raises(DetectorFailed, match="diverged at step 0"):
        Training(detector, squares(), RECIPE, tmp_path / "run").run()
    Training(tiny(), squares(), replace(RECIPE, learning_rate=1e-3), tmp_path / "run").run(until=1)


def test_what_was_learnt_before_a_failure_is_kept(tmp_path: Path) -> None:
    class Failing(Darker):
        def __call__(self, detector, images, truths, step):
            if step == 4 and not self.steps:
                raise KeyboardInterrupt
            return images, truths

    with pytest.raises(KeyboardInterrupt):
        Training(Colourist(), squares(), RECIPE, tmp_path / "run", change=Failing()).run(save_every=2)
    healed = Failing()
    healed.steps = [0]
    training = Training(Colourist(), squares(), RECIPE, tmp_path / "run", change=healed)
    assert training.step == 4
    assert training.run().finished


def test_half_precision_ends_before_the_losses() -> None:
    """The head's answers are float32 numbers near those of the full network, and its hook is gone afterwards."""
    detector = tiny()
    detector.module.eval()
    x = torch.rand(2, 3, 64, 64) * 255
    with torch.no_grad():
        full = detector.module(x).classes
        with torch.autocast("cpu", torch.bfloat16):
            with widened(detector.module, ("head",)):
                wide = detector.module(x).classes
            after = detector.module(x).classes
    assert wide.dtype == torch.float32
    assert after.dtype == torch.bfloat16
    assert torch.allclose(wide, full, atol=0.1)


def test_measure_is_1_for_the_truth_itself() -> None:
    from misdetect.nouns.detections import Detections

    images = squares()

    class Oracle:
        names = NAMES
        asked = 0

        def detect(self, pictures: list[np.ndarray]) -> list[Detections]:
            found = [images.truth(self.asked + i) for i in range(len(pictures))]
            self.asked += len(pictures)
            return [Detections(boxes, np.ones(len(boxes)), labels) for boxes, labels in found]

    scores = measure(Oracle(), images)
    assert scores["AP"] == scores["AP50"] == 1.0


def test_a_finished_training_only_hands_out_its_weights(tmp_path: Path) -> None:
    whole, again = Colourist(), Colourist()
    Training(whole, squares(), RECIPE, tmp_path / "run").run()
    rows = Run.open(tmp_path / "run").table().to_pylist()
    Training(again, squares(), RECIPE, tmp_path / "run").run()
    assert again.heard == []
    assert same(weights(whole), weights(again))
    assert Run.open(tmp_path / "run").table().to_pylist() == rows
