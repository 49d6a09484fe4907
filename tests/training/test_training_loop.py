"""Training: batches are a function of (seed, step), flips keep boxes on their objects, and resuming changes nothing."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from misdetect.detectors.yolox.detector import YoloxDetector  # noqa: E402
from misdetect.detectors.yolox.net import YOLOX, Shape  # noqa: E402
from misdetect.errors import BadData, BadWeights, DetectorFailed, RunMismatch  # noqa: E402
from misdetect.training.images import TrainingImages, training_images  # noqa: E402
from misdetect.training.loop import Recipe, Training, _widened  # noqa: E402
from misdetect.training.measure import measure  # noqa: E402

NAMES = ("red", "green")


def squares(count: int = 24, side: int = 64) -> TrainingImages:
    """Grey images with one or two rectangles each, red or green, whose boxes are exact."""
    dice = np.random.default_rng(5)
    pixels = np.full((count, side, side, 3), 90, np.uint8)
    boxes, labels, starts = [], [], [0]
    for i in range(count):
        for _ in range(dice.integers(1, 3)):
            x0, y0 = dice.integers(0, side - 24, 2)
            x1, y1 = x0 + dice.integers(8, 24), y0 + dice.integers(8, 24)
            label = int(dice.integers(2))
            pixels[i, y0:y1, x0:x1] = (230, 20, 20) if label == 0 else (20, 230, 20)
            boxes.append([x0, y0, x1, y1])
            labels.append(label)
        starts.append(len(boxes))
    return TrainingImages(NAMES, pixels, np.array(boxes, float), np.array(labels), np.array(starts))


def tiny(seed: int = 0) -> YoloxDetector:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return YoloxDetector(YOLOX(2, Shape(0.33, 0.125)), NAMES, size=64, batch_size=8)


def weights(detector: YoloxDetector) -> dict[str, np.ndarray]:
    return {name: value.numpy().copy() for name, value in detector.module.state_dict().items()}


RECIPE = Recipe(steps=6, batch=4, warmup=2, precision="float32", seed=3)


def test_three_steps_and_three_more_end_where_six_steps_end(tmp_path: Path) -> None:
    whole = tiny()
    Training(whole, squares(), RECIPE, tmp_path / "whole").run()

    Training(tiny(), squares(), RECIPE, tmp_path / "parts").run(until=3)
    resumed = tiny(seed=9)  # other weights, all of which the checkpoint has to replace
    training = Training(resumed, squares(), RECIPE, tmp_path / "parts")
    assert training.step == 3
    training.run()

    expected, found = weights(whole), weights(resumed)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert np.array_equal(value, found[name]), name


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
    resumed = tiny(seed=9)
    Training(resumed, squares(), recipe, tmp_path / "parts").run()
    found = weights(resumed)
    for name, value in weights(detector).items():
        assert np.array_equal(value, found[name]), name


def test_a_recipe_reads_as_before_there_were_slower_backbones() -> None:
    assert "backbone_rate" not in json.loads(RECIPE.text())
    assert json.loads(replace(RECIPE, backbone_rate=0.5).text()) == json.loads(RECIPE.text()) | {"backbone_rate": 0.5}


def test_what_was_logged_after_the_last_checkpoint_is_logged_once(tmp_path: Path) -> None:
    training = Training(tiny(), squares(), RECIPE, tmp_path)
    training.run(until=3)
    training._log(losses={})  # as if steps 4 and 5 had been logged, but not saved, before the process died
    training.step = 5
    training._log(losses={})
    Training(tiny(), squares(), RECIPE, tmp_path).run()
    steps = [json.loads(line)["step"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert 5 not in steps
    assert steps[-1] == 6


def test_a_folder_of_another_recipe_is_refused(tmp_path: Path) -> None:
    Training(tiny(), squares(), RECIPE, tmp_path).run(until=1)
    with pytest.raises(RunMismatch, match="another recipe"):
        Training(tiny(), squares(), Recipe(steps=7, batch=4, precision="float32"), tmp_path)


def test_a_folder_of_another_detector_or_with_a_broken_checkpoint_is_refused(tmp_path: Path) -> None:
    Training(tiny(), squares(), RECIPE, tmp_path).run(until=1)
    other = tiny()
    other.spec = "zoo:other"
    with pytest.raises(RunMismatch, match="holds a training of yolox"):
        Training(other, squares(), RECIPE, tmp_path)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"half a checkpoint")
    with pytest.raises(BadWeights, match="delete it to start again"):
        Training(tiny(), squares(), RECIPE, tmp_path)


def test_the_average_is_the_weights_followed_slowly(tmp_path: Path) -> None:
    """An independent average of the weights after each step, kept in float64."""
    detector = tiny()
    training = Training(detector, squares(), RECIPE, tmp_path)
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


def test_it_learns(tmp_path: Path) -> None:
    """120 steps on 24 images of coloured rectangles: the loss falls, and most are found."""
    detector, images = tiny(), squares()
    seen: list[float] = []
    recipe = Recipe(steps=120, batch=8, warmup=10, average=0.9, precision="float32", learning_rate=3e-3)
    before = measure(detector, images)["AP50"]
    Training(detector, images, recipe, tmp_path).run(
        watch=lambda step, steps, losses: seen.append(sum(losses.values()))
    )
    assert seen[-1] < 0.7 * seen[0]
    assert measure(detector, images)["AP50"] > before + 0.3


def test_a_loss_that_is_no_number_stops_with_a_sentence(tmp_path: Path) -> None:
    detector = tiny()
    with torch.no_grad():
        detector.module.head.obj_preds[0].bias.fill_(float("nan"))
    with pytest.raises(DetectorFailed, match="diverged at step 0"):
        Training(detector, squares(), RECIPE, tmp_path).run()


def test_half_precision_ends_before_the_losses() -> None:
    """The head's answers are float32 numbers near those of the full network, and its hook is gone afterwards."""
    detector = tiny()
    detector.module.eval()
    x = torch.rand(2, 3, 64, 64) * 255
    recipe = Recipe(steps=1, widened=("head",))
    with torch.no_grad():
        full = detector.module(x).classes
        with torch.autocast("cpu", torch.bfloat16):
            with _widened(detector.module, recipe):
                widened = detector.module(x).classes
            after = detector.module(x).classes
    assert widened.dtype == torch.float32
    assert after.dtype == torch.bfloat16
    assert torch.allclose(widened, full, atol=0.1)


def test_batches_depend_on_seed_and_step_only_and_an_epoch_shows_every_image_once() -> None:
    images = squares()
    first, again = images.batch(7, 4, 1, True), images.batch(7, 4, 1, True)
    assert all(np.array_equal(a, b) for a, b in zip(first[0], again[0], strict=True))
    assert all(np.array_equal(a.boxes, b.boxes) for a, b in zip(first[1], again[1], strict=True))
    other = images.batch(7, 4, 2, True)
    assert not all(np.array_equal(a, b) for a, b in zip(first[0], other[0], strict=True))
    shown = [tuple(t.boxes.ravel()) for step in range(6) for t in images.batch(step, 4, 1, False)[1]]
    assert sorted(shown) == sorted(tuple(images.truth(i)[0].ravel()) for i in range(24))


def test_boxes_follow_flipped_objects() -> None:
    """Whatever the augmentation did, the coloured pixels' own extent is the box."""
    images = squares()
    flipped = 0
    for step in range(12):
        pixels, truths = images.batch(step, 4, 11, True)
        for image, truth in zip(pixels, truths, strict=True):
            coloured = np.abs(image[..., 0] - image[..., 1]) > 60
            rows, columns = np.nonzero(coloured)
            hull = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            assert hull == [*truth.boxes[:, :2].min(0), *truth.boxes[:, 2:].max(0)]
            known = any(np.array_equal(truth.boxes, images.truth(i)[0]) for i in range(len(images)))
            flipped += not known
    assert 10 < flipped < 38


def test_layout_of_real_data_is_the_data(tmp_path: Path) -> None:
    from misdetect.data import load_data

    spec = "rooms:val,count=5"
    images = training_images(spec, tmp_path)
    for i, sample in enumerate(load_data(spec)):
        boxes, labels = images.truth(i)
        assert np.array_equal(images.pixels[i], sample.image)
        assert np.array_equal(boxes, sample.truth.boxes)
        assert np.array_equal(labels, sample.truth.labels)
    again = training_images(spec, tmp_path, progress=lambda done, total: pytest.fail("laid out a second time"))
    assert np.array_equal(again.pixels, images.pixels)


def test_objects_in_other_states_are_left_out(tmp_path: Path) -> None:
    from misdetect.data import load_data

    spec, present = "bikes:val,count=4", ("intact", "damaged")
    images = training_images(spec, tmp_path, states=present)
    for i, sample in enumerate(load_data(spec)):
        states = np.array(sample.truth.states)
        assert np.array_equal(images.truth(i)[1], sample.truth.labels[np.isin(states, present)])
    assert len(images.boxes) < sum(len(sample.truth) for sample in load_data(spec))


def test_images_of_different_sizes_are_refused(tmp_path: Path) -> None:
    import cv2

    for i, side in enumerate((32, 40)):
        cv2.imwrite(str(tmp_path / f"{i}.png"), np.zeros((side, side, 3), np.uint8))
    with pytest.raises(BadData, match="one size"):
        training_images(f"folder:{tmp_path}", tmp_path / "cache")


def test_measure_is_1_for_the_truth_itself() -> None:
    from misdetect.detections import Detections

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
